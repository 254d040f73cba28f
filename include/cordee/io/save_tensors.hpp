// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writing named tensors to a file of the safetensors format (tensor_format.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/atomic_file.hpp>
#include <cordee/io/json.hpp>
#include <cordee/io/tensor_format.hpp>

namespace cordee::inline CORDEE_ABI::detail::io {

/// A tensor in memory to be written. Requires that the product of `shape` is the number of
/// elements.
struct tensor_view {
  tensor_view(std::string_view name_, std::vector<std::size_t> shape_,
              std::span<const float> numbers)
      : name(name_), dtype("F32"), shape(std::move(shape_)), bytes(std::as_bytes(numbers)) {}
  tensor_view(std::string_view name_, std::vector<std::size_t> shape_,
              std::span<const double> numbers)
      : name(name_), dtype("F64"), shape(std::move(shape_)), bytes(std::as_bytes(numbers)) {}

  template <std::integral T>
  tensor_view(std::string_view name_, std::vector<std::size_t> shape_, std::span<const T> numbers)
      : name(name_),
        dtype(integer_dtype<T>()),
        shape(std::move(shape_)),
        bytes(std::as_bytes(numbers)) {}

  std::string name;
  std::string_view dtype;
  std::vector<std::size_t> shape;
  std::span<const std::byte> bytes;
};

inline constexpr auto write_host_bytes = [](auto& file, auto bytes) { file.write(bytes); };

/// Writes the tensors atomically; `write_bytes(file, bytes)` one's, maybe in a device's memory. A
/// template, like all that is long here, so that programs which do not use it do not compile it.
template <class WriteBytes = decltype(write_host_bytes)>
void save_tensors(const std::convertible_to<std::string> auto& path,
                  std::span<const tensor_view> tensors, const tensor_metadata& metadata = {},
                  const WriteBytes& write_bytes = {}) {
  std::vector<sort_key> order;
  std::vector<std::string_view> names;
  for (const tensor_view& t : tensors) {
    std::size_t size = 0;
    expects(checked_product(dtype_size(t.dtype), t.shape, size) && size == t.bytes.size(),
            "save_tensors: the product of a shape is not the number of elements");
    expects(t.name != metadata_name, "save_tensors: __metadata__ cannot name a tensor");
    // Wide types first, so that every tensor is aligned for readers that map the file.
    order.push_back({8 - dtype_size(t.dtype), order.size(), order.size()});
    names.push_back(t.name);
  }
  std::sort(order.begin(), order.end());
  expects(!find_duplicate(std::move(names)), "save_tensors: two tensors have the same name");

  std::string header = "{";
  std::string_view separator;
  if (!metadata.empty()) {
    header += concat("\"", metadata_name, "\":{");
    for (const auto& [key, value] : metadata) {
      header += concat(separator, json_quoted(key), ":", json_quoted(value));
      separator = ",";
    }
    header += "}";
  }
  std::size_t offset = 0;
  for (const sort_key& key : order) {
    const tensor_view& t = tensors[key[2]];
    std::string shape;
    for (const std::size_t n : t.shape) shape += concat(shape.empty() ? "" : ",", n);
    header += concat(separator, json_quoted(t.name), ":{\"dtype\":\"", t.dtype, "\",\"shape\":[",
                     shape, "],\"data_offsets\":[", offset, ",", offset + t.bytes.size(), "]}");
    separator = ",";
    offset += t.bytes.size();
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  atomic_file file(path);
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(std::as_bytes(std::span(header)));
  for (const sort_key& key : order) write_bytes(file, tensors[key[2]].bytes);
  file.commit();
}

}  // namespace cordee::inline CORDEE_ABI::detail::io
