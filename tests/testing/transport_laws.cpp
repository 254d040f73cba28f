// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/comm/solo.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/testing/counted.hpp>
#include <cordee/testing/transport_laws.hpp>

using namespace cordee;
using std::chrono::milliseconds;

namespace {

// Launches threads with their links in a wrapper.
template <class Wrap>
auto wrapped(const Wrap& wrap) {
  return [wrap](int ranks, const auto& f, milliseconds deadline) {
    threads::launch(ranks, [&](threads link) { f(wrap(link)); }, {.deadline = deadline});
  };
}
bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("threads keeps the laws of a transport") {
  CHECK(transport_laws(wrapped([](threads link) { return link; })) == "");
}

TEST_CASE("so does a link that can only exchange") {
  CHECK(transport_laws([](int ranks, const auto& f, milliseconds deadline) {
          std::vector<traffic> sent(static_cast<std::size_t>(ranks));
          threads::launch(ranks,
                          [&](threads link) {
                            f(counted{link, &sent[static_cast<std::size_t>(link.rank())]});
                          },
                          {.deadline = deadline});
        }) == "");
}

TEST_CASE("alone keeps the laws of a transport of one rank") {
  CHECK(transport_laws([](int, const auto& f, milliseconds) { f(alone{}); }, {.ranks = {1}}) == "");
}

// Links that break one law each: the suite must say so.
namespace {

template <class Break>
struct faulty {
  static constexpr bool blocks_host = true;
  threads link;

  int rank() const { return link.rank(); }
  int size() const { return link.size(); }
  faulty lane(int k) const { return {Break::one_lane ? link : link.lane(k)}; }
  template <Device D>
  void exchange(std::span<const to<D>> out, std::span<const from<D>> in,
                typename D::stream s) const {
    std::vector<to<D>> changed(out.begin(), out.end());
    Break::exchange(changed);
    link.exchange(std::span<const to<D>>(changed), in, s);
  }
  template <class Real, Device D>
  void exchange_add(std::span<const to<D>> out, std::span<const from<D>> in,
                    typename D::stream s) const {
    link.template exchange_add<Real>(out, in, s);
    if (Break::rounds)
      for (const auto& m : in)
        if (m.bytes.size > 0) m.bytes.data[0] ^= std::byte{1};
  }
  template <class Real, Device D>
  void mean(span_on<Real, D> x, typename D::stream s) const {
    link.mean(x, s);
    if (Break::drifts && x.size > 0 && link.rank() == link.size() - 1) {
      auto* low = reinterpret_cast<std::byte*>(x.data);
      low[0] ^= std::byte{1};
    }
  }
};
struct sound {
  static constexpr bool one_lane = false, rounds = false, drifts = false;
  static void exchange(std::vector<to<cpu>>&) {}
};
struct out_of_order : sound {
  static void exchange(std::vector<to<cpu>>& out) {
    if (out.size() == 3 && out[0].peer == out[2].peer) std::swap(out[0], out[1]);
  }
};
struct single : sound {
  static constexpr bool one_lane = true;
};
struct drifting : sound {
  static constexpr bool drifts = true;
};
struct imprecise : sound {
  static constexpr bool rounds = true;
};
template <class Break>
std::string broken() {
  return transport_laws(wrapped([](threads link) { return faulty<Break>{link}; }),
                        {.ranks = {3}, .impatience = milliseconds(0)});
}

}  // namespace

TEST_CASE("transport_laws: what is broken is said") {
  CHECK(broken<sound>() == "");
  CHECK(says(broken<out_of_order>(), "in another order"));
  CHECK(says(broken<single>(), "heard on another"));
  CHECK(says(broken<imprecise>(), "exchange_add of 1 numbers has other bits"));
  CHECK(says(broken<drifting>(), "rank 2: the native mean of 1 numbers has other bits"));
}
