// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Reading a file of the safetensors format (tensor_format.hpp). Its header is believed only after
// sizes, names and offsets have been checked against the file.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>
#include <cordee/io/json.hpp>
#include <cordee/io/tensor_format.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// A tensor of a file: `size` bytes at `offset` of the file.
struct tensor_entry {
  std::string name, dtype;
  std::vector<std::size_t> shape;
  std::size_t offset = 0, size = 0;
};

/// An open tensor file, validated: the tensors fill the file without gap or overlap, and each has
/// the bytes of its shape, if its type is known: another one matters only when it is read. The
/// header is in memory; numbers are read from the file when they are requested. Copies share the
/// file.
class tensor_file {
 public:
  static tensor_file open(const std::convertible_to<std::string> auto& path) {
    return tensor_file(path);
  }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const tensor_metadata& metadata() const { return metadata_; }
  /// In the order of their offsets.
  [[nodiscard]] std::span<const tensor_entry> entries() const { return entries_; }
  template <class Names = std::vector<std::string>>
  [[nodiscard]] Names names() const {
    Names all;
    for (const tensor_entry& e : entries_) all.push_back(e.name);
    return all;
  }
  [[nodiscard]] bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Null if no tensor has that name.
  [[nodiscard]] const tensor_entry* find(std::string_view name) const {
    for (const tensor_entry& e : entries_)
      if (e.name == name) return &e;
    return nullptr;
  }
  [[nodiscard]] const tensor_entry& at(std::string_view name) const {
    const tensor_entry* e = find(name);
    if (e == nullptr)
      throw error(concat(path_, ": no tensor \"", name, "\" among its ", entries_.size(),
                         "; was it saved from another network?"));
    return *e;
  }

  /// Copies a tensor of type F32, F64, F16 or BF16 to `out`, converted to Real. Throws error for
  /// another type or size.
  template <class Real>
    requires std::is_floating_point_v<Real>
  void read(std::string_view name, std::span<Real> out) const {
    const tensor_entry& e = at(name);
    if (e.dtype == "F32")
      copy<float>(e, out);
    else if (e.dtype == "F64")
      copy<double>(e, out);
    else if (e.dtype == "F16")
      copy<stored_f16>(e, out);
    else if (e.dtype == "BF16")
      copy<stored_bf16>(e, out);
    else
      throw error(concat(path_, ": tensor \"", name, "\" is of type ", e.dtype,
                         ", but F32, F64, F16 or BF16 is needed; convert it before saving"));
  }
  /// The same of integers, whose type is the file's.
  template <std::integral T>
  void read(std::string_view name, std::span<T> out) const {
    const tensor_entry& e = at(name);
    if (e.dtype != integer_dtype<T>())
      throw error(concat(path_, ": tensor \"", name, "\" is of type ", e.dtype, ", but ",
                         integer_dtype<T>(), " is needed"));
    copy<T>(e, out);
  }
  /// Copies a tensor's bytes as they are. Throws error for another number of them. A template, so
  /// that programs which do not use it do not compile it.
  template <std::same_as<std::byte> Byte>
  void read_bytes(std::string_view name, std::span<Byte> out) const {
    const tensor_entry& e = at(name);
    copy<std::uint8_t>(e, std::span(reinterpret_cast<std::uint8_t*>(out.data()), out.size()));
  }

 private:
  explicit tensor_file(const std::convertible_to<std::string> auto& path)
      : path_(path), file_(core::counted_ptr<const input_file>::make(path_)) {
    constexpr std::uint64_t most = 100'000'000;  // bytes of a header, by the format
    std::uint64_t length = 0;
    if (file_->size() < sizeof length)
      refuse(file_->size(), "the file ends before the length of its header");
    std::array<std::uint8_t, sizeof length> prefix{};
    file_->read_at(0, prefix);
    expect_not_pickled(path_, prefix);
    std::memcpy(&length, prefix.data(), sizeof length);
    if (length > file_->size() - sizeof length)
      refuse(0, concat("the header has length ", length, ", the file has ",
                       file_->size() - sizeof length, " bytes after it"));
    if (length > most)
      refuse(0, concat("the header has length ", length, ", the format permits ", most));
    data_ = sizeof length + static_cast<std::size_t>(length);
    std::vector<std::uint8_t> header(static_cast<std::size_t>(length));
    file_->read_at(sizeof length, header);
    const auto* begin = reinterpret_cast<const char*>(header.data());
    read_header(json_reader({begin, header.size()}, path_, sizeof length));
    sort_by_offset(entries_);
    check_offsets();
  }

  void read_header(auto json) {
    bool has_metadata = false;
    json.object([&](std::string name) {
      if (name != metadata_name) return entries_.push_back(read_entry(json, std::move(name)));
      if (std::exchange(has_metadata, true)) json.refuse("the metadata occur twice");
      if (json.take_null()) return;
      json.object([&](std::string key) { metadata_.emplace_back(std::move(key), json.string()); });
    });
    std::vector<std::string_view> names, keys;
    for (const tensor_entry& e : entries_) names.push_back(e.name);
    for (const auto& [key, value] : metadata_) keys.push_back(key);
    for (auto* all : {&names, &keys})
      if (const auto twice = find_duplicate(*all))
        json.refuse(concat("\"", *twice, "\" occurs twice"));
    json.expect_end();
  }

  tensor_entry read_entry(auto& json, std::string name) const {
    tensor_entry e{std::move(name), {}, {}, 0, 0};
    std::vector<std::size_t> ends;
    bool has_shape = false;
    json.object([&](const std::string& key) {
      if (key == "dtype" && e.dtype.empty()) {
        e.dtype = json.string();
        if (e.dtype.empty()) json.refuse("an empty dtype");
      } else if (key == "shape" && !has_shape) {
        has_shape = true;
        json.array([&] { e.shape.push_back(static_cast<std::size_t>(json.number())); });
      } else if (key == "data_offsets" && ends.empty()) {
        json.array([&] { ends.push_back(static_cast<std::size_t>(json.number())); });
        if (ends.size() != 2) json.refuse("data_offsets must be two numbers");
      } else {
        json.refuse(concat("unexpected \"", key, "\" in tensor \"", e.name, "\""));
      }
    });
    if (e.dtype.empty() || !has_shape || ends.empty())
      json.refuse(concat("tensor \"", e.name, "\" lacks its dtype, shape or data_offsets"));
    std::size_t bits = 0;
    if (ends[0] > ends[1] || ends[1] > file_->size() - data_)
      json.refuse(concat("tensor \"", e.name, "\" has data_offsets [", ends[0], ", ", ends[1],
                         "], the file has ", file_->size() - data_, " bytes of numbers"));
    const std::size_t size = ends[1] - ends[0], of_one = dtype_bits(e.dtype);
    if (of_one > 0 &&
        (!checked_product(of_one, e.shape, bits) || bits % 8 != 0 || bits / 8 != size))
      json.refuse(
          concat("tensor \"", e.name, "\" has a shape that does not match its ", size, " bytes"));
    e.offset = data_ + ends[0];
    e.size = size;
    return e;
  }

  template <class Entries>
  static void sort_by_offset(Entries& entries) {
    std::vector<sort_key> order;
    for (const tensor_entry& e : entries) order.push_back({e.offset, e.size, order.size()});
    std::sort(order.begin(), order.end());
    Entries sorted;
    for (const sort_key& key : order) sorted.push_back(std::move(entries[key[2]]));
    entries = std::move(sorted);
  }

  void check_offsets() const {
    std::size_t end = data_;
    for (const tensor_entry& e : entries_) {
      if (e.offset != end)
        refuse(std::min(end, e.offset), concat("tensor \"", e.name, "\" begins ",
                                               e.offset < end ? "inside another" : "after a gap"));
      end += e.size;
    }
    if (end != file_->size()) refuse(end, "bytes that belong to no tensor");
  }

  [[noreturn]] void refuse(std::size_t offset, std::string_view reason) const {
    throw error(concat(path_, ": ", reason, " at offset ", offset,
                       "; the file is damaged or not a tensor file; write or download it again"));
  }

  template <class Stored, class Real>
  void copy(const tensor_entry& e, std::span<Real> out) const {
    if (e.size != out.size() * sizeof(Stored))
      throw error(concat(path_, ": tensor \"", e.name, "\" has ", e.size / sizeof(Stored),
                         " numbers, ", out.size(),
                         " are needed; was it saved from another network?"));
    if (out.empty()) return;
    if constexpr (std::is_same_v<Stored, Real>) {
      file_->read_at(e.offset, {reinterpret_cast<std::uint8_t*>(out.data()), e.size});
    } else {
      std::vector<std::uint8_t> bytes(std::min(e.size, sizeof(Stored) << 16));
      for (std::size_t begin = 0; begin < out.size();) {
        const std::size_t n = std::min(out.size() - begin, bytes.size() / sizeof(Stored));
        file_->read_at(e.offset + begin * sizeof(Stored),
                       std::span(bytes).first(n * sizeof(Stored)));
        for (std::size_t i = 0; i < n; ++i) {
          Stored x{};
          std::memcpy(&x, bytes.data() + i * sizeof x, sizeof x);
          if constexpr (std::is_floating_point_v<Stored>)
            out[begin + i] = static_cast<Real>(x);
          else
            out[begin + i] = static_cast<Real>(static_cast<float>(x));
        }
        begin += n;
      }
    }
  }

  std::string path_;
  core::counted_ptr<const input_file> file_;
  std::size_t data_ = 0;  // offset of the numbers
  std::vector<tensor_entry> entries_;
  tensor_metadata metadata_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::io
