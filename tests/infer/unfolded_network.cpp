// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integer networks whose batch norms are not folded.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/integer_network.hpp>

#include "tests/infer/refused_program.hpp"
#include "tests/infer/refuses_floats.hpp"

using namespace cordee;
using namespace support;

namespace {

template <class N>
integer_network made_of(const std::vector<float>& plane, bool fold) {
  return integer_network::from<N>(plane, {{0.4F, 0.5F, 0.3F, 0}, {4, 3, 5, 1}}, cpu(),
                                  {.fold_batch_norm = fold});
}
using projected = random_resnet<
    resnet_options{.image = {3, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false},
    14>;

std::vector<std::uint8_t> random_images(const integer_network& net, std::size_t samples) {
  std::vector<std::uint8_t> images(samples * net.image().size());
  random_sequence draw(9, purpose::test, 0, 0);
  for (auto& pixel : images) pixel = static_cast<std::uint8_t>(draw.below(256));
  return images;
}

/// Runs, saves, loads; the logits are near to those of folded batch norms.
template <class N>
void check_network(const std::vector<float>& plane) {
  integer_network net = made_of<N>(plane, false), folded = made_of<N>(plane, true);
  CHECK(net.program().has_batch_norm());
  CHECK_FALSE(folded.program().has_batch_norm());
  constexpr std::size_t samples = 3;
  const auto logits = logits_of(net, samples), of_folded = logits_of(folded, samples);
  std::vector<std::int32_t> defined(logits.size());
  net.run_reference<refuses_floats>(random_images(net, samples), defined);
  CHECK(logits == defined);
  double largest = 0, difference = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    largest = std::max(largest, std::abs(of_folded[i] * folded.logit_step()));
    difference = std::max(
        difference, std::abs(logits[i] * net.logit_step() - of_folded[i] * folded.logit_step()));
  }
  CHECK(difference < 0.05 * largest);

  const folder f;
  net.save(f.file("net"));
  auto any = integer_network::load(f.file("net")), same = integer_network::load<N>(f.file("net"));
  CHECK(logits_of(any, samples) == logits);
  CHECK(logits_of(same, samples) == logits);
  any.save(f.file("again"));
  CHECK(f.get("again") == f.get("net"));
}

}  // namespace

TEST_CASE("unfolded networks: the definitions' integers, without floats, near to folded ones") {
  check_network<cifar_form>(random_plane<cifar_form>(1));
  check_network<projected>(random_plane<projected>(2));
  check_network<imagenet_form>(random_plane<imagenet_form>(3));
}

TEST_CASE(
    "unfolded networks: a batch norm beyond 32-bit activations, of which a shortcut is taken") {
  auto plane = random_plane<projected>(4);
  // A sum of about 800 steps of bytes and one of -400, where 512 steps are the largest activation.
  plane[segment_named<projected>("layer3.0.conv1.input_max").offset] = 0.3F;
  const segment& taken = segment_named<projected>("layer2.0.downsample.1.bias");
  for (std::size_t i = 0; i < taken.size; ++i) plane[taken.offset + i] = -0.5F;
  check_network<projected>(plane);
}

TEST_CASE("unfolded networks: a file of another form is refused") {
  const folder f;
  random_integers<cifar_form>(1, {.fold_batch_norm = false}).save(f.file("net"));
  CHECK(message_of<error>([&] {
          static_cast<void>(integer_network::load<random_resnet<tiny_image, 14>>(f.file("net")));
        }).find("a file of another network") != std::string::npos);
}
