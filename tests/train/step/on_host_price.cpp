// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// On a GPU with little memory: what the error of a batch that does not fit says of on_host, and
// that the batch fits with it.
#include <optional>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/comm/transports/self_comm.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/on_host.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/idle_device.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr resnet_options options{.image = {3, 32, 32}};
using net_type = resnet<20, fp16, idle_device, options, tensor_core>;

/// The error of a step of so many images in so many bytes; empty if they fit. `needed`: what was
/// allocated in the end.
template <class O>
std::string error_of_step(const O& optimizer, int samples, std::size_t bytes,
                          std::size_t* needed = nullptr) {
  const idle_device device(bytes);
  net_type net{device};
  const synthetic images{.extent = options.image, .classes = 10, .samples = 64};
  loader feed{images, self_comm{}, {.global_batch = samples}};
  trainer run{net, optimizer, constant{.learning_rate = 0.1}, solo{}};
  upload<idle_device> uploaded(device);
  const std::string message = error_message([&] {
    const auto batches = uploaded.to(feed.next(), run.compute());
    (void)run.step(batches, 0);
  });
  if (needed != nullptr) *needed = device.count().device_bytes;
  return message;
}

}  // namespace

TEST_CASE("on_host_price: a batch that does not fit fits with on_host, where the error says so") {
  constexpr int samples = 32;
  std::size_t plain = 0, placed = 0;
  CHECK(error_of_step(lamb{}, samples, ~std::size_t{0}, &plain) == "");
  CHECK(error_of_step(on_host{lamb{}}, samples, ~std::size_t{0}, &placed) == "");
  REQUIRE(placed < plain);
  const std::size_t between = (placed + plain) / 2;
  const std::string refused = error_of_step(lamb{}, samples, between);
  CAPTURE(refused);
  CHECK(contains(refused, "with on_host: "));
  CHECK(contains(refused, "bytes of gradients to the host and the weights' back in each step"));
  CHECK(error_of_step(on_host{lamb{}}, samples, between) == "");
  // where it does not fit either, and where the run has it
  const std::string too_small = error_of_step(lamb{}, samples, placed - (plain - placed) / 2);
  CHECK(contains(too_small, "samples per rank fit"));
  CHECK(!contains(too_small, "on_host"));
  const std::string has_it = error_of_step(on_host{lamb{}}, samples, placed - (plain - placed) / 2);
  CHECK(contains(has_it, "samples per rank fit"));
  CHECK(!contains(has_it, "on_host"));
}
