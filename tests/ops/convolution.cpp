// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One suite that every convolution engine passes, in both precisions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/core/random.hpp>
#include <cordee/core/text.hpp>
#include <cordee/ops/convolution_direct.hpp>
#include <cordee/ops/convolution_reference.hpp>
#include <cordee/ops/layout.hpp>

namespace {

using namespace cordee;

template <class E, class R>
struct engine_of {
  using engine = E;
  using real = R;
};
#define CONVOLUTION_ENGINES                                                             \
  engine_of<reference, double>, engine_of<reference, float>, engine_of<direct, double>, \
      engine_of<direct, float>

std::string to_text(const convolution_problem& p) {
  return text(to_text(p.in), " -> ", p.filters, ", window ", p.window, ", stride ", p.stride,
              ", padding ", p.padding);
}

std::size_t size(int n) { return static_cast<std::size_t>(n); }

/// Numbers on [-1, 1) that both precisions hold exactly.
std::vector<double> random_numbers(std::size_t n, std::uint64_t which) {
  random_sequence draw(7, purpose::test, which, 0);
  std::vector<double> v(n);
  for (double& x : v) x = static_cast<float>(2 * draw.uniform() - 1);
  return v;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/// The definition, in NCHW: calls f(index of w, of x, of y) for every product there is.
template <class F>
void each_product(const convolution_problem& p, int samples, const F& f) {
  const extent out = p.out();
  const int window = p.window;
  for (int n = 0; n < samples; ++n)
    for (int k = 0; k < p.filters; ++k)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j)
          for (int c = 0; c < p.in.channels; ++c)
            for (int r = 0; r < window; ++r)
              for (int s = 0; s < window; ++s) {
                const int h = i * p.stride + r - p.padding, l = j * p.stride + s - p.padding;
                if (h < 0 || l < 0 || h >= p.in.height || l >= p.in.width) continue;
                f(size(((k * p.in.channels + c) * window + r) * window + s),
                  size(((n * p.in.channels + c) * p.in.height + h) * p.in.width + l),
                  size(((n * p.filters + k) * out.height + i) * out.width + j));
              }
}

/// NCHW to an engine's layout and back. What only fills a block is `fill`.
template <class Real>
std::vector<Real> blocked(const std::vector<double>& plain, const extent& e, int samples, int block,
                          Real fill = 0) {
  std::vector<Real> v(size(samples) * sample_size(e, block), fill);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const std::size_t pixel = i % e.pixels(), c = i / e.pixels() % size(e.channels);
    v[i / e.size() * sample_size(e, block) + (c / size(block) * e.pixels() + pixel) * size(block) +
      c % size(block)] = static_cast<Real>(plain[i]);
  }
  return v;
}
template <class Real>
std::vector<double> plain(const std::vector<Real>& v, const extent& e, int samples, int block) {
  std::vector<double> out(size(samples) * e.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t pixel = i % e.pixels(), c = i / e.pixels() % size(e.channels);
    out[i] = static_cast<double>(
        v[i / e.size() * sample_size(e, block) +
          (c / size(block) * e.pixels() + pixel) * size(block) + c % size(block)]);
  }
  return out;
}
/// The largest magnitude among the channels that only fill the last block.
template <class Real>
double filling(std::vector<Real> v, const extent& e, int samples, int block) {
  const std::vector<double> real = plain(v, e, samples, block);
  const std::vector<Real> without = blocked<Real>(real, e, samples, block);
  double most = 0;
  for (std::size_t i = 0; i < v.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(v[i] - without[i])));
  return most;
}

/// An engine behind plain vectors in NCHW.
template <class Engine, class Real>
struct harness {
  convolution_problem p;
  int samples = 1;
  cpu::stream stream{};

  int in_block = Engine::template block<Real>(p.in.channels);
  int out_block = Engine::template block<Real>(p.filters);
  double filled = 0;  // magnitude found in channels that must be zero

  std::vector<Real> packed(const std::vector<double>& w) const {
    // Garbage at first: the engine must write everything that it reads.
    std::vector<Real> image(Engine::template packed_size<Real>(p), Real{99});
    const std::vector<Real> master(w.begin(), w.end());
    Engine::template pack<Real>(p, master.data(), image.data(), stream);
    return image;
  }
  std::vector<double> fprop(const std::vector<double>& x, const std::vector<double>& w) {
    const auto in = blocked<Real>(x, p.in, samples, in_block);
    std::vector<Real> out(size(samples) * sample_size(p.out(), out_block), Real{99});
    Engine::template fprop<Real>(p, samples, in.data(), packed(w).data(), out.data(), stream);
    filled = std::max(filled, filling(out, p.out(), samples, out_block));
    return plain(out, p.out(), samples, out_block);
  }
  /// Adds to `before` unless it is empty.
  std::vector<double> dgrad(const std::vector<double>& dy, const std::vector<double>& w,
                            const std::vector<double>& before = {}) {
    const auto in = blocked<Real>(dy, p.out(), samples, out_block);
    std::vector<Real> out(size(samples) * sample_size(p.in, in_block), Real{99});
    if (!before.empty()) out = blocked<Real>(before, p.in, samples, in_block);
    Engine::template dgrad<Real>(p, samples, in.data(), packed(w).data(), out.data(),
                                 before.empty() ? into::overwrite : into::add, stream);
    filled = std::max(filled, filling(out, p.in, samples, in_block));
    return plain(out, p.in, samples, in_block);
  }
  std::vector<double> wgrad(const std::vector<double>& x, const std::vector<double>& dy,
                            const std::vector<double>& before = {}) {
    const auto in = blocked<Real>(x, p.in, samples, in_block);
    const auto errors = blocked<Real>(dy, p.out(), samples, out_block);
    std::vector<Real> out(before.begin(), before.end());
    if (before.empty()) out.assign(p.weights(), Real{99});
    std::vector<Real> memory(Engine::template workspace<Real>(p, samples, stream), Real{99});
    Engine::template wgrad<Real>(p, samples, in.data(), errors.data(), out.data(),
                                 before.empty() ? into::overwrite : into::add, memory.data(),
                                 stream);
    return {out.begin(), out.end()};
  }
};

/// n roundings of partial sums, none of which exceeds m = sum of |products|, leave an error of
/// about sqrt(n) eps m / 2 if they are independent (n eps m / 2 at worst). sqrt(n) eps m is
/// allowed: in fp64 at most 2e-14 of m; in fp32 2e-6 of m at n = 288, where one product is 3e-3 of
/// it.
template <class Real>
struct sums {
  std::vector<double> value, magnitude, terms;

  explicit sums(std::size_t n) : value(n), magnitude(n), terms(n) {}
  void add(std::size_t i, double product) {
    value[i] += product;
    magnitude[i] += std::abs(product);
    terms[i] += 1;
  }
  /// The worst error as a share of what is allowed; a sum without terms must be exact.
  [[nodiscard]] double error_of(const std::vector<double>& found) const {
    REQUIRE(found.size() == value.size());
    double worst = 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const double allowed =
          std::numeric_limits<Real>::epsilon() * magnitude[i] * std::sqrt(terms[i]);
      // Written so that a NaN counts as an error.
      const double off = std::abs(found[i] - value[i]);
      if (!(off <= allowed)) worst = std::max(worst, off > 0 ? off / allowed : 1e300);
    }
    return worst;
  }
};

const convolution_problem many_shapes[] = {
    // the shapes of residual networks
    {{16, 8, 8}, 16, 3, 1, 1},
    {{16, 28, 28}, 16, 3, 1, 1},
    {{32, 7, 7}, 32, 3, 1, 1},
    {{16, 8, 8}, 32, 3, 2, 1},
    {{16, 7, 7}, 32, 3, 2, 1},
    {{32, 9, 5}, 16, 1, 1, 0},
    {{32, 9, 5}, 48, 1, 2, 0},
    {{1, 28, 28}, 16, 3, 1, 1},
    {{3, 8, 8}, 16, 3, 1, 1},
    {{3, 13, 11}, 32, 7, 2, 3},
    // one pixel, few rows, many
    {{1, 1, 1}, 1, 1, 1, 0},
    {{16, 1, 1}, 16, 3, 1, 1},
    {{2, 1, 1}, 17, 3, 2, 1},
    {{5, 5, 7}, 16, 3, 1, 1},
    {{4, 5, 7}, 33, 5, 1, 2},
    {{32, 3, 40}, 16, 3, 1, 1},
    // channels that do not fill a block
    {{5, 9, 5}, 17, 3, 1, 1},
    {{17, 5, 7}, 5, 3, 2, 1},
    {{17, 7, 7}, 3, 1, 1, 0},
    {{3, 7, 7}, 4, 3, 2, 0},
    {{16, 5, 7}, 1, 5, 1, 1},
    {{48, 5, 7}, 48, 3, 1, 1},
    // paddings that are not half a window
    {{16, 9, 5}, 16, 1, 1, 1},
    {{5, 9, 5}, 16, 1, 2, 3},
    {{16, 8, 8}, 16, 3, 1, 0},
    {{16, 8, 8}, 16, 3, 2, 3},
    {{3, 7, 7}, 16, 5, 2, 0},
    {{5, 8, 8}, 5, 7, 1, 3},
    {{1, 9, 5}, 16, 5, 2, 3},
    {{16, 7, 9}, 32, 3, 3, 1},
    {{16, 9, 9}, 16, 2, 3, 0},
    {{16, 7, 7}, 16, 7, 1, 0},
};

}  // namespace

TEST_CASE_TEMPLATE("every engine computes the three sums of the definition", T,
                   CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  for (const convolution_problem& p : many_shapes)
    for (const int samples : {1, 2, 5}) {
      INFO(T::engine::name, " ", sizeof(Real), " bytes, ", to_text(p), ", samples ", samples);
      const std::size_t n = size(samples);
      const auto x = random_numbers(n * p.in.size(), 1), w = random_numbers(p.weights(), 2),
                 dy = random_numbers(n * p.out().size(), 3);
      sums<Real> y(dy.size()), dx(x.size()), dw(w.size());
      each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
        y.add(iy, w[iw] * x[ix]);
        dx.add(ix, w[iw] * dy[iy]);
        dw.add(iw, dy[iy] * x[ix]);
      });
      harness<typename T::engine, Real> engine{p, samples};
      CHECK(y.error_of(engine.fprop(x, w)) == 0);
      CHECK(dx.error_of(engine.dgrad(dy, w)) == 0);
      CHECK(dw.error_of(engine.wgrad(x, dy)) == 0);
      // What only fills a block was zero and is zero.
      CHECK(engine.filled == 0);
      // Adding: what was there counts as one more term.
      const auto dx0 = random_numbers(x.size(), 4), dw0 = random_numbers(w.size(), 5);
      for (std::size_t i = 0; i < x.size(); ++i) dx.add(i, dx0[i]);
      for (std::size_t i = 0; i < w.size(); ++i) dw.add(i, dw0[i]);
      CHECK(dx.error_of(engine.dgrad(dy, w, dx0)) == 0);
      CHECK(dw.error_of(engine.wgrad(x, dy, dw0)) == 0);
      CHECK(engine.filled == 0);
    }
}

TEST_CASE_TEMPLATE("the three directions are one trilinear form, <dy, w * x>", T,
                   CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  for (const convolution_problem& p : many_shapes) {
    INFO(T::engine::name, " ", sizeof(Real), " bytes, ", to_text(p));
    const int samples = 2;
    const auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(2 * p.out().size(), 3);
    harness<typename T::engine, Real> engine{p, samples};
    double magnitude = 0, terms = 0;
    each_product(p, samples, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      magnitude += std::abs(w[iw] * x[ix] * dy[iy]);
      terms += 1;
    });
    const double form = dot(dy, engine.fprop(x, w));
    // The bound of `sums`, for the one long sum that each of these is.
    const double allowed = std::numeric_limits<Real>::epsilon() * magnitude * std::sqrt(terms);
    REQUIRE(allowed < 0.1 * magnitude);
    CHECK(std::abs(dot(engine.dgrad(dy, w), x) - form) <= allowed);
    CHECK(std::abs(dot(engine.wgrad(x, dy), w) - form) <= allowed);
  }
}

TEST_CASE_TEMPLATE("gradients are what finite differences say", T, engine_of<reference, double>,
                   engine_of<direct, double>) {
  // L = <g, y> + |y|^2 / 2 is quadratic in x and in w, so central differences of any length are
  // exact but for rounding.
  for (const convolution_problem& p : {convolution_problem{{5, 6, 7}, 9, 3, 1, 1},
                                       {{16, 7, 7}, 8, 3, 2, 1},
                                       {{3, 9, 8}, 16, 5, 2, 2},
                                       {{8, 5, 4}, 16, 1, 2, 0}}) {
    INFO(T::engine::name, " ", to_text(p));
    harness<typename T::engine, double> engine{p, 2};
    auto x = random_numbers(2 * p.in.size(), 1), w = random_numbers(p.weights(), 2);
    const auto g = random_numbers(2 * p.out().size(), 3);
    const auto loss = [&] {
      const auto y = engine.fprop(x, w);
      return dot(g, y) + dot(y, y) / 2;
    };
    auto dy = engine.fprop(x, w);
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] += g[i];
    const auto slope_along = [&](std::vector<double>& point, const std::vector<double>& direction) {
      const std::vector<double> here = point;
      double difference = 0;
      for (const double sign : {1.0, -1.0}) {
        for (std::size_t i = 0; i < point.size(); ++i) point[i] = here[i] + sign * direction[i] / 8;
        difference += sign * loss();
      }
      point = here;
      return difference * 4;
    };
    const auto along_x = random_numbers(x.size(), 4), along_w = random_numbers(w.size(), 5);
    const double wanted_x = dot(engine.dgrad(dy, w), along_x);
    const double wanted_w = dot(engine.wgrad(x, dy), along_w);
    CHECK(slope_along(x, along_x) == doctest::Approx(wanted_x).epsilon(1e-10));
    CHECK(slope_along(w, along_w) == doctest::Approx(wanted_w).epsilon(1e-10));
  }
}

TEST_CASE_TEMPLATE("the number of workers does not change a bit", T, CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  for (const convolution_problem& p : {convolution_problem{{3, 9, 8}, 16, 3, 1, 1},
                                       {{16, 8, 8}, 48, 3, 1, 1},
                                       {{16, 9, 9}, 17, 3, 2, 1},
                                       {{32, 5, 7}, 32, 1, 2, 0}}) {
    const int samples = 11;  // divisible by no number of workers and by no number of groups
    const auto x = random_numbers(11 * p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(11 * p.out().size(), 3);
    harness<typename T::engine, Real> alone{p, samples};
    const auto y = alone.fprop(x, w), dx = alone.dgrad(dy, w), dw = alone.wgrad(x, dy);
    for (const int workers : {1, 2, 3}) {
      INFO(T::engine::name, " ", to_text(p), ", workers ", workers);
      const cpu device(workers);
      harness<typename T::engine, Real> shared{p, samples, device.open()};
      // Numbers of either precision survive the way to double: equal doubles are equal bits.
      CHECK(shared.fprop(x, w) == y);
      CHECK(shared.dgrad(dy, w) == dx);
      CHECK(shared.wgrad(x, dy) == dw);
    }
  }
}

TEST_CASE_TEMPLATE("a batch of samples is its samples one by one", T, CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  const convolution_problem p{{16, 7, 7}, 32, 3, 1, 1};
  const int samples = 3;
  const auto x = random_numbers(3 * p.in.size(), 1), w = random_numbers(p.weights(), 2);
  harness<typename T::engine, Real> all{p, samples}, one{p, 1};
  const auto y = all.fprop(x, w);
  std::vector<double> single;
  for (std::size_t n = 0; n < 3; ++n) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(n * p.in.size());
    const auto part = one.fprop({begin, begin + static_cast<std::ptrdiff_t>(p.in.size())}, w);
    single.insert(single.end(), part.begin(), part.end());
  }
  CHECK(single == y);
}

TEST_CASE_TEMPLATE("no samples: nothing to write, and a zero weight gradient", T,
                   CONVOLUTION_ENGINES) {
  using Real = typename T::real;
  using Engine = typename T::engine;
  const cpu device(2);
  for (const convolution_problem& p :
       {convolution_problem{{16, 8, 8}, 16, 3, 1, 1}, {{3, 8, 8}, 17, 5, 2, 2}}) {
    const auto w = random_numbers(p.weights(), 1);
    harness<Engine, Real> engine{p, 0, device.open()};
    CHECK(engine.fprop({}, w).empty());
    CHECK(engine.dgrad({}, w).empty());
    CHECK(engine.wgrad({}, {}) == std::vector<double>(p.weights()));
    CHECK(engine.wgrad({}, {}, w) == w);
  }
}

TEST_CASE("a problem counts like the literature") {
  // CIFAR ResNet-20, option A: 40.55e6 multiplications and 269,722 parameters (He et al., 2015), of
  // which the last layer has 640 and 650, and 19 batch norms have 2 x 688.
  std::int64_t macs = 640;
  std::size_t parameters = 650 + 2 * 688;
  const auto count = [&](int times, const convolution_problem& p) {
    macs += times * p.macs();
    parameters += static_cast<std::size_t>(times) * p.weights();
  };
  count(1, {{3, 32, 32}, 16, 3, 1, 1});
  count(6, {{16, 32, 32}, 16, 3, 1, 1});
  count(1, {{16, 32, 32}, 32, 3, 2, 1});
  count(5, {{32, 16, 16}, 32, 3, 1, 1});
  count(1, {{32, 16, 16}, 64, 3, 2, 1});
  count(5, {{64, 8, 8}, 64, 3, 1, 1});
  CHECK(parameters == 269722);
  CHECK(static_cast<double>(macs) == doctest::Approx(40.55e6).epsilon(1e-4));
  CHECK(convolution_problem{{3, 224, 224}, 64, 7, 2, 3}.out() == extent{64, 112, 112});
  CHECK(convolution_problem{{64, 7, 7}, 64, 3, 2, 1}.out() == extent{64, 4, 4});
}
