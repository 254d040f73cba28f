// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory through which a transport of host memory (MPI, ZeroMQ) sends and receives a GPU's.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::comm {

/// Page-locks host memory, so that copies to and from it neither are staged again nor block.
template <class S>
concept PinningStream = requires(std::size_t size, void* memory) {
  { S::pin(size) } -> std::same_as<void*>;  // throws cordee::error
  { S::unpin(memory) } noexcept;
};

/// Host memory that grows and never shrinks; page-locked where the stream's type can.
template <class S>
class host_staging {
 public:
  host_staging() = default;
  host_staging(const host_staging&) = delete;
  host_staging& operator=(const host_staging&) = delete;
  ~host_staging() { release(); }

  /// The calling thread's: only its first transfers allocate.
  static host_staging& of_thread() {
    thread_local host_staging staging;
    return staging;
  }
  /// At least so many bytes, of undefined content.
  [[nodiscard]] std::byte* reserve(std::size_t size) {
    if (size <= capacity_) return static_cast<std::byte*>(memory_);
    const std::size_t grown = std::max(size, 2 * capacity_);
    release();
    if constexpr (PinningStream<S>)
      memory_ = S::pin(grown);
    else
      memory_ = ::operator new(grown);
    capacity_ = grown;
    return static_cast<std::byte*>(memory_);
  }

 private:
  void release() noexcept {
    if constexpr (PinningStream<S>)
      S::unpin(memory_);
    else
      ::operator delete(memory_);
    memory_ = nullptr;
    capacity_ = 0;
  }

  void* memory_ = nullptr;
  std::size_t capacity_ = 0;
};

/// Copies what is sent to the host, calls exchange(out, in) with these host memories, and copies
/// what was received back; finished when it returns.
template <class D, class Exchange>
void exchange_staged(std::span<const send_op<D>> out, std::span<const recv_op<D>> in,
                     const typename D::stream& s, const Exchange& exchange) {
  std::size_t size = 0;
  for (const auto& m : out) size += m.bytes.size;
  for (const auto& m : in) size += m.bytes.size;
  std::byte* next = host_staging<typename D::stream>::of_thread().reserve(size);
  thread_local std::vector<send_op<cpu>> host_out;
  thread_local std::vector<recv_op<cpu>> host_in;
  host_out.clear();
  host_in.clear();
  for (const auto& m : out) {
    s.copy(next, m.bytes.data, m.bytes.size);
    host_out.push_back({m.peer, {std::exchange(next, next + m.bytes.size), m.bytes.size}});
  }
  s.finish();
  for (const auto& m : in)
    host_in.push_back({m.peer, {std::exchange(next, next + m.bytes.size), m.bytes.size}});
  exchange(std::span<const send_op<cpu>>(host_out), std::span<const recv_op<cpu>>(host_in));
  for (std::size_t i = 0; i < in.size(); ++i)
    s.copy(in[i].bytes.data, host_in[i].bytes.data, in[i].bytes.size);
  s.finish();
}

}  // namespace cordee::inline CORDEE_ABI::detail::comm
