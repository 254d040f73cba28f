// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether a run's planes are on the device. They may leave it between steps for another model, and
// return when they are accessed (train/swapped_trainer.hpp).
#pragma once

#include <cordee/core/config.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// What brings a run's planes back to the device, or throws.
struct planes_elsewhere {
  void* owner = nullptr;
  void (*make_resident)(void* owner) = nullptr;
};

class residence {
 public:
  void begin_step() { in_step_ = true; }
  void end_step() { in_step_ = false; }
  /// Whether a step has begun and not ended, or has thrown.
  [[nodiscard]] bool in_step() const { return in_step_; }
  /// Until set to null, what brings the planes back; it outlives that.
  void set_elsewhere(const planes_elsewhere* where) { elsewhere_ = where; }
  /// Before an access to what may have left the device.
  void make_resident() const {
    if (elsewhere_ != nullptr) elsewhere_->make_resident(elsewhere_->owner);
  }
  /// Whether a swapped_trainer has the run.
  [[nodiscard]] bool& is_swapped() { return is_swapped_; }

 private:
  const planes_elsewhere* elsewhere_ = nullptr;
  bool in_step_ = false, is_swapped_ = false;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
