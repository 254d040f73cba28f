// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An operation that a rank waits for, as the error of a failed wait describes it: the transfers of
// an exchange, or what all ranks do together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include <cuda_runtime_api.h>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/bootstrap/client.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// One message of an exchange.
struct nccl_transfer {
  int peer;
  void* data;
  std::size_t size;
};
using nccl_transfers = std::span<const nccl_transfer>;

struct nccl_awaited_operation {
  static constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

  nccl_transfers receives{}, sends{};
  const std::uint64_t* sizes = nullptr;  // on the GPU, of receives, then of sends
  std::uint64_t* seen = nullptr;         // the sizes of receives at the last inspection, or unknown
  cudaEvent_t started = nullptr;         // its time counts from there
  const char* collective = "";           // what every rank does, where there are no transfers

  /// "contribute 100 elements to a mean", for `collective`.
  static std::string describe_part(std::size_t n, const char* purpose) {
    return concat("contribute ", n, " elements to ", purpose);
  }
  [[nodiscard]] bool is_collective() const { return *collective != '\0'; }
  /// A peer of it that has left the run, or -1.
  [[nodiscard]] int left_peer(const bootstrap_client& control, const rank_assignment& self) const {
    int left = -1;
    const auto check = [&](int peer) {
      if (peer != self.rank && control.has_left(peer)) left = peer;
    };
    for (const auto transfers : {receives, sends})
      for (const nccl_transfer& t : transfers) check(t.peer);
    for (int peer = 0; is_collective() && peer < self.size; ++peer) check(peer);
    return left;
  }
  /// Throws unless the peer of receive `i` has `sent` as many bytes as it expects.
  void check_size(std::size_t i, std::uint64_t sent, const rank_assignment& self,
                  int context) const {
    const nccl_transfer& t = receives[i];
    if (sent == t.size) return;
    throw error(concat("rank ", self.rank, " expects ", t.size, " bytes from rank ", t.peer,
                       " on context ", context, ", which sends ", sent,
                       ": the ranks disagree on what they exchange", error_context::suffix()));
  }
  /// "rank 1 to send 16 bytes, rank 2 to receive 16 bytes on context 0", without receives whose
  /// size has arrived.
  [[nodiscard, gnu::cold]] std::string describe_pending(int context) const {
    if (is_collective()) return concat("every rank to ", collective, " on context ", context);
    std::string text;
    const auto add = [&](const nccl_transfer& t, const char* verb) {
      text += concat(text.empty() ? "" : ", ", "rank ", t.peer, verb, t.size, " bytes");
    };
    for (std::size_t i = 0; i < receives.size(); ++i)
      if (seen[i] == unknown) add(receives[i], " to send ");
    for (const nccl_transfer& t : sends) add(t, " to receive ");
    return concat(text, " on context ", context);
  }
};

}  // namespace cordee::inline CORDEE_ABI::detail::comm
