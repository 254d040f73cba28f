// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where a device has no memory left for a pass, the largest batch that could fit.
//
// What a network keeps for backward grows linearly with the samples. Temporary memory of the passes
// comes on top, so the number is an upper estimate.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/nn/memory_policies.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// "; ... at most 37 samples per rank fit": `available` bytes for all samples together.
std::string describe_largest_batch(std::size_t available,
                                   std::same_as<std::size_t> auto bytes_per_sample) {
  return concat("; activations and their gradients take ", core::grouped(bytes_per_sample),
                " bytes for each sample, so that at most ",
                core::grouped(available / bytes_per_sample), " samples per rank fit into the ",
                core::grouped(available), " bytes that are free without them");
}

/// f(), a pass of so many samples. If the device has no memory left for it, the error states which
/// batch could fit, and by which policies this one would: `held()` is what the network's samples
/// hold already, missing(samples) what a pass has yet to allocate beside them. Nothing is added
/// while the stream is captured.
template <class D, class F, class Held, class Missing>
void run_in_memory(const D& device, typename D::stream s, const pass_layout& layout, int samples,
                   const F& f, const Held& held, const Missing& missing) {
  if constexpr (requires { device.available(s); }) {
    try {
      f();
    } catch (const core::out_of_memory& failure) {
      const std::optional<std::size_t> free = device.available(s);
      if (!free) throw;
      throw core::out_of_memory(
          concat(failure.what(), describe_largest_batch(*free + held(), layout.of_sample()),
                 describe_what_fits(layout, *free + held(), samples, missing(samples))));
    }
  } else {
    f();
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
