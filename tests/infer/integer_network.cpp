// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/infer/random_plane.hpp"
#include "tests/infer/refuses_floats.hpp"
#include "tests/support/small_network.hpp"

using namespace cordee;
using namespace support;

namespace {

using net8 = resnet<8, int8, cpu, small>;

std::vector<std::uint8_t> images_of(const synthetic& from) {
  std::vector<std::uint8_t> images(from.size() * from.image().size());
  for (std::size_t i = 0; i < from.size(); ++i)
    from.read(i, std::span(images).subspan(i * from.image().size(), from.image().size()));
  return images;
}
template <class T>
std::size_t largest(const T* x, std::size_t n) {
  return static_cast<std::size_t>(std::max_element(x, x + n) - x);
}

}  // namespace

TEST_CASE(
    "integer_network: trained in int8, it is nearer to simulated inference than that to fp32") {
  net8 net;
  trainer run{net, sgd{.momentum = 0.9}, steady, solo{}};
  auto feed = feed_of(self_comm{});
  run.fit(feed, 8);
  const normalization norm = feed.normalization();
  auto integers = run.with_mean_model(
      [&] { return integer_network::from<net8>(run.weights(), feed.normalization()); });
  CHECK(integers.image() == net8::input);
  const synthetic images{.extent = {1, 16, 16}, .classes = 4, .samples = 1000, .seed = 3};
  const auto bytes = images_of(images);
  std::vector<std::int32_t> logits(images.size() * 4);
  integers.run(bytes, logits);

  const std::vector<std::int32_t> labels(images.size());
  const batch<cpu> all{.pixels = {bytes.data(), bytes.size()},
                       .labels = {labels.data(), labels.size()},
                       .count = static_cast<int>(images.size()),
                       .global_samples = static_cast<int>(images.size()),
                       .normalization = norm};
  const auto s = net.get_device().make_stream();
  net.forward(run.packed_parameters(), run.weights(), all, phase::evaluate, s);
  const std::vector<float> simulated(net.logits().data, net.logits().data + logits.size());
  resnet<8, fp32, cpu, small> full;
  std::vector<float> plane(full.plane_size());
  for (const segment& to : full.segments()) {
    const segment& from = segment_named<net8>(to.name);
    std::copy_n(run.weights().data + from.offset, from.size,
                plane.begin() + static_cast<std::ptrdiff_t>(to.offset));
  }
  auto packed = full.make_packed_parameters();
  full.pack_parameters({plane.data(), plane.size()}, packed, s);
  full.forward(packed, {plane.data(), plane.size()}, all, phase::evaluate, s);

  double to_simulated = 0, to_fp32 = 0;
  std::size_t equal = 0, correct = 0;
  for (std::size_t n = 0; n < images.size(); ++n) {
    equal += largest(&logits[4 * n], 4) == largest(&simulated[4 * n], 4);
    for (std::size_t i = 4 * n; i < 4 * n + 4; ++i) {
      const double z = static_cast<double>(simulated[i]);
      to_simulated += std::pow(logits[i] * integers.logit_step() - z, 2);
      to_fp32 += std::pow(static_cast<double>(full.logits().data[i]) - z, 2);
    }
    std::array<std::uint8_t, 256> pixels{};
    correct += largest(&logits[4 * n], 4) == static_cast<std::size_t>(images.read(n, pixels));
  }
  CHECK(equal >= 999);   // of 1000
  CHECK(correct > 500);  // it has learned: twice the share of chance
  CHECK(to_simulated < to_fp32);
}

TEST_CASE("integer_network: no operation between bytes and logits is a floating-point one") {
  const auto plane = random_plane<net8>(1);
  auto integers = integer_network::from<net8>(plane, {});
  const auto bytes = images_of(data);
  std::vector<std::int32_t> logits(data.size() * 4), expected(logits.size());
  integers.run_reference<refuses_floats>(bytes, logits);
  integers.run(bytes, expected);
  CHECK(logits == expected);
}

TEST_CASE("integer_network: images outside the calibrated range are clipped to it") {
  auto plane = random_plane<net8>(2);
  plane[segment_named<net8>("conv1.input_min").offset] = 0.25F;  // and so 0, which is always in it
  plane[segment_named<net8>("conv1.input_max").offset] = 0.5F;
  auto integers = integer_network::from<net8>(plane, {});  // pixels are 0 .. 1
  const std::size_t size = net8::input.size();
  std::vector<std::uint8_t> images(3 * size);
  const std::array<std::uint8_t, 3> pixels{128, 255, 64};  // two above the range, one within
  for (std::size_t n = 0; n < 3; ++n)
    std::fill_n(images.begin() + static_cast<std::ptrdiff_t>(n * size), size, pixels[n]);
  std::vector<std::int32_t> logits(12);
  integers.run(images, logits);
  const auto of_image = [&](std::size_t n) { return std::span(logits).subspan(4 * n, 4); };
  CHECK(std::ranges::equal(of_image(0), of_image(1)));
  CHECK_FALSE(std::ranges::equal(of_image(0), of_image(2)));
}

TEST_CASE("integer_network: sizes that do not match are refused") {
  auto integers = integer_network::from<net8>(random_plane<net8>(3), {}, cpu(3));
  std::vector<std::uint8_t> images(net8::input.size() + 1);
  std::vector<std::int32_t> logits(4);
  const std::string image = describe(net8::input);
  CHECK_THROWS_WITH_AS(integers.run(images, logits),
                       concat("integer_network: ", images.size(), " bytes are not whole images of ",
                              image, ", ", images.size() - 1, " bytes each")
                           .c_str(),
                       usage_error);
  images.pop_back();
  logits.pop_back();
  const std::string other_logits = "integer_network: 3 logits for 1 of its images, 4 for each";
  CHECK_THROWS_WITH_AS(integers.run(images, logits), other_logits.c_str(), usage_error);
  CHECK_THROWS_WITH_AS(integers.run_reference(images, logits), other_logits.c_str(), usage_error);
  std::vector<std::int32_t> defined(4);
  logits.resize(4);
  integers.run(images, logits);  // the next call is as any other
  integers.run_reference(images, defined);
  CHECK(logits == defined);
  CHECK_THROWS_AS(static_cast<void>(integer_network::from<net8>(std::vector<float>(3), {})),
                  usage_error);
}
