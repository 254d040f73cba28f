// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies between files and a device's memory, in pieces through a buffer of the host, so that
// memory beside the planes does not grow with their size. Memory of the host needs no buffer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// The largest piece, and with it the largest buffer.
inline constexpr std::size_t staging_bytes = std::size_t{8} << 20;

/// Between files and the memory of one device, by one stream. Blocks the host until the work that
/// precedes it on the stream is complete.
template <class D>
class staged_io {
 public:
  staged_io(const D& device, typename D::stream s) : device_(device), stream_(s) {}

  /// Calls write(piece) for the bytes of device memory, in order.
  template <class Write>
  void write(std::span<const std::byte> memory, const Write& write) {
    if constexpr (D::host_memory)
      write(memory);
    else
      for_pieces(memory, [&](auto piece, auto staged) {
        device_.copy(staged.data(), piece.data(), piece.size(), stream_);
        device_.finish(stream_);
        write(std::span<const std::byte>(staged));
      });
  }
  /// Fills device memory with the bytes of `file` at `offset`. Throws error if there are fewer.
  void read(const io::input_file& file, std::uint64_t offset, std::span<std::byte> memory) {
    const auto read_to = [&](std::span<std::byte> out) {
      file.read_at(offset, {reinterpret_cast<std::uint8_t*>(out.data()), out.size()});
      offset += out.size();
    };
    if constexpr (D::host_memory)
      read_to(memory);
    else
      for_pieces(memory, [&](auto piece, auto staged) {
        read_to(staged);
        device_.copy(piece.data(), staged.data(), piece.size(), stream_);
        device_.finish(stream_);  // the buffer is used again
      });
  }

 private:
  template <class Bytes, class F>
  void for_pieces(std::span<Bytes> memory, const F& f) {
    buffer_.resize(std::max(buffer_.size(), std::min(memory.size(), staging_bytes)));
    while (!memory.empty()) {
      const auto piece = memory.first(std::min(memory.size(), staging_bytes));
      f(piece, std::span(buffer_).first(piece.size()));
      memory = memory.subspan(piece.size());
    }
  }

  D device_;
  typename D::stream stream_;
  std::vector<std::byte> buffer_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
