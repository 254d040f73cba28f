// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every exact reducer keeps, for one of your own:
//
//   TEST_CASE("mine is a mean") {
//     CHECK(reducer_laws([](auto link) { return mine{link}; }) == "");
//   }
//
// Ranks are threads, or what you launch: reducer_laws<mpi>(make, {.ranks = {4}}, launch) with a
// launch(ranks, f, deadline) as in transport_laws.hpp; rank 0 judges. Every rank leaves with the
// same bits; means of whole numbers are exact, of any numbers right, divided once; what is not a
// number anywhere is not a number everywhere; two lanes do not disturb each other; nothing is
// written outside of message and scratch; over a transport that cannot add, the bits are the same.
// A lossy wire rounds, and keeps the rest.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <cordee/comm/reducer.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/core/random.hpp>
#include <cordee/testing/counted.hpp>
#include <cordee/testing/verdict.hpp>

namespace cordee::inline CORDEE_ABI {

struct reducer_law_options {
  std::vector<int> ranks{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16};
  /// Messages that one rank sends; unchecked if empty.
  std::function<std::size_t(int rank, int ranks)> messages{};
  /// Numbers that all ranks send together for a message of n; unchecked if empty.
  std::function<std::size_t(int ranks, std::size_t n)> numbers{};
  /// A lossy mean may be off by this share of the largest |x|.
  double rounding = 1.0 / 256;
  std::chrono::milliseconds deadline{60'000};
};

namespace detail {

/// x_i of one rank: whole numbers whose mean is whole, and normal ones.
template <class Real>
std::vector<Real> law_numbers(bool whole, int rank, int ranks, std::size_t n) {
  random_sequence random(11, purpose::test, static_cast<std::uint64_t>(rank), n);
  std::vector<Real> x(n);
  for (std::size_t i = 0; i < n; ++i)
    x[i] = whole ? static_cast<Real>(ranks * (rank - static_cast<int>(i % 50)))
                 : static_cast<Real>(random.normal());
  return x;
}

template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0);
}

/// One mean, with guards around the message and behind the scratch.
template <class Real, class R>
std::vector<Real> law_mean(const R& reducer, const std::vector<Real>& x, verdict& v,
                           const moment& now = {}) {
  constexpr std::size_t guard = 16;
  constexpr Real untouched = 12345;
  const std::size_t n = x.size(), bytes = reducer.template scratch<Real>(n);
  std::vector<Real> what(n + 2 * guard, untouched);
  std::copy(x.begin(), x.end(), what.begin() + guard);
  std::vector<std::byte> scratch(bytes + guard, std::byte{0xa5});
  std::vector<std::vector<Real>> slots(R::slots, std::vector<Real>(n));
  message<Real, cpu, R::slots> m{nullptr, {what.data() + guard, n}, {}, {scratch.data(), bytes}};
  for (std::size_t k = 0; k < slots.size(); ++k) m.memory[k] = {slots[k].data(), n};
  reducer.mix(m, now, cpu::stream{});
  for (std::size_t i = 0; i < guard; ++i)
    v.law(what[i] == untouched && what[guard + n + i] == untouched &&
              scratch[bytes + i] == std::byte{0xa5},
          "wrote outside of the message or its scratch, for ", n, " numbers");
  return {what.begin() + guard, what.end() - guard};
}

struct launch_threads {
  template <class F>
  void operator()(int ranks, const F& f, std::chrono::milliseconds deadline) const {
    threads::launch(ranks, f, {.deadline = deadline});
  }
};

/// The laws for one type of numbers, over `ranks` ranks.
template <class Real, class Link, class Make>
class reducer_trial {
  using numbers = std::vector<Real>;
  using reducer = std::invoke_result_t<Make, Link>;
  using plainly = std::invoke_result_t<Make, counted<Link>>;
  static constexpr bool works_plainly = ReducerOn<plainly, Real, cpu>;
  static_assert(ReducerOn<reducer, Real, cpu>, "what was made does not model ReducerOn");
  static_assert(reducer::offers == agreement::exact, "these are the laws of exact reducers");

 public:
  reducer_trial(const Make& make, const reducer_law_options& options, int ranks, verdict& v)
      : make_(make), options_(options), ranks_(ranks), v_(v) {
    const auto p = static_cast<std::size_t>(ranks);
    lengths_ = {0, 1, p - 1, p, p + 1, 997, 5003};
  }

  template <class Launch>
  void run(const Launch& launch) {
    launch(
        ranks_,
        [this](Link link) {
          std::vector<std::vector<seen>> all(lengths_.size());
          for (std::size_t k = 0; k < lengths_.size(); ++k)
            all[k] = told_to_first(link, experience(link, lengths_[k]), lengths_[k]);
          for (std::size_t k = 0; link.rank() == 0 && k < lengths_.size(); ++k) judge(all[k], k);
        },
        options_.deadline);
  }

 private:
  struct seen {
    numbers whole, noise, again, beside, plain, spoiled;
    traffic sent;
  };
  static constexpr std::array kept{&seen::whole,  &seen::noise, &seen::again,
                                   &seen::beside, &seen::plain, &seen::spoiled};

  // Everybody's on rank 0, by rank: it may have no memory in common with the others.
  std::vector<seen> told_to_first(Link link, seen mine, std::size_t n) const {
    std::vector<seen> all(static_cast<std::size_t>(ranks_));
    all[static_cast<std::size_t>(link.rank())] = std::move(mine);
    std::vector<to<cpu>> out;
    std::vector<from<cpu>> in;
    for (int rank = 1; rank < ranks_; ++rank) {
      if (link.rank() != 0 && link.rank() != rank) continue;
      seen& s = all[static_cast<std::size_t>(rank)];
      const auto tell = [&](auto* data, std::size_t size) {
        const span_on<std::byte, cpu> what{reinterpret_cast<std::byte*>(data), size};
        if (link.rank() == 0)
          in.push_back({rank, what});
        else
          out.push_back({0, const_bytes(what)});
      };
      for (const auto member : kept) {
        (s.*member).resize(member == &seen::plain && !works_plainly ? 0 : n);
        tell((s.*member).data(), (s.*member).size() * sizeof(Real));
      }
      tell(&s.sent, sizeof s.sent);
    }
    link.lane(agree_lane)
        .exchange(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in), cpu::stream{});
    return all;
  }

  seen experience(Link link, std::size_t n) const {
    const int r = link.rank();
    const numbers whole = law_numbers<Real>(true, r, ranks_, n);
    const numbers noise = law_numbers<Real>(false, r, ranks_, n);
    numbers spoiled = noise;
    if (n > 0 && r == spoiler(n)) spoiled[n / 2] = std::numeric_limits<Real>::quiet_NaN();

    seen s;
    s.whole = law_mean(make_(link), whole, v_);
    s.noise = law_mean(make_(link), noise, v_);
    s.spoiled = law_mean(make_(link), spoiled, v_);
    std::thread beside([&] {
      try {
        s.beside = law_mean(make_(link.lane(request_lane)), noise, v_);
      } catch (const std::exception& e) {
        abandon(link, e.what());
      }
    });
    try {
      s.again = law_mean(make_(link), noise, v_);
    } catch (...) {
      beside.join();
      throw;
    }
    beside.join();
    if constexpr (works_plainly) s.plain = law_mean(make_(counted<Link>{link, &s.sent}), noise, v_);
    return s;
  }

  void judge(const std::vector<seen>& all, std::size_t k) const {
    const std::size_t n = lengths_[k];
    const std::string where =
        text(" (", ranks_, " ranks, ", n, " numbers of ", sizeof(Real), " bytes)");
    const seen& first = all[0];
    std::size_t bytes = 0;
    for (int r = 0; r < ranks_; ++r) {
      const seen& s = all[static_cast<std::size_t>(r)];
      v_.law(same_bits(s.whole, first.whole) && same_bits(s.noise, first.noise), "rank ", r,
             " left with other bits than rank 0", where);
      v_.law(same_bits(s.noise, s.again), "rank ", r, ": the same mean twice differs", where);
      v_.law(same_bits(s.noise, s.beside), "rank ", r, ": another lane disturbs", where);
      if constexpr (works_plainly) {
        v_.law(same_bits(s.noise, s.plain), "rank ", r,
               ": other bits where the transport cannot add", where);
        if (options_.messages)
          v_.law(s.sent.messages == options_.messages(r, ranks_), "rank ", r, " sent ",
                 s.sent.messages, " messages, not ", options_.messages(r, ranks_), where);
        bytes += s.sent.bytes;
      }
      if (n > 0)
        v_.law(std::isnan(s.spoiled[n / 2]) || std::isinf(s.spoiled[n / 2]), "rank ", r,
               " did not see that rank ", spoiler(n), " has a number that is none", where);
      for (std::size_t i = 0; i < n && reducer::lossless; ++i)
        v_.law(i == n / 2 || s.spoiled[i] == s.noise[i], "rank ", r,
               ": a number that is none spoiled another one", where);
    }
    if (works_plainly && options_.numbers)
      v_.law(bytes == options_.numbers(ranks_, n) * sizeof(Real), "all ranks sent ", bytes,
             " bytes, not ", options_.numbers(ranks_, n) * sizeof(Real), where);
    judge_mean(first, n, where);
  }

  void judge_mean(const seen& s, std::size_t n, const std::string& where) const {
    std::vector<double> whole(n), noise(n);
    double most = 0, largest = 0;
    for (int r = 0; r < ranks_; ++r) {
      const auto a = law_numbers<Real>(true, r, ranks_, n);
      const auto b = law_numbers<Real>(false, r, ranks_, n);
      for (std::size_t i = 0; i < n; ++i) {
        whole[i] += static_cast<double>(a[i]) / ranks_;  // ranks * k / ranks is exact
        noise[i] += static_cast<double>(b[i]) / ranks_;
        most = std::max(most, std::abs(static_cast<double>(a[i])));
        largest = std::max(largest, std::abs(static_cast<double>(b[i])));
      }
    }
    const double epsilon = std::numeric_limits<Real>::epsilon();
    const bool exact = reducer::lossless;
    for (std::size_t i = 0; i < n; ++i) {
      v_.law(std::abs(static_cast<double>(s.whole[i]) - whole[i]) <=
                 (exact ? 0 : options_.rounding * most),
             "the mean of whole numbers is ", s.whole[i], ", not ", whole[i], where);
      v_.law(std::abs(static_cast<double>(s.noise[i]) - noise[i]) <=
                 largest * (exact ? ranks_ * epsilon : options_.rounding),
             "the mean is ", s.noise[i], ", not ", noise[i], where);
    }
  }

  [[nodiscard]] int spoiler(std::size_t n) const {
    return static_cast<int>(n % static_cast<std::size_t>(ranks_));
  }

  const Make& make_;
  const reducer_law_options& options_;
  const int ranks_;
  verdict& v_;
  std::vector<std::size_t> lengths_;
};

}  // namespace detail

/// Broken laws of the reducer that make(link) returns, as sentences; empty if there are none.
template <class Link = threads, class Make, class Launch = detail::launch_threads>
std::string reducer_laws(const Make& make, const reducer_law_options& options = {},
                         const Launch& launch = {}) {
  verdict v;
  for (const int ranks : options.ranks) {
    try {
      detail::reducer_trial<float, Link, Make>(make, options, ranks, v).run(launch);
      detail::reducer_trial<double, Link, Make>(make, options, ranks, v).run(launch);
    } catch (const std::exception& e) {
      v.law(false, "failed over ", ranks, " ranks: ", e.what());
    }
  }
  return v.str();
}

}  // namespace cordee::inline CORDEE_ABI
