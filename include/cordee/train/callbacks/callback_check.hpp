// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time check of a callback of fit, member by member: one sentence for each that has another
// signature or is likely misspelt. The members are listed in record.hpp.
#pragma once

#include <concepts>
#include <type_traits>

#include <cordee/core/member_names.hpp>
#include <cordee/train/callbacks/record.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

template <class Member>
concept is_function = std::is_member_function_pointer_v<Member>;

/// Misspellings of members that are templates of the trainer.
struct callback_names {
  int check_on_all_rank, begin_on_all_rank, step_on_all_rank, begin_validation_on_all_rank,
      epoch_on_all_rank, end_on_all_rank, check_all_ranks, begin_all_ranks, step_all_ranks,
      epoch_all_ranks, end_all_ranks;
};

/// A member function with another's arguments, under a name that fit does not call, where that
/// other is absent.
template <class C>
concept MisspellsCallback =
    (!requires(C& c, const run_plan& p) { c.begin(p); } &&
     (
         requires(C& c, const run_plan& p) { c.begins(p); } ||
         requires(C& c, const run_plan& p) { c.on_begin(p); } ||
         requires(C& c, const run_plan& p) { c.start(p); })) ||
    (!StepCallback<C> && (
                             requires(C& c, const step_record& r) { c.steps(r); } ||
                             requires(C& c, const step_record& r) { c.on_step(r); } ||
                             requires(C& c, const step_record& r) { c.update(r); })) ||
    (!requires(C& c, const step_record& r) { c.begin_validation(r); } &&
     (
         requires(C& c, const step_record& r) { c.begins_validation(r); } ||
         requires(C& c, const step_record& r) { c.on_validation(r); })) ||
    (!requires(C& c, const epoch_record& r) { c.epoch(r); } &&
     (
         requires(C& c, const epoch_record& r) { c.epochs(r); } ||
         requires(C& c, const epoch_record& r) { c.on_epoch(r); } ||
         requires(C& c, const epoch_record& r) { c.end_epoch(r); })) ||
    (!requires(C& c, const run_summary& s) { c.end(s); } &&
     (
         requires(C& c, const run_summary& s) { c.ends(s); } ||
         requires(C& c, const run_summary& s) { c.on_end(s); } ||
         requires(C& c, const run_summary& s) { c.finish(s); }));

/// What has_callback_members() is, of the members that are called on all ranks and of misspellings.
/// A member that its constraints refuse is absent.
template <class C, class Run>
consteval bool has_callback_members_on_all_ranks() {
  using names = core::member_names<C, callback_names>;
  static_assert(
      requires(C& c, Run& r) { c.check_on_all_ranks(r, 0.0); } ||
          !(
              requires { &C::check_on_all_ranks; } ||
              requires(C& c, Run& r) { c.check_on_all_ranks(r); }),
      "the member 'check_on_all_ranks' of a callback of fit takes the trainer and the epoch");
  static_assert(
      requires(C& c, Run& r) { c.begin_on_all_ranks(r, 0.0); } ||
          !(
              requires { &C::begin_on_all_ranks; } ||
              requires(C& c, Run& r) { c.begin_on_all_ranks(r); }),
      "the member 'begin_on_all_ranks' of a callback of fit takes the trainer and the epoch");
  static_assert(
      requires(C& c, Run& r) {
        { c.step_on_all_ranks(r, 0.0) } -> std::convertible_to<bool>;
      } ||
          !(
              requires { &C::step_on_all_ranks; } ||
              requires(C& c, Run& r) { c.step_on_all_ranks(r, 0.0); } ||
              requires(C& c, Run& r) { c.step_on_all_ranks(r); }),
      "the member 'step_on_all_ranks' of a callback of fit takes the trainer and the epoch, and "
      "returns bool: whether the run ends here");
  static_assert(
      requires(C& c, Run& r) { c.begin_validation_on_all_ranks(r); } ||
          !(
              requires { &C::begin_validation_on_all_ranks; } ||
              requires(C& c, Run& r) { c.begin_validation_on_all_ranks(r, 0.0); }),
      "the member 'begin_validation_on_all_ranks' of a callback of fit takes the trainer");
  static_assert(
      requires(C& c, Run& r, const epoch_record& e) {
        { c.epoch_on_all_ranks(r, e) } -> std::convertible_to<bool>;
      } ||
          !(
              requires { &C::epoch_on_all_ranks; } ||
              requires(C& c, Run& r, const epoch_record& e) { c.epoch_on_all_ranks(r, e); } ||
              requires(C& c, Run& r) { c.epoch_on_all_ranks(r); }),
      "the member 'epoch_on_all_ranks' of a callback of fit takes the trainer and an epoch_record, "
      "and returns bool: whether the run ends here");
  static_assert(
      requires(C& c, Run& r) { c.end_on_all_ranks(r); } ||
          !(
              requires { &C::end_on_all_ranks; } ||
              requires(C& c, Run& r) { c.end_on_all_ranks(r, 0.0); }),
      "the member 'end_on_all_ranks' of a callback of fit takes the trainer");
  static_assert(
      !MisspellsCallback<C> &&
          requires {
            &names::check_on_all_rank;
            &names::begin_on_all_rank;
            &names::step_on_all_rank;
            &names::begin_validation_on_all_rank;
            &names::epoch_on_all_rank;
            &names::end_on_all_rank;
            &names::check_all_ranks;
            &names::begin_all_ranks;
            &names::step_all_ranks;
            &names::epoch_all_ranks;
            &names::end_all_ranks;
          },
      "the members of a callback of fit are spelt begin, step, begin_validation, epoch, end, and "
      "those followed by _on_all_ranks");
  return true;
}

/// True, or a compile error that states what a callback of fit is. A member that is present with
/// another type would otherwise never be called.
template <class C, class Run>
consteval bool has_callback_members() {
  // Of the first five, whether the name is a member function, and whether it can be called.
  constexpr bool has_begin = requires { requires is_function<decltype(&C::begin)>; };
  constexpr bool has_step = requires { requires is_function<decltype(&C::step)>; };
  constexpr bool has_begin_validation =
      requires { requires is_function<decltype(&C::begin_validation)>; };
  constexpr bool has_epoch = requires { requires is_function<decltype(&C::epoch)>; };
  constexpr bool has_end = requires { requires is_function<decltype(&C::end)>; };
  constexpr bool begins = requires(C& c, const run_plan& p) { c.begin(p); };
  constexpr bool steps = StepCallback<C>;
  constexpr bool begins_validation =
      requires(C& c, const step_record& r) { c.begin_validation(r); };
  constexpr bool ends_epochs = requires(C& c, const epoch_record& r) { c.epoch(r); };
  constexpr bool ends = requires(C& c, const run_summary& s) { c.end(s); };
  static_assert(begins || !has_begin,
                "the member 'begin' of a callback of fit is 'void begin(const run_plan&)'");
  static_assert(steps || !has_step,
                "the member 'step' of a callback of fit is 'void step(const step_record&)'");
  static_assert(begins_validation || !has_begin_validation,
                "the member 'begin_validation' of a callback of fit is 'void "
                "begin_validation(const step_record&)'");
  static_assert(ends_epochs || !has_epoch,
                "the member 'epoch' of a callback of fit is 'void epoch(const epoch_record&)'");
  static_assert(ends || !has_end,
                "the member 'end' of a callback of fit is 'void end(const run_summary&)'");

  constexpr bool checks_on_all = requires(C& c, Run& r) { c.check_on_all_ranks(r, 0.0); };
  constexpr bool begins_on_all = requires(C& c, Run& r) { c.begin_on_all_ranks(r, 0.0); };
  constexpr bool steps_on_all = requires(C& c, Run& r) { c.step_on_all_ranks(r, 0.0); };
  constexpr bool epochs_on_all =
      requires(C& c, Run& r, const epoch_record& e) { c.epoch_on_all_ranks(r, e); };
  constexpr bool ends_on_all = requires(C& c, Run& r) { c.end_on_all_ranks(r); };
  constexpr bool begins_validation_on_all =
      requires(C& c, Run& r) { c.begin_validation_on_all_ranks(r); };
  static_assert(
      begins || steps || begins_validation || ends_epochs || ends || has_begin || has_step ||
          has_begin_validation || has_epoch || has_end || checks_on_all || begins_on_all ||
          steps_on_all || epochs_on_all || ends_on_all || begins_validation_on_all,
      "after the number of epochs, fit takes callbacks: objects with one or more of begin, "
      "step, begin_validation, epoch, end and those on all ranks (train/callbacks/record.hpp); a "
      "data set is "
      "wrapped: validation{dataset}");
  return has_callback_members_on_all_ranks<C, Run>();
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
