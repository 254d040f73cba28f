// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes of a file as a span of bytes that is read where it is used: what is passed over is not
// read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <cordee/core/error.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::images {

/// A file, and the block of it that was read last. Not thread-safe.
class file_block {
 public:
  static constexpr std::size_t size = 4096;

  explicit file_block(const io::input_file& file) : file_(file) {}

  /// Requires that `offset` is less than the file's size. Throws error if it cannot be read.
  std::uint8_t operator[](std::uint64_t offset) {
    if (offset - begin_ >= read_) {
      read_ = 0;  // in case the read throws
      const auto n =
          static_cast<std::size_t>(std::min<std::uint64_t>(bytes_.size(), file_.size() - offset));
      file_.read_at(offset, std::span(bytes_).first(n));
      begin_ = offset;
      read_ = n;
    }
    return bytes_[static_cast<std::size_t>(offset - begin_)];
  }

 private:
  const io::input_file& file_;
  std::uint64_t begin_ = 0;
  std::size_t read_ = 0;
  std::array<std::uint8_t, size> bytes_{};
};

/// The members of a span that a parser uses. Copies share the block, which must outlive them.
class file_range {
 public:
  file_range() = default;
  /// Requires that the range is within the file.
  file_range(file_block& block, std::uint64_t begin, std::uint64_t size)
      : block_(&block), begin_(begin), size_(static_cast<std::size_t>(size)) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::uint8_t operator[](std::size_t i) const { return (*block_)[begin_ + i]; }
  /// Require that `n` is at most size().
  [[nodiscard]] file_range first(std::size_t n) const { return {*block_, begin_, n}; }
  [[nodiscard]] file_range subspan(std::size_t n) const { return {*block_, begin_ + n, size_ - n}; }

 private:
  file_block* block_ = nullptr;
  std::uint64_t begin_ = 0;
  std::size_t size_ = 0;
};

}  // namespace cordee::inline CORDEE_ABI::detail::images
