// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network on an emulated GPU's tensor cores, whose update is on the host or on the GPU.
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/nn/sequential.hpp>
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
#include <cordee/optim/on_host.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/testing/update_laws.hpp>
#include <cordee/train/describe.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent image{1, 6, 6};
using body = sequential<convolution<8>, batch_norm<relu>, convolution<16, 3, 2>>;
using net_type = network<
    sequential<convolution<8>, batch_norm<relu>, residual<body, batch_norm<>, projection<16>>,
               global_average_pool, linear<4>>,
    fp16, deferred, tensor_core, image, 4>;
const synthetic images{.extent = image, .classes = 4, .samples = 16, .seed = 3};

const weight_average optimizer{sgd{.momentum = 0.9, .weight_decay = 1e-3},
                               exponential_average{.decay = 0.5}};

struct outcome {
  std::vector<float> weights, slots;
  std::vector<std::byte> packed;
  std::vector<double> losses;
  double evaluated = 0, scale = 0;
  bool operator==(const outcome&) const = default;
};

/// Of buckets of a tensor each, so that a block's last batch norm writes ahead of its shortcut.
template <class O>
outcome train(const O& o, std::size_t bucket_bytes, const std::string& freeze, int accumulate) {
  const deferred device(7);
  net_type net{device};
  loader feed{images, self_comm{}, {.global_batch = 4, .accumulate = accumulate, .seed = 1}};
  trainer_options options{.bucket_bytes = bucket_bytes};
  options.loss_scaling.initial = 0x1p22;  // the first steps overflow
  if (!freeze.empty()) options.freeze = freeze;
  trainer run{net, o, constant{.learning_rate = 0.1}, solo{}, options};
  upload<deferred> uploaded(device);
  outcome out;
  int applied = 0;
  for (int k = 0; k < 8; ++k) {
    const auto done = run.step(uploaded.to(feed.next(), run.compute()), feed.epoch(k));
    applied += done.applied ? 1 : 0;
    out.scale = done.loss_scale;
    out.losses.push_back(done.train.loss);
  }
  CHECK((applied > 0 && applied < 8));
  out.evaluated = run.evaluate(images, {}, 8).loss;
  out.weights = copy_to_host<float, deferred>(device, run.weights(), run.compute());
  for (int k = 0; k < O::slots; ++k) {
    const auto slot =
        copy_to_host<float, deferred>(device, run.held_slot(k).numbers, run.compute());
    out.slots.insert(out.slots.end(), slot.begin(), slot.end());
  }
  out.packed =
      copy_to_host<std::byte, deferred>(device, run.packed_parameters().span(), run.compute());
  if constexpr (requires { run.host(); }) {
    const std::string text = describe(run, feed, 1);
    CHECK(text.find(run.host().describe()) != text.npos);
    CHECK(text.find("on_host's default") == text.npos);
  }
  return out;
}

}  // namespace

TEST_CASE("on_host: a residual network on tensor cores has the bits of the GPU's own update") {
  for (const auto& [bucket_bytes, accumulate] : {std::pair(1, 1), std::pair(1024, 2)}) {
    CAPTURE(bucket_bytes);
    const auto bytes = static_cast<std::size_t>(bucket_bytes);
    CHECK(train(on_host{optimizer}, bytes, "", accumulate) ==
          train(optimizer, bytes, "", accumulate));
  }
}

TEST_CASE("on_host: a run states the bytes that it would have with it, and has the same updates") {
  const deferred device(7);
  loader feed{images, self_comm{}, {.global_batch = 4}};
  net_type net{device}, other{device};
  const constant rate{.learning_rate = 0.1};
  trainer run{net, optimizer, rate, solo{}};
  trainer placed{other, on_host{optimizer}, rate, solo{}};
  const auto line = [](const char* name, auto& of) {
    const std::size_t bytes = of.plan_memory(4).total();
    return concat(name, " on_host ", detail::core::grouped(bytes), " bytes");
  };
  const auto squeezed = [](const std::string& text) {  // the table's columns
    std::string out;
    for (const char c : text)
      if (c != ' ' || out.empty() || out.back() != ' ') out += c;
    return out;
  };
  CHECK(squeezed(describe(run, feed, 1)).find(line("with", placed)) != std::string::npos);
  CHECK(squeezed(describe(placed, feed, 1)).find(line("without", run)) != std::string::npos);
  upload<deferred> uploaded(device);
  const auto batches = uploaded.to(feed.next(), run.compute());
  device.finish(run.compute());
  CHECK(same_updates(run, placed, 3, [&](auto&, int) { return batches; }) == "");
}

TEST_CASE("on_host: frozen layers keep their bits, and have no slots") {
  std::string freeze;
  for (const segment& s : net_type::segments().first(4))
    freeze += std::string(freeze.empty() ? "" : ", ") + std::string(s.name);
  const sgd plain{.momentum = 0.9};
  const auto host = train(on_host{plain}, 1024, freeze, 2);
  CHECK(host == train(plain, 1024, freeze, 2));
  CHECK(host.slots.size() < host.weights.size());
}
