// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Optimizers, reducers, topologies and schedules from outside of the tree are tested against the
// laws with one include and one line each.
#include <algorithm>
#include <cmath>
#include <limits>

#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cordee/cordee.hpp>
#include <cordee/testing/gossip_laws.hpp>
#include <cordee/testing/optimizer_laws.hpp>
#include <cordee/testing/reducer_laws.hpp>
#include <cordee/testing/schedule_laws.hpp>

namespace {

// m <- momentum m + g;  w <- w - lr sign(m); m is kept finite
struct sign_sgd {
  static constexpr auto needs = cordee::agreement::exact;
  static constexpr int slots = 1;

  double momentum = 0.9;

  template <class Real, class D>
  void accept(const cordee::optimizer_view<Real, D, slots>& v, const cordee::step_info& info,
              typename D::stream s) const {
    cordee::for_each(
        s, v.weights.size,
        [learning_rate = static_cast<Real>(info.learning_rate), mu = static_cast<Real>(momentum),
         w = v.weights.data, m = v.slots[0].data, g = v.grads.data](std::size_t i) {
          constexpr Real largest = std::numeric_limits<Real>::max();
          m[i] = std::clamp(mu * m[i] + g[i], -largest, largest);
          w[i] -= learning_rate * static_cast<Real>((m[i] > 0) - (m[i] < 0));
        });
  }
};

// Every rank sends to all ranks, and adds in their order.
template <class Communicator>
struct direct_mean : cordee::reducer_base<Communicator> {
  static constexpr auto offers = cordee::agreement::exact;

  template <class Real>
  [[nodiscard]] std::size_t scratch(std::size_t n) const {
    return static_cast<std::size_t>(this->comm.size()) * n * sizeof(Real);
  }
  template <class Real, class D>
  void mix(cordee::bucket_view<Real, D, 0> m, const cordee::step_info&,
           typename D::stream s) const {
    const std::size_t n = m.values.size;
    const int p = this->comm.size();
    Real* const received = reinterpret_cast<Real*>(m.scratch.data);  // (p, n)
    std::vector<cordee::send_op<D>> out;
    std::vector<cordee::recv_op<D>> in;
    for (int k = 0; k < p; ++k) {
      out.push_back({k, cordee::bytes(m.values)});
      in.push_back({k, cordee::bytes(cordee::span_on<Real, D>{
                           received + static_cast<std::size_t>(k) * n, n})});
    }
    this->comm.exchange(std::span<const cordee::send_op<D>>(out),
                        std::span<const cordee::recv_op<D>>(in), s);
    cordee::for_each(s, n, [received, n, p, x = m.values.data](std::size_t i) {
      x[i] = 0;
      for (int k = 0; k < p; ++k) x[i] += received[static_cast<std::size_t>(k) * n + i];
      x[i] /= static_cast<Real>(p);
    });
  }
};
template <class Communicator>
direct_mean(Communicator) -> direct_mean<Communicator>;

// Each rank receives from the opposite rank and from the previous one.
struct chords {
  [[nodiscard]] int period(int) const { return 1; }
  [[nodiscard]] std::vector<cordee::topologies::edge> in_edges(int rank, int size,
                                                               std::int64_t) const {
    std::vector<cordee::topologies::edge> edges;
    if (size > 1) edges.push_back({(rank + size - 1) % size, 0.25});
    if (size > 3) edges.push_back({(rank + size / 2) % size, 0.25});
    return edges;
  }
  [[nodiscard]] std::string describe() const { return "chords"; }
};

// learning_rate / sqrt(1 + epoch)
struct inverse_root {
  double learning_rate = 0.1;
  double operator()(double epoch) const { return learning_rate / std::sqrt(1 + epoch); }
};

}  // namespace

TEST_CASE("an optimizer from outside the tree satisfies the laws of optimizers") {
  CHECK(cordee::optimizer_laws(sign_sgd{.momentum = 0.9}) == "");
}
TEST_CASE("a reducer from outside the tree satisfies the laws of exact reducers") {
  CHECK(cordee::reducer_laws([](auto comm) { return direct_mean{comm}; }) == "");
}
TEST_CASE("a topology from outside the tree satisfies the laws of mixing") {
  CHECK(cordee::gossip_laws(chords{}) == "");
}
TEST_CASE("a schedule from outside the tree satisfies the laws of schedules") {
  CHECK(cordee::schedule_laws(inverse_root{}, 90) == "");
}
