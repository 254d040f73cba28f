// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Runs of networks whose weights or activations are elsewhere (docs/policies/memory.md) go on from
// the checkpoints of runs without these policies, and the other way round; evaluation and `predict`
// are the same.
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/dropout.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/recompute.hpp>
#include <cordee/nn/resnet.hpp>
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
#include <cordee/train/measure/predict.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/deferred.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/printed_by.hpp"

using namespace cordee;
using namespace support;

namespace {

constexpr extent image{1, 4, 4};
constexpr int saved_at = 1, last = 2;

template <bool Recompute, bool Weights, bool Activations>
using net_on_gpu = resnet<8, fp32, deferred,
                          resnet_options{.image = image,
                                         .zero_gamma = false,
                                         .dropout = true,
                                         .recompute = Recompute,
                                         .offload_weights = Weights,
                                         .offload_activations = Activations},
                          reference>;
using plain = net_on_gpu<false, false, false>;

/// On the CPU, with dropout in a block.
template <bool Recompute>
using net_on_cpu = network<
    sequential<detail::nn::block_of<Recompute, sequential<convolution<8>, batch_norm<relu>>>,
               detail::nn::block_of<Recompute, sequential<convolution<8>, batch_norm<relu>,
                                                          global_average_pool, dropout>>,
               linear<10>>,
    fp32, cpu, reference, image, 10>;

/// Trains to the end, or to the step `saved_at` and saves, or from a checkpoint; then weights with
/// running statistics, momenta, the loss of an evaluation, and what `predict` returns.
enum class part { whole, first, second };
template <class Net>
std::vector<float> train(const std::string& runs, part of = part::whole) {
  using D = typename Net::device;
  const D device(1);
  Net net{device};
  net.dropout_rate = 0.3;
  const synthetic images{.extent = image, .classes = 10, .samples = 8, .seed = 3};
  loader feed{images, self_comm{}, {.global_batch = 2, .seed = 5}};
  trainer run{net, sgd{.momentum = 0.9}, constant{.learning_rate = 0.05}, solo{}};
  if (of == part::second) CHECK(run.resume(runs));
  upload<D> uploaded(device);
  for (int k = 0; k < (of == part::first ? saved_at : last); ++k) {
    const auto& batches = feed.next();
    if (k >= run.steps_taken())
      CHECK(run.step(uploaded.to(batches, run.compute()), feed.epoch(k)).applied);
  }
  if (of == part::first) {
    detail::checkpoints::run_folder folder(runs);
    folder.create();
    detail::checkpoints::checkpoint_writer writer;
    writer.save(run, folder, 1, true);
    writer.finish(run.comm());
    return {};
  }
  std::vector<float> all;
  for (const auto& plane : {run.weights(), run.slot(0)}) {
    const auto host = copy_to_host<float, D>(device, plane, run.compute());
    all.insert(all.end(), host.begin(), host.end());
  }
  all.push_back(static_cast<float>(run.evaluate(images, {}, 8).loss));
  std::vector<std::uint8_t> pixels(3 * image.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  for (const auto x : predict(run, pixels, normalization{})) all.push_back(static_cast<float>(x));
  return all;
}

/// From saves, To goes on, without a remark.
template <class From, class To>
void goes_on(const std::vector<float>& whole) {
  const folder files;
  train<From>(files.file("runs"), part::first);
  std::vector<float> resumed;
  CHECK(printed_by([&] { resumed = train<To>(files.file("runs"), part::second); }) == "");
  CHECK(same_bits(resumed, whole));
}
template <class Plain, class... Others>
void go_on() {
  const std::vector<float> whole = train<Plain>("");
  const auto check = [&]<class Net>(std::type_identity<Net>) {
    CHECK(same_bits(train<Net>(""), whole));
    goes_on<Plain, Net>(whole);
    goes_on<Net, Plain>(whole);
  };
  (check(std::type_identity<Others>{}), ...);
}

}  // namespace

TEST_CASE("memory policies: runs go on with or without recompute and its dropout, on the CPU") {
  go_on<net_on_cpu<false>, net_on_cpu<true>>();
}

#if defined(CORDEE_ALL_TESTS)
TEST_CASE("memory policies: runs go on with or without them on a GPU, emulated, to the bit") {
  go_on<plain, net_on_gpu<false, true, true>>();
  go_on<plain, net_on_gpu<true, true, false>>();
}
#endif
