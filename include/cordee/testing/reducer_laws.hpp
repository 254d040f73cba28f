// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of an exact reducer, for one of your own:
//
//   TEST_CASE("my_reducer is an exact mean") {
//     CHECK(reducer_laws([](auto comm) { return my_reducer{comm}; }) == "");
//   }
//
// Ranks are threads, or what `launch` starts: reducer_laws<mpi>(make, {.ranks = {4}}, launch) with
// a launch(ranks, f, deadline) as in transport_laws.hpp; rank 0 compares. Every rank ends with the
// same bits; means of integers are exact, of any numbers within rounding, divided once; a NaN on
// one rank is not finite on any; two contexts do not disturb each other, used by two threads, or
// one behind the other where concurrent_contexts is false; nothing is written outside of message
// and scratch; over a transport without fused add the bits are the same. A lossy wire rounds, and
// keeps the other laws.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/reducers/reducer_check.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/concurrently.hpp>
#include <cordee/testing/counting_communicator.hpp>
#include <cordee/testing/mix_count.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>

namespace cordee::inline CORDEE_ABI {

/// Options of reducer_laws.
struct reducer_law_options {
  /// Numbers of ranks to test.
  std::vector<int> ranks{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};
  /// Expected messages per rank; not checked if empty.
  std::function<std::size_t(int rank, int ranks)> messages{};
  /// Expected numbers that all ranks together send for a message of n; not checked if empty.
  std::function<std::size_t(int ranks, std::size_t n)> numbers{};
  /// Tolerance of a lossy mean, relative to the largest |x|.
  double rounding = 1.0 / 256;
  /// Deadline of each launch, passed to `launch`.
  std::chrono::milliseconds deadline{60'000};
};

namespace detail::testing {

/// x of one rank: integers whose mean is an integer, or normal numbers.
template <class Real>
std::vector<Real> law_numbers(bool integers, int rank, int ranks, std::size_t n) {
  random_sequence random(11, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<Real> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = integers ? static_cast<Real>(ranks * (rank - static_cast<int>(i % 50)))
                    : static_cast<Real>(random.normal());
  return x;
}

/// Returns what `reducer` makes of x, with guards around the message and behind the scratch.
template <class Real, class R>
std::vector<Real> law_mean(const R& reducer, const std::vector<Real>& x, report& r,
                           const step_info& info = {}) {
  constexpr std::size_t guard = 16;
  constexpr Real untouched = 12345;
  const std::size_t n = x.size(), bytes = reducer.template scratch<Real>(n);
  std::vector<Real> values(n + 2 * guard, untouched);
  std::copy(x.begin(), x.end(), values.begin() + guard);
  std::vector<std::byte> scratch(bytes + guard, std::byte{0xa5});
  std::vector<std::vector<Real>> slots(R::slots, std::vector<Real>(n));
  bucket_view<Real, cpu, R::slots> m{
      nullptr, {values.data() + guard, n}, {}, {scratch.data(), bytes}};
  for (std::size_t k = 0; k < slots.size(); ++k) m.slots[k] = {slots[k].data(), n};
  reducer.mix(m, info, cpu::stream{});
  for (std::size_t i = 0; i < guard; ++i)
    r.expect(values[i] == untouched && values[guard + n + i] == untouched &&
                 scratch[bytes + i] == std::byte{0xa5},
             "wrote outside of the message or its scratch, for ", n, " numbers");
  return {values.begin() + guard, values.end() - guard};
}

struct launch_threads {
  template <class F>
  void operator()(int ranks, const F& f, std::chrono::milliseconds deadline) const {
    threads::launch(ranks, f, {.deadline = deadline});
  }
};

/// The laws for one type of numbers, over `ranks` ranks.
template <class Real, class Communicator, class Make>
class reducer_trial {
  using numbers = std::vector<Real>;
  using reducer = std::invoke_result_t<Make, Communicator>;
  using counted_reducer = std::invoke_result_t<Make, counting_communicator<Communicator>>;
  static constexpr bool works_counted = ReducerOn<counted_reducer, Real, cpu>;
  static constexpr bool pipelines =
      comm::FusedAddOn<Communicator, Real, cpu> && requires { requires reducer::can_pipeline; };
  static_assert(comm::has_reducer_members<reducer, Real, cpu>());
  static_assert(reducer::offers == agreement::exact,
                "reducer_laws: these are the laws of exact reducers");

 public:
  reducer_trial(const Make& make, const reducer_law_options& options, int ranks, report& r,
                mix_count& mixes)
      : make_(make), options_(options), ranks_(ranks), report_(r), mixes_(mixes) {
    const auto p = static_cast<std::size_t>(ranks);
    lengths_ = {0, 1, p - 1, p, p + 1, 997, 5003};
    // Beyond 65,536 numbers a method that can_pipeline makes two rounds, then three (exact_method).
    if (pipelines && (ranks == 2 || ranks == 3 || ranks == 5 || ranks == 8))
      lengths_.push_back(65'539);
    if (pipelines && ranks == 5) lengths_.push_back(140'003);
  }

  template <class Launch>
  void run(const Launch& launch) {
    launch(
        ranks_,
        [this](Communicator comm) {
          std::vector<std::vector<means>> by_length(lengths_.size());  // (lengths, ranks)
          for (std::size_t k = 0; k < lengths_.size(); ++k)
            by_length[k] = gather(comm, compute(comm, lengths_[k]), lengths_[k]);
          for (std::size_t k = 0; comm.rank() == 0 && k < lengths_.size(); ++k)
            compare(by_length[k], k);
        },
        options_.deadline);
  }

 private:
  /// What one rank holds after each of its means, (n) each.
  struct means {
    numbers integers, noise, repeated, concurrent, counted, with_nan;
    traffic sent;  // by the counted one
  };
  static constexpr std::array members{&means::integers,   &means::noise,   &means::repeated,
                                      &means::concurrent, &means::counted, &means::with_nan};

  // All ranks' means on rank 0, which need not share memory with the others.
  std::vector<means> gather(Communicator comm, means own, std::size_t n) const {
    std::vector<means> by_rank(static_cast<std::size_t>(ranks_));
    by_rank[static_cast<std::size_t>(comm.rank())] = std::move(own);
    std::vector<send_op<cpu>> out;
    std::vector<recv_op<cpu>> in;
    for (int rank = 1; rank < ranks_; ++rank) {
      if (comm.rank() != 0 && comm.rank() != rank) continue;
      means& m = by_rank[static_cast<std::size_t>(rank)];
      const auto transfer = [&](auto* data, std::size_t size) {
        const span_on<std::byte, cpu> bytes{reinterpret_cast<std::byte*>(data), size};
        if (comm.rank() == 0)
          in.push_back({rank, bytes});
        else
          out.push_back({0, bytes});
      };
      for (const auto member : members) {
        (m.*member).resize(member == &means::counted && !works_counted ? 0 : n);
        transfer((m.*member).data(), (m.*member).size() * sizeof(Real));
      }
      transfer(&m.sent, sizeof m.sent);
    }
    comm.duplicate(comm::agreement_context)
        .exchange(std::span<const send_op<cpu>>(out), std::span<const recv_op<cpu>>(in),
                  cpu::stream{});
    return by_rank;
  }

  means compute(Communicator comm, std::size_t n) const {
    const int rank = comm.rank();
    const numbers integers = law_numbers<Real>(true, rank, ranks_, n);
    const numbers noise = law_numbers<Real>(false, rank, ranks_, n);
    numbers with_nan = noise;
    if (n > 0 && rank == nan_rank(n)) with_nan[n / 2] = std::numeric_limits<Real>::quiet_NaN();

    means m;
    const auto mean = [&](const numbers& x) {
      ++mixes_.begun[static_cast<std::size_t>(rank)];
      numbers result = law_mean(make_(comm), x, report_);
      ++mixes_.returned[static_cast<std::size_t>(rank)];
      return result;
    };
    m.integers = mean(integers);
    m.noise = mean(noise);
    m.with_nan = mean(with_nan);
    const auto in_other_context = [&] {
      try {
        m.concurrent = law_mean(make_(comm.duplicate(comm::request_context)), noise, report_);
      } catch (const std::exception& e) {
        comm::abort(comm, e.what());
      }
    };
    concurrently(comm, in_other_context, [&] { m.repeated = mean(noise); });
    if constexpr (works_counted)
      m.counted =
          law_mean(make_(counting_communicator<Communicator>{comm, &m.sent}), noise, report_);
    return m;
  }

  void compare(const std::vector<means>& by_rank, std::size_t k) const {
    const std::size_t n = lengths_[k];
    const std::string where =
        concat(" (", ranks_, " ranks, ", n, " numbers of ", sizeof(Real), " bytes)");
    const means& first = by_rank[0];
    std::size_t bytes = 0;
    for (int r = 0; r < ranks_; ++r) {
      const means& m = by_rank[static_cast<std::size_t>(r)];
      report_.expect(same_bits(m.integers, first.integers) && same_bits(m.noise, first.noise),
                     "rank ", r, " has other bits than rank 0", where);
      report_.expect(same_bits(m.noise, m.repeated), "rank ", r, ": the same mean twice differs",
                     where);
      report_.expect(same_bits(m.noise, m.concurrent), "rank ", r,
                     ": a mean beside one in another context differs", where);
      if constexpr (works_counted) {
        report_.expect(same_bits(m.noise, m.counted), "rank ", r,
                       ": other bits over a transport without fused add", where);
        if (options_.messages)
          report_.expect(m.sent.messages == options_.messages(r, ranks_), "rank ", r, " sent ",
                         m.sent.messages, " messages, not ", options_.messages(r, ranks_), where);
        bytes += m.sent.bytes;
      }
      if (n > 0)
        report_.expect(!std::isfinite(m.with_nan[n / 2]), "rank ", r, " has lost the NaN of rank ",
                       nan_rank(n), where);
      for (std::size_t i = 0; i < n && reducer::lossless; ++i)
        report_.expect(i == n / 2 || m.with_nan[i] == m.noise[i], "rank ", r,
                       ": a NaN has changed another number", where);
    }
    if (works_counted && options_.numbers)
      report_.expect(bytes == options_.numbers(ranks_, n) * sizeof(Real), "all ranks sent ", bytes,
                     " bytes, not ", options_.numbers(ranks_, n) * sizeof(Real), where);
    compare_with_means(first, n, where);
  }

  void compare_with_means(const means& m, std::size_t n, const std::string& where) const {
    std::vector<double> integers(n), noise(n);
    double largest_integer = 0, largest = 0;
    for (int r = 0; r < ranks_; ++r) {
      const auto a = law_numbers<Real>(true, r, ranks_, n);
      const auto b = law_numbers<Real>(false, r, ranks_, n);
      for (std::size_t i = 0; i < n; ++i) {
        integers[i] += static_cast<double>(a[i]) / ranks_;  // ranks * k / ranks is exact
        noise[i] += static_cast<double>(b[i]) / ranks_;
        largest_integer = std::max(largest_integer, std::abs(static_cast<double>(a[i])));
        largest = std::max(largest, std::abs(static_cast<double>(b[i])));
      }
    }
    const double epsilon = std::numeric_limits<Real>::epsilon();
    const bool exact = reducer::lossless;
    for (std::size_t i = 0; i < n; ++i) {
      report_.expect(std::abs(static_cast<double>(m.integers[i]) - integers[i]) <=
                         (exact ? 0 : options_.rounding * largest_integer),
                     "the mean of integers is ", m.integers[i], ", not ", integers[i], where);
      report_.expect(std::abs(static_cast<double>(m.noise[i]) - noise[i]) <=
                         largest * (exact ? ranks_ * epsilon : options_.rounding),
                     "the mean is ", m.noise[i], ", not ", noise[i], where);
    }
  }

  /// The rank that has a NaN among n numbers.
  [[nodiscard]] int nan_rank(std::size_t n) const {
    return static_cast<int>(n % static_cast<std::size_t>(ranks_));
  }

  const Make& make_;
  const reducer_law_options& options_;
  const int ranks_;
  report& report_;
  mix_count& mixes_;
  std::vector<std::size_t> lengths_;
};

}  // namespace detail::testing

/// Returns the laws violated by the reducer that make(comm) returns; empty if there are none.
template <class Communicator = threads, class Make, class Launch = detail::testing::launch_threads>
std::string reducer_laws(const Make& make, const reducer_law_options& options = {},
                         const Launch& launch = {}) {
  detail::testing::report r;
  for (const int ranks : options.ranks) {
    detail::testing::mix_count mixes(ranks);
    try {
      detail::testing::reducer_trial<float, Communicator, Make>(make, options, ranks, r, mixes)
          .run(launch);
      detail::testing::reducer_trial<double, Communicator, Make>(make, options, ranks, r, mixes)
          .run(launch);
    } catch (const std::exception& e) {
      const std::string why = e.what();
      const bool stalled = why.find(" waited ") != why.npos;
      r.expect(false, "failed over ", ranks, " ranks: ", why, stalled ? mixes.describe() : "");
    }
  }
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
