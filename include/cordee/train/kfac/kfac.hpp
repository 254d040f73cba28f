// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Natural gradient by Kronecker-factored curvature (K-FAC; Martens and Grosse, 2015), distributed
// over ranks (SP-NGD; Osawa et al., 2019), in front of another optimizer.
//
//   A, G, F as in kronecker_factors.hpp, over all samples of the update;
//   gradient W of (outputs, inputs)
//   pi = sqrt((tr A / dim A) / (tr G / dim G))
//   W <- (G + sqrt(damping) / pi I)^-1 W (A + pi sqrt(damping) I)^-1     convolutions, linear
//   w <- (F + batch_norm_damping damping I)^-1 w,  w = (dgamma, dbeta)    batch norms
//
// Then the wrapped optimizer steps with W as the gradient: velocity_sgd gives SP-NGD. The Fisher
// matrix is the empirical one, from the labels, in the one backward pass.
//
//   backward  each rank adds up A and G of its samples, layer by layer, as backward passes them
//   reduce    rank r owns consecutive layers, and gets the sums of their triangles (reduce-scatter)
//   solve     it factors A and G, and solves for its layers' W
//   gather    all ranks get all W (all-gather): the same bits everywhere
//
// Factors have sizes (C window^2)^2 and K^2, unlike any plane, so the trainer keeps them beside the
// arena. With `refresh` n they are computed in every n-th applied step and reused in between (stale
// factors): each rank's sums are then part of its run_state, and a resumed run has the bits of the
// uninterrupted one. If it resumes with another number of ranks, which own other layers, it
// computes them in its first step. Tensors of other layers keep their gradient. Exchanges follow
// those of the gradient. Not implemented for GPUs yet.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/precision/precision.hpp>
#include <cordee/train/kfac/kfac_preconditioner.hpp>

namespace cordee::inline CORDEE_ABI {

/// K-FAC in front of another optimizer, which receives the preconditioned gradient and adds its
/// weight decay to that.
template <class Optimizer>
struct kfac {
  static constexpr agreement needs = Optimizer::needs;  ///< That of the wrapped optimizer.
  /// The wrapped optimizer's value.
  static constexpr bool eager = detail::optim::is_eager<Optimizer>;
  static constexpr int slots = Optimizer::slots;  ///< That of the wrapped optimizer.
  /// The wrapped optimizer's value.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;
  static constexpr bool has_preconditioner = true;  ///< See train/step/preconditioner.hpp.

  Optimizer optimizer{};  ///< The wrapped optimizer.
  double damping = 1e-3;  ///< Damping of the factors. Range: finite, above 0, else usage_error.
  /// Damping of batch norms' Fisher matrices, as a multiple of `damping`. Range: finite, above 0,
  /// else usage_error.
  double batch_norm_damping = 16;
  /// Applied steps between computations of the factors. Unit: steps. Range: 1 or more, else
  /// usage_error.
  int refresh = 1;

  /// Checks the model, at compile time.
  template <class M, class R>
  struct of_model {
    static_assert(M::device::host_memory, "kfac computes its factors on the CPU");
    static_assert(!Quantized<typename M::precision>,
                  "kfac has no factors of int8's convolutions: train in fp32");
    static_assert(
        !requires { M::adversarial_copies; },
        "kfac has no factors of adversarial's copies, which pass other batch norms: train "
        "the network itself");
    static_assert(
        requires { M::input; },
        "kfac observes the library's layers, which a model of data of your own does not have: "
        "use the optimizer without it");
    /// The preconditioner on the transport of reducer R.
    using type = detail::train::kfac_preconditioner<typename R::communicator_type>;
  };
  /// See train/step/preconditioner.hpp.
  template <class M, class R>
  using preconditioner = typename of_model<M, R>::type;

  /// Proposes what the wrapped optimizer proposes.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::proposal(optimizer, v, info, s);
  }
  /// Steps as the wrapped optimizer, on the preconditioned gradient.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    optimizer.accept(v, info, s);
  }

  /// Checks the options, and the wrapped optimizer. @throws usage_error for one out of its range.
  void check() const {
    detail::optim::check_optimizer(optimizer);
    detail::optim::expects_positive("kfac", "damping", damping);
    detail::optim::expects_positive("kfac", "batch_norm_damping", batch_norm_damping);
    expects(refresh > 0, "kfac: refresh is a number of steps, 1 or more");
  }
  /// One line for logs.
  [[nodiscard]] std::string describe() const {
    return concat("kfac, damping ", damping, " (batch norm ", batch_norm_damping,
                  " times that), factors of every ", refresh, ". step, of ",
                  detail::core::describe_policy(optimizer));
  }
};
template <class Optimizer>
kfac(Optimizer) -> kfac<Optimizer>;
template <class Optimizer>
kfac(Optimizer, double) -> kfac<Optimizer>;
template <class Optimizer>
kfac(Optimizer, double, double) -> kfac<Optimizer>;
template <class Optimizer>
kfac(Optimizer, double, double, int) -> kfac<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
