// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What kfac.hpp puts before an optimizer: factors of the layers' Fisher matrices, and the gradient
// solved by them; the layers are divided among the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/cholesky.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/kfac/kronecker_factors.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

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

  /// The sums of which this rank's factors are, if the step after `applied` ones keeps these.
  [[nodiscard]] std::vector<double> state(std::int64_t applied) const {
    if (!has_factors_ || applied % refresh_ == 0) return {};
    return sums_[static_cast<std::size_t>(comm_.rank())];
  }
  void restore(const std::vector<double>& sums) {
    has_factors_ = !sums.empty();
    if (!has_factors_) return;
    std::vector<double>& own = sums_[static_cast<std::size_t>(comm_.rank())];
    expects(sums.size() == own.size(),
            "kfac: the saved factors are of other layers than this rank's: continue with the "
            "network, frozen layers and number of ranks that were saved");
    own = sums;
    factor_own();
  }

  template <class B>
  void begin_pass(const B& micro, const step_info& info) {
    begin_step(info);
    expected_ += layers_.size();
    if (refreshes_)
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
      factor_own();
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
    if (refreshes_)
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
        if (!out(k).empty()) sends.push_back({r, bytes(on_cpu(out(k)))});
        if (!in(k).empty()) receives.push_back({r, bytes(on_cpu(in(k)))});
      }
      comm_.exchange(std::as_const(sends).span(), std::as_const(receives).span(), cpu::stream{});
    }
  }

  void factor_own() {
    for (std::size_t k = 0; k < layers_.size(); ++k)
      if (layers_[k].owner == comm_.rank()) factor(layers_[k], factors_[k]);
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
    const double root = core::sqrt(damping_), per_a = mean_diagonal(a, layer.columns),
                 per_g = mean_diagonal(g, layer.rows);
    const double pi = per_a > 0 && per_g > 0 ? core::sqrt(per_a / per_g) : 1;
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

}  // namespace cordee::inline CORDEE_ABI::detail::train
