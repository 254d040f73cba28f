// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// CPU offload of the optimizer's state, the master weights and the update, for a model on a GPU
// (Rajbhandari et al. 2021, "ZeRO-Offload"): the GPU keeps packed weights and a ring of a few
// buckets' gradients.
//
//   bucket ready -> exchanged -> copied to the host, while backward continues
//   all copied   -> finiteness, norms, loss scale, update: on the host's cores, by the CPU's passes
//   then         -> weights rounded to the precision, bucket by bucket -> packed by the GPU
//
// It must be the outermost wrapper, of an optimizer that averages gradients: on_host{lamb{}},
// on_host{weight_average{clip{sgd{}}, exponential_average{}}}. Its part of a step is in
// train/step/host_update.hpp.
#pragma once

#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {

/// CPU offload of an optimizer: its slots, master weights and gradients are in page-locked host
/// memory, where it steps. Must be the outermost wrapper. Given the same gradients, results are
/// bitwise those of a CPU.
template <class Optimizer>
struct on_host {
  static constexpr bool updates_on_host = true;         ///< What the trainer looks for.
  static constexpr agreement needs = Optimizer::needs;  ///< That of the wrapped optimizer.
  /// The wrapped optimizer's value.
  static constexpr bool eager = detail::optim::is_eager<Optimizer>;
  static constexpr int slots = Optimizer::slots;  ///< That of the wrapped optimizer.
  /// The wrapped optimizer's value.
  static constexpr norms_needed norms = detail::optim::norms_of<Optimizer>;
  static_assert(Optimizer::needs == agreement::exact && detail::optim::is_eager<Optimizer>,
                "on_host: buckets of gradients leave the GPU while backward runs: use an optimizer "
                "that averages gradients, without local_steps or gossip");
  static_assert(
      !requires { requires Optimizer::has_preconditioner; },
      "on_host: kfac's factors and muon's matrices are computed where the gradients are: use them "
      "without it");

  Optimizer optimizer{};  ///< The optimizer that steps on the host.
  /// Whether gradients are rounded to the model's precision before they are copied, which halves
  /// the bytes in fp16 and bf16. They are rounded with the loss scale applied, and a number beyond
  /// the precision's range skips the step. Otherwise gradients are copied unchanged.
  bool round_gradients = false;
  /// Threads of the update. Range: 0 or more, else usage_error. Default: as those of
  /// `cpu{}`.
  int threads = 0;

  /// Proposes the gradients.
  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return detail::optim::proposal(optimizer, v, info, s);
  }
  /// Steps as the wrapped optimizer.
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    optimizer.accept(v, info, s);
  }

  /// Throws usage_error for an option outside its range, the wrapped optimizer's too.
  [[gnu::cold]] void check() const {
    expects(threads >= 0, "on_host: .threads is a number of threads, or 0");
    detail::optim::check_optimizer(optimizer);
  }
  /// The wrapped optimizer's value.
  [[nodiscard]] cordee::momentum_form momentum_form() const
    requires detail::optim::HasMomentumForm<Optimizer>
  {
    return optimizer.momentum_form();
  }
  /// One line for logs. It differs between ranks only where their bits would.
  [[nodiscard]] std::string describe() const {
    return concat(detail::core::describe_policy(optimizer), "; updated on the host",
                  round_gradients ? " by rounded gradients" : "");
  }
};
template <class Optimizer>
on_host(Optimizer) -> on_host<Optimizer>;
template <class Optimizer>
on_host(Optimizer, bool) -> on_host<Optimizer>;
template <class Optimizer>
on_host(Optimizer, bool, int) -> on_host<Optimizer>;

}  // namespace cordee::inline CORDEE_ABI
