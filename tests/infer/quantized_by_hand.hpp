// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What quantize_network makes of a small network, and the same by the functions that it consists
// of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/infer/quantize_network.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/infer/saved_network.hpp"
#include "tests/support/small_network.hpp"

namespace support {

using small_fp32 = resnet<8, fp32, cpu, small>;
using small_int8 = resnet<8, int8, cpu, small>;

/// The logits of what quantize_network promises, by the functions that it consists of; o.range is
/// given as calibrate takes it.
template <class Run, class... Range>
std::vector<std::int32_t> logits_by_hand(Run& run, const quantize_network_options& o,
                                         const Range&... range) {
  const auto& comm = run.comm();
  small_int8 quantized;
  quantized.quantization.percentile = o.percentile;
  trainer other{quantized, sgd{}, steady, ring{comm}};
  run.with_mean_model([&] {
    for (const segment& to : small_int8::segments())
      for (const segment& from : small_fp32::segments())
        if (from.name == to.name)
          std::copy_n(run.weights().data + from.offset, from.size,
                      other.weights().data + to.offset);
    return 0;
  });
  if (o.equalize_layers) equalize_layers(quantized, other.weights());
  other.adopt_weights();
  auto feed = feed_of(comm);
  const std::vector<calibrated_layer> layers = calibrate(other, feed, 3, range...);
  if (o.correct_bias) correct_bias(other, layers);
  auto net = integer_network::from<small_int8>(other.weights(), feed.normalization(), cpu(),
                                               {.fold_batch_norm = o.fold_batch_norm});
  return logits_of(net);
}

template <class Run>
std::vector<std::int32_t> quantized_logits(Run& run, const quantize_network_options& o) {
  auto feed = feed_of(run.comm());
  integer_network net = quantize_network(run, feed, 3, o);
  return logits_of(net);
}

}  // namespace support
