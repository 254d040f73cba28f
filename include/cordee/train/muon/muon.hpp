// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Muon: momentum with orthogonalized matrices (Jordan et al. 2024), over an optimizer of all other
// parameters.
//
//   m <- momentum m + (1 - momentum) g
//   u  = momentum m + (1 - momentum) g               Nesterov; else m
//   o  = Newton-Schulz iterate of u                  optim/newton_schulz.hpp
//   w <- (1 - lr weight_decay) w - lr scale o
//
// A convolution's weights (K, C, R, S) are a matrix of K rows; scale is given by muon_scale. The
// wrapped optimizer updates vectors, the first layer and the classifier. PyTorch 2.15's
// torch.optim.Muon rounds u, and everything up to o, to bf16; here they have the master weights'
// precision.
//
// o replaces the gradient in memory. On CPUs the matrix products are divided among the ranks, which
// exchange o (train/muon/muon_division.hpp); on a GPU each rank computes all of them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/newton_schulz.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/optim/parameter_groups.hpp>
#include <cordee/optim/weight_average.hpp>
#include <cordee/train/muon/muon_division.hpp>
#include <cordee/train/step/preconditioner.hpp>

namespace cordee::inline CORDEE_ABI {

/// Scale of a (rows, columns) matrix's update, by PyTorch's names.
enum class muon_scale {
  original,            ///< sqrt(max(1, rows / columns)); Jordan et al. 2024.
  match_rms_adamw,     ///< 0.2 sqrt(max(rows, columns)), the size of AdamW's; Liu et al. 2025.
  spectral_unclamped,  ///< sqrt(rows / columns); Bernstein 2025.
};

namespace detail::train {

/// The steps of matrices, and which these are; see muon.
struct muon_options {
  /// Momentum: the decay rate of m. Range: 0 <= momentum < 1, else usage_error. Default: as Jordan
  /// et al. 2024.
  double momentum = 0.95;
  /// Decoupled decay: the share of a matrix that a step at learning rate 1 removes. Range: finite,
  /// 0 or more, else usage_error. Default: as PyTorch.
  double weight_decay = 0.1;
  bool nesterov = true;  ///< Whether the momentum is Nesterov's.
  /// Newton-Schulz steps. Range: 1 to 99, else usage_error. Default: as Jordan et al. 2024.
  int steps = 5;
  /// Least norm by which a matrix is divided. Range: finite, above 0, else usage_error. Default: as
  /// Jordan et al. 2024.
  double epsilon = 1e-7;
  muon_scale scale_by = muon_scale::original;  ///< Factor of an update by its sides.
  /// Factor of the schedule's learning rate for the optimizer inside. Range: finite, 0 or more,
  /// else usage_error.
  double learning_rate_factor = 1;
  /// Beginning of the first layer's names, which the optimizer inside has; "": none. Range: a
  /// trainable segment's name begins so, else usage_error.
  std::string_view first_layer = "conv1.";
  /// The same of the classifier.
  std::string_view classifier = "fc.";
};

/// g <- u of the new m
template <class Real>
struct muon_momentum {
  Real *m, *g;
  Real momentum, rest;
  bool nesterov;

  template <class At>
  constexpr void operator()(At at) const {
    const typename At::number fresh = rest * at(g);
    const typename At::number carried = at.clamped(momentum * at(m) + fresh);
    at.put(m, carried);
    at.put(g, nesterov ? at.clamped(momentum * carried + fresh) : carried);
  }
};
/// w <- keep w - rate o
template <class Real>
struct muon_step {
  Real* w;
  const Real* o;
  Real keep, rate;

  template <class At>
  constexpr void operator()(At at) const {
    at.put(w, at.clamped(at.clamped(keep * at(w)) - rate * at(o)));
  }
};

}  // namespace detail::train

/// Muon for matrices, another optimizer for the rest; see the header's top. Must be outermost.
template <class Optimizer>
struct muon {
  static_assert(
      Optimizer::needs == agreement::exact &&
          detail::optim::norms_of<Optimizer> == norms_needed::never &&
          !requires { Optimizer::average_slot; },
      "muon: inside is an optimizer that averages gradients and reads no norms, which "
      "would be of other segments: adamw, adam, sgd, velocity_sgd, lion, adan");

  static constexpr agreement needs = agreement::exact;  ///< Steps on the mean gradient.
  /// The wrapped optimizer's slots, of which a matrix uses the first, for m.
  static constexpr int slots = std::max(1, static_cast<int>(Optimizer::slots));
  static constexpr bool whole_tensors = true;       ///< Updates are of whole matrices.
  static constexpr bool has_preconditioner = true;  ///< See train/step/preconditioner.hpp.

  Optimizer optimizer{};  ///< Optimizer of vectors, the first layer, the classifier.
  detail::train::muon_options matrices{};  ///< Options of the matrix steps.

  /// Selected by the model's device.
  template <class M, class R>
  struct of_model {
    /// Division of the matrices among ranks over reducer R's transport; on a GPU there is none.
    using type = std::conditional_t<
        M::device::host_memory,
        detail::train::muon_division<typename M::precision::master, typename R::communicator_type>,
        detail::train::muon_undivided>;
  };
  /// See train/step/preconditioner.hpp.
  template <class M, class R>
  using preconditioner = typename of_model<M, R>::type;

  /// Whether a segment is updated as a matrix.
  [[nodiscard]] bool is_matrix(const segment& s) const {
    return s.kind == kind::weight && s.shape[0] > 0 && s.shape[1] > 0 && s.size > 0 &&
           !begins(s, matrices.first_layer) && !begins(s, matrices.classifier);
  }

  /// Makes the step for all matrices.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    step(
        v, info, s, [](std::size_t) { return true; }, [] {});
  }
  /// Same, if `computes(k)` says whether the matrix of segment k is orthogonalized on this rank,
  /// and gather() fetches the others.
  template <class Real, class D, class Computes, class Gather>
  void step(const optimizer_view<Real, D, slots>& v, const step_info& info, typename D::stream s,
            const Computes& computes, const Gather& gather) const {
    const auto mu = static_cast<Real>(matrices.momentum);
    detail::optim::newton_schulz<Real> iterate(matrices.steps, matrices.epsilon);
    for_matrices(v, [&](std::size_t k, const auto& part) {
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(s, part.segments,
                          detail::train::muon_momentum<Real>{
                              part.slots[0].data, part.grads.data, mu,
                              static_cast<Real>(1 - matrices.momentum), matrices.nesterov});
      if (!computes(k)) return;
      const detail::train::matrix_sides sides(v.segments[k]);
      if constexpr (D::host_memory) {
        iterate(part.grads.data, sides.rows, sides.columns, s);
      } else {
        segmented_squares<Real>(s, part.segments, part.grads, part.sums);
        // by argument-dependent lookup: ops/gpu/newton_schulz.hpp
        newton_schulz_iterate(part.grads.data, sides.rows, sides.columns, matrices.steps,
                              matrices.epsilon, detail::optim::newton_schulz_coefficients{},
                              part.sums.data, s);
      }
    });
    gather();
    for_matrices(v, [&](std::size_t, const auto& part) {
      const double lr = info.learning_rate;
      // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
      segmented_for<Real>(s, part.segments,
                          detail::train::muon_step<Real>{
                              part.weights.data, part.grads.data,
                              detail::optim::factor<Real>(1 - lr * matrices.weight_decay),
                              detail::optim::factor<Real>(lr * scale_of(part.segments[0]))});
    });
    for_others(v, [&](const auto& part) {
      detail::optim::at_learning_rate(
          part, info, matrices.learning_rate_factor, s,
          [&](const auto& at, const step_info& now) { optimizer.accept(at, now, s); });
    });
  }
  /// Initializes the wrapped optimizer's slots.
  template <class Real, class D>
  void initialize(const optimizer_view<Real, D, slots>& v, typename D::stream s) const {
    for_others(v, [&](const auto& part) { detail::optim::initialize_slots(optimizer, part, s); });
  }

  /// Throws usage_error for an option outside its range, or one of the wrapped optimizer's.
  [[gnu::cold]] void check() const {
    detail::optim::check_optimizer(optimizer);
    detail::optim::expects_decay_rate("muon", "momentum", matrices.momentum);
    detail::optim::expects_not_negative("muon", "weight_decay", matrices.weight_decay);
    detail::optim::expects_positive("muon", "epsilon", matrices.epsilon);
    detail::optim::expects_not_negative("muon", "learning_rate_factor",
                                        matrices.learning_rate_factor);
    expects(matrices.steps >= 1 && matrices.steps < 100, "muon: steps must be in 1 .. 99");
  }
  /// Throws usage_error if the table lacks the first layer or the classifier, or has no matrix.
  void check_segments(std::span<const segment> table) const {
    check_prefix(table, "first_layer", matrices.first_layer);
    check_prefix(table, "classifier", matrices.classifier);
    if (std::none_of(table.begin(), table.end(), [&](const segment& s) { return is_matrix(s); }))
      throw usage_error(
          "muon: no trainable parameter is a matrix of its own: use the optimizer inside without "
          "it, or give the parameters of your model their shapes");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    constexpr const char* names[] = {"original", "match_rms_adamw", "spectral_unclamped"};
    return concat("muon, momentum ", matrices.momentum, matrices.nesterov ? " (Nesterov)" : "",
                  ", ", matrices.steps, " Newton-Schulz steps, epsilon ", matrices.epsilon,
                  ", scale ", names[static_cast<int>(matrices.scale_by)],
                  ", decoupled weight decay ", matrices.weight_decay, "; \"", matrices.first_layer,
                  "\", \"", matrices.classifier, "\" and vectors at ",
                  matrices.learning_rate_factor,
                  " times the learning rate: ", detail::core::describe_policy(optimizer));
  }

 private:
  static bool begins(const segment& s, std::string_view prefix) {
    return !prefix.empty() && s.name.starts_with(prefix);
  }
  static void check_prefix(std::span<const segment> table, const char* option,
                           std::string_view prefix) {
    if (prefix.empty()) return;
    for (const segment& s : table)
      if (begins(s, prefix)) return;
    throw usage_error(concat("muon: ", option, ": no trainable parameter's name begins with \"",
                             prefix, "\"; names begin as \"", table.front().name,
                             "\". Name the layer, or set it to \"\" where there is none"));
  }
  [[nodiscard]] double scale_of(const segment& s) const {
    const detail::train::matrix_sides sides(s);
    const auto rows = static_cast<double>(sides.rows), columns = static_cast<double>(sides.columns);
    switch (matrices.scale_by) {
      case muon_scale::match_rms_adamw:
        return 0.2 * detail::core::sqrt(std::max(rows, columns));
      case muon_scale::spectral_unclamped:
        return detail::core::sqrt(rows / columns);
      case muon_scale::original:
        break;
    }
    return detail::core::sqrt(std::max(1.0, rows / columns));
  }
  // f(index of the segment, view of it)
  template <class View, class F>
  void for_matrices(const View& v, const F& f) const {
    for (std::size_t k = 0; k < v.segments.size(); ++k)
      if (is_matrix(v.segments[k])) f(k, detail::optim::part_of(v, k, 1));
  }
  // f(view with the inner optimizer's slots) for each run of other segments
  template <class View, class F>
  void for_others(const View& v, const F& f) const {
    for (std::size_t first = 0, last = 0; first < v.segments.size(); first = last + 1) {
      for (last = first; last < v.segments.size() && !is_matrix(v.segments[last]);) ++last;
      if (last > first)
        f(detail::optim::inner_view<Optimizer::slots>(
            detail::optim::part_of(v, first, last - first)));
    }
  }
};
template <class Optimizer>
muon(Optimizer) -> muon<Optimizer>;
template <class Optimizer>
muon(Optimizer, detail::train::muon_options) -> muon<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
