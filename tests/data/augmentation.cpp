// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/augmentation.hpp>
#include <cordee/data/compose.hpp>
#include <cordee/data/cutout.hpp>
#include <cordee/data/horizontal_flip.hpp>
#include <cordee/data/pad_crop_flip.hpp>

#include "tests/support/noise.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Of a user: without a number of its kind. Copies the image.
struct copying {
  bool active() const { return true; }
  void operator()(const extent&, std::span<const std::uint8_t> in, std::span<std::uint8_t> out,
                  random_sequence) const {
    std::copy(in.begin(), in.end(), out.begin());
  }
};
struct without_active {
  void operator()(const extent&, std::span<const std::uint8_t>, std::span<std::uint8_t>,
                  random_sequence) const {}
};

}  // namespace

static_assert(Augmentation<copying>);
static_assert(!Augmentation<without_active>);
static_assert(Augmentation<pad_crop_flip> && Augmentation<horizontal_flip> &&
              Augmentation<cutout> && Augmentation<compose<copying, cutout>>);

TEST_CASE("augmentation: one of a user's own changes nothing of what the library's draw") {
  const extent shape{3, 8, 7};
  const std::vector<std::uint8_t> in = planar(noise(7, 8));
  const auto draws_alike = [&](const auto& augmentation) {
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
      std::vector<std::uint8_t> alone(in.size()), after_own(in.size());
      const random_sequence random(3, purpose::augmentation, 2, sample);
      compose{augmentation}(shape, in, alone, random);
      compose{copying{}, augmentation}(shape, in, after_own, random);
      if (alone != after_own) return false;
    }
    return true;
  };
  CHECK(draws_alike(pad_crop_flip{.pad = 3, .flip = true}));
  CHECK(draws_alike(horizontal_flip{}));
  CHECK(draws_alike(cutout{.size = 3}));
}
