// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Arrays of numbers in a MATLAB 5 file, each compressed, as by MATLAB, or not, as by SciPy unless
// it is asked to (MathWorks, "MAT-File Format"; numbers are little-endian):
//
//   header         128 bytes, the last four: version 0x0100, "IM"
//   elements       as they are, or type 15 and size, 4 bytes each, then a zlib stream of one
//                    type 14, size
//                    6, 8                 the lowest byte is the array's class
//                    5, 4 n               dimensions
//                    1, size              name
//                    type of the numbers, size, the numbers in column-major order
//
// Parts are padded to 8 bytes; one of at most 4 bytes may have its size in the upper half of the
// type's word, and its bytes in the place of the size.
#pragma once

#if defined(CORDEE_HAS_ZLIB)

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zlib.h>

#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// Throws error for a file that cannot be read as arrays.
[[noreturn]] inline void refuse_mat(const std::string& path, const std::string& reason) {
  throw error(concat(path, ": ", reason, "; fetch the file again, or save it by MATLAB's -v7"));
}
inline std::uint32_t mat_word(const std::uint8_t* p) {
  return p[0] | std::uint32_t{p[1]} << 8 | std::uint32_t{p[2]} << 16 | std::uint32_t{p[3]} << 24;
}

/// Where an element is in a file.
struct mat_element {
  std::uint64_t begin = 0, size = 0;
  bool is_compressed = false;
};

/// One element, from its beginning to its end as far as it is read, decompressed if it must be.
class mat_array {
 public:
  enum types : std::uint32_t {
    int8 = 1,
    uint8 = 2,
    int16 = 3,
    uint16 = 4,
    int32 = 5,
    uint32 = 6,
    float64 = 9,
    int64 = 12,
    uint64 = 13,
    matrix = 14
  };

  std::string name;
  std::vector<std::uint32_t> dimensions;
  std::uint32_t type = 0;  // of the numbers
  std::uint64_t size = 0;  // of their bytes

  /// Reads all but the numbers.
  mat_array(const io::input_file& file, const mat_element& element)
      : file_(file), next_(element.begin), element_(element), z_(file) {
    std::array<std::uint8_t, 8> tag;
    read_to(tag);
    if (mat_word(tag.data()) != matrix) refuse_mat(file.path(), "it has a variable of no array");
    (void)part(uint32, 8);
    const std::vector<std::uint8_t> sizes = part(int32, 4 * most_dimensions);
    for (std::size_t k = 0; k + 4 <= sizes.size(); k += 4)
      dimensions.push_back(mat_word(sizes.data() + k));
    const std::vector<std::uint8_t> text = part(int8, most_name);
    name.assign(text.begin(), text.end());
    begin_part();
  }
  /// The bytes of the numbers, once. Throws error if they do not end the element, or the stream's
  /// checksum is wrong; uses no memory that an element of this length cannot fill.
  [[nodiscard]] std::vector<std::uint8_t> read() {
    constexpr std::uint64_t most_ratio = 1032;  // 258 bytes of 2 bits (zlib, "Technical details")
    if (element_.is_compressed ? size / most_ratio > element_.size : size > element_.size)
      refuse_mat(file_.path(), concat("array ", name, " of ", size, " bytes in ", element_.size));
    std::vector<std::uint8_t> bytes;
    io::resize_for(bytes, size, file_.path());
    read_to_part(bytes);
    if (!element_.is_compressed) {
      if (next_ != end()) refuse_mat(file_.path(), concat("array ", name, " is damaged"));
      return bytes;
    }
    std::uint8_t byte = 0;
    z_.next_out = &byte;
    z_.avail_out = 1;
    for (int code = Z_OK; code != Z_STREAM_END;) {
      refill();
      code = inflate(&z_, Z_NO_FLUSH);
      if ((code != Z_OK && code != Z_STREAM_END) || z_.avail_out == 0)
        refuse_mat(file_.path(), concat("array ", name, " is damaged"));
    }
    return bytes;
  }

 private:
  static constexpr std::uint32_t most_dimensions = 8, most_name = 64;

  struct zlib_state : z_stream {
    explicit zlib_state(const io::input_file& file) : z_stream{} {
      if (inflateInit(this) != Z_OK) refuse_mat(file.path(), "no memory to decompress it");
    }
    zlib_state(const zlib_state&) = delete;
    zlib_state& operator=(const zlib_state&) = delete;
    ~zlib_state() { inflateEnd(this); }
  };

  /// Sets type and size of the next part.
  void begin_part() {
    std::array<std::uint8_t, 8> tag;
    read_to(tag);
    type = mat_word(tag.data());
    size = mat_word(tag.data() + 4);
    in_tag_ = type >> 16 != 0;
    if (!in_tag_) return;
    size = type >> 16;
    type &= 0xffff;
    if (size > 4) refuse_mat(file_.path(), "a part of more than 4 bytes has a short tag");
    std::copy_n(tag.begin() + 4, 4, short_.begin());
  }
  [[nodiscard]] std::vector<std::uint8_t> part(std::uint32_t expected, std::uint32_t most) {
    begin_part();
    if (type != expected || size > most) refuse_mat(file_.path(), "an array's head is damaged");
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(size));
    read_to_part(bytes);
    return bytes;
  }
  void read_to_part(std::span<std::uint8_t> out) {
    if (in_tag_) return (void)std::copy_n(short_.begin(), out.size(), out.begin());
    read_to(out);
    std::array<std::uint8_t, 8> padding;
    read_to(std::span(padding).first((8 - out.size() % 8) % 8));
  }

  void refill() {
    if (z_.avail_in != 0) return;
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(input_.size(), end() - next_));
    file_.read_at(next_, std::span(input_).first(n));
    next_ += n;
    z_.next_in = input_.data();
    z_.avail_in = static_cast<uInt>(n);
  }
  [[nodiscard]] std::uint64_t end() const { return element_.begin + element_.size; }
  void read_to(std::span<std::uint8_t> out) {
    if (element_.is_compressed) return read_compressed(out);
    if (out.size() > end() - next_)
      refuse_mat(file_.path(), concat("an array ends too early, at offset ", end()));
    file_.read_at(next_, out);
    next_ += out.size();
  }
  void read_compressed(std::span<std::uint8_t> out) {
    for (std::size_t done = 0; done < out.size();) {
      refill();
      constexpr std::size_t most = 1u << 30;  // zlib counts in 32 bits
      const auto space = static_cast<uInt>(std::min(out.size() - done, most));
      z_.next_out = out.data() + done;
      z_.avail_out = space;
      const int code = inflate(&z_, Z_NO_FLUSH);
      done += space - z_.avail_out;
      if (code == Z_OK || (code == Z_STREAM_END && done == out.size())) continue;
      refuse_mat(file_.path(), concat("an array ends too early, or is damaged, before offset ",
                                      next_ - z_.avail_in));
    }
  }

  const io::input_file& file_;
  std::uint64_t next_;  // offset
  mat_element element_;
  zlib_state z_;
  bool in_tag_ = false;
  std::array<std::uint8_t, 4> short_{};  // the bytes of a part that are in its tag
  std::array<std::uint8_t, 65536> input_;
};

/// The file's elements by their order.
class mat_file {
 public:
  explicit mat_file(const std::string& path) : file_(path) {
    std::array<std::uint8_t, 128> head{};
    if (file_.size() >= head.size()) file_.read_at(0, head);
    if (std::memcmp(head.data() + 124, "\x00\x01IM", 4) != 0)
      refuse_mat(path, "no MATLAB 5 file, or a big-endian one");
    for (std::uint64_t at = head.size(); at < file_.size();) {
      std::array<std::uint8_t, 8> tag;
      const std::uint64_t left = file_.size() - at;
      if (left < tag.size()) refuse_mat(path, "it is truncated");
      file_.read_at(at, tag);
      const std::uint32_t type = mat_word(tag.data()), size = mat_word(tag.data() + 4);
      if (type != compressed && type != mat_array::matrix)
        refuse_mat(path, "it has a variable of no array");
      if (size > left - tag.size()) refuse_mat(path, "it is truncated");
      if (type == compressed)
        elements_.push_back({at + tag.size(), size, true});
      else
        elements_.push_back({at, tag.size() + size, false});
      if (elements_.size() > most_elements) refuse_mat(path, "it has too many variables");
      at += tag.size() + size;
    }
  }

  [[nodiscard]] const std::string& path() const { return file_.path(); }

  /// f(array) for the first array of that name. Throws error if there is none.
  template <class F>
  void with_array(std::string_view name, const F& f) const {
    for (const mat_element& element : elements_) {
      mat_array array(file_, element);
      if (array.name == name) return f(array);
    }
    refuse_mat(path(), concat("it has no variable ", name));
  }

 private:
  static constexpr std::uint32_t compressed = 15;
  static constexpr std::size_t most_elements = 1000;

  io::input_file file_;
  std::vector<mat_element> elements_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images

#endif
