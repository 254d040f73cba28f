// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One exchange over ZeroMQ, chunk by chunk.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/comm/transports/zeromq/mesh.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Used by one thread at a time, as the mesh.
class zeromq_batch {
 public:
  using receives = std::span<const recv_op<cpu>>;
  using sends = std::span<const send_op<cpu>>;

  /// A send without a receive in the same batch waits until its peer has consumed it; otherwise a
  /// fast sender could run ahead without bound.
  zeromq_batch(zeromq_mesh& mesh, int rank, int context, receives in, sends out)
      : mesh_(mesh),
        rank_(rank),
        context_(context),
        in_(in),
        out_(out),
        state_(in.size() + out.size()) {
    for (std::size_t i = 0; in.empty() && i < out.size(); ++i)
      state_[i].ticket = ++mesh.at(context, out[i].peer).synchronous_sends;
  }

  /// Sends what the queues take and copies what has arrived. Returns whether the batch is complete.
  /// Throws where a size is not what is expected.
  bool progress() {
    bool complete = true;
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (!state_[i].done && (has_earlier(i) || !(is_receive(i) ? receive(i) : send(i))))
        complete = false;
    return complete;
  }

  /// f(peer) for every pending transfer.
  template <class F>
  void for_pending_peers(const F& f) const {
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (!state_[i].done) f(peer(i));
  }
  /// "rank 1 to send 16 bytes, rank 2 to receive 16 bytes on context 0"
  [[nodiscard, gnu::cold]] std::string describe_pending() const {
    std::string text;
    for (std::size_t i = 0; i < state_.size(); ++i)
      if (!state_[i].done)
        text += concat(text.empty() ? "" : ", ", "rank ", peer(i),
                       is_receive(i) ? " to send " : " to receive ", size(i), " bytes");
    return concat(text, " on context ", context_);
  }

 private:
  struct transfer_state {
    std::size_t moved = 0;  // bytes
    std::uint64_t ticket =
        0;  // of a synchronous send: so many of the channel are consumed after it
    bool queued = false, done = false;
  };

  [[nodiscard]] bool is_receive(std::size_t i) const { return i >= out_.size(); }
  [[nodiscard]] const recv_op<cpu>& in(std::size_t i) const { return in_[i - out_.size()]; }
  [[nodiscard]] int peer(std::size_t i) const { return is_receive(i) ? in(i).peer : out_[i].peer; }
  [[nodiscard]] std::size_t size(std::size_t i) const {
    return is_receive(i) ? in(i).bytes.size : out_[i].bytes.size;
  }
  // Whether a transfer of the same direction and peer comes first and is not through.
  [[nodiscard]] bool has_earlier(std::size_t i) const {
    for (std::size_t k = is_receive(i) ? out_.size() : 0; k < i; ++k)
      if (peer(k) == peer(i) && !state_[k].done && !state_[k].queued) return true;
    return false;
  }

  bool send(std::size_t i) {
    transfer_state& s = state_[i];
    zeromq_header h;
    h.kind = s.ticket == 0 ? zeromq_header::data : zeromq_header::synchronous;
    h.context = static_cast<std::uint8_t>(context_);
    h.size = size(i);
    while (!s.queued) {
      const std::size_t n = std::min(zeromq_chunk, size(i) - s.moved);
      h.offset = s.moved;
      if (!mesh_.try_send(peer(i), h, out_[i].bytes.data + s.moved, n)) return false;
      s.moved += n;
      s.queued = s.moved == size(i);
    }
    return s.done = s.ticket == 0 || mesh_.at(context_, peer(i)).consumed_sends >= s.ticket;
  }

  bool receive(std::size_t i) {
    transfer_state& s = state_[i];
    auto& arrived = mesh_.at(context_, peer(i)).arrived;
    while (!arrived.empty()) {
      zeromq_mesh::chunk& c = arrived.front();
      if (c.header.size != size(i) || c.header.offset != s.moved) throw_mismatch(i, c.header);
      if (c.size() > 0) std::memcpy(in(i).bytes.data + s.moved, c.data(), c.size());
      s.moved += c.size();
      const bool synchronous = c.header.kind == zeromq_header::synchronous;
      arrived.pop_front();
      if (s.moved < size(i)) continue;
      if (synchronous) mesh_.send_consumed(peer(i), context_);
      return s.done = true;
    }
    return false;
  }
  [[noreturn, gnu::cold]] void throw_mismatch(std::size_t i, const zeromq_header& h) const {
    throw error(concat("rank ", rank_, " expects ", size(i), " bytes from rank ", peer(i),
                       " on context ", context_, ", which sends ", h.size,
                       ": the ranks disagree on what they exchange", error_context::suffix()));
  }

  zeromq_mesh& mesh_;
  const int rank_, context_;
  const receives in_;
  const sends out_;
  std::vector<transfer_state> state_;  // of sends, then of receives
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
