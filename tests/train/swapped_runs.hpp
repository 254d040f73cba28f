// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Small runs beside a model of their swap_group, for tests of swapped_trainer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/nn/batch_norm.hpp>
#include <cordee/nn/convolution.hpp>
#include <cordee/nn/linear.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/nn/offload_activations.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/sequential.hpp>
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
#include <cordee/testing/update_laws.hpp>
#include <cordee/train/measure/predict.hpp>
#include <cordee/train/swapped_trainer.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/counted_uploads.hpp"
#include "tests/support/folder.hpp"

namespace support {

using namespace cordee;

inline constexpr extent member_image{1, 4, 4};
template <class L>
using whole_block = L;
template <class L>
using block_elsewhere = offload_weights<offload_activations<L>>;
using member_layers = sequential<convolution<4>, batch_norm<relu>>;
/// A network of five blocks.
template <class D, class P = fp32, template <class> class B = whole_block,
          template <class> class Last = B>
using member_net =
    network<sequential<B<member_layers>, repeat<2, B<member_layers>>,
                       B<sequential<convolution<4>, batch_norm<relu>, global_average_pool>>,
                       Last<linear<4>>>,
            P, D, reference, member_image, 4>;
template <class D, class P = fp32>
using member_net_by_block = member_net<D, P, block_elsewhere, offload_weights>;

inline const synthetic member_images{.extent = member_image, .classes = 4, .samples = 4, .seed = 3};
inline constexpr constant member_rate{.learning_rate = 0.05};
inline constexpr sgd member_optimizer{.momentum = 0.9, .weight_decay = 1e-3};

inline auto make_member_feed() {
  return loader{member_images, self_comm{}, {.global_batch = 2, .seed = 1}};
}

/// A run, and a group for it that has a model of other weights.
template <class D, class Net, class O = sgd>
struct run_and_teacher {
  D device{1};
  Net net{device};
  decltype(make_member_feed()) feed = make_member_feed();
  trainer<Net, O, constant, solo> run;
  swap_group<D> group{device};
  swapped_model<member_net<D>> teacher{group, "teacher", member_net<D>{device}, 7};

  explicit run_and_teacher(const O& optimizer = {}) : run(net, optimizer, member_rate, solo{}) {}
};

/// The loss of a model that is resident meanwhile.
template <class Model, class Stream>
double visit(Model& model, Stream s) {
  auto resident = model.make_resident(s);
  return resident.evaluate(member_images, {}, 4).loss;
}

template <class Run>
auto weights_on_host(Run& run) {
  return detail::testing::on_host_of(run, run.weights());
}

template <class Run>
std::vector<double> predicted_by(Run& run) {
  std::vector<std::uint8_t> pixels(2 * member_image.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  return predict(run, pixels, normalization{});
}

/// Steps with swaps between have the bits of steps without, and so have evaluations and gradients.
template <class D, class Net, class O>
void same_bits_with_swaps(const O& optimizer) {
  run_and_teacher<D, Net, O> left(optimizer), swapped(optimizer);
  swapped_trainer student{swapped.group, "student", swapped.run};
  upload<D> uploads[] = {upload<D>(left.device), upload<D>(swapped.device)};
  const double expected = visit(left.teacher, left.run.compute());
  int visits = 0;
  CHECK(same_updates(left.run, swapped.run, 3, [&](auto& run, int k) {
          const bool swaps = static_cast<void*>(&run) == &swapped.run;
          if (swaps && k > 0) {
            CHECK(visit(swapped.teacher, run.compute()) == expected);
            CHECK(visit(swapped.teacher, run.compute()) == expected);
            CHECK(student.is_out());
            ++visits;
          }
          auto& own = swaps ? swapped : left;
          const auto batches = uploads[swaps ? 1 : 0].to(own.feed.next(), run.compute());
          return std::vector(batches.begin(), batches.end());
        }) == "");
  CHECK(visits == 2);
  visit(swapped.teacher, swapped.run.compute());
  CHECK(left.run.evaluate(member_images, {}, 4).loss ==
        swapped.run.evaluate(member_images, {}, 4).loss);
  CHECK(!student.is_out());
  visit(swapped.teacher, swapped.run.compute());
  CHECK(same_bits(predicted_by(left.run), predicted_by(swapped.run)));
  if constexpr (!requires { swapped.run.host(); }) {
    visit(swapped.teacher, swapped.run.compute());
    CHECK(same_bits(detail::testing::on_host_of(left.run, left.run.grads()),
                    detail::testing::on_host_of(swapped.run, swapped.run.grads())));
  }
}

}  // namespace support
