// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a ZeroMQ message contains: a header, and for data at most a chunk of a transfer.
//
// Long transfers travel in chunks, so that no connection can make a rank allocate more than one,
// and the sender copies the next while libzmq sends the one before. Numbers are in the order of
// bytes of the sender; a magic number in the other order is not ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

inline constexpr std::uint32_t zeromq_magic = 0x435a4d01;  // the last byte is the version
inline constexpr std::size_t zeromq_chunk = std::size_t{1} << 19;
inline constexpr int zeromq_queue_length = 16;  // chunks of a connection that libzmq queues

struct zeromq_header {
  /// data: a chunk, of a sender that continues; synchronous: of one that waits until all is
  /// consumed; consumed: the answer. left: the sender has left the run.
  enum type : std::uint8_t { hello, data, synchronous, consumed, left };

  std::uint32_t magic = zeromq_magic;
  std::uint8_t kind = data, context = 0;
  std::uint16_t unused = 0;
  std::uint64_t size = 0, offset = 0;  // of the transfer, and where in it the chunk begins
};
inline constexpr std::size_t zeromq_longest_frame = sizeof(zeromq_header) + zeromq_chunk;

/// Empty unless the frame is one of a rank that has joined, with a chunk within its transfer.
[[nodiscard]] inline std::optional<zeromq_header> parse_header(std::string_view frame,
                                                               int contexts) {
  zeromq_header h;
  if (frame.size() < sizeof h) return {};
  std::memcpy(&h, frame.data(), sizeof h);
  const std::size_t n = frame.size() - sizeof h;
  if (h.magic != zeromq_magic || h.kind == zeromq_header::hello || h.kind > zeromq_header::left ||
      h.context >= contexts)
    return {};
  if (h.kind >= zeromq_header::consumed) return n == 0 ? std::optional(h) : std::nullopt;
  if (h.offset > h.size || n > h.size - h.offset || n > zeromq_chunk) return {};
  if (n == 0 && h.size != 0) return {};
  return h;
}

/// The first message of a connection.
struct zeromq_hello {
  std::int32_t rank = -1;
  std::string secret{};

  [[nodiscard]] std::string serialize() const {
    zeromq_header h;
    h.kind = zeromq_header::hello;
    std::string frame(sizeof h + sizeof rank, '\0');
    std::memcpy(frame.data(), &h, sizeof h);
    std::memcpy(frame.data() + sizeof h, &rank, sizeof rank);
    return frame + secret;
  }
  [[nodiscard]] static std::optional<zeromq_hello> parse(std::string_view frame) {
    zeromq_header h;
    zeromq_hello hello;
    if (frame.size() < sizeof h + sizeof hello.rank) return {};
    std::memcpy(&h, frame.data(), sizeof h);
    std::memcpy(&hello.rank, frame.data() + sizeof h, sizeof hello.rank);
    if (h.magic != zeromq_magic || h.kind != zeromq_header::hello) return {};
    hello.secret = frame.substr(sizeof h + sizeof hello.rank);
    return hello;
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
