// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The engine against the definition, with the cuDNN of tests/support/cudnn_on_host.hpp in place of
// the library: what the engine told cuDNN to compute, and where, is what is checked. All factors
// are small multiples of 1/4, so that sums are exact and every check is one of equality.
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/convolution.hpp>

#include "tests/support/cudnn_on_host.hpp"
#include "tests/support/engines.hpp"

using namespace cordee;
using support::on_host;
using support::size;

namespace {

std::vector<double> quarters(std::size_t n, std::uint64_t which) {
  std::vector<double> v = support::random_numbers(n, which);
  for (double& x : v) x = std::round(4 * x) / 4;
  return v;
}
template <Number N>
N narrow(double x) {
  return rounded<N>(static_cast<wide<N>>(x));
}
template <Number N>
double wide_of(N x) {
  return static_cast<double>(widened(x));
}

/// A layer with its tensors in plain NCHW, and the engine behind its own layout.
template <class N>
struct layer {
  using engine = cudnn;

  explicit layer(const convolution_problem& problem, int n = 2) : p(problem), samples(n) {
    on_host() = {};
    x = quarters(size(n) * p.in.size(), 1);
    w = quarters(p.weights(), 2);
    dy = quarters(size(n) * p.out().size(), 3);
  }
  [[nodiscard]] std::vector<N> in_memory(const std::vector<double>& plain, const extent& e) const {
    std::vector<N> out;
    for (const double v : support::blocked<double>(plain, e, samples, engine::block<N>(e.channels)))
      out.push_back(narrow<N>(v));
    return out;
  }
  [[nodiscard]] std::vector<N> packed() const {
    std::vector<N> image(engine::packed_size<N>(p), narrow<N>(99));
    const std::vector<float> master(w.begin(), w.end());
    engine::pack<N>(p, master.data(), image.data(), stream);
    return image;
  }
  [[nodiscard]] std::vector<N> fprop() const {
    std::vector<N> y(size(samples) * sample_size(p.out(), engine::block<N>(p.filters)),
                     narrow<N>(99));
    engine::fprop<N>(p, samples, in_memory(x, p.in).data(), packed().data(), y.data(), stream);
    return y;
  }
  [[nodiscard]] std::vector<N> dgrad(into how, std::vector<N> dx) const {
    engine::dgrad<N>(p, samples, in_memory(dy, p.out()).data(), packed().data(), dx.data(), how,
                     stream);
    return dx;
  }
  template <class Real>
  [[nodiscard]] std::vector<Real> wgrad(into how, std::vector<Real> dw) const {
    std::vector<N> workspace(engine::workspace<N>(p, samples, stream), narrow<N>(99));
    engine::wgrad<N>(p, samples, in_memory(x, p.in).data(), in_memory(dy, p.out()).data(),
                     dw.data(), how, workspace.data(), stream);
    return dw;
  }

  convolution_problem p;
  int samples;
  std::vector<double> x, w, dy;
  int unit = 0;
  support::host_cuda_stream stream{{1}, reinterpret_cast<cudaStream_t>(&unit)};
};

template <class N>
bool same(const std::vector<N>& a, const std::vector<N>& b) {
  return std::ranges::equal(a, b, {}, wide_of<N>, wide_of<N>);
}

}  // namespace

TEST_CASE_TEMPLATE("cudnn: every pass of every shape is the definition, rounded once", N, float,
                   half, bfloat) {
  for (const convolution_problem& p : support::many_shapes) {
    if (p.macs() > 200'000) continue;
    CAPTURE(support::to_text(p));
    const layer<N> l(p);
    std::vector<double> y(l.dy.size()), dx(l.x.size()), dw(l.w.size());
    support::each_product(p, l.samples, [&](std::size_t w, std::size_t x, std::size_t at) {
      y[at] += l.w[w] * l.x[x];
      dx[x] += l.w[w] * l.dy[at];
      dw[w] += l.x[x] * l.dy[at];
    });
    // What only fills a pixel is written as zero.
    CHECK(same(l.fprop(), l.in_memory(y, p.out())));
    const std::vector<N> right = l.in_memory(dx, p.in);
    CHECK(same(l.dgrad(into::overwrite, std::vector<N>(right.size(), narrow<N>(99))), right));
    std::vector<float> gradient;
    for (const double v : dw) gradient.push_back(static_cast<float>(wide_of(narrow<N>(v))));
    CHECK(l.wgrad(into::overwrite, std::vector<float>(dw.size(), 99.0f)) == gradient);
  }
}

TEST_CASE_TEMPLATE("cudnn: gradients are added to what is there, once, while engines are tried", N,
                   float, half, bfloat) {
  const convolution_problem p{{5, 6, 7}, 9, 3, 2, 1};
  const layer<N> l(p);
  on_host().engines = {{.index = 1, .milliseconds = 2}, {.index = 2}};
  std::vector<double> dx = quarters(l.x.size(), 4), dw(l.w.size());
  const std::vector<double> before = quarters(l.w.size(), 5);
  const std::vector<N> there = l.in_memory(dx, p.in);
  support::each_product(p, l.samples, [&](std::size_t w, std::size_t x, std::size_t at) {
    dx[x] += l.w[w] * l.dy[at];
    dw[w] += l.x[x] * l.dy[at];
  });
  CHECK(same(l.dgrad(into::add, there), l.in_memory(dx, p.in)));
  CHECK(std::ranges::count(on_host().executed, 1) > 1);
  CHECK(std::ranges::count(on_host().executed, 2) > 1);
  std::vector<double> gradient = before;
  for (std::size_t i = 0; i < dw.size(); ++i) gradient[i] += wide_of(narrow<N>(dw[i]));
  CHECK(l.wgrad(into::add, before) == gradient);  // masters in double: no rounding but N's
}

TEST_CASE("cudnn: of no samples there is nothing to compute, and the weight gradient is zero") {
  const layer<half> l({{5, 6, 7}, 9, 3, 2, 1}, 0);
  CHECK(l.fprop().empty());
  CHECK(l.dgrad(into::overwrite, {}).empty());
  CHECK(l.wgrad(into::overwrite, std::vector<float>(l.w.size(), 99.0f)) ==
        std::vector<float>(l.w.size()));
  CHECK(l.wgrad(into::add, std::vector<float>(l.w.size(), 99.0f)) ==
        std::vector<float>(l.w.size(), 99.0f));
  CHECK(on_host().executed.empty());
}

TEST_CASE("cudnn: the settings are the type's") {
  const layer<float> l({{4, 5, 3}, 4, 3, 1, 1});
  on_host().engines = {{.index = 1, .notes = {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}},
                       {.index = 2, .notes = {CUDNN_NUMERICAL_NOTE_TENSOR_CORE}},
                       {.index = 3}};
  std::vector<float> y(l.dy.size());
  const auto run = [&](auto engine) {
    on_host().executed.clear();
    engine.template fprop<float>(l.p, 2, l.in_memory(l.x, l.p.in).data(), l.packed().data(),
                                 y.data(), l.stream);
    return on_host().executed;
  };
  CHECK(run(cudnn_with<cudnn_settings{.deterministic = true}>{}) == std::vector<int>{3});
  CHECK(run(cudnn_with<cudnn_settings{.deterministic = true, .tf32 = true}>{}) ==
        std::vector<int>{2});
}
