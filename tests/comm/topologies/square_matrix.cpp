// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <doctest/doctest.h>

#include <cordee/comm/topologies/square_matrix.hpp>

using cordee::detail::comm::spectral_radius;
using cordee::detail::comm::square_matrix;

TEST_CASE("square_matrix: the product of two") {
  const square_matrix a{2, {1, 2, 3, 4}}, b{2, {0, 1, 1, 1}};
  CHECK((a * b).values == std::vector<double>{2, 3, 4, 7});
}

TEST_CASE("square_matrix: the spectral radius, of real, complex and no eigenvalues") {
  CHECK(std::abs(spectral_radius({2, {3, 1, 0, -4}}, false) - 4) < 1e-12);
  CHECK(std::abs(spectral_radius({2, {0, -0.25, 1, 0}}, false) - 0.5) < 1e-12);
  CHECK(spectral_radius({2, {0, 1, 0, 0}}, false) == 0);  // nilpotent
}

TEST_CASE("square_matrix: compared with one, the radius is on the right side") {
  for (const double r : {0.5, 0.999, 1.001, 2.0})
    CHECK((spectral_radius({2, {0, -r * r, 1, 0}}, true) < 1) == (r < 1));
}
