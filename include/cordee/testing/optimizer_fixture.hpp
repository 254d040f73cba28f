// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An optimizer on one rank without a trainer: planes for the table of quadratic_model, and steps in
// the trainer's order, with nothing to mix.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/testing/gradient.hpp>
#include <cordee/testing/quadratic_model.hpp>
#include <cordee/testing/same_bits.hpp>
#include <cordee/train/step/planes.hpp>

namespace cordee::inline CORDEE_ABI {

/// An optimizer with planes of type Real; see the header's top.
template <class O, class Real = double>
class optimizer_fixture {
 public:
  /// A `bucket_limit` of `step` that makes each segment a bucket.
  static constexpr std::size_t one_segment_per_bucket = 1;

  /// Weights, gradient and slots are zero until `reset` and `set_gradient`.
  explicit optimizer_fixture(const O& optimizer, int workers = 1)
      : optimizer_(optimizer),
        device_(workers),
        stream_(device_.make_stream()),
        planes_(device_, quadratic_table) {
    // Norms that the optimizer did not request are NaN, so that a use of them is detected; norms of
    // an exact mean are always known, since they determine whether it is finite.
    const Real nan = std::numeric_limits<Real>::quiet_NaN();
    std::fill(planes_.weights().begin(), planes_.weights().end(), nan);
    std::fill(planes_.grads().begin(), planes_.grads().end(), nan);
    planes_.compute_norms(planes_.table(), 0, true, stream_);
    planes_.clear(planes_.weights(), stream_);
    planes_.clear(planes_.grads(), stream_);
  }

  /// Draws normal weights of that size, zero where quadratic_model's are; zeroes slots and step
  /// counts.
  optimizer_fixture& reset(std::uint64_t seed, Real size = 1) {
    for (int k = 0; k < O::slots; ++k) planes_.clear(planes_.slot(k), stream_);
    planes_.numbers().restore(std::vector<double>(planes_.numbers().size()), stream_);
    info_ = {};
    draw(planes_.weights(), seed, size, false, "zero");
    detail::optim::initialize_slots(optimizer_, view_of(planes_.trainables(), 0), stream_);
    return *this;
  }
  /// Draws a normal gradient of that size; if `sparse`, all but the first number of each segment
  /// are zero.
  optimizer_fixture& set_gradient(std::uint64_t seed, Real size = 1, bool sparse = false) {
    return draw(planes_.grads(), 1000 + seed, size, sparse, "");
  }

  /// Makes one update with the gradient, proposed in buckets of at most `bucket_limit` numbers.
  optimizer_fixture& step(double learning_rate, std::size_t bucket_limit = ~std::size_t{0}) {
    begin(learning_rate);
    proposed_.clear();
    bool has_proposed = false;
    for (const bucket& b : detail::core::make_buckets(planes_.trainables(), bucket_limit)) {
      const auto proposed =
          detail::optim::proposal(optimizer_, view_of(b.segments, b.first_segment), info_, stream_);
      has_proposed = has_proposed || !proposed.empty();
      // Buckets are in backward's order, from the last segment to the first.
      proposed_.insert(proposed_.begin(), proposed.begin(), proposed.end());
    }
    if (detail::optim::norms_of<O> == norms_needed::before_accept || O::needs == agreement::exact)
      measure_norms(detail::optim::norms_of<O> == norms_needed::before_accept);
    optimizer_.accept(view_of(planes_.trainables(), 0), info_, stream_);
    ++info_.step;
    ++info_.applied;
    if (has_proposed) ++info_.round;
    info_.previous_learning_rate = learning_rate;
    return *this;
  }

  /// Proposes each segment alone; returns why a proposal is invalid, or an empty string.
  [[nodiscard]] std::string propose_violation(double learning_rate) {
    begin(learning_rate);
    for (const bucket& b :
         detail::core::make_buckets(planes_.trainables(), one_segment_per_bucket)) {
      const auto v = view_of(b.segments, b.first_segment);
      const auto proposed = detail::optim::proposal(optimizer_, v, info_, stream_);
      bool in_plane =
          proposed.empty() || proposed.data == v.weights.data || proposed.data == v.grads.data;
      for (const auto& slot : v.slots) in_plane = in_plane || proposed.data == slot.data;
      if (!in_plane || (!proposed.empty() && proposed.size != v.grads.size))
        return concat("the proposal for \"", b.segments.front().name,
                      "\" is not the bucket's range of a plane");
    }
    return {};
  }

  /// A copy of the weights, including padding.
  [[nodiscard]] std::vector<Real> weights() { return copy(planes_.weights()); }
  /// A copy of the gradient plane, which the optimizer may have written.
  [[nodiscard]] std::vector<Real> gradient() { return copy(planes_.grads()); }
  /// Weights and slots, then the numbers of segments.
  [[nodiscard]] std::vector<Real> state() {
    std::vector<Real> result = weights();
    for (int k = 0; k < O::slots; ++k) {
      const auto slot = planes_.slot(k);
      result.insert(result.end(), slot.begin(), slot.end());
    }
    for (const double x : planes_.numbers().saved(stream_)) result.push_back(static_cast<Real>(x));
    return result;
  }
  /// The proposal of the last step, in the table's order.
  [[nodiscard]] const std::vector<Real>& proposed() const { return proposed_; }

  /// The name of a segment whose padding is not zero in the weights or a slot, if any.
  [[nodiscard]] std::string nonzero_padding() {
    const std::vector<Real> numbers = state();
    const std::size_t plane = planes_.weights().size;
    for (const segment& s : quadratic_table)
      for (std::size_t i = s.end(); i < s.offset + detail::core::align_up(s.size); ++i)
        for (std::size_t k = i; k < numbers.size(); k += plane)
          if (numbers[k] != 0) return std::string(s.name);
    return {};
  }

 private:
  // Norms as they are known before propose.
  void begin(double learning_rate) {
    info_.learning_rate = learning_rate;
    info_.epoch = static_cast<double>(info_.step);
    norms_known_ = false;
    if constexpr (detail::optim::norms_of<O> == norms_needed::before_propose) measure_norms(true);
  }
  void measure_norms(bool of_weights) {
    planes_.begin_step(info_, true, stream_);
    planes_.compute_norms(planes_.trainables(), 0, of_weights, stream_);
    planes_.record_norms(planes_.trainables(), 0, true, stream_);
    norms_known_ = true;
  }
  auto view_of(std::span<const segment> segments, std::size_t first) {
    auto v = planes_.view_of(segments, first, true);
    if (!norms_known_) v.squared_global_norm = {&unknown, 1};
    return v;
  }
  optimizer_fixture& draw(span_on<Real, cpu> plane, std::uint64_t seed, Real size, bool sparse,
                          std::string_view zero_segment) {
    static const std::vector<Real> numbers = normal_numbers<Real>(8191, 1);  // 8191 is prime
    planes_.clear(plane, stream_);
    for (const segment& s : planes_.trainables()) {
      if (s.name == zero_segment) continue;
      const std::size_t count = sparse ? std::min<std::size_t>(1, s.size) : s.size;
      for (std::size_t i = 0; i < count; ++i)
        plane[s.offset + i] = size * numbers[(seed * 389 + s.offset + i) % numbers.size()];
    }
    return *this;
  }
  static std::vector<Real> copy(span_on<Real, cpu> x) { return {x.begin(), x.end()}; }

  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  O optimizer_;
  cpu device_;
  cpu::stream stream_;
  detail::train::planes<Real, cpu, O, solo> planes_;
  step_info info_{};
  bool norms_known_ = false;
  std::vector<Real> proposed_;
};

}  // namespace cordee::inline CORDEE_ABI
