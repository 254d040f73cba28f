// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Layers in fp64 on engine `reference`, written for their equations, and the same layers with their
// filters split over ranks (Krizhevsky, 2014):
//
//   forward    y_r = w_r * x          this rank's filters, of the whole input
//              y   = all-gather y_r   every rank has all channels
//   backward   dw_r = dy_r (x) x      no exchange: each rank owns its filters
//              dx  = sum over r of  w_r^T * dy_r
//
// A linear layer is a convolution of 1x1 images.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <span>
#include <vector>

#include <cordee/cordee.hpp>

namespace examples {

using namespace cordee;
using numbers = std::vector<double>;

/// y = w * x for `samples` images of problem.in; rows [first, first + filters) of a layer of `all`.
class layer {
 public:
  layer(const convolution_problem& problem, int samples, int first = 0, int all = 0)
      : p(problem), n(samples), w(p.weights()), dw(p.weights()) {
    // As in the whole layer, whatever the rank: normal with deviation sqrt(2 / fan-in).
    std::mt19937_64 random(static_cast<std::uint64_t>(std::max(all, p.filters)));
    std::normal_distribution<double> normal(
        0, std::sqrt(2.0 * p.filters / static_cast<double>(w.size())));
    for (std::size_t skipped =
             static_cast<std::size_t>(first) * w.size() / static_cast<std::size_t>(p.filters);
         skipped > 0; --skipped)
      normal(random);
    for (double& x : w) x = normal(random);
  }

  [[nodiscard]] std::size_t inputs() const { return static_cast<std::size_t>(n) * p.in.size(); }
  [[nodiscard]] std::size_t outputs() const { return static_cast<std::size_t>(n) * p.out().size(); }

  void forward(const numbers& x, numbers& y) const {
    y.resize(outputs());
    reference{}.fprop<double>(p, n, x.data(), w.data(), y.data(), cpu::stream{});
  }
  /// Adds to dw.
  void backward(const numbers& x, const numbers& dy, numbers& dx) {
    double* const no_workspace = nullptr;
    reference{}.wgrad<double>(p, n, x.data(), dy.data(), dw.data(), write_mode::add, no_workspace,
                              cpu::stream{});
    dx.resize(inputs());
    reference{}.dgrad<double>(p, n, dy.data(), w.data(), dx.data(), write_mode::overwrite,
                              cpu::stream{});
  }
  void update(double learning_rate) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= learning_rate * dw[i];
    std::fill(dw.begin(), dw.end(), 0.0);
  }

  convolution_problem p;
  int n;
  numbers w, dw;
};

/// Every rank's part to every other: parts[k] is rank k's. Each has the size of `own`.
template <class Real, Device D, class Communicator>
void all_gather(const Communicator& comm, span_on<Real, D> own,
                std::span<const span_on<Real, D>> parts, typename D::stream s) {
  std::vector<send_op<D>> out;
  std::vector<recv_op<D>> in;
  for (int rank = 0; rank < comm.size(); ++rank) {
    out.push_back({rank, bytes(own)});
    in.push_back({rank, bytes(parts[static_cast<std::size_t>(rank)])});
  }
  comm.template exchange<D>(std::span<const send_op<D>>(out), std::span<const recv_op<D>>(in), s);
}

/// The sum over ranks, in place, by a ring's mean.
template <class Real, Device D, class Communicator>
void sum_over_ranks(const Communicator& comm, span_on<Real, D> x, const D& device) {
  const ring reducer{comm};
  buffer<std::byte, D> scratch(device, reducer.template scratch<Real>(x.size));
  const auto s = device.make_stream();
  reducer.mix(bucket_view<Real, D, 0>{nullptr, x, {}, scratch.span()}, step_info{}, s);
  if constexpr (D::host_memory)
    for (std::size_t i = 0; i < x.size; ++i) x.data[i] *= comm.size();
}

/// A layer of which each rank has as many filters.
/// Requires that their number is a multiple of ranks.
template <class Communicator>
class split_over {
 public:
  split_over(Communicator ranks, const convolution_problem& whole, int samples)
      : comm_(ranks),
        whole_(whole),
        part_(part_of(whole, ranks), samples, ranks.rank() * part_of(whole, ranks).filters,
              whole.filters) {}

  void forward(const numbers& x, numbers& y) {
    part_.forward(x, own_);
    gathered_.resize(own_.size() * static_cast<std::size_t>(comm_.size()));
    std::vector<span_on<double, cpu>> parts;
    for (int r = 0; r < comm_.size(); ++r)
      parts.push_back({gathered_.data() + static_cast<std::size_t>(r) * own_.size(), own_.size()});
    all_gather(comm_, span_on<double, cpu>{own_.data(), own_.size()},
               std::span<const span_on<double, cpu>>(parts), cpu::stream{});
    y.resize(gathered_.size());
    for_each_channel([&](std::size_t in_parts, std::size_t in_whole, std::size_t size, int) {
      std::copy_n(gathered_.data() + in_parts, size, y.data() + in_whole);
    });
  }
  void backward(const numbers& x, const numbers& dy, numbers& dx) {
    for_each_channel([&](std::size_t in_parts, std::size_t in_whole, std::size_t size, int rank) {
      if (rank == comm_.rank())
        std::copy_n(dy.data() + in_whole, size,
                    own_.data() + in_parts - static_cast<std::size_t>(rank) * own_.size());
    });
    part_.backward(x, own_, dx);
    sum_over_ranks(comm_, span_on<double, cpu>{dx.data(), dx.size()}, cpu{});
  }
  void update(double learning_rate) { part_.update(learning_rate); }
  [[nodiscard]] const layer& part() const { return part_; }

 private:
  static convolution_problem part_of(convolution_problem whole, const Communicator& ranks) {
    expects(whole.filters % ranks.size() == 0, "split_over: filters must be a multiple of ranks");
    whole.filters /= ranks.size();
    return whole;
  }
  // f(offset in (ranks, samples, filters / ranks, pixels), in (samples, filters, pixels), size,
  // rank) for the channels of each sample and rank.
  template <class F>
  void for_each_channel(const F& f) const {
    const std::size_t size = part_.p.out().size();
    for (int rank = 0; rank < comm_.size(); ++rank)
      for (int sample = 0; sample < part_.n; ++sample)
        f(static_cast<std::size_t>(rank * part_.n + sample) * size,
          static_cast<std::size_t>(sample * comm_.size() + rank) * size, size, rank);
  }

  Communicator comm_;
  convolution_problem whole_;
  layer part_;
  numbers own_, gathered_;  // (samples, filters / ranks, pixels), and that of every rank
};

inline void relu_forward(numbers& x) {
  for (double& v : x) v = std::max(v, 0.0);
}
/// `y`: what relu_forward made.
inline void relu_backward(const numbers& y, numbers& dy) {
  for (std::size_t i = 0; i < y.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}
/// The sum of the samples' cross-entropies / `batch`; logits become its gradient.
inline double softmax_cross_entropy(numbers& logits, std::span<const int> labels, int batch) {
  const std::size_t classes = logits.size() / labels.size();
  double loss = 0;
  for (std::size_t n = 0; n < labels.size(); ++n) {
    double* const z = logits.data() + n * classes;
    const double largest = *std::max_element(z, z + classes);
    double sum = 0;
    for (std::size_t k = 0; k < classes; ++k) sum += std::exp(z[k] - largest);
    const auto label = static_cast<std::size_t>(labels[n]);
    loss -= z[label] - largest - std::log(sum);
    for (std::size_t k = 0; k < classes; ++k)
      z[k] = (std::exp(z[k] - largest) / sum - (k == label ? 1 : 0)) / batch;
  }
  return loss / batch;
}

}  // namespace examples
