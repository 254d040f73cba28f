// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A trainer as a member of a swap_group: a teacher, or a copy of its weights, has the device's
// memory between its steps.
//
//   swap_group group{device};
//   swapped_model teacher{group, "teacher", resnet<50, fp16, gpu>{device}};
//   swapped_trainer student{group, "student", run};
//   run.fit(feed, 1);
//   {
//     auto resident = teacher.make_resident(run.compute());  // the run's planes -> host
//     resident.evaluate(images, normalization);
//   }
//   run.fit(feed, 2);                                        // planes -> device, weights packed
//
// A swap copies the arena as it is, so no bit changes: weights, running statistics, gradients and
// slots. Packed weights and activations are freed, and made again. Until the run is used again it
// stays in the host's memory, so that several models may be resident in turn for one swap.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/train/step/residence.hpp>
#include <cordee/train/swapped_model.hpp>

namespace cordee::inline CORDEE_ABI {

/// A trainer `Run` that leaves the device when another model of the group becomes resident, and
/// returns when it is used: a step, an evaluation, a file, its weights. That is a usage_error,
/// which names both models, while the other one is resident. Spans of its planes end with a swap.
/// Not collective: each rank has a group of its own.
template <class Run>
class swapped_trainer {
  using M = typename Run::model_type;
  using packed_parameters = typename M::packed_parameters;
  static_assert(!detail::nn::LooksAhead<M>,
                "swapped_trainer: this model works on the next batch beside the step, with weights "
                "that would leave: use a model without look_ahead");

 public:
  using device = typename Run::device;  ///< Where the run computes.
  using Real = typename Run::Real;      ///< Number of its planes.

  /// The run, on the device, is a member of the group; another run of it leaves. Both arguments
  /// outlive this object. @throws usage_error without a name, with trainer_options::capture_graphs
  /// on a GPU, for a run that has a swapped_trainer already, and while another model is resident.
  [[gnu::cold]] swapped_trainer(swap_group<device>& group, std::string name, Run& run)
      : group_(group), name_(std::move(name)), run_(run) {
    expects(!name_.empty(), "swapped_trainer: give the run a name for messages");
    expects(device::host_memory || !run.options().capture_graphs,
            "swapped_trainer: captured steps access memory where it was at their capture, and a "
            "swap moves it: leave .capture_graphs out");
    expects(!residence().is_swapped(), "swapped_trainer: the run has one already");
    for_memory([&](auto& memory) { kept_.emplace_back(run_device(), memory.size()); });
    group_.residency_.acquire(name_, {this, evict});
    residence().is_swapped() = true;
  }
  swapped_trainer(const swapped_trainer&) = delete;
  swapped_trainer& operator=(const swapped_trainer&) = delete;
  /// The run returns to the device; where another model is resident, or memory is missing, it
  /// cannot be used any more.
  [[gnu::cold]] ~swapped_trainer() {
    try {
      if (is_out_) make_resident();
    } catch (...) {
      residence().set_elsewhere(&lost);
    }
    group_.residency_.release(this);
    residence().is_swapped() = false;
  }

  [[nodiscard]] const std::string& name() const { return name_; }  ///< As given.
  /// Whether the run is out of the device.
  [[nodiscard]] bool is_out() const { return is_out_; }
  /// Master weights in the host's memory. @throws usage_error unless the run is out of the device.
  [[nodiscard]] std::span<const Real> weights() const {
    expects(is_out_, "swapped_trainer: the weights are on the device: they are run.weights()");
    const std::size_t size = arena<Real, device>::size_of_plane(run_.segments());
    if constexpr (moves)
      return std::span<const Real>(kept_[0].span()).first(size);
    else
      return {planes().arena_memory().span().data, size};
  }
  /// Bytes that a swap copies from a GPU to page-locked memory, and back.
  [[nodiscard]] std::size_t swapped_bytes() const {
    std::size_t numbers = 0;
    if constexpr (moves)
      for (const auto& plane : kept_) numbers += plane.span().size();
    return numbers * sizeof(Real);
  }
  /// Bytes that a swap frees beside activations: those, and of packed weights.
  [[nodiscard]] std::size_t resident_bytes() const {
    std::size_t packed = 0;
    if constexpr (frees_packed && requires(const M& m) { m.packed_bytes(); })
      packed = run_.model_.packed_bytes();
    return swapped_bytes() + packed;
  }
  /// One line for logs: what is held, and what a swap moves.
  [[nodiscard]] std::string describe() const {
    using detail::core::grouped;
    if constexpr (!moves)
      return concat("\"", name_, "\": its planes stay in the host's memory; a swap frees ",
                    grouped(resident_bytes()),
                    " bytes of packed weights, and the activations; it copies nothing");
    else
      return concat("\"", name_, "\": ", grouped(swapped_bytes()),
                    " bytes of page-locked host memory; ", grouped(resident_bytes()),
                    " bytes of the device beside activations while it is resident; a swap "
                    "downloads ",
                    grouped(swapped_bytes()), " bytes in ", kept_.size(),
                    kept_.size() == 1 ? " copy" : " copies",
                    ", and uploads as many when the run is used again");
  }

 private:
  using planes_type = std::remove_reference_t<decltype(std::declval<Run&>().planes_)>;
  static constexpr bool moves = !device::host_memory && !planes_type::on_host;
  // Packed weights that the device reads from the host's memory stay there.
  static constexpr bool frees_packed =
      std::is_default_constructible_v<packed_parameters> &&
      std::is_move_assignable_v<packed_parameters> &&
      (device::host_memory || !requires(const M& m) { m.describe_offload(); });

  static void evict(void* self, std::string_view other) {
    static_cast<swapped_trainer*>(self)->leave(other);
  }
  [[noreturn]] static void refuse(void* /*self*/) {
    throw usage_error(
        "trainer: its swapped_trainer ended while the run could not return to the device: end the "
        "scope of the resident model first");
  }
  static constexpr detail::train::planes_elsewhere lost{nullptr, refuse};

  [[nodiscard]] planes_type& planes() const { return run_.planes_; }
  [[nodiscard]] detail::train::residence& residence() const { return planes().residence(); }
  [[nodiscard]] const device& run_device() const { return run_.device_; }
  // f(buffer) for all that is copied.
  template <class F>
  void for_memory(const F& f) const {
    if constexpr (moves) {
      f(planes().arena_memory());
      if constexpr (Run::shards) f(run_.exchange_.shard().memory());
    }
  }

  [[gnu::cold]] void leave(std::string_view other) {
    if (residence().in_step())
      throw usage_error(concat("swapped_trainer: a step of \"", name_,
                               "\" has not ended, or has failed: make \"", other,
                               "\" resident between steps"));
    const auto s = run_.stream_;
    (void)run_.exchange_.settled(s);  // no exchange of a later step uses the planes
    if constexpr (detail::nn::HasModelState<M>) state_ = run_.model_.state(run_.packed_parameters_);
    std::size_t k = 0;
    for_memory([&](auto& memory) {
      const std::span<Real> kept = kept_[k++].span();
      run_device().copy(kept.data(), memory.span().data, kept.size_bytes(), s);
    });
    run_device().finish(s);  // before the memory is freed, and kept_ read
    free_memory();
    if constexpr (requires { run_.model_.release_activations(); })
      run_.model_.release_activations();
    is_out_ = true;
    residence().set_elsewhere(&elsewhere_);
  }
  [[gnu::cold]] void make_resident() {
    group_.residency_.acquire(name_, {this, evict});
    const auto s = run_.stream_;
    try {
      std::size_t k = 0;
      for_memory([&](auto& memory) {
        const std::span<Real> kept = kept_[k++].span();
        memory = std::remove_reference_t<decltype(memory)>(run_device(), kept.size());
        run_device().copy(memory.span().data, kept.data(), kept.size_bytes(), s);
      });
      if constexpr (frees_packed) run_.packed_parameters_ = run_.model_.make_packed_parameters();
    } catch (...) {
      free_memory();
      group_.residency_.release(this);
      throw;
    }
    is_out_ = false;
    residence().set_elsewhere(nullptr);
    if constexpr (frees_packed)
      detail::nn::pack_restored(run_.model_, run_.weights(), run_.packed_parameters_, state_, s);
  }
  void free_memory() {
    for_memory(
        [&](auto& memory) { memory = std::remove_reference_t<decltype(memory)>(run_device(), 0); });
    if constexpr (frees_packed) run_.packed_parameters_ = packed_parameters{};
  }

  swap_group<device>& group_;
  std::string name_;
  Run& run_;
  std::vector<typename detail::train::swapped_plane<Real, device>::type> kept_;
  std::vector<double> state_;  // of the model
  bool is_out_ = false;
  detail::train::planes_elsewhere elsewhere_{
      this, [](void* self) { static_cast<swapped_trainer*>(self)->make_resident(); }};
};

}  // namespace cordee::inline CORDEE_ABI
