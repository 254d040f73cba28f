// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Natural gradient by Kronecker-factored curvature (K-FAC; Martens and Grosse, 2015), distributed
// over ranks (SP-NGD; Osawa et al., 2019), in front of another optimizer.
//
//   A, G, F as in kronecker_factors.hpp, over all samples of the update; gradient W of (outputs, inputs)
//   pi = sqrt((tr A / dim A) / (tr G / dim G))
//   W <- (G + sqrt(damping) / pi I)^-1 W (A + pi sqrt(damping) I)^-1     convolutions, linear
//   w <- (F + batch_norm_damping damping I)^-1 w,  w = (dgamma, dbeta)    batch norms
//
// Then the optimizer inside makes its step with W as the gradient: velocity_sgd is SP-NGD's. The
// Fisher matrix is the empirical one, of the labels, from the one backward pass.
//
//   backward      each rank adds up A and G of its samples, layer by layer, as backward passes them
//   reduce        rank r owns consecutive layers, and gets the sums of their triangles (reduce-scatter)
//   solve         it factors A and G, and solves for its layers' W
//   gather        all ranks get all W (all-gather): the same bits everywhere
//
// Factors are as large as their layers want, (C window^2)^2 and K^2, which is no plane's size, so
// they are the trainer's, beside the arena, and no part of a checkpoint. With `refresh` n they are
// computed in every n-th applied step and kept in between (stale factors); a resumed run computes
// them in its first step, so that its bits are those of the uninterrupted run with refresh 1 alone.
// Tensors of other layers keep their gradient. Exchanges follow those of the gradient. Not written
// for GPUs yet.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/comm/collectives.hpp>
#include <cordee/core/cholesky.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/precision/precision.hpp>
#include <cordee/train/kronecker_factors.hpp>
#include <cordee/train/preconditioner.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

template <class Communicator>
class kfac_preconditioner {
 public:
  template <class O>
  [[gnu::cold]] kfac_preconditioner(const O& optimizer, const Communicator& all,
                                    std::span<const segment> whole, std::span<const segment> some)
      : comm_(all.duplicate(comm::agreement_context)),
        damping_(optimizer.damping),
        batch_norm_damping_(optimizer.batch_norm_damping * optimizer.damping),
        refresh_(optimizer.refresh),
        layers_(factored_layers(whole, some)),
        layer_of_(whole.size()),
        sums_(static_cast<std::size_t>(all.size())),
        updates_(sums_.size()),
        factors_(layers_.size()) {
    const auto ranks = sums_.size();
    for (std::size_t r = 0; r < ranks; ++r) {
      std::size_t size = 1, update = 0;  // 1: the number of samples
      for (std::size_t k = layers_.size() * r / ranks; k < layers_.size() * (r + 1) / ranks; ++k) {
        factored_layer& layer = layers_[k];
        layer_of_[layer.segment] = &layer;
        layer.owner = static_cast<int>(r);
        layer.factors = std::exchange(size, size + layer.input_size() + triangle_size(layer.rows));
        layer.update = std::exchange(update, update + layer.rows * layer.columns);
      }
      sums_[r].resize(size);
      updates_[r].resize(update);
    }
  }

  template <class B>
  void begin_pass(const B& micro, const step_info& info) {
    begin_step(info);
    expected_ += layers_.size();
    for (std::vector<double>& part : sums_) part[0] += micro.count;
    scale_ = 1 / micro.loss_weight();
  }
  template <class Samples>
  void observe(std::size_t segment, const Samples& samples) {
    const factored_layer* const layer = layer_of_[segment];
    if (layer == nullptr) return;
    ++observed_;
    if (!refreshes_) return;
    double* const a = sums_[static_cast<std::size_t>(layer->owner)].data() + layer->factors;
    add_factors(samples, scale_, a, a + layer->input_size());
  }
  template <class Gradients>
  void precondition(const Gradients& gradients, const step_info& info) {
    begin_step(info);  // of a step without samples
    expects(
        observed_ == expected_,
        "kfac: a layer of this model passes no samples in its backward (nn/sample_gradients.hpp): "
        "freeze it, or use the library's layers");
    const int rank = comm_.rank();
    if (refreshes_) {
      reduce_sums();
      for (std::size_t k = 0; k < layers_.size(); ++k)
        if (layers_[k].owner == rank) factor(layers_[k], factors_[k]);
      has_factors_ = true;
    }
    for (std::size_t k = 0; k < layers_.size(); ++k)
      if (layers_[k].owner == rank) solve(layers_[k], factors_[k], gradients);
    gather_updates();
    step_ = -1;
    using real = std::remove_cvref_t<decltype(gradients[0])>;
    for (const factored_layer& layer : layers_) {
      const double* u = updates_[static_cast<std::size_t>(layer.owner)].data() + layer.update;
      for (std::size_t i = 0; i < layer.rows; ++i)
        for (std::size_t j = 0; j < layer.columns; ++j)
          gradients[layer.at(i, j)] = static_cast<real>(*u++);
    }
  }

 private:
  struct layer_factors {
    std::optional<core::cholesky> a, g;
  };

  void begin_step(const step_info& info) {
    if (std::exchange(step_, info.step) == info.step) return;
    expected_ = observed_ = 0;
    refreshes_ = !has_factors_ || info.applied % refresh_ == 0;
    for (std::vector<double>& part : sums_) part.assign(part.size(), 0);
  }

  // Sends each rank the sums of its layers; they are added in the order of ranks.
  void reduce_sums() {
    std::vector<double>& own = sums_[static_cast<std::size_t>(comm_.rank())];
    const std::size_t n = own.size();
    std::vector<double> rows(n * sums_.size());
    exchange([&](std::size_t r) { return std::span(sums_[r]); },
             [&](std::size_t r) { return std::span(rows).subspan(r * n, n); });
    std::copy(own.begin(), own.end(), rows.begin() + static_cast<std::ptrdiff_t>(n) * comm_.rank());
    own.assign(n, 0);
    for (std::size_t i = 0; i < rows.size(); ++i) own[i % n] += rows[i];
  }
  void gather_updates() {
    std::vector<double>& own = updates_[static_cast<std::size_t>(comm_.rank())];
    exchange([&](std::size_t) { return std::span(own); },
             [&](std::size_t r) { return std::span(updates_[r]); });
  }
  // Sends out(r) to each other rank r, and receives in(r) from it.
  template <class Out, class In>
  void exchange(const Out& out, const In& in) {
    if constexpr (!comm::single_rank<Communicator>) {
      core::pod_vector<send_op<cpu>> sends;
      core::pod_vector<recv_op<cpu>> receives;
      const auto on_cpu = [](std::span<double> x) {
        return span_on<double, cpu>{x.data(), x.size()};
      };
      for (int r = 0; r < comm_.size(); ++r) {
        const auto k = static_cast<std::size_t>(r);
        if (r == comm_.rank()) continue;
        if (!out(k).empty()) sends.push_back({r, const_bytes(on_cpu(out(k)))});
        if (!in(k).empty()) receives.push_back({r, bytes(on_cpu(in(k)))});
      }
      comm_.exchange(std::as_const(sends).span(), std::as_const(receives).span(), cpu::stream{});
    }
  }

  // L of the damped factors of a layer.
  void factor(const factored_layer& layer, layer_factors& to) const {
    const std::vector<double>& part = sums_[static_cast<std::size_t>(layer.owner)];
    const double share = part[0] > 0 ? 1 / part[0] : 0;
    const double* const a = part.data() + layer.factors;
    const double* const g = a + layer.input_size();
    if (!layer.has_inputs()) {
      to.g = damped(g, layer.rows, share, batch_norm_damping_);
      return;
    }
    const double root = std::sqrt(damping_), per_a = mean_diagonal(a, layer.columns),
                 per_g = mean_diagonal(g, layer.rows);
    const double pi = per_a > 0 && per_g > 0 ? std::sqrt(per_a / per_g) : 1;
    to.a = damped(a, layer.columns, share, pi * root);
    to.g = damped(g, layer.rows, share, root / pi);
  }
  static double mean_diagonal(const double* triangle, std::size_t n) {
    double trace = 0;
    for (std::size_t i = 0; i < n; ++i) trace += triangle[triangle_size(i) + i];
    return trace / static_cast<double>(n);
  }
  static core::cholesky damped(const double* triangle, std::size_t n, double share,
                               double damping) {
    std::vector<double> k(n * n);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j <= i; ++j)
        k[i * n + j] = share * *triangle++ + (i == j ? damping : 0);
    return core::cholesky(std::move(k), n);
  }

  // The layer's part of updates_ from its gradient.
  template <class Gradients>
  void solve(const factored_layer& layer, const layer_factors& f, const Gradients& gradients) {
    const std::size_t rows = layer.rows, columns = layer.columns;
    double* const u = updates_[static_cast<std::size_t>(layer.owner)].data() + layer.update;
    std::vector<double> transposed(rows * columns);  // (columns, rows)
    for (std::size_t j = 0; j < columns; ++j)
      for (std::size_t i = 0; i < rows; ++i)
        transposed[j * rows + i] = static_cast<double>(gradients[layer.at(i, j)]);
    if (f.a) solve_columns(*f.a, columns, transposed.data(), rows);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < columns; ++j) u[i * columns + j] = transposed[j * rows + i];
    solve_columns(*f.g, rows, u, columns);
  }

  Communicator comm_;
  double damping_, batch_norm_damping_;
  std::int64_t refresh_, step_ = -1;
  double scale_ = 1;                         // from dy to the gradient of a sample's own loss
  std::size_t expected_ = 0, observed_ = 0;  // layers of this step's passes
  bool refreshes_ = false, has_factors_ = false;
  std::vector<factored_layer> layers_;
  std::vector<const factored_layer*> layer_of_;      // (segments), null where there is none
  std::vector<std::vector<double>> sums_, updates_;  // by owner
  std::vector<layer_factors> factors_;               // (layers), of this rank's
};

}  // namespace detail::train

/// The optimizer inside gets the preconditioned gradient; its weight decay is added to that.
template <class Optimizer>
struct kfac {
  static constexpr agreement needs = Optimizer::needs;
  static constexpr bool eager = Optimizer::eager;
  static constexpr int slots = Optimizer::slots;
  static constexpr norms_needed norms = Optimizer::norms;
  static constexpr bool preconditions = true;

  Optimizer optimizer{};
  double damping = 1e-3;
  double batch_norm_damping = 16;  // times damping
  int refresh = 1;                 // applied steps from one computation of the factors to the next

  template <class M, class R>
  struct of_model {
    static_assert(M::device::host_memory, "kfac computes its factors on the CPU");
    static_assert(!Quantized<typename M::precision>,
                  "kfac has no factors of int8's convolutions: train in fp32");
    using type = detail::train::kfac_preconditioner<typename R::communicator_type>;
  };
  template <class M, class R>
  using preconditioner = typename of_model<M, R>::type;

  template <class Real, class D>
  span_on<Real, D> propose(const optimizer_view<Real, D, slots>& v, const step_info& info,
                           typename D::stream s) const {
    return optimizer.propose(v, info, s);
  }
  template <class Real, class D>
  void accept(const optimizer_view<Real, D, slots>& v, const step_info& info,
              typename D::stream s) const {
    optimizer.accept(v, info, s);
  }

  void check() const {
    detail::optim::check_optimizer(optimizer);
    detail::optim::expects_positive("kfac", "damping", damping);
    detail::optim::expects_positive("kfac", "batch_norm_damping", batch_norm_damping);
    expects(refresh > 0, "kfac: refresh is a number of steps, 1 or more");
  }
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
