// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Compile-time check of an optimizer, member by member: one sentence for each that is missing, has
// another type or is likely misspelt. The table of members is in optimizer.hpp.
#pragma once

#include <concepts>
#include <span>
#include <string>

#include <cordee/core/member_check.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::optim {

/// True, or a compile error that states the member to add or to correct.
template <class O, class Real, class D, int slots>
auto check_functions(const O& object, const optimizer_view<Real, D, slots>& v,
                     const step_info& info, typename D::stream s, std::span<const segment> table) {
  CORDEE_MEMBER(required, "optimizer", O, void, accept,
                (const optimizer_view<Real, D, slots>&, const step_info&, typename D::stream) const,
                (v, info, s));
  CORDEE_MEMBER(optional, "optimizer", O, void, initialize,
                (const optimizer_view<Real, D, slots>&, typename D::stream) const, (v, s),
                initialise, initialize_slots);
  CORDEE_MEMBER(optional, "optimizer", O, void, write_direction,
                (const optimizer_view<Real, D, slots>&, const step_info&, typename D::stream) const,
                (v, info, s), write_directions, direction, direct);
  CORDEE_MEMBER(optional, "optimizer", O, void, check, () const, (), checks, validate, verify);
  CORDEE_MEMBER(optional, "optimizer", O, void, check_segments, (std::span<const segment>) const,
                (table), check_segment, checks_segments);
  CORDEE_MEMBER(optional, "optimizer", O, std::string, describe, () const, (), description,
                describes, to_string);
  CORDEE_MEMBER(optional, "optimizer", O, cordee::momentum_form, momentum_form, () const, (),
                momentum_forms, consensus, form);

  constexpr bool propose_absent = ProposesGradients<O>;
  static_assert(ProposesOn<O, Real, D>,
                "optimizer: `propose` must be: span_on<Real, D> propose(const "
                "optimizer_view<Real, D, slots>&, const step_info&, typename D::stream) const; "
                "only one that needs the exact mean of its gradients may have none");
  CORDEE_LIKELY_1(CORDEE_LIKE_FUNCTION, "optimizer", O, propose, (v, info, s), proposes, proposed,
                  proposal);
  static_assert(HasEager<O> && !(EagerByDefault<O> && requires { object.propose(v, info, s); }),
                "optimizer: beside `propose` there must be: static constexpr bool eager, true if "
                "propose reads one bucket and writes no slot");
}

/// True, or a compile error that states the member to add or to correct.
template <class O, class Real, class D>
consteval bool has_optimizer_members() {
  static_assert(std::copyable<O>, "optimizer: it must be copyable: a constant value, no state");
  CORDEE_CONSTANT(required, "optimizer", O, agreement, needs);
  CORDEE_CONSTANT(required, "optimizer", O, int, slots);
  CORDEE_CONSTANT(optional, "optimizer", O, bool, eager, is_eager, eagerly);
  CORDEE_CONSTANT(optional, "optimizer", O, norms_needed, norms, norm, norms_needed, needs_norms,
                  reads_norms);
  CORDEE_CONSTANT(optional, "optimizer", O, bool, capturable, is_capturable, captureable, captures);
  CORDEE_CONSTANT(optional, "optimizer", O, int, average_slot, average_slots, averages_slot);
  CORDEE_CONSTANT(optional, "optimizer", O, int, segment_numbers, segment_number,
                  numbers_per_segment);
  CORDEE_CONSTANT(optional, "optimizer", O, bool, whole_tensors, whole_tensor);
  CORDEE_CONSTANT(optional, "optimizer", O, bool, has_preconditioner, has_precondition);
  static_assert(!HidesHostUpdate<O>,
                "on_host is the outermost wrapper: on_host{weight_average{clip{sgd{}}, "
                "exponential_average{}}}");
  if constexpr (CORDEE_HAS_CONSTANT(O, int, slots))
    static_assert(core::compiles<decltype(&check_functions<O, Real, D, O::slots>)>);
  static_assert(!HidesAverage<placed_type<O>>,
                "an average of weights is the outermost wrapper: weight_average{clip{sgd{}}, "
                "exponential_average{}}");
  return true;
}

}  // namespace cordee::inline CORDEE_ABI::detail::optim
