// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One micro-batch, as the function of a custom_model sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/function.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/parameter_list.hpp>
#include <cordee/nn/readiness.hpp>
#include <cordee/ops/loss.hpp>

namespace cordee::inline CORDEE_ABI {

/// What a custom_model's function receives for one micro-batch.
template <class Real, class D>
class model_pass {
 public:
  /// Values of tensor k of the list. Training may write those of statistics.
  [[nodiscard]] span_on<Real, D> weights(std::size_t k) const {
    const segment& s = list_.segments()[k];
    return running_.values.subspan(s.offset, s.size);
  }
  /// Same, by tensor name. @throws usage_error for an unknown name.
  [[nodiscard]] span_on<Real, D> weights(std::string_view name) const {
    return weights(list_.index(name));
  }
  /// Gradient of trainable tensor k, to be added to. @throws usage_error in evaluation, for a
  /// statistic, and for a tensor whose gradient the run does not hold.
  [[nodiscard]] span_on<Real, D> gradient(std::size_t k) const {
    expects(trains() && k < readiness_.count(),
            "custom_model: there are gradients in training alone, of trainable tensors");
    return running_.gradients.of(list_.segments()[k]);
  }
  /// Same, by tensor name. @throws usage_error also for an unknown name.
  [[nodiscard]] span_on<Real, D> gradient(std::string_view name) const {
    return gradient(list_.index(name));
  }
  /// Declares that the gradient of tensor k is complete and its values are not read again in this
  /// pass, in any order. Without calls, everything is exchanged after the pass. @throws usage_error
  /// for a second call and for a statistic.
  void ready(std::size_t k) {
    expects(trains(), "custom_model: ready() is called in training alone");
    running_.before_ready(k);
    readiness_.set(k, list_.segments(), *running_.ready);
  }
  /// Same, by tensor name. @throws usage_error also for an unknown name.
  void ready(std::string_view name) { ready(list_.index(name)); }
  /// Same, for a gradient computed by work submitted to `from`, a stream of your own on a GPU: the
  /// step's stream waits for it, the host does not.
  template <class Tensor>
  void ready(Tensor k, typename D::stream from) {
    device_.await(running_.stream, device_.record(from));
    ready(k);
  }
  /// Whether ready(k) was called in this pass.
  [[nodiscard]] bool is_ready(std::size_t k) const { return readiness_.is_set(k); }

  /// Whether gradients are wanted, or only the loss.
  [[nodiscard]] bool trains() const { return running_.ready != nullptr; }
  /// Factor of each sample's loss in backward: loss scale x ranks / samples of the update. 1 in
  /// evaluation.
  [[nodiscard]] double loss_weight() const { return running_.loss_weight; }
  /// What the trainer knows about the micro-batch: count, ranks, seed, position, epoch.
  [[nodiscard]] const batch<D>& update() const { return running_.update; }
  /// Earlier steps of the run, for random numbers that a resumed run repeats.
  [[nodiscard]] std::int64_t step() const { return running_.step; }
  /// Whether tensor k is frozen (trainer_options::freeze): its gradient is not used.
  [[nodiscard]] bool is_frozen(std::size_t k) const { return !frozen_.empty() && frozen_[k] != 0; }
  /// The stream of the step's work. On a GPU, work submitted to it runs after the previous update
  /// and before the exchange of tensors that are ready(). A stream of your own must first wait for
  /// it; then make it wait for yours, by ready(k, stream) or, in a pass that calls none, by
  /// await().
  [[nodiscard]] typename D::stream stream() const { return running_.stream; }
  /// The device, whose record() and await() order streams.
  [[nodiscard]] const D& get_device() const { return device_; }
  /// Sums of the pass in the device's memory, zero at its start: what the function's kernels add to
  /// them counts in addition to what it returns, and is read after the step without a separate
  /// wait.
  [[nodiscard]] span_on<metrics, D> sums() const { return {sums_.span().data, 1}; }

 private:
  template <class Data, class P, class Where>
  friend class custom_model;
  struct host_sums {
    detail::ops::metric_sums sums{};
    host_sums(const D&, std::size_t) {}
    [[nodiscard]] span_on<detail::ops::metric_sums, D> span() { return {&sums, 1}; }
  };

  model_pass(parameter_list list, const D& device)
      : list_(std::move(list)), device_(device), sums_(device, 1) {}

  parameter_list list_;
  D device_;
  mutable std::conditional_t<D::host_memory, host_sums, buffer<detail::ops::metric_sums, D>> sums_;
  std::vector<std::uint8_t> frozen_;
  detail::nn::readiness readiness_;
  // State of the running pass, an evaluation until backward begins.
  struct {
    span_on<Real, D> values{};
    batch<D> update{};
    std::int64_t step = 0;
    typename D::stream stream{};
    double loss_weight = 1;
    detail::device::plane_part<Real, D> gradients{span_on<Real, D>{}};
    std::function<void(std::size_t)> before_ready{};
    const std::function<void(std::size_t)>* ready = nullptr;
  } running_;
};

}  // namespace cordee::inline CORDEE_ABI
