// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rescaling by a float, which infer.machine_code must find.
#include <cordee/infer/program/integer_program.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template void run_reference<integer_reference<>>(const integer_program&, const memory_plan&,
                                                 std::byte*, const std::uint8_t*, std::int32_t*);
int rescaled_by_a_float(int x, float factor) {
  return static_cast<int>(static_cast<float>(x) * factor);
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
