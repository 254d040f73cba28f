// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time check of a callback of fit, member by member: one sentence for each that has another
// type or is likely misspelt. The members are listed in record.hpp.
#pragma once

#include <cordee/core/member_check.hpp>
#include <cordee/train/callbacks/record.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

template <class C, class Run>
auto check_functions(C& object, Run& run, double epoch, const run_plan& plan, const step_record& r,
                     const epoch_record& e, const run_summary& summary) {
  CORDEE_MEMBER(optional, "callback", C, void, begin, (const run_plan&), (plan), begins, on_begin,
                start);
  CORDEE_MEMBER(optional, "callback", C, void, step, (const step_record&), (r), steps, on_step,
                update);
  CORDEE_MEMBER(optional, "callback", C, void, begin_validation, (const step_record&), (r),
                begins_validation, on_validation);
  CORDEE_MEMBER(optional, "callback", C, void, epoch, (const epoch_record&), (e), epochs, on_epoch,
                end_epoch);
  CORDEE_MEMBER(optional, "callback", C, void, end, (const run_summary&), (summary), ends, on_end,
                finish);
  CORDEE_MEMBER(optional, "callback", C, void, check_on_all_ranks, (Run&, double), (run, epoch),
                check_on_all_rank, check_all_ranks);
  CORDEE_MEMBER(optional, "callback", C, void, begin_on_all_ranks, (Run&, double), (run, epoch),
                begin_on_all_rank, begin_all_ranks);
  CORDEE_MEMBER(optional, "callback", C, bool, step_on_all_ranks, (Run&, double), (run, epoch),
                step_on_all_rank, step_all_ranks);
  CORDEE_MEMBER(optional, "callback", C, void, begin_validation_on_all_ranks, (Run&), (run),
                begin_validation_on_all_rank, begin_validation_all_ranks);
  CORDEE_MEMBER(optional, "callback", C, bool, epoch_on_all_ranks, (Run&, const epoch_record&),
                (run, e), epoch_on_all_rank, epoch_all_ranks);
  CORDEE_MEMBER(optional, "callback", C, void, end_on_all_ranks, (Run&), (run), end_on_all_rank,
                end_all_ranks);
  static_assert(
      !(begin_absent && step_absent && begin_validation_absent && epoch_absent && end_absent &&
        check_on_all_ranks_absent && begin_on_all_ranks_absent && step_on_all_ranks_absent &&
        begin_validation_on_all_ranks_absent && epoch_on_all_ranks_absent &&
        end_on_all_ranks_absent),
      "after the number of epochs, fit takes callbacks: objects with one or more of begin, "
      "step, begin_validation, epoch, end and those on all ranks (train/callbacks/record.hpp); a "
      "data set is wrapped: validation{dataset}");
}

/// True, or a compile error that states what a callback of fit is. A member that is present with
/// another type would otherwise never be called.
template <class C, class Run>
consteval bool has_callback_members() {
  return core::compiles<decltype(&check_functions<C, Run>)>;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
