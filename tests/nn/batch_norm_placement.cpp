// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/batch_norm_placement.hpp>

#include "tests/nn/layer_fixture.hpp"

using namespace cordee;
using namespace cordee::detail::nn;

TEST_CASE("batch_norm_placement: evaluation reads each parameter and statistic where it is") {
  constexpr extent image{3, 2, 4};
  layer_fixture<batch_norm<>, image> fixture(2);
  fixture.pack_parameters();
  const auto y = fixture.forward(phase::evaluate);
  for (std::size_t k = 0; k < fixture.segments().size(); ++k)
    for (double& number : fixture.of(k)) {
      const double before = std::exchange(number, number + 1);
      fixture.pack_parameters();
      CHECK(fixture.forward(phase::evaluate) != y);
      number = before;
    }
  fixture.pack_parameters();
  CHECK(fixture.forward(phase::evaluate) == y);
}
