// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Images that are too large for one band or one call; small images are covered by
// ops/convolution.cpp.
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/direct_engines.hpp"
#include "tests/support/further_types.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

template <class R, int Bytes>
struct width_of {
  using real = R;
  static constexpr int bytes = Bytes;
  static constexpr int V = Bytes / static_cast<int>(sizeof(R));
};
#define WIDTHS                     \
  width_of<float, register_bytes>, \
      width_of<double, 16> FURTHER_TYPES(, width_of<float, 16>, width_of<double, register_bytes>)

// Rows of input beyond 256 KiB are a second band, which begins between row 9 and row 50.
const convolution_problem large[] = {
    {{32, 40, 96}, 16, 3, 1, 1},
    {{32, 41, 97}, 16, 3, 2, 1},
    {{16, 60, 160}, 5, 5, 1, 2},
    {{96, 22, 33}, 16, 1, 1, 0},
    {{64, 33, 65}, 17, 1, 2, 0},
    {{3, 70, 500}, 16, 7, 2, 3},
    {{48, 31, 64}, 33, 3, 3, 0},
    // Channels beyond what a band holds are read in parts.
    {{530, 30, 29}, 5, 1, 1, 0},
    {{5, 30, 29}, 530, 1, 1, 0},
    {{170, 20, 41}, 7, 3, 1, 1},
    {{170, 20, 41}, 7, 3, 2, 1},
};

template <class W, class F>
void check_all(const F& compare) {
  for (const convolution_problem& p : large) {
    CAPTURE(describe(p));
    compare(p, harness<direct_on<W::bytes>, typename W::real>{p});
  }
}

}  // namespace

TEST_CASE_TEMPLATE("correlation: an image in several bands is computed like one in one", W,
                   WIDTHS) {
  check_all<W>([](const convolution_problem& p, auto engine) {
    const auto x = random_numbers(p.in.size(), 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(p.out().size(), 3), dx0 = random_numbers(p.in.size(), 4);
    sums<typename W::real> y(dy.size()), dx(x.size());
    for_each_product(p, 1, [&](std::size_t iw, std::size_t ix, std::size_t iy) {
      y.add(iy, w[iw] * x[ix]);
      dx.add(ix, w[iw] * dy[iy]);
    });
    CHECK(y.error_of(engine.fprop(x, w)) == 0);
    CHECK(dx.error_of(engine.dgrad(dy, w)) == 0);
    for (std::size_t i = 0; i < x.size(); ++i) dx.add(i, dx0[i]);
    CHECK(dx.error_of(engine.dgrad(dy, w, dx0)) == 0);
    CHECK(engine.padding == 0);
  });
}

TEST_CASE_TEMPLATE("correlation: samples of one task have the bits of single samples", W, WIDTHS) {
  // Four samples in a task, and one more; their input exceeds the cache, forwards or backward.
  for (const convolution_problem& p : {convolution_problem{{450, 7, 7}, 9, 1, 1, 0},
                                       {{9, 7, 7}, 450, 1, 1, 0},
                                       {{450, 13, 14}, 9, 1, 2, 0},
                                       {{400, 7, 6}, 9, 3, 1, 1}}) {
    CAPTURE(describe(p));
    const std::size_t samples = 5, in = p.in.size(), out = p.out().size();
    const auto x = random_numbers(samples * in, 1), w = random_numbers(p.weights(), 2),
               dy = random_numbers(samples * out, 3);
    harness<direct_on<W::bytes>, typename W::real> all{p, static_cast<int>(samples)}, single{p};
    const auto y = all.fprop(x, w), dx = all.dgrad(dy, w);
    for (std::size_t n = 0; n < samples; ++n) {
      const auto of = [n](const std::vector<double>& v, std::size_t size) {
        const auto from = v.begin() + static_cast<std::ptrdiff_t>(n * size);
        return std::vector<double>(from, from + static_cast<std::ptrdiff_t>(size));
      };
      CHECK(of(y, out) == single.fprop(of(x, in), w));
      CHECK(of(dx, in) == single.dgrad(of(dy, out), w));
    }
  }
}

TEST_CASE_TEMPLATE(
    "correlation: bits do not depend on the number of workers that share samples and filters", W,
    WIDTHS) {
  for (const convolution_problem& p : {convolution_problem{{20, 9, 8}, 70, 1, 1, 0},
                                       {{33, 9, 8}, 70, 3, 1, 1},
                                       {{17, 9, 8}, 70, 3, 2, 1},
                                       {{17, 9, 8}, 33, 1, 2, 0},
                                       {{5, 9, 8}, 3, 3, 1, 1},
                                       {{3, 9, 8}, 40, 7, 2, 3}})
    for (const int samples : {1, 2, 5}) {
      CAPTURE(describe(p));
      CAPTURE(samples);
      const auto n = static_cast<std::size_t>(samples);
      const auto x = random_numbers(n * p.in.size(), 1), w = random_numbers(p.weights(), 2),
                 dy = random_numbers(n * p.out().size(), 3);
      harness<direct_on<W::bytes>, typename W::real> alone{p, samples};
      const auto y = alone.fprop(x, w), dx = alone.dgrad(dy, w), dw = alone.wgrad(x, dy);
      for (const int workers : {2, 3, 5, 8}) {
        CAPTURE(workers);
        const cpu device(workers);
        harness<direct_on<W::bytes>, typename W::real> shared{p, samples, device.make_stream()};
        CHECK(shared.fprop(x, w) == y);
        CHECK(shared.dgrad(dy, w) == dx);
        CHECK(shared.wgrad(x, dy) == dw);
      }
    }
}

TEST_CASE_TEMPLATE("correlation: the packed form of dgrad has the channels of fprop exchanged", W,
                   WIDTHS) {
  using pass = detail::ops::correlation<typename W::real, W::V>;
  const convolution_problem p{{17, 9, 8}, 33, 3, 2, 1};
  const auto forward = pass(p, false).form(), backward = pass(p, true).form();
  CHECK(forward.outputs == 33);
  CHECK(forward.inputs == 17);
  CHECK(backward.outputs == 17);
  CHECK(backward.inputs == 33);
  CHECK(forward.window == 3);
  CHECK(backward.window == 3);
}

TEST_CASE_TEMPLATE("correlation: nothing is written outside its samples", W, WIDTHS) {
  using Real = typename W::real;
  constexpr int V = W::V;
  for (const convolution_problem& p : {convolution_problem{{16, 7, 9}, 16, 3, 1, 1},
                                       {{3, 7, 9}, 3, 3, 1, 1},
                                       {{16, 7, 9}, 17, 3, 2, 1},
                                       {{17, 8, 5}, 2, 1, 2, 0}})
    for (const bool back : {false, true}) {
      CAPTURE(describe(p));
      CAPTURE(back);
      const detail::ops::correlation<Real, V> pass(p, back);
      const extent from = back ? p.out() : p.in, to = back ? p.in : p.out();
      const std::size_t in = sample_size(from, detail::ops::channel_block_size<V>(from.channels)),
                        out = sample_size(to, detail::ops::channel_block_size<V>(to.channels));
      const std::vector<Real> x(3 * in, Real{1}), w(pass.form().size(), Real{1});
      std::vector<Real> y(3 * out, Real{99});
      // The second of three samples.
      pass.run(1, x.data() + in, w.data(), y.data() + out, write_mode::overwrite, {});
      for (std::size_t i = 0; i < out; ++i) {
        CHECK(y[i] == 99);
        CHECK(y[2 * out + i] == 99);
        CHECK(y[out + i] != 99);
      }
    }
}
