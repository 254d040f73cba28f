// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// All code between an image's bytes and the logits, which infer.machine_code searches.
#include <cordee/infer/cpu/direct_program.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

template class direct_program<ops::lanes<float>>;
template void run_reference<integer_reference<>>(const integer_program&, const memory_plan&,
                                                 std::byte*, const std::uint8_t*, std::int32_t*);

}  // namespace cordee::inline CORDEE_ABI::detail::infer
