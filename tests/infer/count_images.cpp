// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/infer/count_images.hpp>

using namespace cordee;
using detail::infer::count_images;

namespace {
constexpr extent image{1, 28, 28};
}

TEST_CASE("count_images: whole images with their logits; none are none") {
  for (const std::size_t n : {0u, 1u, 2u, 1000u})
    CHECK(count_images("a network", n * 784, image, n * 10, 10) == n);
}

TEST_CASE("count_images: the error names the image's shape, and what was given") {
  for (const std::size_t pixels : {1u, 392u, 783u, 785u})
    CHECK_THROWS_WITH_AS(
        (void)count_images("a network", pixels, image, 10, 10),
        concat("a network: ", pixels, " bytes are not whole images of 1x28x28, 784 bytes each")
            .c_str(),
        usage_error);
  for (const std::size_t logits : {0u, 19u, 21u, 30u})
    CHECK_THROWS_WITH_AS(
        (void)count_images("a network", 2 * 784, image, logits, 10),
        concat("a network: ", logits, " logits for 2 of its images, 10 for each").c_str(),
        usage_error);
}
