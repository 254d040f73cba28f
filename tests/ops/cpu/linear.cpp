// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/cpu/linear.hpp>
#include <cordee/testing/gradient.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

struct fixture {
  linear_problem p;
  int samples;
  std::vector<double> x, w, b, y, weight;

  fixture(linear_problem problem, int n)
      : p(problem),
        samples(n),
        x(normal_numbers(static_cast<std::size_t>(n) * p.stride, 1)),
        w(normal_numbers(p.features * p.outputs, 2)),
        b(normal_numbers(p.outputs, 3)),
        y(static_cast<std::size_t>(n) * p.outputs),
        weight(normal_numbers(y.size(), 4)) {
    for (std::size_t i = 0; i < x.size(); ++i)
      if (i % p.stride >= p.features) x[i] = 0;
  }
  double loss(cpu::stream s = {}) {
    linear_forward(p, samples, x.data(), w.data(), b.data(), y.data(), s);
    return std::inner_product(y.begin(), y.end(), weight.begin(), 0.0);
  }
};

}  // namespace

TEST_CASE("linear: y is x W^T + b, for widths around a register's") {
  for (const std::size_t features : {1u, 7u, 8u, 9u, 16u, 17u, 64u})
    for (const int samples : {0, 1, 5}) {
      fixture f({features, 3, features + 2}, samples);
      f.loss();
      for (std::size_t n = 0; n < static_cast<std::size_t>(samples); ++n)
        for (std::size_t k = 0; k < 3; ++k) {
          double expected = f.b[k];
          for (std::size_t i = 0; i < features; ++i)
            expected += f.x[n * f.p.stride + i] * f.w[k * features + i];
          CHECK(f.y[n * 3 + k] == doctest::Approx(expected).epsilon(1e-12));
        }
    }
}

TEST_CASE("linear: all gradients are derivatives of the forward pass, that of padding is zero") {
  fixture f({19, 4, 24}, 3);
  std::vector<double> dx(f.x.size(), 7), dw(f.w.size(), 7), db(f.b.size(), 7);
  linear_input_gradient(f.p, 3, f.weight.data(), f.w.data(), dx.data(), {});
  linear_weight_gradient(f.p, 3, f.x.data(), f.weight.data(), dw.data(), db.data(),
                         write_mode::overwrite, {});
  const auto check = [&](std::span<double> point, std::span<const double> gradient) {
    // The loss is linear in each operand, so a difference quotient has no error but rounding, which
    // is least in a long step.
    const gradient_report report = check_gradient(
        point, gradient, [&] { return f.loss(); }, 1, 1.0);
    CHECK_MESSAGE(report.max_error < 1e-8, report.describe());
  };
  check(f.x, dx);
  check(f.w, dw);
  check(f.b, db);
  for (std::size_t i = 0; i < dx.size(); ++i)
    if (i % 24 >= 19) CHECK(dx[i] == 0);
}

TEST_CASE("linear: add accumulates, overwrite with no samples leaves zeros") {
  fixture f({9, 4, 9}, 3);
  std::vector<double> dw(f.w.size(), 7), db(f.b.size(), 7);
  linear_weight_gradient(f.p, 3, f.x.data(), f.weight.data(), dw.data(), db.data(),
                         write_mode::overwrite, {});
  auto twice = dw;
  auto twice_b = db;
  linear_weight_gradient(f.p, 3, f.x.data(), f.weight.data(), twice.data(), twice_b.data(),
                         write_mode::add, {});
  for (std::size_t i = 0; i < dw.size(); ++i)
    CHECK(twice[i] == doctest::Approx(2 * dw[i]).epsilon(1e-12));
  for (std::size_t i = 0; i < db.size(); ++i)
    CHECK(twice_b[i] == doctest::Approx(2 * db[i]).epsilon(1e-12));
  linear_weight_gradient<double>(f.p, 0, nullptr, nullptr, dw.data(), db.data(),
                                 write_mode::overwrite, {});
  CHECK(dw == std::vector<double>(dw.size(), 0));
  CHECK(db == std::vector<double>(db.size(), 0));
}

TEST_CASE("linear: results do not depend on the number of workers") {
  std::vector<double> y, dw_one;
  for (const int workers : {1, 2, 3}) {
    const cpu device(workers);
    fixture f({33, 10, 48}, 7);
    f.loss(device.make_stream());
    std::vector<double> dw(f.w.size()), db(f.b.size());
    linear_weight_gradient(f.p, 7, f.x.data(), f.weight.data(), dw.data(), db.data(),
                           write_mode::overwrite, device.make_stream());
    if (workers == 1) {
      y = f.y;
      dw_one = dw;
    }
    CHECK(y == f.y);
    CHECK(dw_one == dw);
  }
}
