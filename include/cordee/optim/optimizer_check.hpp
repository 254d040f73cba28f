// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time check of an optimizer, member by member: one sentence for each that is missing, has
// another signature or is likely misspelt. The table of members is in optimizer.hpp.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <type_traits>

#include <cordee/core/member_names.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// Names of optional members, and misspellings of members.
struct optimizer_names {
  int capturable, check, describe, momentum_form, initialize, check_segments, average_slot,
      has_preconditioner, write_direction;
  int proposes, proposed, proposal, is_eager, eagerly, norm, norms_needed, needs_norms, reads_norms;
  int is_capturable, captureable, captures, checks, validate, verify, description, describes,
      to_string, momentum_forms, initialise, initialize_slots, check_segment, checks_segments,
      average_slots, averages_slot, has_precondition, write_directions;
};

template <class O>
constexpr bool describable = requires(const O o) {
  { o.describe() } -> std::convertible_to<std::string>;
};

/// True, or a compile error that states the member to correct. A name that is present with another
/// type would otherwise count as absent: it can be called in another way, or is no template; one
/// that its constraints refuse is absent. A misspelling counts where the right name is absent.
template <class O, class View, class Stream>
consteval bool has_optional_optimizer_members() {
  using names = core::member_names<O, optimizer_names>;
  static_assert(
      requires { std::bool_constant<O::capturable>{}; } || requires { &names::capturable; },
      "the optional member 'capturable' of an optimizer is 'static constexpr bool capturable'");
  static_assert(
      Validated<O> || !requires { &O::check; },
      "the optional member 'check' of an optimizer is 'void check() const'");
  static_assert(
      describable<O> || !requires { &O::describe; },
      "the optional member 'describe' of an optimizer is 'std::string describe() const'");
  static_assert(
      HasMomentumForm<O> || !requires { &O::momentum_form; },
      "the optional member 'momentum_form' of an optimizer is 'cordee::momentum_form "
      "momentum_form() const'");
  static_assert(
      InitializesSlots<O, View, Stream> ||
          !(
              requires { &O::initialize; } || requires(const O o, View v) { o.initialize(v); } ||
              requires(const O o, View v, step_info info, Stream s) { o.initialize(v, info, s); }),
      "the optional member 'initialize' of an optimizer is 'void initialize(const "
      "optimizer_view<Real, D, slots>&, typename D::stream) const'");
  static_assert(
      requires(const O o, std::span<const segment> table) { o.check_segments(table); } ||
          !requires { &O::check_segments; },
      "the optional member 'check_segments' of an optimizer is 'void "
      "check_segments(std::span<const "
      "segment>) const'");
  static_assert(
      requires { std::integral_constant<int, O::average_slot>{}; } ||
          requires { &names::average_slot; },
      "the optional member 'average_slot' of an optimizer is 'static constexpr int average_slot'");
  static_assert(
      requires { std::bool_constant<O::has_preconditioner>{}; } ||
          requires { &names::has_preconditioner; },
      "the optional member 'has_preconditioner' of an optimizer is 'static constexpr bool "
      "has_preconditioner'");
  static_assert(
      requires(const O o, View v, step_info info, Stream s) { o.write_direction(v, info, s); } ||
          !(
              requires { &O::write_direction; } ||
              requires(const O o, View v, step_info info) { o.write_direction(v, info); } ||
              requires(const O o, View v, Stream s) { o.write_direction(v, s); }),
      "the optional member 'write_direction' of an optimizer is 'void write_direction(const "
      "optimizer_view<Real, D, slots>&, const step_info&, typename D::stream) const'");

  static_assert(
      !ProposesGradients<O> || requires {
        &names::proposes;
        &names::proposed;
        &names::proposal;
      }, "the optional member of an optimizer is spelt 'propose'");
  static_assert(
      !EagerByDefault<O> || requires {
        &names::is_eager;
        &names::eagerly;
      }, "the optional member of an optimizer is spelt 'eager'");
  static_assert(
      !ReadsNoNorms<O> || requires {
        &names::norm;
        &names::norms_needed;
        &names::needs_norms;
        &names::reads_norms;
      }, "the optional member of an optimizer is spelt 'norms'");
  static_assert(
      !requires { &names::capturable; } ||
          requires {
            &names::is_capturable;
            &names::captureable;
            &names::captures;
          },
      "the optional member of an optimizer is spelt 'capturable'");
  static_assert(
      !requires { &names::check; } ||
          requires {
            &names::checks;
            &names::validate;
            &names::verify;
          },
      "the optional member of an optimizer is spelt 'check'");
  static_assert(
      !requires { &names::describe; } ||
          requires {
            &names::description;
            &names::describes;
            &names::to_string;
          },
      "the optional member of an optimizer is spelt 'describe'");
  static_assert(
      !requires { &names::momentum_form; } ||
          (
              requires { &names::momentum_forms; } && !requires(const O o) { o.consensus(); } &&
              !requires(const O o) { o.form(); }),
      "the optional member of an optimizer is spelt 'momentum_form'");
  static_assert(
      !requires { &names::initialize; } ||
          requires {
            &names::initialise;
            &names::initialize_slots;
          },
      "the optional member of an optimizer is spelt 'initialize'");
  static_assert(
      !requires { &names::check_segments; } ||
          requires {
            &names::check_segment;
            &names::checks_segments;
          },
      "the optional member of an optimizer is spelt 'check_segments'");
  static_assert(
      !requires { &names::average_slot; } ||
          requires {
            &names::average_slots;
            &names::averages_slot;
          },
      "the optional member of an optimizer is spelt 'average_slot'");
  static_assert(
      requires { &names::has_precondition; },
      "the optional member of an optimizer is spelt 'has_preconditioner'");
  static_assert(
      requires { &names::write_directions; } &&
          !requires(const O o, View v, step_info info, Stream s) { o.direction(v, info, s); } &&
          !requires(const O o, View v, step_info info, Stream s) { o.direct(v, info, s); },
      "the optional member of an optimizer is spelt 'write_direction'");
  return true;
}

/// True, or a compile error that states the member to add or to correct.
template <class O, class Real, class D>
consteval bool has_optimizer_members() {
  static_assert(std::copyable<O>, "an optimizer is copyable: a constant value, without state");
  static_assert(
      requires {
        { O::needs } -> std::convertible_to<agreement>;
      },
      "an optimizer has 'static constexpr agreement needs': agreement::exact if it exchanges "
      "gradients");
  static_assert(
      requires {
        { O::slots } -> std::convertible_to<int>;
      }, "an optimizer has 'static constexpr int slots', its planes of state");
  static_assert(HasNorms<O>,
                "the optional member 'norms' of an optimizer is 'static constexpr norms_needed "
                "norms'");
  if constexpr (requires {
                  { O::slots } -> std::convertible_to<int>;
                }) {
    using view = optimizer_view<Real, D, O::slots>;
    using stream = typename D::stream;
    static_assert(
        HasEager<O> && !(EagerByDefault<O> && requires(const O o, view v, step_info info,
                                                       stream s) { o.propose(v, info, s); }),
        "an optimizer with 'propose' has 'static constexpr bool eager': true if propose reads one "
        "bucket and writes no slot");
    static_assert(
        ProposesOn<O, Real, D>,
        "an optimizer has 'span_on<Real, D> propose(const optimizer_view<Real, D, slots>&, const "
        "step_info&, typename D::stream) const'; one that needs the exact mean of its gradients "
        "may "
        "have none");
    static_assert(
        requires(const O o, view v, step_info info, stream s) {
          { o.accept(v, info, s) } -> std::same_as<void>;
        },
        "an optimizer has 'void accept(const optimizer_view<Real, D, slots>&, const step_info&, "
        "typename D::stream) const'");
    static_assert(has_optional_optimizer_members<O, view, stream>());
  }
  static_assert(!HidesAverage<O>,
                "an average of weights is the outermost wrapper: weight_average{clip{sgd{}}, "
                "exponential_average{}}");
  return true;
}

}  // namespace cordee::inline CORDEE_ABI::detail::optim
