// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/engine.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/testing/swap_laws.hpp>
#include <cordee/train/measure/predict.hpp>
#include <cordee/train/swapped_model.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/counted_uploads.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr resnet_options small{.image = {1, 8, 8}, .zero_gamma = false};
template <class D, int Depth = 8>
using net_of = resnet<Depth, fp32, D, small, reference>;
const synthetic images{.extent = small.image, .classes = 10, .samples = 4, .seed = 3};

template <class D>
D make_device() {
  if constexpr (D::host_memory)
    return D(1);
  else
    return D(1);
}
const auto probabilities = [](auto& resident) {
  std::vector<std::uint8_t> pixels(3 * small.image.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  return predict(resident, pixels, normalization{});
};

}  // namespace

TEST_CASE_TEMPLATE("swapped_model: the laws, of networks of two depths", D, cpu, counted_uploads) {
  const D device = make_device<D>();
  swap_group group{device};
  swapped_model small_one{group, "small", net_of<D, 8>{device}, 1};
  swapped_model large_one{group, "large", net_of<D, 14>{device}, 2};
  CHECK(swap_laws(large_one, small_one, device.make_stream(), probabilities) == "");
  CHECK(group.resident() == "");
}

TEST_CASE_TEMPLATE("swapped_model: a copy of a run's weights is the run's model, to the bit", D,
                   cpu, counted_uploads) {
  const D device = make_device<D>();
  net_of<D> net{device};
  loader feed{images, self_comm{}, {.global_batch = 4}};
  trainer run{net, sgd{}, constant{.learning_rate = 0.1}, solo{}};
  run.fit(feed, 1);
  swap_group group{device};
  swapped_model copy{group, "copy", net_of<D>{device}}, other{group, "other", net_of<D>{device}, 9};
  {
    auto resident = copy.make_resident(run.compute());
    resident.adopt_weights(run.weights());
  }
  {
    auto resident = other.make_resident(run.compute());
    CHECK(resident.evaluate(images, feed.normalization()).loss !=
          run.evaluate(images, feed.normalization()).loss);
  }
  auto resident = copy.make_resident(run.compute());
  CHECK(resident.evaluate(images, feed.normalization(), 5).loss ==
        run.evaluate(images, feed.normalization(), 5).loss);
  CHECK(same_bits(probabilities(resident), probabilities(run)));
}

TEST_CASE("swapped_model: files of weights, and what their data were") {
  const folder at;
  swap_group group{cpu(1)};
  swapped_model one{group, "one", net_of<cpu>{cpu(1)}, 5}, two{group, "two", net_of<cpu>{cpu(1)}};
  const std::string file = at.file("one.safetensors");
  one.make_resident({}).save(file);
  CHECK(two.make_resident({}).load(file).empty());
  auto resident = two.make_resident({});
  const auto read = detail::testing::weights_of(resident);
  CHECK(message_of<usage_error>([&] { (void)one.make_resident({}); }).find("while \"two\" is") !=
        std::string::npos);
  CHECK(read[0] != 0);
}

TEST_CASE("swapped_model: bytes held and moved are as stated, and the device's are freed") {
  const counted_uploads device(1);
  swap_group group{device};
  swapped_model one{group, "one", net_of<counted_uploads>{device}, 1};
  const auto s = device.make_stream();
  const std::size_t before = device.counted().device;
  CHECK(device.counted().pinned == one.swapped_bytes());
  CHECK(one.swapped_bytes() == sizeof(float) * net_of<counted_uploads>::plane_size());
  { (void)probabilities(*std::make_unique<decltype(one.make_resident(s))>(one, s)); }
  CHECK(device.counted().device == before);
  const std::size_t uploaded = device.counted().uploaded;
  const auto resident = one.make_resident(s);
  CHECK(device.counted().uploaded - uploaded == one.swapped_bytes());
  CHECK(device.counted().device - before == one.resident_bytes());
  using detail::core::grouped;
  for (const std::size_t bytes : {one.swapped_bytes(), one.resident_bytes()})
    CHECK(one.describe().find(concat(grouped(bytes), " bytes of")) != std::string::npos);
}

TEST_CASE("swapped_model: no name is refused; a scope that fails leaves its turn") {
  swap_group group{cpu(1)};
  CHECK_THROWS_AS((swapped_model{group, "", net_of<cpu>{cpu(1)}}), usage_error);
  swapped_model one{group, "one", net_of<cpu>{cpu(1)}}, two{group, "two", net_of<cpu>{cpu(1)}};
  CHECK_THROWS_AS(
      [&] {
        const auto resident = one.make_resident({});
        (void)two.make_resident({});
      }(),
      usage_error);
  (void)two.make_resident({});
}
