// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of a transport's own mean, and of its halves, if it has them. They are among those of
// transport_laws.hpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <cordee/comm/transports/transport.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/testing/test_messages.hpp>

namespace cordee::inline CORDEE_ABI::detail::testing {

// Rank 0's numbers on every rank.
template <class Communicator>
message broadcast_message(const Communicator& comm, message x) {
  std::vector<send_op<cpu>> out;
  std::vector<recv_op<cpu>> in;
  if (comm.rank() != 0) in.push_back(receive_from(0, x));
  for (int peer = 1; comm.rank() == 0 && peer < comm.size(); ++peer)
    out.push_back(send_to(peer, x));
  exchange(comm, out, in);
  return x;
}

// Whether x[i] is the mean of all ranks' thirds(rank, n)[i] for begin <= i < end.
inline void check_mean_of_thirds(int rank, int ranks, const message& x, std::size_t begin,
                                 std::size_t end, report& r) {
  std::vector<double> mean(x.size());
  for (int peer = 0; peer < ranks; ++peer) {
    const message y = thirds(peer, x.size());
    for (std::size_t i = begin; i < end; ++i) mean[i] += static_cast<double>(y[i]) / ranks;
  }
  for (std::size_t i = begin; i < end; ++i)
    r.expect(std::abs(static_cast<double>(x[i]) - mean[i]) <= 1e-6 * (1 + std::abs(mean[i])),
             "rank ", rank, ": the native mean is ", x[i], ", not ", mean[i]);
}

template <class Communicator>
void check_native_mean(const Communicator& comm, report& r) {
  const int rank = comm.rank();
  for (int repetition = 0; repetition < 3; ++repetition)
    for (const std::size_t n : law_lengths) {
      message x = thirds(rank, n);
      comm.mean(span_on<float, cpu>{x.data(), n}, cpu::stream{});
      check_mean_of_thirds(rank, comm.size(), x, 0, n, r);
      r.expect(same_bits(broadcast_message(comm, x), x), "rank ", rank, ": the native mean of ", n,
               " numbers has other bits than rank 0's");
    }
}

// Ranks own disjoint ranges, which are all of the message, of whole units where it is; after the
// first half a rank has the mean of its own; the second reads nothing else, leaves the same bits on
// every rank, and writes nothing behind the message.
template <class Communicator>
void check_native_halves(const Communicator& comm, report& r) {
  const int p = comm.size(), rank = comm.rank();
  for (int repetition = 0; repetition < 2; ++repetition)
    for (const std::size_t n : law_lengths) {
      const auto [begin, end] = comm.own_range(n);
      // exact below 2^24
      message bounds{static_cast<float>(begin), static_cast<float>(end)}, before(2, 0);
      std::vector<send_op<cpu>> out;
      std::vector<recv_op<cpu>> in;
      if (rank + 1 < p) out.push_back(send_to(rank + 1, bounds));
      if (rank > 0) in.push_back(receive_from(rank - 1, before));
      exchange(comm, out, in);
      const bool follows = static_cast<float>(begin) == before[1] && begin <= end;
      const bool covers = rank + 1 < p || end == n;
      r.expect(follows && covers && end <= n && begin % comm::shard_unit == 0, "rank ", rank,
               " of ", p, " owns ", begin, " to ", end, " of ", n,
               " numbers, behind a rank whose range ends at ", before[1]);
      if (end > n || begin > end) return;

      message x = thirds(rank, n);
      constexpr std::size_t guard = 16;
      constexpr float untouched = 12345;
      x.resize(n + guard, untouched);
      const span_on<float, cpu> values{x.data(), n};
      comm.reduce_scatter_mean(values, cpu::stream{});
      message mean(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(n));
      check_mean_of_thirds(rank, p, mean, begin, end, r);
      std::fill_n(x.begin(), begin, std::numeric_limits<float>::quiet_NaN());
      std::fill(x.begin() + static_cast<std::ptrdiff_t>(end),
                x.begin() + static_cast<std::ptrdiff_t>(n),
                std::numeric_limits<float>::quiet_NaN());
      comm.all_gather(values, cpu::stream{});
      r.expect(std::count(x.begin() + static_cast<std::ptrdiff_t>(n), x.end(), untouched) == guard,
               "rank ", rank, ": a half wrote behind a message of ", n, " numbers");
      x.resize(n);
      check_mean_of_thirds(rank, p, x, 0, n, r);
      r.expect(same_bits(broadcast_message(comm, x), x), "rank ", rank, ": the gathered mean of ",
               n, " numbers has other bits than rank 0's");
    }
}

}  // namespace cordee::inline CORDEE_ABI::detail::testing
