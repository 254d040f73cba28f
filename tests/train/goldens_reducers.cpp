// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Adasum and gathered codes through the whole trainer,
// against plain loops over all ranks' gradients.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/adasum.hpp>
#include <cordee/comm/reducers/gathered.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/goldens.hpp"

using namespace cordee;
using namespace support;

namespace {

using vector = std::vector<double>;
const std::vector<double> rates{0.1, 0.1, 0.05};

double dot(const vector& a, const vector& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// a (+) b; and of 1, 3 or 4 ranks in the order of the tree.
vector adasum_pair(const vector& a, const vector& b) {
  vector out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    out[i] = (1 - dot(a, b) / (2 * dot(a, a))) * a[i] + (1 - dot(a, b) / (2 * dot(b, b))) * b[i];
  return out;
}
struct adasum_reference {
  vector operator()(std::size_t, const std::vector<vector>& g) {
    if (g.size() == 1) return g[0];
    if (g.size() == 3) return adasum_pair(adasum_pair(g[0], g[1]), g[2]);
    return adasum_pair(adasum_pair(g[0], g[1]), adasum_pair(g[2], g[3]));
  }
};

// The mean of code(x) with error feedback; `owed` of each tensor and rank.
template <class Code>
struct feedback_reference {
  Code code;
  std::array<std::vector<vector>, 4> owed{};

  vector operator()(std::size_t tensor, const std::vector<vector>& g) {
    auto& e = owed[tensor];
    e.resize(g.size(), vector(g[0].size()));
    if (g.size() == 1) return g[0];
    vector mean(g[0].size());
    for (std::size_t r = 0; r < g.size(); ++r) {
      for (std::size_t i = 0; i < mean.size(); ++i) e[r][i] += g[r][i];
      const vector q = code(e[r]);
      for (std::size_t i = 0; i < mean.size(); ++i) {
        e[r][i] -= q[i];
        mean[i] += q[i] / static_cast<double>(g.size());
      }
    }
    return mean;
  }
};
template <class Code>
feedback_reference(Code) -> feedback_reference<Code>;
vector half_of(const vector& x) {  // the larger half, rounded up
  vector magnitudes, out;
  for (const double v : x) magnitudes.push_back(std::abs(v));
  std::ranges::sort(magnitudes, std::greater{});
  for (const double v : x) out.push_back(std::abs(v) >= magnitudes[(x.size() + 1) / 2 - 1] ? v : 0);
  return out;
}
vector signs_of(const vector& x) {
  double mean = 0;
  vector out;
  for (const double v : x) mean += std::abs(v) / static_cast<double>(x.size());
  for (const double v : x) out.push_back(v < 0 ? -mean : mean);
  return out;
}

// Plain steps on T4, whose ranks have shifted centers.
template <class Reduce>
t4_vectors expected(int ranks, Reduce reduce) {
  t4_vectors w;
  for (std::size_t k = 0; k < 4; ++k)
    w.emplace_back(t4_start[k].begin(),
                   t4_start[k].begin() + static_cast<std::ptrdiff_t>(t4_table[k].size));
  for (const double learning_rate : rates)
    for (std::size_t k = 0; k < 4; ++k) {
      std::vector<vector> g(static_cast<std::size_t>(ranks), vector(w[k].size()));
      for (std::size_t r = 0; r < g.size(); ++r)
        for (std::size_t i = 0; i < w[k].size(); ++i) {
          const double shift = 0.25 * (static_cast<double>(r) - 0.5 * (ranks - 1));
          g[r][i] = t4_curvature[k][i] * (w[k][i] - t4_center[k][i] - shift);
        }
      const vector step = reduce(k, g);
      for (std::size_t i = 0; i < w[k].size(); ++i) w[k][i] -= learning_rate * step[i];
    }
  return w;
}

template <class P, class MakeReducer, class Reduce>
void check(const MakeReducer& make, const Reduce& reduce) {
  for (const int ranks : {1, 3, 4})
    for (const std::size_t bucket_bytes : {std::size_t{0}, std::size_t{512}}) {
      CAPTURE(ranks);
      const t4_vectors golden = expected(ranks, reduce);
      for (const t4_vectors& weights : on_ranks(ranks, [&](threads comm) {
             quadratic<P> model{.shift = 0.25 * (comm.rank() - 0.5 * (ranks - 1))};
             trainer run{model,
                         sgd{.momentum = 0},
                         learning_rates(rates),
                         make(comm),
                         {.bucket_bytes = bucket_bytes}};
             for (std::size_t k = 0; k < rates.size(); ++k)
               run.step(std::array{one_each(ranks)}, static_cast<double>(k));
             t4_vectors out;
             for (std::size_t k = 0; k < 4; ++k) out.push_back(numbers(run.weights(), k));
             return out;
           }))
        for (std::size_t k = 0; k < 4; ++k)
          for (std::size_t i = 0; i < golden[k].size(); ++i) {
            CAPTURE(k);
            CHECK(close(weights[k][i], golden[k][i], golden_tolerance<P>));
          }
    }
}

}  // namespace

TEST_CASE_TEMPLATE("trainer: Adasum, tensor by tensor, on 1, 3 and 4 ranks", P, GOLDEN_PRECISIONS) {
  check<P>([](threads comm) { return adasum{comm}; }, adasum_reference{});
}

TEST_CASE("trainer: the largest half, and signs, of each tensor with error feedback") {
  check<fp64>(
      [](threads comm) {
        return gathered{comm, top_k{.fraction = 0.5}};
      },
      feedback_reference{half_of});
  check<fp64>(
      [](threads comm) {
        return gathered{comm, scaled_sign{}};
      },
      feedback_reference{signs_of});
}
