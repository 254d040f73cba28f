// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Post-training quantization in one call: a trainer's network in floats, and images to calibrate
// on, become an integer network.
//
//   auto net = quantize_network(run, feed, 8);                            // of min and max
//   auto net = quantize_network(run, feed, 8, mean_squared_error_range{});
//
// It is calibrate (train/calibrate.hpp) of a copy in int8, then integer_network::from; the
// trainer's network stays as it is. Trainer and loader are those of training: the mean model of all
// ranks is calibrated on batches of all ranks, and every rank gets the same network.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <type_traits>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/network.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/engines/direct/engine.hpp>
#include <cordee/precision/int8.hpp>
#include <cordee/train/calibrate.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::infer {

template <class Root, Precision P, class D, class Engine, extent Input, int Classes, class L>
network<Root, int8, cpu, typename engine_for<cpu, int8>::type, Input, Classes, L> in_int8(
    const network<Root, P, D, Engine, Input, Classes, L>*);
/// The network of N's layers in int8.
template <class N>
using int8_of = decltype(in_int8(static_cast<const N*>(nullptr)));

/// A copy in int8 of a trainer's network, the form that calibrate takes.
template <class Run>
class int8_copy {
 public:
  using model_type = int8_of<typename Run::model_type>;
  using device = cpu;
  using Real = float;

  explicit int8_copy(Run& run)
      : run_(run),
        model_(run.model().get_device()),
        packed_(model_.make_packed_parameters()),
        plane_(model_.get_device(), model_type::plane_size()) {
    std::fill_n(weights().data, weights().size, 0.0F);
    const auto trained = run.weights();
    for (const segment& to : model_type::segments())
      for (const segment& from : run.segments())
        if (from.name == to.name) {
          expect_finite(from.name, {trained.data + from.offset, from.size});
          std::copy_n(trained.data + from.offset, from.size, weights().data + to.offset);
        }
    model_.pack_parameters(weights(), packed_, compute());
  }

  [[nodiscard]] model_type& model() { return model_; }
  [[nodiscard]] auto weights() { return plane_.span(); }
  [[nodiscard]] auto& packed_parameters() { return packed_; }
  [[nodiscard]] auto compute() const { return run_.compute(); }
  [[nodiscard]] const auto& comm() const { return run_.comm(); }
  template <class F>
  auto abort_peers_on_throw(const F& f) {
    return run_.abort_peers_on_throw(f);
  }

 private:
  static void expect_finite(std::string_view name, std::span<const float> numbers) {
    for (const float x : numbers)
      if (!std::isfinite(x))
        throw error(concat("quantize_network: \"", name, "\" has a number that is ", x,
                           ": the training has failed, load earlier weights"));
  }

  Run& run_;
  model_type model_;
  typename model_type::packed_parameters packed_;
  buffer<float, cpu> plane_;
};

}  // namespace detail::infer

/// Throws error that names the tensor or the layer if a weight, a statistic or a range is not
/// finite. Collective.
template <class Run, detail::train::Feed F, class R = detail::train::range_of_options>
[[nodiscard]] integer_network quantize_network(Run& run, F& feed, int batches, const R& choice = {},
                                               integer_network_options options = {}) {
  using M = typename Run::model_type;
  static_assert(!Quantized<typename M::precision>,
                "quantize_network takes a network in floats: one in int8 has ranges, so calibrate "
                "it if it was not trained in int8, and call integer_network::from");
  static_assert(
      std::is_same_v<typename M::device, cpu> &&
          std::is_same_v<typename M::precision::master, float>,
      "quantize_network reads float weights in the host's memory: save those of a GPU, or "
      "of fp64, and load them into a network of fp32 on the CPU");
  return run.with_mean_model([&] {
    detail::infer::int8_copy<Run> copy(run);
    calibrate(copy, feed, batches, choice);
    return integer_network::from<typename detail::infer::int8_copy<Run>::model_type>(
        {copy.weights().data, copy.weights().size}, feed.normalization(), run.model().get_device(),
        options);
  });
}

}  // namespace cordee::inline CORDEE_ABI
