// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whoever writes an optimizer, a reducer, a graph or a schedule outside of this tree holds it to
// the laws with one include and one line each.
#include <algorithm>
#include <limits>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/testing/gossip_laws.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/schedule_laws.hpp>

namespace {

// m <- momentum m + g;  w <- w - rate sign(m); m is kept finite
struct sign_sgd {
  static constexpr auto needs = cordee::agreement::exact;
  static constexpr bool eager = true;
  static constexpr int slots = 1;
  static constexpr auto norms = cordee::when::never;

  double momentum = 0.9;

  template <class Real, class D>
  auto propose(const cordee::view<Real, D, slots>& v, const cordee::moment&,
               typename D::stream) const {
    return v.grads;
  }
  template <class Real, class D>
  void accept(const cordee::view<Real, D, slots>& v, const cordee::moment& now,
              typename D::stream s) const {
    cordee::for_each(s, v.weights.size,
                     [rate = static_cast<Real>(now.rate), mu = static_cast<Real>(momentum),
                      w = v.weights.data, m = v.slots[0].data, g = v.grads.data](std::size_t i) {
                       constexpr Real most = std::numeric_limits<Real>::max();
                       m[i] = std::clamp(mu * m[i] + g[i], -most, most);
                       w[i] -= rate * static_cast<Real>((m[i] > 0) - (m[i] < 0));
                     });
  }
};

// Everybody tells everybody, and adds in the order of the ranks.
template <class Link>
struct everybody {
  using link_type = Link;
  static constexpr auto offers = cordee::agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return static_cast<std::size_t>(link.size()) * n * sizeof(Real);
  }
  template <class Real, class D>
  void mix(cordee::message<Real, D, 0> m, const cordee::moment&, typename D::stream s) const {
    const std::size_t n = m.what.size;
    const int p = link.size();
    Real* const said = reinterpret_cast<Real*>(m.scratch.data);
    std::vector<cordee::to<D>> out;
    std::vector<cordee::from<D>> in;
    for (int k = 0; k < p; ++k) {
      out.push_back({k, cordee::const_bytes(m.what)});
      in.push_back(
          {k, cordee::bytes(cordee::span_on<Real, D>{said + static_cast<std::size_t>(k) * n, n})});
    }
    link.exchange(std::span<const cordee::to<D>>(out), std::span<const cordee::from<D>>(in), s);
    cordee::for_each(s, n, [said, n, p, x = m.what.data](std::size_t i) {
      x[i] = 0;
      for (int k = 0; k < p; ++k) x[i] += said[static_cast<std::size_t>(k) * n + i];
      x[i] /= static_cast<Real>(p);
    });
  }
};
template <class Link>
everybody(Link) -> everybody<Link>;

// Hears the rank opposite and the rank before it.
struct chords {
  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<cordee::edge> in(int rank, int size, std::int64_t) const {
    std::vector<cordee::edge> heard;
    if (size > 1) heard.push_back({(rank + size - 1) % size, 0.25});
    if (size > 3) heard.push_back({(rank + size / 2) % size, 0.25});
    return heard;
  }
};

// rate / sqrt(1 + epoch)
struct inverse_root {
  double rate = 0.1;
  double operator()(double epoch) const { return rate / std::sqrt(1 + epoch); }
};

}  // namespace

TEST_CASE("a rule from outside the tree keeps the laws of rules") {
  cordee::optimizer_laws(sign_sgd{.momentum = 0.9}, {.rests = true});
}
TEST_CASE("a reducer from outside the tree keeps the laws of exact reducers") {
  CHECK(cordee::reducer_laws([](auto link) { return everybody{link}; }) == "");
}
TEST_CASE("a graph from outside the tree keeps the laws of mixing") {
  CHECK(cordee::gossip_laws(chords{}) == "");
}
TEST_CASE("a schedule from outside the tree keeps the laws of schedules") {
  cordee::schedule_laws(inverse_root{}, 90);
}
