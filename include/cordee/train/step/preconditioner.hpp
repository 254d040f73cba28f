// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer whose direction needs more than the mean gradient names a type for it:
//
//   static constexpr bool has_preconditioner = true;              members of the optimizer; without
//   template <class M, class R> using preconditioner = ...;     the first the second is not read
//
//   preconditioner(optimizer, comm, table, trainables)   segments; trainables are those not frozen
//   begin_pass(batch, info)                          before a micro-batch's backward
//   observe(segment, samples)                        from the layers (nn/sample_gradients.hpp)
//   precondition(gradients, info)                    the mean gradient of the trained segments,
//                                                    at its offsets in the table; collective
//   accept(optimizer, view, info, stream)            in place of the three before: it makes the
//                                                    optimizer's step itself; collective
//   state(applied), restore(numbers)                 optional: what a checkpoint saves of it
//
// It is a member of the trainer's bucket_exchange: what it holds has another size than a plane. It
// is reached by the type alone, so that a trainer of another optimizer has neither the member nor
// the calls. The optimizer needs the exact mean, and has no use for norms, which are of the
// gradient before.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include <cordee/core/training_step.hpp>
#include <cordee/nn/sample_gradients.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

template <class O>
concept HasPreconditioner = requires { requires O::has_preconditioner; };

/// An optimizer inside O has one, which the trainer does not look for there.
template <class O>
constexpr bool hides_preconditioner() {
  if constexpr (requires(const O o) { o.optimizer; }) {
    using inner = std::remove_cvref_t<decltype(std::declval<const O&>().optimizer)>;
    return HasPreconditioner<inner> || hides_preconditioner<inner>();
  }
  return false;
}

/// Whether the optimizer, or one inside it, steps on whole tensors, or on the whole gradient.
template <class O>
consteval bool needs_whole_tensors() {
  if constexpr (requires { requires O::whole_tensors; } || HasPreconditioner<O>)
    return true;
  else if constexpr (requires(const O o) { o.optimizer; })
    return needs_whole_tensors<std::remove_cvref_t<decltype(O::optimizer)>>();
  else if constexpr (requires(const O o) { o.others; })  // of parameter_groups
    return needs_whole_tensors<std::remove_cvref_t<decltype(O::others)>>();
  else
    return false;
}

/// Whether `sharded` may divide the update of a tensor among the ranks.
template <class O>
consteval bool divides_update() {
  return O::needs == agreement::exact && !needs_whole_tensors<O>();
}

struct no_preconditioner {
  template <class O, class Communicator, class Segments>
  no_preconditioner(const O&, const Communicator&, const Segments&, const Segments&) {}
};
template <class O, class M, class R>
struct preconditioner_type {
  static_assert(
      !hides_preconditioner<O>(),
      "a preconditioner is the outermost wrapper of an optimizer: kfac{sgd{}}, muon{adamw{}}");
  using type = no_preconditioner;
};
template <HasPreconditioner O, class M, class R>
struct preconditioner_type<O, M, R> {
  static_assert(
      O::needs == agreement::exact && detail::optim::norms_of<O> == norms_needed::never,
      "a preconditioned optimizer averages gradients and reads no norms, which are of the "
      "gradient before: sgd, velocity_sgd, adam");
  using type = typename O::template preconditioner<M, R>;
};
template <class O, class M, class R>
using preconditioner_of = typename preconditioner_type<O, M, R>::type;

/// It makes the step itself.
template <class P, class O, class View, class Stream>
concept MakesStep = requires(P& p, const O& optimizer, const View& v, const step_info& info,
                             Stream s) { p.accept(optimizer, v, info, s); };

/// ready, observed by a preconditioner if there is one that observes.
template <class Preconditioner, class B, class F>
auto observed(Preconditioner& preconditioner, const B& micro, const step_info& info,
              const F& ready) {
  if constexpr (!requires { preconditioner.begin_pass(micro, info); }) {
    return ready;
  } else {
    preconditioner.begin_pass(micro, info);
    return nn::observed_ready{ready, preconditioner};
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
