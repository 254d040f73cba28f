// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of an exact reducer whose halves `sharded` runs apart (comm/reducers/sharded.hpp), for
// one of your own that declares can_shard:
//
//   CHECK(shard_laws([](auto comm) { return my_reducer{comm}; }) == "");
//
// Ranks own disjoint ranges of whole units, which cover the message. After the first half a rank
// has the mean of its range, the reducer's own within rounding, or to the bit with
// `.same_bits = true` where the order of a sum does not depend on the cut. The second half reads
// nothing else, and leaves the same bits on every rank. Nothing is written outside of message and
// scratch. Ranks are threads, or what `launch` starts, as in reducer_laws.hpp, whose laws the
// reducer obeys, too. Runs of trainers are compared by same_updates (update_laws.hpp).
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/sharded.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of shard_laws.
struct shard_law_options {
  /// Numbers of ranks to test.
  std::vector<int> ranks{1, 2, 3, 4, 5, 8};
  /// Whether the mean must be bitwise the reducer's own.
  bool same_bits = false;
  /// Largest share of a message that one of `ranks` ranks may own, beside one unit of 64 numbers;
  /// not checked if null.
  double (*largest_share)(int ranks) = nullptr;
  /// Deadline of each launch.
  std::chrono::milliseconds deadline{60'000};
};

namespace detail::testing {

/// What one rank has of a message of n: its range; the mean there; all after the second half; the
/// mean by the reducer inside.
struct shard_record {
  comm::number_range own;
  std::vector<float> mean, gathered, whole;  // (n) each; mean: elsewhere 0
};

/// Records the shard of n numbers, with guards behind message and scratch.
template <class R>
shard_record record_shard(const R& inside, std::size_t n, report& r) {
  constexpr std::size_t guard = 16;
  constexpr float untouched = 12345;
  const sharded reducer{inside};
  shard_record out{{}, std::vector<float>(n), std::vector<float>(n), {}};
  const auto x = law_numbers<float>(false, inside.comm.rank(), inside.comm.size(), n);
  out.whole = law_mean<float>(inside, x, r);
  out.own = reducer.own_range(n);
  if (out.own.begin > out.own.end || out.own.end > n) {
    r.expect(false, "own_range(", n, ") is ", out.own.begin, " to ", out.own.end);
    out.own = {};
    return out;
  }
  std::vector<float> values = law_mean<float>(reducer, x, r);
  const auto first = static_cast<std::ptrdiff_t>(out.own.begin),
             last = static_cast<std::ptrdiff_t>(out.own.end);
  std::copy(values.begin() + first, values.begin() + last, out.mean.begin() + first);
  // The second half may not read what is not this rank's.
  std::fill(values.begin(), values.begin() + first, std::numeric_limits<float>::quiet_NaN());
  std::fill(values.begin() + last, values.end(), std::numeric_limits<float>::quiet_NaN());
  values.resize(n + guard, untouched);
  reducer.gather(span_on<float, cpu>{values.data(), n}, cpu::stream{});
  for (std::size_t i = n; i < values.size(); ++i)
    r.expect(values[i] == untouched, "the second half wrote behind a message of ", n, " numbers");
  values.resize(n);
  out.gathered = values;
  return out;
}

/// All ranks' records on rank 0, which need not share memory with the others.
template <class Communicator>
std::vector<shard_record> gather_records(const Communicator& comm, shard_record own,
                                         std::size_t n) {
  std::vector<shard_record> all(static_cast<std::size_t>(comm.size()));
  all[static_cast<std::size_t>(comm.rank())] = std::move(own);
  std::vector<send_op<cpu>> out;
  std::vector<recv_op<cpu>> in;
  for (int rank = 1; rank < comm.size(); ++rank) {
    if (comm.rank() != 0 && comm.rank() != rank) continue;
    shard_record& record = all[static_cast<std::size_t>(rank)];
    const auto transfer = [&](auto* data, std::size_t size) {
      const span_on<std::byte, cpu> bytes{reinterpret_cast<std::byte*>(data), size};
      if (comm.rank() == 0)
        in.push_back({rank, bytes});
      else
        out.push_back({0, bytes});
    };
    transfer(&record.own, sizeof record.own);
    for (auto* const numbers : {&record.mean, &record.gathered, &record.whole}) {
      numbers->resize(n);
      transfer(numbers->data(), n * sizeof(float));
    }
  }
  comm.duplicate(comm::agreement_context)
      .exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                cpu::stream{});
  return all;
}

/// What the ranks' records of n numbers violate.
inline void compare_shards(const std::vector<shard_record>& all, std::size_t n,
                           const shard_law_options& options, report& r) {
  constexpr std::size_t unit = comm::shard_unit;
  const auto ranks = static_cast<int>(all.size());
  std::vector<int> owners(n / unit);
  // Each of p sums of numbers below 8 rounds, in either order, and the mean is a p-th of that.
  const double tolerance = 8.0 * ranks * std::numeric_limits<float>::epsilon();
  for (int rank = 0; rank < ranks; ++rank) {
    const shard_record& one = all[static_cast<std::size_t>(rank)];
    const auto what = concat("rank ", rank, " of ", ranks, ", ", n, " numbers");
    const auto [begin, end] = one.own;
    r.expect(begin % unit == 0 && end % unit == 0, what, ": its range is not of whole units of ",
             unit, " numbers: ", begin, " to ", end);
    if (options.largest_share != nullptr)
      r.expect(static_cast<double>(end - begin) <=
                   options.largest_share(ranks) * static_cast<double>(n) + unit,
               what, ": it owns ", end - begin);
    for (std::size_t k = begin / unit; k < end / unit; ++k) ++owners[k];
    const auto first = static_cast<std::ptrdiff_t>(begin), last = static_cast<std::ptrdiff_t>(end);
    r.expect(
        std::equal(one.mean.begin() + first, one.mean.begin() + last, one.gathered.begin() + first),
        what, ": the second half changed its own range");
    r.expect(cordee::same_bits(one.gathered, all[0].gathered), what,
             ": the second half left other bits than on rank 0");
    if (options.same_bits)
      r.expect(cordee::same_bits(one.gathered, one.whole), what,
               ": the mean has other bits than the reducer's own");
    bool near = true;
    for (std::size_t i = 0; i < n; ++i)
      near = near && std::abs(static_cast<double>(one.gathered[i]) -
                              static_cast<double>(one.whole[i])) <= tolerance;
    r.expect(near, what, ": it has not the reducer's mean, within rounding");
  }
  for (std::size_t k = 0; k < owners.size(); ++k)
    if (owners[k] != 1)
      return r.expect(false, ranks, " ranks, ", n, " numbers: ", owners[k], " ranks own number ",
                      k * unit);
}

}  // namespace detail::testing

/// The laws of make(comm), a reducer with can_shard, over threads or what `launch` starts.
template <class Communicator = threads, class Make, class Launch = detail::testing::launch_threads>
std::string shard_laws(const Make& make, const shard_law_options& options = {},
                       const Launch& launch = {}) {
  static_assert(detail::comm::Shardable<std::invoke_result_t<Make, Communicator>>,
                "shard_laws: a reducer whose halves run apart declares can_shard = true");
  namespace laws = detail::testing;
  laws::report r;
  for (const int ranks : options.ranks)
    for (const std::size_t units : {0u, 1u, 2u, 7u, 33u}) {
      const std::size_t n = units * detail::comm::shard_unit;
      launch(
          ranks,
          [&](Communicator comm) {
            const auto all = laws::gather_records(comm, laws::record_shard(make(comm), n, r), n);
            if (comm.rank() == 0) laws::compare_shards(all, n, options, r);
          },
          options.deadline);
      if (std::string violations = r.violations(); !violations.empty()) return violations;
    }
  return {};
}

}  // namespace cordee::inline CORDEE_ABI
