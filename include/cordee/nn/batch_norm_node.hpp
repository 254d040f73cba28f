// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The node of a batch norm (batch_norm.hpp; ops/cpu/batch_norm.hpp).
//
// With frozen statistics, training normalizes by the running statistics, as evaluation does, and
// they are constants of the gradient.
#pragma once

#include <string_view>
#include <utility>

#include <cordee/nn/batch_norm_placement.hpp>
#include <cordee/nn/batch_norm_settings.hpp>
#include <cordee/nn/layer.hpp>
#include <cordee/nn/sample_gradients.hpp>
#include <cordee/ops/cpu/batch_norm.hpp>
#include <cordee/ops/pooling.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// With the epilogue add_relu it is the last batch norm of a residual block.
template <class B, int V, class Epilogue>
class batch_norm_node : batch_norm_placement<B, V> {
  using base = batch_norm_placement<B, V>;
  using number = typename B::number;
  using real = typename B::real;
  using base::begin, base::beta_, base::gamma_, base::given_, base::has_output, base::in_block_,
      base::mean_, base::name_, base::packed_, base::padded, base::problem_, base::saved,
      base::saved_, base::segment_, base::takes_statistics, base::tensors, base::variance_,
      base::x_, base::y_;

 public:
  static constexpr bool skips_frozen_gradients = true;
  using base::base;
  using base::begin_output;
  using base::has_temporary_output;
  using base::pack_parameters;
  using base::signal_ready;
  using base::size;
  using base::write_block_output;

  /// For the convolution before it: where it writes the statistics of its output, which forward
  /// then does not compute; null if they are not of one group of this rank's samples.
  auto statistics_of(const forward_pass<B>& pass)
    requires(B::computes_statistics)
  {
    ops::batch_statistics<real> out{};
    if (pass.recomputes || (B::fuses_batch_norm && in_block_)) return out;
    expect_several_values(pass);
    has_statistics_ = takes_statistics(pass) && !pass.batch_norm_allreduce &&
                      problem_.ghost_batches(pass.samples) == 1;
    if (has_statistics_)
      out = {static_cast<std::size_t>(problem_.in.channels),
             pass.template packed_at<real>(packed_),
             saved(pass),
             pass.plane + mean_,
             pass.plane + variance_,
             pass.template packed_at<real>(packed_) + padded()};
    return out;
  }

  /// Whether that convolution has left them with coefficients in 16 bits.
  void set_rounded(bool rounded) { is_rounded_ = rounded; }

  /// Whether the convolution behind may normalize x.
  [[nodiscard]] bool leaves_output(const forward_pass<B>& pass) const {
    using ops::not_fused;
    if (pass.phase != phase::train || pass.samples == 0) return false;
    if (takes_statistics(pass) && problem_.ghost_batches(pass.samples) == 1 && !in_block_)
      return true;
    B::engine::note(in_block_                 ? not_fused::recomputed
                    : !takes_statistics(pass) ? not_fused::frozen_statistics
                                              : not_fused::ghost_batches);
    return false;
  }

  /// Where forward writes y; see writes_given_output.
  void write_to(number* y)
    requires std::same_as<Epilogue, ops::epilogue::store>
  {
    given_ = y;
  }
  /// The reader of such a y has read it. One that backward computes stays until its gradients.
  void release_output(const forward_pass<B>& pass)
    requires(B::restores_outputs)
  {
    if (!has_temporary_output() || pass.recomputes) return;
    pass.saved->release(y_);
    y_ = nullptr;
  }
  /// y again, until the gradients are computed.
  [[gnu::noinline]] const number* restore_output(const backward_pass<B>& pass)
    requires(B::restores_outputs)
  {
    if (y_ == nullptr) {
      y_ = pass.gradients->acquire(size(pass));
      normalize_again(pass.samples, tensors(pass), nullptr, pass.s);
    }
    return y_;
  }
  const number* forward(const forward_pass<B>& pass, const number* x,
                        const number* residual = nullptr) {
    expect_several_values(pass);
    begin(pass, x);
    const auto t = tensors(pass);
    // for a GPU by argument-dependent lookup: ops/gpu/batch_norm.hpp
    if (pass.recomputes) {
      if (!has_output(pass)) normalize_again(pass.samples, t, residual, pass.s);
    } else if (has_statistics_) {
      if constexpr (B::computes_statistics)
        count_ =
            batch_norm_normalize<number, V, Epilogue>(problem_, pass.samples, t, residual, pass.s);
    } else if (takes_statistics(pass)) {
      problem_.moving_average = pass.moving_average;
      count_ = batch_norm_forward<number, V, Epilogue>(problem_, pass.samples, t, residual,
                                                       pass.plane + mean_, pass.plane + variance_,
                                                       pass.batch_norm_allreduce, pass.s);
      expect_several_values();
    } else {
      count_ = problem_.frozen_count;
      batch_norm_evaluate<number, V, Epilogue>(problem_, pass.samples, t, residual,
                                               pass.plane + mean_, pass.plane + variance_, pass.s);
    }
    return y_;
  }

  /// Where it can be, y is left to `next`, a convolution that normalizes its input.
  template <class Next>
  const number* forward(const forward_pass<B>& pass, const number* x, Next& next)
    requires(B::fuses_batch_norm && std::same_as<Epilogue, ops::epilogue::relu> &&
             detail::nn::ReadsNormalized<Next, B>)
  {
    if (!leaves_output(pass)) {
      next.read_normalized(pass, {});
      return forward(pass, x);
    }
    const auto t = take_statistics(pass, x);
    next.read_normalized(pass, {problem_, t, false, has_statistics_ && is_rounded_});
    return y_;
  }
  /// The same at the end of a residual block, whose shortcut may be left, too.
  template <class Next>
  const number* forward(const forward_pass<B>& pass, const number* x, const number* residual,
                        const unnormalized_shortcut<B>& shortcut, Next& next)
    requires(B::fuses_batch_norm && std::same_as<Epilogue, ops::epilogue::add_relu>)
  {
    // The residual's memory, where it is y's, would be written while it is read.
    const bool is_left = shortcut.norm.x != nullptr;
    if (!is_left && (residual == y_ || !shortcut.wanted)) {
      (void)leave_sum<Next, B>(next, pass, {});
      return forward(pass, x, residual);
    }
    const auto t = take_statistics(pass, x);
    ops::normalized_input<number, real> sum{problem_, t, false, has_statistics_ && is_rounded_};
    sum.shortcut = shortcut.norm;
    sum.is_shortcut_rounded = is_left && shortcut.is_rounded;
    if (!is_left) sum.residual = residual;
    (void)leave_sum<Next, B>(next, pass, sum);
    return y_;
  }
  /// A shortcut's.
  const number* forward(const forward_pass<B>& pass, const number* x,
                        unnormalized_shortcut<B>& left)
    requires(B::fuses_batch_norm && std::same_as<Epilogue, ops::epilogue::store>)
  {
    if (!left.wanted || !leaves_output(pass)) return forward(pass, x);
    left.norm = take_statistics(pass, x);
    left.is_rounded = has_statistics_ && is_rounded_;
    return y_;
  }

  /// y also quantized, by the quantizer of `next`.
  template <class Next>
  const number* forward(const forward_pass<B>& pass, const number* x, Next& next)
    requires detail::nn::QuantizesInput<Next, B>
  {
    return forward(pass, x, nullptr, next);
  }
  template <class Next>
  const number* forward(const forward_pass<B>& pass, const number* x, const number* residual,
                        Next& next)
    requires detail::nn::QuantizesInput<Next, B>
  {
    if constexpr (V % 4 != 0)  // an engine without blocks
      return forward(pass, x, residual);
    else
      return forward_quantizing(pass, x, residual, next.input_target(pass));
  }

  /// Computes the gradients without ready(); dx may be dy where there is no residual.
  void compute_gradients(const backward_pass<B>& pass, number* dy, number* dx) {
    if constexpr (B::fuses_batch_norm)
      if (pass.gradients->take_summed(saved_))  // ops/gpu/fused_batch_norm.hpp
        return batch_norm_backward_of_sums<number, V>(problem_, pass.samples, dy,
                                                      gradients_at(pass, dx), pass.mode, pass.s);
    const auto [problem, allreduce] = backward_problem(pass);
    if constexpr (B::restores_outputs)
      if (has_temporary_output()) (void)restore_output(pass);
    // for a GPU by argument-dependent lookup: ops/gpu/batch_norm.hpp
    batch_norm_backward<number, V, Epilogue>(
        problem, pass.samples, tensors(pass), count_, dy, dx, pass.gradient_at(segment_, gamma_),
        pass.gradient_at(segment_ + 1, beta_), pass.mode, allreduce, pass.s);
    if (has_temporary_output()) pass.gradients->release(std::exchange(y_, nullptr));
  }
  /// The gradients of this and, where the pass has the sums of both, of a shortcut's, whose dx then
  /// replaces dy: for its backward.
  void compute_both_gradients(const backward_pass<B>& pass, number* dy, number* dx,
                              batch_norm_node<B, V, ops::epilogue::store>& shortcut)
    requires(B::fuses_batch_norm && std::same_as<Epilogue, ops::epilogue::add_relu>)
  {
    shortcut.has_gradients_ =  // those of one are those of both
        pass.gradients->take_summed(shortcut.saved_) && pass.gradients->take_summed(saved_);
    if (!shortcut.has_gradients_) return compute_gradients(pass, dy, dx);
    batch_norm_backward_of_sums<number, V>(  // ops/gpu/fused_batch_norm.hpp
        problem_, pass.samples, dy, gradients_at(pass, dx), shortcut.gradients_at(pass, dy),
        pass.mode, pass.s);
  }
  /// The gradients where an average pool behind has read x and the residual, from dy of that one,
  /// which is released. Returns the gradient of the sum, in memory of its own; null: none has.
  number* compute_pooled_gradients(const backward_pass<B>& pass, const number* dy, number* dx)
    requires(B::fuses_batch_norm && std::same_as<Epilogue, ops::epilogue::add_relu>)
  {
    if (!pass.gradients->take_pooled(saved_)) return nullptr;
    number* const sum = pass.gradients->acquire(size(pass));
    const auto [problem, allreduce] = backward_problem(pass);
    normalized_average_pool_backward<number, V>(  // ops/gpu/normalized_average_pool.hpp
        problem, pass.samples, tensors(pass), count_, dy, sum, dx,
        pass.gradient_at(segment_, gamma_), pass.gradient_at(segment_ + 1, beta_), pass.mode,
        allreduce, pass.s);
    pass.gradients->release(dy);
    return sum;
  }
  /// The gradients of both this and a max pool behind it that has read x, from dy of that one, for
  /// backward, which then gets dx.
  void compute_gradients(const backward_pass<B>& pass, number* dy, number* dx,
                         const ops::max_pool_problem& pool, const std::uint8_t* argmax)
    requires(B::fuses_batch_norm && std::same_as<Epilogue, ops::epilogue::relu>)
  {
    has_gradients_ = true;
    if (pass.gradients->take_summed(saved_))
      return normalized_max_pool_backward_of_sums<number, V>(
          pool, pass.samples, dy, argmax, gradients_at(pass, dx), pass.mode, pass.s);
    const auto [problem, allreduce] = backward_problem(pass);
    normalized_max_pool_backward<number, V>(  // ops/gpu/normalized_max_pool.hpp
        problem, pool, pass.samples, tensors(pass), count_, dy, argmax, dx,
        pass.gradient_at(segment_, gamma_), pass.gradient_at(segment_ + 1, beta_), pass.mode,
        allreduce, pass.s);
  }
  /// The memory of dx, which is not dy, becomes an operand of the gradients of the layer before;
  /// `input` is the other.
  template <class Input>
  void compute_gradients(const backward_pass<B>& pass, number* dy, number* dx, const Input& input) {
    const auto [problem, allreduce] = backward_problem(pass);
    // for a GPU by argument-dependent lookup: ops/gpu/quantizing_batch_norm.hpp
    batch_norm_backward_quantized<V, Epilogue>(
        problem, pass.samples, tensors(pass), count_, dy, reinterpret_cast<decltype(input.out)>(dx),
        input, pass.gradient_at(segment_, gamma_), pass.gradient_at(segment_ + 1, beta_), pass.mode,
        allreduce, pass.s);
  }
  /// Requires that nothing has used the pass's scratch since compute_gradients.
  template <class Ready>
  void observe_samples(const backward_pass<B>& pass, const Ready& ready) const {
    if constexpr (is_observed<Ready>) {
      const ops::batch_norm_sums sums(problem_, pass.samples, V, pass.scratch->span().data);
      ready.observe(segment_, batch_norm_samples{problem_.in.channels, pass.samples, sums.pitch,
                                                 sums.firsts, sums.seconds});
    }
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number> target,
                   Ready& ready) {
    if (!has_gradients_) compute_gradients(pass, dy, dy);
    has_gradients_ = false;
    observe_samples(pass, ready);
    number* dx = pass.route_input_gradient(problem_.in, dy, target);
    signal_ready(ready);
    return dx;
  }
  template <class Ready, class Previous>
  number* backward(const backward_pass<B>& pass, number* dy, gradient_target<number>, Ready& ready,
                   Previous& previous)
    requires detail::nn::HasGradientOperands<Previous, B>
  {
    number* const dx = pass.gradients->acquire(size(pass));
    compute_gradients(pass, dy, dx, previous.gradient_operands(pass));
    pass.gradients->release(dy);
    observe_samples(pass, ready);
    signal_ready(ready);
    return dx;
  }

 private:
  template <class, int, class>
  friend class batch_norm_node;
  // As ops/gpu/fused_batch_norm.hpp has them.
  auto gradients_at(const backward_pass<B>& pass, number* dx)
    requires(B::fuses_batch_norm)
  {
    return ops::norm_gradients<number, real>{tensors(pass), dx, pass.gradient_at(segment_, gamma_),
                                             pass.gradient_at(segment_ + 1, beta_)};
  }
  [[gnu::noinline]] void normalize_again(int samples,
                                         const ops::batch_norm_tensors<number, real>& t,
                                         const number* residual, typename B::stream s) {
    // for a GPU by argument-dependent lookup: ops/gpu/batch_norm.hpp
    (void)batch_norm_normalize<number, V, Epilogue>(
        count_ == problem_.frozen_count ? ops::batch_norm_problem{problem_.in} : problem_, samples,
        t, residual, s);
  }
  [[nodiscard, gnu::noinline]] typename base::backward_arguments backward_problem(
      const backward_pass<B>& pass) const {
    if (count_ == problem_.frozen_count) return {{problem_.in}, {}};  // statistics are constants
    return {problem_, pass.batch_norm_allreduce};
  }
  // Begins a pass that does not write y.
  auto take_statistics(const forward_pass<B>& pass, const number* x) {
    expect_several_values(pass);
    begin(pass, x);
    const auto t = tensors(pass);
    if (has_statistics_)
      count_ = static_cast<double>(problem_.in.pixels()) * pass.samples;
    else
      count_ = batch_norm_statistics<number, V>(problem_, pass.samples, t, pass.plane + mean_,
                                                pass.plane + variance_, pass.batch_norm_allreduce,
                                                pass.s);
    return t;
  }
  // Where ranks share their statistics the values of all count: on a GPU, where count_ is this
  // rank's, batch_norm_settings::expect_several_values tests them.
  void expect_several_values(const forward_pass<B>& pass) const {
    if (problem_.in.pixels() == 1 && takes_statistics(pass) && !pass.batch_norm_allreduce)
      expect_several_samples(problem_, pass.samples, name_);
  }
  void expect_several_values() const {
    if (B::device::host_memory && count_ == 1) refuse_single_value(problem_, name_);
  }
  template <class Target>
  const number* forward_quantizing(const forward_pass<B>& pass, const number* x,
                                   const number* residual, const Target& to) {
    if (to.bytes == nullptr) return forward(pass, x, residual);
    expect_several_values(pass);
    begin(pass, x);
    const auto t = tensors(pass);
    const bool constant = !takes_statistics(pass);
    // for a GPU by argument-dependent lookup: ops/gpu/{batch_norm,quantizing_batch_norm}.hpp
    if (constant)
      batch_norm_recall<number, V>(problem_, t, pass.plane + mean_, pass.plane + variance_, pass.s);
    else if (!has_statistics_)
      count_ = batch_norm_statistics<number, V>(problem_, pass.samples, t, pass.plane + mean_,
                                                pass.plane + variance_, pass.batch_norm_allreduce,
                                                pass.s);
    if (!constant) expect_several_values();
    const double values = batch_norm_normalize_quantizing<V, Epilogue>(
        constant ? ops::batch_norm_problem{problem_.in} : problem_, pass.samples, t, residual, to,
        pass.s);
    if (constant)
      count_ = problem_.frozen_count;
    else if (has_statistics_)
      count_ = values;
    return y_;
  }
  double count_ = 0;
  bool has_statistics_ = false;  // of this pass, from the convolution before
  bool is_rounded_ = false;      // these
  bool has_gradients_ = false;   // backward's dy is dx
};

}  // namespace cordee::inline CORDEE_ABI::detail::nn
