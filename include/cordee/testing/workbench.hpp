// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A rule by itself, on the table of the bowl: one rank's planes, and steps as the trainer takes
// them, with nothing to mix.
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <cordee/comm/solo.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/testing/bowl.hpp>
#include <cordee/testing/gradient.hpp>
#include <cordee/train/planes.hpp>

namespace cordee::inline CORDEE_ABI {

template <class Real>
bool same_bits(const std::vector<Real>& a, const std::vector<Real>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(Real)) == 0);
}

template <class O, class Real = double>
class workbench {
 public:
  static constexpr std::size_t by_segment = 1;  // as a limit of buckets: no two segments together

  explicit workbench(const O& rule, int workers = 1)
      : rule_(rule), device_(workers), stream_(device_.open()), planes_(device_, bowl_table) {
    // Norms that nobody asked for are not numbers, so that a rule cannot lean on them; but for the
    // gradient's under an exact mean, which tell whether it is finite.
    const Real nan = std::numeric_limits<Real>::quiet_NaN();
    std::fill(planes_.weights().begin(), planes_.weights().end(), nan);
    std::fill(planes_.grads().begin(), planes_.grads().end(), nan);
    planes_.measure(planes_.table(), 0, true, stream_);
    planes_.clear(planes_.weights(), stream_);
    planes_.clear(planes_.grads(), stream_);
  }

  /// Normal weights of that size, zero where the bowl's are; a fresh state.
  workbench& start(std::uint64_t seed, Real size = 1) {
    for (int k = 0; k < O::slots; ++k) planes_.clear(planes_.slot(k), stream_);
    now_ = {};
    return draw(planes_.weights(), seed, size, false, "zero");
  }
  /// A normal gradient of that size; `sparse`: only the first number of each segment is not zero.
  workbench& draw_gradient(std::uint64_t seed, Real size = 1, bool sparse = false) {
    return draw(planes_.grads(), 1000 + seed, size, sparse, "");
  }

  /// One update on the gradient that stands there, proposed in buckets of so many numbers.
  workbench& step(double rate, std::size_t bucket_limit = ~std::size_t{0}) {
    begin(rate);
    said_.clear();
    bool spoke = false;
    for (const bucket& b : cut(planes_.trainables(), bucket_limit)) {
      const auto said = rule_.propose(sight(b.segments, b.first), now_, stream_);
      spoke = spoke || !said.empty();
      said_.insert(said_.begin(), said.begin(), said.end());  // buckets come from the back
    }
    if (O::norms == when::before_accept || O::needs == agreement::exact)
      look(O::norms == when::before_accept);
    rule_.accept(sight(planes_.trainables(), 0), now_, stream_);
    ++now_.step;
    ++now_.applied;
    if (spoke) ++now_.round;
    now_.previous_rate = rate;
    return *this;
  }

  /// Lets every segment speak, and says what was wrong with the range that it returned.
  [[nodiscard]] std::string propose_only(double rate) {
    begin(rate);
    for (const bucket& b : cut(planes_.trainables(), by_segment)) {
      const auto v = sight(b.segments, b.first);
      const auto said = rule_.propose(v, now_, stream_);
      bool known = said.empty() || said.data == v.weights.data || said.data == v.grads.data;
      for (const auto& slot : v.slots) known = known || said.data == slot.data;
      if (!known || (!said.empty() && said.size != v.grads.size))
        return text("what is said of \"", b.segments.front().name,
                    "\" is not the bucket's range of a plane");
    }
    return {};
  }

  [[nodiscard]] std::vector<Real> weights() { return copy(planes_.weights()); }
  [[nodiscard]] std::vector<Real> gradient() { return copy(planes_.grads()); }
  /// Weights and slots.
  [[nodiscard]] std::vector<Real> state() {
    std::vector<Real> all = weights();
    for (int k = 0; k < O::slots; ++k) {
      const auto slot = planes_.slot(k);
      all.insert(all.end(), slot.begin(), slot.end());
    }
    return all;
  }
  /// What the last step proposed, in the table's order.
  [[nodiscard]] const std::vector<Real>& said() const { return said_; }

  /// The segment behind which a weight or a slot is not zero, if any.
  [[nodiscard]] std::string dirt_between_segments() {
    const std::vector<Real> all = state();
    const std::size_t plane = planes_.weights().size;
    for (const segment& s : bowl_table)
      for (std::size_t i = s.end(); i < s.offset + aligned(s.size); ++i)
        for (std::size_t at = i; at < all.size(); at += plane)
          if (all[at] != 0) return std::string(s.name);
    return {};
  }

 private:
  // Norms as they are known before a rule speaks.
  void begin(double rate) {
    now_.rate = rate;
    now_.epoch = static_cast<double>(now_.step);
    looked_ = false;
    if constexpr (O::norms == when::before_propose) look(true);
  }
  void look(bool weights_too) {
    planes_.begin(now_, stream_);
    planes_.measure(planes_.trainables(), 0, weights_too, stream_);
    planes_.tally(planes_.trainables(), 0, true, stream_);
    looked_ = true;
  }
  auto sight(std::span<const segment> some, std::size_t first) {
    auto v = planes_.sight(some, first, true);
    if (!looked_) v.grad_square = {&unknown, 1};
    return v;
  }
  workbench& draw(span_on<Real, cpu> plane, std::uint64_t seed, Real size, bool sparse,
                  std::string_view left_out) {
    static const std::vector<Real> numbers = normal_numbers<Real>(8191, 1);  // a prime of them
    planes_.clear(plane, stream_);
    for (const segment& s : planes_.trainables()) {
      if (s.name == left_out) continue;
      const std::size_t count = sparse ? std::min<std::size_t>(1, s.size) : s.size;
      for (std::size_t i = 0; i < count; ++i)
        plane[s.offset + i] = size * numbers[(seed * 389 + s.offset + i) % numbers.size()];
    }
    return *this;
  }
  static std::vector<Real> copy(span_on<Real, cpu> x) { return {x.begin(), x.end()}; }

  static constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

  O rule_;
  cpu device_;
  cpu::stream stream_;
  planes<Real, cpu, O, solo> planes_;
  moment now_{};
  bool looked_ = false;
  std::vector<Real> said_;
};

}  // namespace cordee::inline CORDEE_ABI
