// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One micro-batch, as the function of a custom_model sees it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cordee/core/error.hpp>
#include <cordee/core/function.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/nn/parameter_list.hpp>
#include <cordee/nn/readiness.hpp>

namespace cordee::inline CORDEE_ABI {

/// What a custom_model's function receives for one micro-batch.
template <class Real, class D>
class model_pass {
 public:
  /// Values of tensor k of the list. Training may write those of statistics.
  [[nodiscard]] span_on<Real, D> weights(std::size_t k) const { return of(values_, k); }
  /// Same, by tensor name. @throws usage_error for an unknown name.
  [[nodiscard]] span_on<Real, D> weights(std::string_view name) const {
    return weights(list_->index(name));
  }
  /// Gradient of trainable tensor k, to be added to. @throws usage_error in evaluation, for a
  /// statistic, and for a tensor whose gradient the run does not hold.
  [[nodiscard]] span_on<Real, D> gradient(std::size_t k) const {
    expects(trains() && k < trainable_,
            "custom_model: there are gradients in training alone, of trainable tensors");
    return gradients_.of(list_->segments()[k]);
  }
  /// Same, by tensor name. @throws usage_error also for an unknown name.
  [[nodiscard]] span_on<Real, D> gradient(std::string_view name) const {
    return gradient(list_->index(name));
  }
  /// Declares that the gradient of tensor k is complete and its values are not read again in this
  /// pass, in any order. Without calls, everything is exchanged after the pass. @throws usage_error
  /// for a second call and for a statistic.
  void ready(std::size_t k) {
    expects(trains(), "custom_model: ready() is called in training alone");
    before_ready_(k);
    readiness_->set(k, list_->segments(), *ready_);
  }
  /// Same, by tensor name. @throws usage_error also for an unknown name.
  void ready(std::string_view name) { ready(list_->index(name)); }
  /// Same, for a gradient computed by work submitted to `from`, a stream of your own on a GPU: the
  /// step's stream waits for it, the host does not.
  template <class Tensor>
  void ready(Tensor k, typename D::stream from) {
    device_->await(stream_, device_->record(from));
    ready(k);
  }

  /// Whether gradients are wanted, or only the loss.
  [[nodiscard]] bool trains() const { return ready_ != nullptr; }
  /// Factor of each sample's loss in backward: loss scale x ranks / samples of the update. 1 in
  /// evaluation.
  [[nodiscard]] double loss_weight() const { return loss_weight_; }
  /// What the trainer knows about the micro-batch: count, ranks, seed, position, epoch.
  [[nodiscard]] const batch<D>& update() const { return *batch_; }
  /// Earlier steps of the run, for random numbers that a resumed run repeats.
  [[nodiscard]] std::int64_t step() const { return step_; }
  /// Whether tensor k is frozen (trainer_options::freeze): its gradient is not used.
  [[nodiscard]] bool is_frozen(std::size_t k) const { return !frozen_.empty() && frozen_[k] != 0; }
  /// The stream of the step's work. On a GPU, work submitted to it runs after the previous update
  /// and before the exchange of tensors that are ready(). A stream of your own must first wait for
  /// it; then make it wait for yours, by ready(k, stream) or, in a pass that calls none, by
  /// await().
  [[nodiscard]] typename D::stream stream() const { return stream_; }
  /// The device, whose record() and await() order streams.
  [[nodiscard]] const D& get_device() const { return *device_; }
  /// Sums of the pass in GPU memory, zero at its start: what the function's kernels add to them
  /// counts in addition to what it returns, and is read after the step without a separate wait.
  [[nodiscard]] span_on<metrics, D> sums() const
    requires(!D::host_memory)
  {
    return sums_;
  }

 private:
  template <class Data, class P, class Where>
  friend class custom_model;

  [[nodiscard]] span_on<Real, D> of(span_on<Real, D> plane, std::size_t k) const {
    const segment& s = list_->segments()[k];
    return plane.subspan(s.offset, s.size);
  }

  const parameter_list* list_ = nullptr;
  std::size_t trainable_ = 0;
  span_on<Real, D> values_{};
  detail::device::plane_part<Real, D> gradients_{span_on<Real, D>{}};
  std::function<void(std::size_t)> before_ready_;
  const std::function<void(std::size_t)>* ready_ = nullptr;
  detail::nn::readiness* readiness_ = nullptr;
  std::span<const std::uint8_t> frozen_;
  const batch<D>* batch_ = nullptr;
  std::int64_t step_ = 0;
  double loss_weight_ = 1;
  typename D::stream stream_{};
  const D* device_ = nullptr;
  span_on<metrics, D> sums_{};
};

}  // namespace cordee::inline CORDEE_ABI
