// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's generator of random numbers on CPUs, of which a process has one.
#pragma once

#include <cstdint>
#include <mutex>

#include <ATen/CPUGeneratorImpl.h>

#include <cordee/core/random.hpp>

namespace cordee::inline CORDEE_ABI::detail::libtorch {

/// What LibTorch draws next is a function of this sequence. Dropout and random transforms have the
/// same numbers in a resumed run, if no other thread draws meanwhile.
inline void seed_generator(random_sequence random) {
  const std::uint64_t high = random.bits();
  const std::uint64_t seed = high << 32 | random.bits();
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(seed);
}

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
