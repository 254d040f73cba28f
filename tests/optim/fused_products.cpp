// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// How far an update by a compiler that fuses products and sums, as a GPU's does, may be from the
// host's: the tolerance of docs/policies/memory.md, "Bits", for optimizers without norms.
#include <array>
#include <cmath>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/adam.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/rmsprop.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/rounding_numbers.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr std::size_t count = 320;
constexpr std::array<segment, 2> table{segment{"weight", kind::weight, 0, 200},
                                       segment{"bias", kind::bias, 256, 64}};

/// Weights and slots after some steps by `D`, with the same gradients for all.
template <class D, class O>
std::vector<std::vector<float>> planes_of(const O& optimizer, int steps, float size,
                                          const typename D::stream& s) {
  std::vector<std::vector<float>> planes(O::slots + 2, std::vector<float>(count));  // gradient last
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (float& w : planes[0]) w = normal(random);
  optimizer_view<float, D, O::slots> v{
      {planes[0].data(), count}, {planes.back().data(), count}, {}, table};
  for (int k = 0; k < O::slots; ++k)
    v.slots[static_cast<std::size_t>(k)] = {planes[static_cast<std::size_t>(k) + 1].data(), count};
  v.finite = true;
  cordee::detail::optim::initialize_slots(optimizer, v, s);
  step_info info;
  info.learning_rate = 0.1;
  v.info = {&info, 1};
  for (int k = 0; k < steps; ++k) {
    for (float& g : planes.back()) g = size * std::exp(2 * normal(random)) * normal(random);
    if constexpr (requires { s.distances; })
      if (s.distances != nullptr)
        for (float& g : planes.back()) (*s.distances)[&g] = 0;
    optimizer.accept(v, info, s);
    ++info.step, ++info.applied, info.previous_learning_rate = info.learning_rate;
  }
  planes.pop_back();
  return planes;
}

struct comparison {
  std::size_t different = 0;
  double largest_share = 0;  // of the tolerance
};

template <class O>
comparison compare(const O& optimizer, int steps, float size) {
  const auto host = planes_of<cpu>(optimizer, steps, size, cpu(1).make_stream());
  const auto fusing = planes_of<rounding_device<fused>>(optimizer, steps, size, {});
  std::map<const float*, double> distances;
  const auto tolerance =
      planes_of<rounding_device<bounded>>(optimizer, steps, size, {{}, &distances});
  comparison result;
  for (std::size_t p = 0; p < host.size(); ++p)
    for (const segment& segment : table)
      for (std::size_t i = segment.offset; i < segment.end(); ++i) {
        const double distance = std::abs(static_cast<double>(host[p][i]) - fusing[p][i]),
                     allowed = distances[&tolerance[p][i]] * 1.0001;  // terms of u^2
        CAPTURE(p);
        CAPTURE(i);
        CHECK(distance <= allowed);
        if (distance > 0) {
          ++result.different;
          result.largest_share = std::max(result.largest_share, distance / allowed);
        }
      }
  return result;
}

}  // namespace

TEST_CASE("fused products: an update stays within the tolerance of the other roundings") {
  const auto check = [](const std::string& name, const auto& optimizer) {
    for (const int steps : {1, 2, 8})
      for (const float size : {1e-3F, 1.0F}) {
        CAPTURE(name);
        CAPTURE(steps);
        CAPTURE(size);
        const comparison found = compare(optimizer, steps, size);
        CHECK(found.different > (steps == 1 ? 0 : 50));  // else nothing was fused
        CHECK(found.largest_share > 0.02);               // else the tolerance says little
      }
  };
  check("sgd", sgd{.momentum = 0.9, .weight_decay = 0.01});
  check("sgd, Nesterov", sgd{.momentum = 0.9, .weight_decay = 0.01, .nesterov = true});
  check("velocity_sgd", velocity_sgd{.momentum = 0.9, .weight_decay = 0.01});
  check("adam", adam{.weight_decay = 0.01});
  check("adamw", adamw{.weight_decay = 0.1});
  check("adan", adan{.weight_decay = 0.1});
  check("rmsprop", rmsprop{.momentum = 0.9});
  check("schedule_free_adamw", schedule_free_adamw{.weight_decay = 0.1});
}
