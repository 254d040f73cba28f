// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Batch normalisation as a layer, with the activation that follows it (ops/batch_norm.hpp).
//
// Training may freeze the running statistics: it then normalises by them, as evaluation does, and
// they are constants of its gradient.
//
// Its scale begins at `gamma`: 1, or 0 for the last one of a residual block, which then begins as
// the identity (Goyal et al., 2017).
#pragma once

#include <cordee/nn/layer.hpp>
#include <cordee/nn/relu.hpp>
#include <cordee/ops/batch_norm.hpp>

namespace cordee::inline CORDEE_ABI {

/// Statistics over `group` consecutive samples, 0 for the whole batch.
struct norm_settings {
  int gamma = 1;
  int group = 0;
};

namespace detail {

template <class Activation>
struct epilogue_of {
  static_assert(std::same_as<Activation, identity> || std::same_as<Activation, relu>,
                "batch_norm stores as it is or through a ReLU: use identity or relu");
  using type = std::conditional_t<std::same_as<Activation, relu>, epilogue::relu, epilogue::store>;
};

/// A batch norm at work. With the epilogue add_relu it is the last one of a residual block.
template <class B, int V, class Epilogue>
class norm_node {
  using number = typename B::number;
  using real = typename B::real;

 public:
  [[gnu::cold, gnu::noinline]] norm_node(const batch_norm_problem& problem, placement& to)
      : problem_(problem),
        segment_(to.next),
        gamma_(to.table[segment_].offset),
        beta_(to.table[segment_ + 1].offset),
        mean_(to.table[to.statistic].offset),
        variance_(to.table[to.statistic + 1].offset),
        image_(to.template take_image<real>(2 * padded())),
        activation_(to.activation) {
    to.activation += 2;
    to.next += 2;
    to.statistic += 2;
    to.meet(B::numbers(problem.at));
  }

  void publish(const publish_pass<B>& pass) const {
    const auto channels = static_cast<std::size_t>(problem_.at.channels);
    real* const image = pass.template at<real>(image_);
    if (padded() > channels) pass.where.clear(image, 2 * padded() * sizeof(real), pass.s);
    pass.where.copy(image, pass.plane + gamma_, channels * sizeof(real), pass.s);
    pass.where.copy(image + padded(), pass.plane + beta_, channels * sizeof(real), pass.s);
  }

  const number* forward(const forward_pass<B>& pass, const number* x,
                        const number* residual = nullptr) {
    y_ = pass.room(activation_, B::numbers(problem_.at));
    saved_ = pass.store->template room<real>(activation_ + 1, problem_.saved(pass.samples, V));
    x_ = x;
    const auto t = tensors(pass);
    if (pass.what == phase::train && !pass.frozen) {
      count_ = batch_norm_forward<number, V, Epilogue>(problem_, pass.samples, t, residual,
                                                       pass.plane + mean_, pass.plane + variance_,
                                                       pass.combine, pass.s);
    } else {
      count_ = problem_.constant;
      batch_norm_evaluate<number, V, Epilogue>(problem_, pass.samples, t, residual,
                                               pass.plane + mean_, pass.plane + variance_, pass.s);
    }
    return y_;
  }

  /// Gradients without a word to anybody; dx may be dy where there is no residual.
  void gradients(const backward_pass<B>& pass, number* dy, number* dx) {
    const bool alone = count_ == problem_.constant;  // each sample for itself
    batch_norm_backward<number, V, Epilogue>(alone ? batch_norm_problem{problem_.at} : problem_,
                                             pass.samples, tensors(pass), count_, dy, dx,
                                             pass.plane + gamma_, pass.plane + beta_, pass.mode,
                                             alone ? combine_sums{} : pass.combine, pass.s);
  }
  template <class Ready>
  void announce(Ready& ready) const {
    ready(segment_ + 1);
    ready(segment_);
  }

  template <class Ready>
  number* backward(const backward_pass<B>& pass, number* dy, destination<number> to, Ready& ready) {
    gradients(pass, dy, dy);
    number* dx = deliver(pass, problem_.at, dy, to);
    announce(ready);
    return dx;
  }

 private:
  [[nodiscard]] std::size_t padded() const { return problem_.lanes_of(V); }
  template <class Pass>
  batch_norm_tensors<number, real> tensors(const Pass& pass) {
    if constexpr (B::device::host_memory)  // grids work in memory that their stream lends
      pass.scratch->reserve(problem_.scratch(pass.samples, V));
    const real* const image = pass.template at<real>(image_);
    return {x_, y_, image, image + padded(), saved_, pass.scratch->span().data};
  }

  batch_norm_problem problem_;
  std::size_t segment_, gamma_, beta_, mean_, variance_, image_, activation_;
  double count_ = 0;
  const number* x_ = nullptr;
  number* y_ = nullptr;
  real* saved_ = nullptr;
};

}  // namespace detail

template <class Activation = identity, norm_settings With = norm_settings{}>
struct batch_norm {
  static_assert(With.group >= 0, "a group of samples cannot be negative: 0 means the whole batch");
  using activation = Activation;
  static constexpr norm_settings settings = With;

  static constexpr extent out(const extent& in) { return in; }
  static constexpr void describe(const extent& in, catalogue& to) {
    const auto mark = to.norm();
    to.tensor("weight", kind::scale, {in.channels}, {.mean = static_cast<double>(With.gamma)});
    to.tensor("bias", kind::shift, {in.channels}, {});
    to.tensor("running_mean", kind::statistic, {in.channels}, {});
    to.tensor("running_var", kind::statistic, {in.channels}, {.mean = 1});
    to.back(mark);
  }

  template <class B, extent In, class Epilogue = typename detail::epilogue_of<Activation>::type>
  static auto bind(placement& to) {
    return detail::norm_node<B, B::block(In.channels), Epilogue>({In, With.group}, to);
  }
};

}  // namespace cordee::inline CORDEE_ABI
