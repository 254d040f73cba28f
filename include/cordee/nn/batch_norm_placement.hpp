// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Where a batch norm's parameters, running statistics, output and saved coefficients are, as a
// network's layout places them.
#pragma once

#include <cstddef>
#include <string_view>

#include <cordee/nn/layer.hpp>
#include <cordee/ops/batch_norm_problem.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// A node that may normalize its input for the batch norm before it.
template <class Node, class B>
concept ReadsNormalized =
    requires(Node& node, const forward_pass<B>& pass) { node.read_normalized(pass, {}); };

/// What a shortcut leaves to the block's end, where the sum is left to what reads it (`wanted`).
template <class B>
struct unnormalized_shortcut {
  bool wanted = false, is_rounded = false;
  ops::batch_norm_tensors<typename B::number, typename B::real> norm{};
};

template <class B, int V>
class batch_norm_placement {
  using number = typename B::number;
  using real = typename B::real;

 public:
  [[gnu::cold, gnu::noinline]] batch_norm_placement(const ops::batch_norm_problem& problem,
                                                    layout_builder& layout)
      : problem_(problem),
        segment_(layout.next_segment),
        name_(layout.table[segment_].name),
        gamma_(layout.table[segment_].offset),
        beta_(layout.table[segment_ + 1].offset),
        mean_(layout.table[layout.next_statistic].offset),
        variance_(layout.table[layout.next_statistic + 1].offset),
        packed_(layout.template reserve_packed<real>(2 * padded())),
        activation_(layout.add_output(sizeof(number) * B::numbers(problem.in))),
        coefficients_(layout.add_kept()),
        in_block_(layout.block != nullptr) {
    layout.add_batch_norm(problem, V);
    layout.note_activation_size(B::numbers(problem.in));
    if constexpr (B::packs_by_table) {
      const auto channels = static_cast<std::size_t>(problem.in.channels);
      layout.add_packed(detail::ops::packed_vector(gamma_, packed_, channels, padded()));
      layout.add_packed(
          detail::ops::packed_vector(beta_, packed_ + padded() * sizeof(real), channels, padded()));
    }
  }

  [[gnu::noinline]] void pack_parameters(const pack_pass<B>& pass) const {
    const auto channels = static_cast<std::size_t>(problem_.in.channels);
    real* const packed = pass.template packed_at<real>(packed_);
    if (padded() > channels) pass.device.clear(packed, 2 * padded() * sizeof(real), pass.s);
    pass.device.copy(packed, pass.plane + gamma_, channels * sizeof(real), pass.s);
    pass.device.copy(packed + padded(), pass.plane + beta_, channels * sizeof(real), pass.s);
  }

  template <class Ready>
  void signal_ready(Ready& ready) const {
    ready(segment_ + 1);
    ready(segment_);
  }
  /// Its y is that of a recomputed block.
  void write_block_output() { activation_ = block_output; }
  /// Returns y's memory, which forward replaces, before it; null if y is there already.
  number* begin_output(const forward_pass<B>& pass) {
    y_ = output_of(pass);
    has_begun_ = true;
    return has_output(pass) ? nullptr : y_;
  }
  /// Whether y is kept until its reader has read it alone.
  [[nodiscard]] bool has_temporary_output() const { return activation_ == temporary_activation; }
  /// Numbers of y.
  template <class Pass>
  [[nodiscard]] std::size_t size(const Pass& pass) const {
    return static_cast<std::size_t>(pass.samples) * B::numbers(problem_.in);
  }

 protected:
  struct backward_arguments {
    ops::batch_norm_problem problem;
    ops::statistics_allreduce allreduce;
  };
  [[nodiscard]] bool takes_statistics(const forward_pass<B>& pass) const {
    return pass.phase == phase::train && !pass.frozen_statistics && !pass.is_frozen(segment_);
  }
  [[nodiscard]] real* saved(const forward_pass<B>& pass) const {
    return pass.saved->template buffer_for<real>(coefficients_,
                                                 problem_.saved_size(pass.samples, V));
  }
  [[nodiscard]] std::size_t padded() const { return problem_.padded_channels(V); }

  [[nodiscard]] number* output_of(const forward_pass<B>& pass) {
    if (activation_ == given_activation) return given_;
    if (has_temporary_output())
      return reinterpret_cast<number*>(pass.saved->acquire(size(pass) * sizeof(number)));
    return pass.buffer_for(activation_, B::numbers(problem_.in));
  }
  // Whether y is that of the pass which this one repeats, or in memory that has its sum already.
  [[nodiscard]] bool has_output(const forward_pass<B>& pass) const {
    return pass.recomputes &&
           (activation_ == block_output || (activation_ == given_activation && given_ == nullptr));
  }
  void begin(const forward_pass<B>& pass, const number* x) {
    if (!std::exchange(has_begun_, false)) y_ = output_of(pass);
    saved_ = saved(pass);
    x_ = x;
  }
  template <class Pass>
  [[gnu::noinline]] ops::batch_norm_tensors<number, real> tensors(const Pass& pass) {
    if constexpr (B::device::host_memory)  // GPU passes use memory of their stream
      pass.scratch->reserve(problem_.scratch_size(pass.samples, V));
    const real* const packed = pass.template packed_at<real>(packed_);
    return {x_, y_, packed, packed + padded(), saved_, pass.scratch->span().data};
  }

  ops::batch_norm_problem problem_;
  std::size_t segment_;
  std::string_view name_;  // of the scale
  std::size_t gamma_, beta_, mean_, variance_, packed_, activation_, coefficients_;
  bool in_block_;  // of recompute or offload_activations
  const number* x_ = nullptr;
  number* y_ = nullptr;
  number* given_ = nullptr;
  bool has_begun_ = false;  // of y_
  real* saved_ = nullptr;
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
