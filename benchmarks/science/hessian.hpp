// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The curvature of a loss: the Hessian's largest eigenvalue by power iteration, on products with it
// that are differences of gradients (Pearlmutter, 1994, names them; Yao et al., 2018, measure large
// batches so).
//
//   H v   = (g(w + h v) - g(w - h v)) / 2h + O(h^2),   |v| = 1
//   v    <- H v / |H v|,   lambda = v . H v     until |H v - lambda v| <= tolerance |lambda|
//
// Power iteration finds the eigenvalue of the largest magnitude; if that is negative, the largest
// one is that of H - lambda I, plus lambda. (That lambda hardly changes ends nothing: it hardly
// does while v is still a random vector.)
//
// The step is small because of ReLU: where an activation changes its sign between w - h v and
// w + h v, the difference has a term that grows as 1 / h. Among the 10^7 activations of 4,096
// images some do at h = 1e-8, where iteration did not end on one of two networks; at 1e-10 it took
// 7 to 23 products, which are those of automatic differentiation then. In fp64 a gradient's
// rounding error, about 1e-15 |g|, is divided by 2h, 2e-10.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/cordee.hpp>

namespace science {

using vector = std::vector<double>;

inline double dot(std::span<const double> x, std::span<const double> y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}
inline double norm(std::span<const double> x) { return std::sqrt(dot(x, x)); }
/// x + a y
inline vector sum_of(std::span<const double> x, double a, std::span<const double> y) {
  vector result(x.begin(), x.end());
  for (std::size_t i = 0; i < x.size(); ++i) result[i] += a * y[i];
  return result;
}

/// Independent standard normal numbers.
inline vector normal_vector(std::size_t n, std::uint64_t seed) {
  cordee::random_sequence random(seed, cordee::purpose::test, 0, 0);
  vector x(n);
  for (double& v : x) v = random.normal();
  return x;
}

struct curvature {
  double eigenvalue = 0;
  int products = 0;
};

/// gradient(w) is a vector of w's size.
template <class Gradient>
curvature largest_eigenvalue(const Gradient& gradient, std::span<const double> w,
                             double tolerance = 1e-2, int most = 100, double step = 1e-10) {
  curvature result;
  const auto iterate = [&](double shift) {  // of H - shift I, plus shift
    vector v = normal_vector(w.size(), 1);
    double eigenvalue = 0;
    for (int k = 0; k < most; ++k) {
      const double length = norm(v);
      if (length == 0) return shift;
      for (double& x : v) x /= length;
      const vector above = gradient(sum_of(w, step, v)), below = gradient(sum_of(w, -step, v));
      vector product(w.size());
      for (std::size_t i = 0; i < w.size(); ++i) product[i] = (above[i] - below[i]) / (2 * step);
      ++result.products;
      eigenvalue = dot(v, product);
      if (norm(sum_of(product, -eigenvalue, v)) <= tolerance * std::abs(eigenvalue)) break;
      v = sum_of(product, -shift, v);
    }
    return eigenvalue;
  };
  result.eigenvalue = iterate(0);
  if (result.eigenvalue < 0) result.eigenvalue = iterate(result.eigenvalue);
  return result;
}

/// The mean loss of a network in fp64 over the first updates of a loader, which is one rank's, and
/// its gradient; batch norm has the statistics of each micro-batch, as in training. Both must
/// outlive it.
template <class Net, class Feed>
class sample_loss {
 public:
  sample_loss(Feed& feed, int updates)
      : feed_(feed), updates_(updates), packed_(net_.make_packed_parameters()) {}

  [[nodiscard]] double loss(std::span<const double> w) { return pass(w, nullptr); }
  [[nodiscard]] vector gradient(std::span<const double> w) {
    vector g(w.size());
    pass(w, &g);
    return g;
  }

 private:
  double pass(std::span<const double> w, vector* g) {
    vector plane(w.begin(), w.end());  // forward writes the running statistics
    net_.pack_parameters({plane.data(), plane.size()}, packed_, {});
    cordee::metrics sum;
    feed_.seek(0);
    for (int k = 0; k < updates_; ++k)
      for (const auto& micro : feed_.next()) {
        net_.forward(packed_, {plane.data(), plane.size()}, micro, cordee::phase::train, {});
        sum += net_.read_metrics({});
        if (g == nullptr) continue;
        net_.backward(packed_, {g->data(), g->size()}, cordee::write_mode::add, [](std::size_t) {},
                      {});
      }
    if (g != nullptr)
      for (double& x : *g) x /= updates_;
    return sum.mean_loss();
  }

  Feed& feed_;
  int updates_;
  Net net_;
  typename Net::packed_parameters packed_;
};

}  // namespace science
