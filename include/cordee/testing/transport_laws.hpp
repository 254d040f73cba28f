// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What every transport keeps, for one of your own. It is launched by you:
//
//   CHECK(transport_laws([](int ranks, const auto& f, std::chrono::milliseconds deadline) {
//           threads::launch(ranks, f, {.deadline = deadline});
//         }) == "");
//
// Everybody hears everybody, itself included, whatever the order of the lists; messages between a
// pair keep their order; lanes do not mix; a message of another size is an error; what arrives is
// added to the same bits as one adds oneself; a native mean is the same bits everywhere; any source
// is heard as often as it spoke, and in its order; and who
// waits for a rank that threw, left or fell silent is told so by name within the deadline.
#pragma once

#include <array>
#include <chrono>
#include <cmath>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/comm/transport.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/testing/any_source.hpp>
#include <cordee/testing/verdict.hpp>
#include <cordee/testing/words.hpp>

namespace cordee::inline CORDEE_ABI {

struct transport_law_options {
  std::vector<int> ranks{1, 2, 3, 4, 5, 8};
  /// Of every exchange that must succeed, and of one with a rank that falls silent (0: none does).
  std::chrono::milliseconds patience{60'000}, impatience{500};
};

namespace detail {

inline constexpr std::array<std::size_t, 6> law_lengths{0, 1, 7, 1000, 5003, 70'001};

template <class Link>
void everybody_hears_everybody(const Link& link, verdict& v) {
  const int p = link.size(), r = link.rank();
  for (const std::size_t n : law_lengths) {
    const word mine = thirds(r, n);
    std::vector<word> heard(static_cast<std::size_t>(p), word(n, -1));
    std::vector<to<cpu>> out;
    std::vector<from<cpu>> in;
    for (int peer = 0; peer < p; ++peer) {
      out.push_back(tell(peer, mine));
      in.push_back(hear(p - 1 - peer, heard[static_cast<std::size_t>(p - 1 - peer)]));
    }
    exchange(link, out, in);
    for (int peer = 0; peer < p; ++peer)
      v.law(equal(heard[static_cast<std::size_t>(peer)], thirds(peer, n)), "rank ", r,
            " did not hear what rank ", peer, " said in ", n, " numbers");
  }
}

template <class Link>
void pairs_keep_their_order(const Link& link, verdict& v) {
  const int p = link.size(), r = link.rank();
  const word a(3, 1), b(3, 2), c(5, 3);
  for (int peer = 0; peer < p; ++peer) {
    word x(3), y(3), z(5);
    const int other = (peer + p - r) % p;  // pairs meet: r + other is peer, modulo p
    exchange(link, {tell(other, a), tell(other, b), tell(other, c)},
             {hear(other, x), hear(other, y), hear(other, z)});
    v.law(x == a && y == b && z == c, "rank ", r, " heard rank ", other, " in another order");
  }
}

// Rank 0 tells on lane 1 first, rank 1 hears on lane 0 first: were there but one lane, it would
// hear the other message.
template <class Link>
void lanes_do_not_mix(const Link& link, verdict& v) {
  if (link.size() == 1 || link.rank() > 1) return;
  const word low(50, 0), high(50, 1);
  if (link.rank() == 1) {
    word x(50, -1), y(50, -1);
    exchange(link.lane(0), {}, {hear(0, x)});
    exchange(link.lane(1), {}, {hear(0, y)});
    v.law(x == low && y == high, "what was said on one lane was heard on another");
    return;
  }
  std::exception_ptr failure;
  std::thread beside([&] {
    try {
      exchange(link.lane(1), {tell(1, high)}, {});
    } catch (...) {
      failure = std::current_exception();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  try {
    exchange(link.lane(0), {tell(1, low)}, {});
  } catch (...) {
    failure = std::current_exception();
  }
  beside.join();
  if (failure) std::rethrow_exception(failure);
}

template <class Link>
void adding_is_adding(const Link& link, verdict& v) {
  const int p = link.size(), r = link.rank();
  for (const std::size_t n : law_lengths) {
    const word mine = thirds(r, n);
    word sum(n, 0.1f), expected = sum;
    std::vector<to<cpu>> out;
    std::vector<from<cpu>> in;
    for (int peer = 0; peer < p; ++peer) {
      out.push_back(tell(peer, mine));
      in.push_back(hear(peer, sum));
    }
    link.template exchange_add<float>(std::span<const to<cpu>>(out), std::span<const from<cpu>>(in),
                                      cpu::stream{});
    for (int peer = 0; peer < p; ++peer) {
      const word theirs = thirds(peer, n);
      for (std::size_t i = 0; i < n; ++i) expected[i] += theirs[i];
    }
    v.law(equal(sum, expected), "rank ", r, ": exchange_add of ", n,
          " numbers has other bits than an exchange and an addition");
  }
}

// Rank 0's numbers on every rank.
template <class Link>
void share_bits(const Link& link, word& x) {
  std::vector<to<cpu>> out;
  std::vector<from<cpu>> in;
  if (link.rank() != 0) in.push_back(hear(0, x));
  for (int peer = 1; link.rank() == 0 && peer < link.size(); ++peer) out.push_back(tell(peer, x));
  exchange(link, out, in);
}

template <class Link>
void native_mean_is_exact(const Link& link, verdict& v) {
  const int p = link.size(), r = link.rank();
  for (int again = 0; again < 3; ++again)
    for (const std::size_t n : law_lengths) {
      word x = thirds(r, n);
      std::vector<double> mean(n);
      for (int peer = 0; peer < p; ++peer) {
        const word theirs = thirds(peer, n);
        for (std::size_t i = 0; i < n; ++i) mean[i] += static_cast<double>(theirs[i]) / p;
      }
      link.mean(span_on<float, cpu>{x.data(), n}, cpu::stream{});
      for (std::size_t i = 0; i < n; ++i)
        v.law(std::abs(static_cast<double>(x[i]) - mean[i]) <= 1e-6 * (1 + std::abs(mean[i])),
              "rank ", r, ": the native mean is ", x[i], ", not ", mean[i]);
      word zero = x;
      share_bits(link, zero);
      v.law(equal(zero, x), "rank ", r, ": the native mean of ", n,
            " numbers has other bits than rank 0's");
    }
}

/// What launch(ranks, f, deadline) threw; empty if nothing.
template <class Launch, class F>
std::string thrown(const Launch& launch, int ranks, const F& f,
                   std::chrono::milliseconds deadline) {
  try {
    launch(ranks, f, deadline);
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

template <class Launch>
void sizes_are_checked(const Launch& launch, int ranks, const transport_law_options& o,
                       verdict& v) {
  const std::string said = thrown(
      launch, ranks,
      [](auto link) {
        const word three(3);
        word four(4);
        const int p = link.size(), next = (link.rank() + 1) % p, before = (link.rank() + p - 1) % p;
        exchange(link, {tell(next, three)}, {hear(before, four)});
      },
      o.patience);
  v.law(!said.empty(), "a message of another size passes over ", ranks, " ranks");
}

enum class end { throws, leaves, silent };

/// The last rank ends as said while the others wait for it in `wait`.
template <class Launch, class Wait>
void the_dead_are_named(const Launch& launch, int ranks, end how, const transport_law_options& o,
                        verdict& v, const Wait& wait, const char* where) {
  const auto deadline = how == end::silent ? o.impatience : o.patience;
  const auto start = std::chrono::steady_clock::now();
  const std::string said = thrown(
      launch, ranks,
      [&](auto link) {
        if (link.rank() != link.size() - 1) return wait(link);
        if (how == end::throws) throw std::runtime_error("its own words");
        if (how == end::silent) std::this_thread::sleep_for(deadline * 3 / 2);
      },
      deadline);
  const std::string name = text("rank ", ranks - 1);
  v.law(said.find(name) != std::string::npos, "nobody names ", name, ", which ended in ", where,
        ": \"", said, "\"");
  v.law(how != end::throws || said.find("its own words") != std::string::npos,
        "the cause is lost in ", where, ": \"", said, "\"");
  v.law(std::chrono::steady_clock::now() - start < o.patience,
        "a rank that ended held the others for longer than the deadline in ", where);
}

}  // namespace detail

/// Broken laws of the transport whose links launch(ranks, f, deadline) hands to f on every rank, as
/// sentences; empty if there are none. launch throws what a rank has thrown.
template <class Launch>
std::string transport_laws(const Launch& launch, const transport_law_options& o = {}) {
  verdict v;
  const auto all = [&](auto link) {
    using link_type = decltype(link);
    static_assert(TransportOn<link_type, cpu>, "the link does not model TransportOn");
    detail::everybody_hears_everybody(link, v);
    detail::pairs_keep_their_order(link, v);
    detail::lanes_do_not_mix(link, v);
    if constexpr (AddsOn<link_type, float, cpu>) detail::adding_is_adding(link, v);
    if constexpr (NativeMeanOn<link_type, float, cpu>) detail::native_mean_is_exact(link, v);
    if constexpr (AnySource<link_type>) detail::any_source_is_heard(link, v);
  };
  const auto waits = [](auto link) {
    detail::word x(4);
    detail::exchange(link, {}, {detail::hear(link.size() - 1, x)});
  };
  const auto means = [](auto link) {
    if constexpr (NativeMeanOn<decltype(link), float, cpu>) {
      for (const std::size_t n : {std::size_t{4}, std::size_t{100'000}}) {
        detail::word x(n);
        link.mean(span_on<float, cpu>{x.data(), n}, cpu::stream{});
      }
    } else {
      detail::word x(4);
      detail::exchange(link, {detail::tell(link.size() - 1, x)}, {});
    }
  };
  const auto any = [&](auto link) {
    if constexpr (AnySource<decltype(link)>)
      (void)link.lane(request_lane).next(std::array{link.size() - 1});
    else
      waits(link);
  };
  bool waited = false;  // for the silent, once
  for (const int ranks : o.ranks) {
    const std::string failure = detail::thrown(launch, ranks, all, o.patience);
    v.law(failure.empty(), "failed over ", ranks, " ranks: ", failure);
    detail::sizes_are_checked(launch, ranks, o, v);
    if (ranks == 1) continue;
    for (const auto how : {detail::end::throws, detail::end::leaves, detail::end::silent}) {
      if (how == detail::end::silent && (o.impatience.count() == 0 || std::exchange(waited, true)))
        continue;
      detail::the_dead_are_named(launch, ranks, how, o, v, waits, "exchange");
      detail::the_dead_are_named(launch, ranks, how, o, v, means, "a mean, or telling it");
      detail::the_dead_are_named(launch, ranks, how, o, v, any, "waiting for any source");
    }
  }
  return v.str();
}

}  // namespace cordee::inline CORDEE_ABI
