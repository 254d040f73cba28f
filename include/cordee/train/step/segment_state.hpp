// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Numbers of each segment that an optimizer keeps from step to step, beside its slots:
// O::segment_numbers of them, zero at first (optim/optimizer.hpp).
#pragma once

#include <cstddef>
#include <type_traits>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/span_on.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Those of the optimizer O on the device D, in a buffer `Memory` of doubles.
template <class O, class D, class Memory = buffer<double, D>>
class segment_state {
 public:
  using stream = typename D::stream;
  static constexpr std::size_t each = optim::segment_numbers_of<O>();

  segment_state(const D& device, std::size_t segments)
      : device_(device), numbers_(device, segments * each) {}

  [[nodiscard]] std::size_t size() const { return numbers_.size(); }
  /// Those of `count` segments from `first` on, for work of To.
  template <class To>
  [[nodiscard]] span_on<double, To> of(std::size_t first, std::size_t count) {
    if constexpr (each == 0)
      return {};
    else
      return {numbers_.span().data + first * each, count * each};
  }
  /// A copy in the host's memory. Blocks the host.
  [[nodiscard]] std::vector<double> saved(stream s) const {
    if constexpr (each == 0)
      return {};
    else
      return copy_to_host(device_, numbers_.span(), s);
  }
  /// Throws error for numbers of another optimizer or table. Blocks the host.
  void restore(const std::vector<double>& saved, stream s) {
    if (saved.size() != size())
      throw error(concat("the saved optimizer has ", saved.size(),
                         " numbers of segments, this one ", size(),
                         ": continue with the optimizer that was saved"));
    if constexpr (each > 0) {
      device_.copy(numbers_.span().data, saved.data(), saved.size() * sizeof(double), s);
      device_.finish(s);
    }
  }

 private:
  // Most optimizers keep none, and their programs compile no buffer.
  struct no_numbers {
    constexpr no_numbers(const D& /*device*/, std::size_t /*none*/) {}
    [[nodiscard]] static constexpr std::size_t size() { return 0; }
  };

  D device_;
  [[no_unique_address]] std::conditional_t<each == 0, no_numbers, Memory>
      numbers_;  // (segments, each)
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
