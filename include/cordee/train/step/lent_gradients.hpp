// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gradients that stay where a model's framework has made them, until the step is over.
//
// On one rank nothing needs them in the plane: the test for NaN and the update read them once each,
// and a copy would read and write as much memory again. The trainer's accessors of gradients copy
// them to the plane first.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>

namespace cordee::inline CORDEE_ABI {
struct sgd;
struct velocity_sgd;
struct adamw;
}  // namespace cordee::inline CORDEE_ABI

namespace cordee::inline CORDEE_ABI::detail::train {

/// A model whose backward can leave gradients in memory of its own.
template <class M>
concept LendsGradients = requires(M& m, std::size_t k) {
  // Whether the passes from now on do; forgets those that are lent.
  m.gradient_lender().lend_gradients(true);
  // Where one is; null: in the plane.
  { m.gradient_lender().lent_gradient(k) } -> std::same_as<typename M::precision::master*>;
  m.gradient_lender().return_gradients();  // to the plane
};

/// Optimizers that only read gradients, one segment like another.
template <class O>
inline constexpr bool reads_segments_alone =
    std::same_as<O, sgd> || std::same_as<O, velocity_sgd> || std::same_as<O, adamw>;

/// Whether a trainer of these can use lent gradients at all.
template <class M, class O, class R>
inline constexpr bool may_use_lent_gradients =
    LendsGradients<M> && reads_segments_alone<O> && R::lossless && R::slots == 0 &&
    !comm::ShardsUpdate<R> && !M::precision::scales_loss;

/// f(view of one segment) for each trainable segment, with its gradient where it is.
template <class M, class Planes, class F>
void for_lent(M& model, Planes& planes, const F& f) {
  const auto segments = planes.trainables();
  for (std::size_t k = 0; k < segments.size(); ++k) {
    auto view = planes.view_of(segments.subspan(k, 1), k, true);
    if (auto* const lent = model.gradient_lender().lent_gradient(k); lent != nullptr)
      view.grads = {lent, segments[k].size};
    f(view);
  }
}
/// Whether gradients are `lent`, and may be. If so, computes the squared norms of all trainable
/// segments' gradients, with the bits that they have in a plane; the first is NaN where a running
/// statistic is not finite now.
template <bool Lends, class M, class Planes>
bool compute_lent_norms(bool lent, M& model, Planes& planes, typename M::device::stream s) {
  if constexpr (Lends) {
    if (!lent) return false;
    using Real = typename M::precision::master;
    for_lent(model, planes, [&](const auto& view) {
      ops::segmented_squares<Real>(s, view.segments, view.grads, view.squared_grad_norms);
    });
    Real spoiled = 0;
    planes.template check_statistics<M>({&spoiled, 1}, s);
    planes.view_of(planes.trainables().first(1), 0, true).squared_grad_norms[0] += spoiled;
  }
  return lent;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
