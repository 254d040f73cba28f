// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's generators of random numbers: a process has one for CPUs, and one for each GPU.
#pragma once

#include <cstdint>
#include <mutex>

#include <ATen/Context.h>

#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI::detail::libtorch {

/// What LibTorch draws next at `place` is a function of this sequence. Dropout and random
/// transforms have the same numbers in a resumed run, if no other thread draws meanwhile.
inline void seed_generator(random_sequence random, c10::Device place = c10::kCPU) {
  const std::uint64_t high = random.bits();
  const std::uint64_t seed = high << 32 | random.bits();
  at::Generator generator = at::globalContext().defaultGenerator(place);
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
