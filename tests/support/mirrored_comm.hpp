// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A communicator of two ranks of which one runs: the other one holds three times the numbers of
// this one, so that the mean is twice them. Its mean is work of a stream of `deferred`, so that a
// test sees whether it was ordered by events, and whether the host waited. In a sum both are alike.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/failure/error_context.hpp>
#include <cordee/comm/transports/transport.hpp>
#include <cordee/core/error.hpp>

#include "tests/support/deferred.hpp"

namespace support {

struct mirrored_comm {
  static constexpr bool blocks_host = true;
  struct record {
    int means = 0, sums = 0;             // enqueued, or captured
    bool stuck = false;                  // a wait fails at once
    std::vector<std::uint64_t> current;  // what waits have seen, each number once in a row
  };
  std::shared_ptr<record> seen = std::make_shared<record>();

  [[nodiscard]] int rank() const { return 0; }
  [[nodiscard]] int size() const { return 2; }
  [[nodiscard]] mirrored_comm duplicate(int) const { return *this; }

  /// The other rank sends what it receives.
  template <class D>
  void exchange(std::span<const cordee::send_op<D>> out, std::span<const cordee::recv_op<D>> in,
                typename D::stream s) const {
    for (std::size_t i = 0; i < std::min(out.size(), in.size()); ++i)
      if constexpr (D::host_memory)
        std::memcpy(in[i].bytes.data, out[i].bytes.data, in[i].bytes.size);
      else
        s.copy(in[i].bytes.data, out[i].bytes.data, in[i].bytes.size);
  }
  template <class Real, class D>
  void mean(cordee::span_on<Real, D> x, typename D::stream s) const {
    enqueue_mean(x, s);
    s.finish();
  }
  template <class Real>
  void enqueue_mean(cordee::span_on<Real, deferred> x, deferred::stream s) const {
    ++seen->means;
    s.submit([x] {
      for (std::size_t i = 0; i < x.size; ++i) x.data[i] = (x.data[i] + 3 * x.data[i]) / 2;
    });
  }
  void enqueue_sum(cordee::span_on<double, deferred> x, deferred::stream s) const {
    ++seen->sums;
    s.submit([x] {
      for (std::size_t i = 0; i < x.size; ++i) x.data[i] += x.data[i];
    });
  }
  template <class Pending>
  void await_enqueued(const Pending& pending) const {
    if (seen->stuck) throw cordee::error("stuck" + cordee::detail::comm::error_context::suffix());
    for (;;) {
      const std::uint64_t now = pending.current();
      if (seen->current.empty() || seen->current.back() != now) seen->current.push_back(now);
      if (pending.is_complete()) return;
    }
  }
};

}  // namespace support
