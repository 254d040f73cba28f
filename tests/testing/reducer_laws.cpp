// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/testing/reducer_laws.hpp>

using namespace cordee;

// Reducers that break one law each: the suite must say so.
namespace {

template <class Link, class Twist>
struct twisted {
  using link_type = Link;
  static constexpr agreement offers = agreement::exact;
  static constexpr bool lossless = true;
  static constexpr int slots = 0;

  Link link;
  Twist twist;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return ring{link}.template scratch<Real>(n);
  }
  template <class Real, Device D>
  void mix(message<Real, D, 0> m, const moment& now, typename D::stream s) const {
    ring{link}.mix(m, now, s);
    twist(link.rank(), link.size(), m.what.data, m.what.size, m.scratch);
  }
};
template <class Link, class Twist>
twisted(Link, Twist) -> twisted<Link, Twist>;

template <class Twist>
std::string broken(Twist twist) {
  return reducer_laws([twist](auto link) { return twisted{link, twist}; }, {.ranks = {3}});
}
bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("reducer_laws: what is broken is said") {
  CHECK(broken([](int, int, auto*, std::size_t, auto) {}) == "");
  CHECK(says(broken([](int, int p, auto* x, std::size_t n, auto) {
               for (std::size_t i = 0; i < n; ++i) x[i] *= static_cast<float>(p);
             }),
             "the mean of whole numbers is"));
  CHECK(says(broken([](int r, int, auto* x, std::size_t n, auto) {
               if (r == 2 && n == 997) x[996] *= 1.000001f;
             }),
             "rank 2 left with other bits than rank 0 (3 ranks, 997 numbers of 4 bytes)"));
  CHECK(says(broken([](int, int, auto* x, std::size_t n, auto) {
               for (std::size_t i = 0; i < n; ++i)
                 if (std::isnan(x[i])) x[i] = 0;
             }),
             "has a number that is none"));
  CHECK(says(broken([](int, int, auto* x, std::size_t n, auto) { x[n] = 1; }),
             "wrote outside of the message"));
  CHECK(says(broken([](int, int, auto*, std::size_t, auto scratch) {
               scratch.data[scratch.size] = std::byte{0};
             }),
             "wrote outside of the message"));
  CHECK(says(broken([](int r, int, auto*, std::size_t n, auto) {
               if (r == 1 && n == 997) throw std::runtime_error("out of order");
             }),
             "failed over 3 ranks: rank 1: out of order"));
}

TEST_CASE("reducer_laws: a wrong count is said") {
  const auto ring_of = [](auto link) { return ring{link}; };
  CHECK(says(reducer_laws(ring_of, {.ranks = {3}, .messages = [](int, int) { return 5u; }}),
             "sent 4 messages, not 5"));
  CHECK(says(reducer_laws(ring_of, {.ranks = {3}, .numbers = [](int, std::size_t) { return 1u; }}),
             "all ranks sent 16 bytes, not 4"));
}
