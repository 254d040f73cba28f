// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer is a pair of functions around one multiplication of the ranks' vectors by a mixing
// matrix: `propose` selects the vector, the reducer mixes it in place, `accept` makes the step.
//
//   struct my_optimizer {                      // an aggregate; example: examples/own_optimizer.cpp
//     member                  type             meaning
//     needs                   agreement        weakest reducer: exact, mixing or loose
//     slots                   int              planes of state, zero at first, in the view
//     accept(v, info, s)      -> void          the step; the mixed vector lies in that range
//
//     optional member         default            meaning
//     propose(v, info, s)     v.grads            vector to mix, a range of the view; empty: none;
//                                                absent only where `needs` is exact
//     eager                   true, without      bool: proposes a bucket while backward runs;
//                             propose            required beside propose
//     norms                   never              norms_needed: when the view has norms of segments
//     capturable              false              launches may be captured in a CUDA graph
//     check()                 accepts all        throws usage_error for an invalid hyper-parameter
//     describe()              a neutral text     one line for the run's description
//     momentum_form()         no momentum        how momentum acts on the ranks' disagreement
//     initialize(v, s)        nothing            slots from the weights, at the start and at a load
//     check_segments(table)   accepts all        throws usage_error for names that it misses
//     whole_tensors           false              steps on rows or whole tensors, not on numbers and
//                                                norms alone: sharded refuses it
//     updates_on_host         false              state, master weights and update on the host
//                                                (optim/on_host.hpp)
//     segment_numbers         0                  int: numbers of each segment that outlive a step,
//                                                zero at first, in view.numbers; for those of one
//                                                segment k at [k * segment_numbers]
//     average_slot            none               int: slot of an average of the weights, which is
//                                                evaluated and saved
//     has_preconditioner,     none               a bool and a type:
//     preconditioner<M, R>                       train/step/preconditioner.hpp
//     write_direction(v, info, s),  no default   what optim/direction.hpp needs
//     and momentum or beta1
//   };
//
// Ranks compare describe() before the first step: it states every option, and must be equal on all
// ranks.
//
// All functions are const. A misspelled or mistyped member is a compile error that states the right
// one (optim/optimizer_check.hpp). The defaults are in `proposal`, `is_eager`, `norms_of`,
// `Capturable`, `check_optimizer`, `describe_policy` and `HasMomentumForm`, not in a base: an
// optimizer is an aggregate, and for designated initializers of an aggregate with a base,
// sgd{.momentum = 0.9}, GCC warns (-Wmissing-field-initializers, of -Wextra). One line tests an
// optimizer: CHECK(optimizer_laws(my_optimizer{}) == "").
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/member_names.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/option_range.hpp>
#include <cordee/core/training_step.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::optim {

struct proposal_names {
  int propose, eager, norms;
};
template <class O>
using proposal_members = core::member_names<O, proposal_names>;

/// It has no `propose` and exchanges its gradients, of which only the mean is of use. Whether a
/// final class has one is known by `eager`, which is required beside it.
template <class O>
concept ProposesGradients = requires {
  requires O::needs == agreement::exact;
  requires !std::is_final_v<O> || !requires { O::eager; };
  &proposal_members<O>::propose;
};
template <class O>
concept EagerByDefault = ProposesGradients<O> && requires { &proposal_members<O>::eager; };
template <class O>
concept ReadsNoNorms = requires {
  requires !std::is_final_v<O> || !requires { O::norms; };
  &proposal_members<O>::norms;
};

template <class O>
concept HasEager = EagerByDefault<O> || requires {
  { O::eager } -> std::convertible_to<bool>;
};
template <class O>
concept HasNorms = ReadsNoNorms<O> || requires {
  { O::norms } -> std::convertible_to<norms_needed>;
};
template <class O, class Real, class D>
concept ProposesOn =
    ProposesGradients<O> ||
    requires(const O o, optimizer_view<Real, D, O::slots> v, step_info info, typename D::stream s) {
      { o.propose(v, info, s) } -> std::same_as<span_on<Real, D>>;
    };

template <class O>
consteval bool eager_or_default() {
  if constexpr (EagerByDefault<O>)
    return true;
  else
    return O::eager;
}
template <class O>
consteval norms_needed norms_or_default() {
  if constexpr (ReadsNoNorms<O>)
    return norms_needed::never;
  else
    return O::norms;
}
template <class O>
inline constexpr bool is_eager = eager_or_default<O>();
template <class O>
inline constexpr norms_needed norms_of = norms_or_default<O>();
/// When an optimizer that wraps O needs norms, if it passes O the rank's own gradient.
template <class O>
inline constexpr norms_needed local_norms_of =
    norms_of<O> == norms_needed::never ? norms_needed::never : norms_needed::before_propose;

/// Whether the optimizer, or one inside it, exchanges momenta after a warm-up (one_bit_adam).
template <class O>
consteval bool compresses_momentum() {
  if constexpr (requires { requires O::compresses_momentum; })
    return true;
  else if constexpr (requires(const O o) { o.optimizer; })
    return compresses_momentum<std::remove_cvref_t<decltype(O::optimizer)>>();
  else
    return false;
}

/// O::segment_numbers, or those of an optimizer inside it; 0 without any.
template <class O>
consteval int segment_numbers_of() {
  if constexpr (requires { O::segment_numbers; })
    return O::segment_numbers;
  else if constexpr (requires(const O o) { o.optimizer; })
    return segment_numbers_of<std::remove_cvref_t<decltype(O::optimizer)>>();
  else if constexpr (requires(const O o) { o.others; })
    return segment_numbers_of<std::remove_cvref_t<decltype(O::others)>>();
  else
    return 0;
}

/// The optimizer's numbers of each segment. Throws usage_error for a view with fewer: an optimizer
/// around this one hides that it has any.
template <class O, class View>
double* segment_numbers_in(const View& v, std::string_view name) {
  if (v.numbers.size < O::segment_numbers * v.segments.size()) [[unlikely]]
    throw usage_error(concat(name,
                             ": its view has too few numbers of segments: give the "
                             "optimizer around it `static constexpr int segment_numbers = ",
                             O::segment_numbers, ";`"));
  return v.numbers.data;
}

/// Whether this step exchanges what must become an exact mean; of an optimizer that compresses.
template <class O>
bool exchanges_exactly(const O& optimizer, const step_info& info) {
  if constexpr (requires { optimizer.exchanges_exactly(info); })
    return optimizer.exchanges_exactly(info);
  else if constexpr (requires { optimizer.optimizer; })
    return exchanges_exactly(optimizer.optimizer, info);
  else
    return false;
}
/// Whether this step exchanges another quantity than those before, so that what error feedback has
/// kept back of these must not be added.
template <class O>
bool discards_residuals(const O& optimizer, const step_info& info) {
  if constexpr (requires { optimizer.discards_residuals(info); })
    return optimizer.discards_residuals(info);
  else if constexpr (requires { optimizer.optimizer; })
    return discards_residuals(optimizer.optimizer, info);
  else
    return false;
}

/// optimizer.propose, or the gradients.
template <class O, class Real, class D, int Slots>
span_on<Real, D> proposal(const O& optimizer, const optimizer_view<Real, D, Slots>& v,
                          const step_info& info, typename D::stream s) {
  if constexpr (ProposesGradients<O>)
    return v.grads;
  else
    return optimizer.propose(v, info, s);
}

}  // namespace detail::optim

/// An optimizer on a device: the members of the table at the header's top. It is a constant value:
/// all state is in the view. An `eager` optimizer proposes from one bucket and writes no slot.
/// `accept` maps zero weight and zero gradient to zero. On a GPU an optimizer that needs an exact
/// mean accepts before the host has read whether the mean is finite: it writes only through kernels
/// on the given stream, which have no effect if the mean is not finite (device/predicated.hpp).
template <class O, class Real, class D>
concept OptimizerOn =
    std::copyable<O> && Device<D> &&
    requires(const O o, optimizer_view<Real, D, O::slots> v, step_info info, typename D::stream s) {
      { O::slots } -> std::convertible_to<int>;
      { O::needs } -> std::convertible_to<agreement>;
      { o.accept(v, info, s) } -> std::same_as<void>;
    } && detail::optim::ProposesOn<O, Real, D> && detail::optim::HasEager<O> &&
    detail::optim::HasNorms<O>;

namespace detail::optim {

/// Every step makes the same launches and one proposal, and reads the step's numbers only in
/// kernels, at `step_info_of`: on a GPU the launches may be captured once and replayed.
template <class O>
concept Capturable = requires { requires O::capturable; };

/// `check` throws `usage_error` for hyper-parameters outside their range. The trainer calls it at
/// construction; wrappers forward it.
template <class O>
concept Validated = requires(const O o) {
  { o.check() } -> std::same_as<void>;
};

/// What `decentlam_over{optimizer}` needs: `write_direction` replaces the gradient by the direction
/// (decay, trust ratio), reads one bucket and writes no slot but the last `direction_slots`.
template <class O, class Real, class D>
concept DirectionOn =
    OptimizerOn<O, Real, D> &&
    requires(const O o, optimizer_view<Real, D, O::slots> v, step_info info, typename D::stream s) {
      { o.write_direction(v, info, s) } -> std::same_as<void>;
    } &&
    (
        requires(const O o) { double{o.momentum}; } || requires(const O o) { double{o.beta1}; });

/// The momentum acts on the ranks' disagreement; from its form the reducer computes whether the
/// disagreement decays.
template <class O>
concept HasMomentumForm = requires(const O o) {
  { o.momentum_form() } -> std::convertible_to<momentum_form>;
};

/// Lets the optimizer, or one that it wraps, see the trainable segments of the model.
template <class O>
constexpr void check_segments(const O& optimizer, std::span<const segment> table) {
  if constexpr (requires { optimizer.check_segments(table); }) optimizer.check_segments(table);
  if constexpr (requires { optimizer.optimizer; }) check_segments(optimizer.optimizer, table);
}
template <class O>
constexpr void check_optimizer(const O& optimizer, std::span<const segment> table = {}) {
  if constexpr (Validated<O>) optimizer.check();
  if (!table.empty()) check_segments(optimizer, table);
}

template <class O, class View, class Stream>
concept InitializesSlots = requires(const O o, const View& v, Stream s) { o.initialize(v, s); };
/// It wraps an optimizer, whose slots are its own.
template <class O>
concept SharesSlots = requires { requires decltype(O::optimizer)::slots == O::slots; };

/// Whether the optimizer or one that shares its slots does.
template <class O, class View, class Stream>
consteval bool initializes_slots() {
  if constexpr (InitializesSlots<O, View, Stream>)
    return true;
  else if constexpr (SharesSlots<O>)
    return initializes_slots<std::remove_cvref_t<decltype(O::optimizer)>, View, Stream>();
  else
    return false;
}

/// Slots from the weights, where the optimizer or one that shares its slots requires it.
template <class O, class View, class Stream>
void initialize_slots(const O& optimizer, const View& v, Stream s) {
  if constexpr (InitializesSlots<O, View, Stream>)
    optimizer.initialize(v, s);
  else if constexpr (SharesSlots<O>)
    initialize_slots(optimizer.optimizer, v, s);
}

/// The optimizer keeps an average of the weights in that slot: it is evaluated and saved.
template <class O>
concept AveragesWeights = requires { O::average_slot; };
/// An optimizer inside `O` does, which the trainer does not look for there.
template <class O>
concept HidesAverage = !AveragesWeights<O> && requires(const O o) {
  requires AveragesWeights<std::remove_cvref_t<decltype(o.optimizer)>>;
};

/// The update, its slots and the master weights are on the host.
template <class O>
concept UpdatesOnHost = requires { requires O::updates_on_host; };

/// An optimizer inside `O` does, where the trainer does not look for it.
template <class O>
concept HidesHostUpdate = !UpdatesOnHost<O> && requires(const O o) {
  requires UpdatesOnHost<std::remove_cvref_t<decltype(o.optimizer)>>;
};

/// The optimizer itself, wherever it steps: checkpoints, averages and logs are its own.
template <class O>
const auto& placed(const O& optimizer) {
  if constexpr (UpdatesOnHost<O>)
    return optimizer.optimizer;
  else
    return optimizer;
}
template <class O>
using placed_type = std::remove_cvref_t<decltype(placed(std::declval<const O&>()))>;

/// x as Real, limited to the finite range: extreme learning rates, decays and norms give factors
/// beyond the range of float, and infinity times zero is NaN.
template <class Real>
CORDEE_HOST_DEVICE Real factor(double x) {
  constexpr double largest = core::limits<Real>::max();
  return static_cast<Real>(std::min(std::max(x, -largest), largest));
}

using core::expects_not_negative, core::expects_positive, core::refuse;
/// A decay rate of a running average: with 1 or more the average would diverge.
inline void expects_decay_rate(std::string_view optimizer, std::string_view member, double value) {
  if (!(value >= 0 && value < 1)) refuse(optimizer, member, value, "in [0, 1)");
}

}  // namespace detail::optim

}  // namespace cordee::inline CORDEE_ABI
