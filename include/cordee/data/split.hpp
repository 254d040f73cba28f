// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A part of a data set, and the cut of one into training and held-out examples.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

/// Some examples of a data set, in the order given.
template <Dataset S>
class subset {
 public:
  subset(S dataset, std::vector<std::size_t> which) : dataset_(std::move(dataset)) {
    for (const std::size_t i : which)
      expects(i < dataset_.size(), "subset: the data set has no such example");
    which_ = std::make_shared<const std::vector<std::size_t>>(std::move(which));
  }

  [[nodiscard]] extent image() const { return dataset_.image(); }
  [[nodiscard]] int classes() const { return dataset_.classes(); }
  [[nodiscard]] std::size_t size() const { return which_->size(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    expects(i < which_->size(), "subset: there is no such example");
    return dataset_.read((*which_)[i], pixels);
  }
  /// The numbers of the examples in the whole data set.
  [[nodiscard]] std::span<const std::size_t> which() const { return *which_; }

 private:
  S dataset_;
  std::shared_ptr<const std::vector<std::size_t>> which_;
};

template <Dataset S>
struct parts {
  subset<S> training, held_out;
};

namespace detail {
/// Whole numbers that add up to round(fraction x sum of counts) and differ by less than 1 from
/// fraction x count: floors first, what is left goes to the largest remainders, ties to the first.
inline std::vector<std::size_t> shares(const std::vector<std::size_t>& counts, double fraction) {
  std::vector<std::size_t> share;
  std::vector<double> remainder;
  std::size_t all = 0, given = 0;
  for (const std::size_t n : counts) {
    const double exact = static_cast<double>(n) * fraction;
    share.push_back(static_cast<std::size_t>(exact));
    remainder.push_back(exact - std::floor(exact));
    all += n;
    given += share.back();
  }
  const auto wanted = static_cast<std::size_t>(std::llround(static_cast<double>(all) * fraction));
  for (std::size_t left = counts.size(); left > 0 && given < wanted; --left) {
    const auto largest = std::max_element(remainder.begin(), remainder.end());
    const auto c = static_cast<std::size_t>(largest - remainder.begin());
    *largest = -1;  // has had its turn
    if (share[c] == counts[c]) continue;
    ++share[c];
    ++given;
  }
  return share;
}
}  // namespace detail

/// Holds a fraction of the examples out, the same fraction of each class as nearly as whole numbers
/// allow. Which ones is a function of the seed; both parts keep the order of the whole.
template <Dataset S>
parts<S> split(const S& dataset, double held_out_fraction, std::uint64_t seed = 0) {
  expects(held_out_fraction >= 0 && held_out_fraction <= 1, "split: the fraction is not in 0 .. 1");
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(dataset.classes()));
  std::vector<std::uint8_t> pixels(dataset.image().size());
  for (std::size_t i = 0; i < dataset.size(); ++i)
    members[static_cast<std::size_t>(dataset.read(i, pixels))].push_back(i);

  std::vector<std::size_t> counts;
  for (const auto& m : members) counts.push_back(m.size());
  const std::vector<std::size_t> share = detail::shares(counts, held_out_fraction);
  std::vector<std::size_t> training, held_out;
  for (std::size_t c = 0; c < members.size(); ++c) {
    auto& m = members[c];
    random_sequence random(seed, purpose::split, 0, c);
    for (std::size_t k = 0; k < share[c]; ++k)  // the first of a shuffle, no further than needed
      std::swap(m[k], m[k + random.below(static_cast<std::uint32_t>(m.size() - k))]);
    const auto cut = m.begin() + static_cast<std::ptrdiff_t>(share[c]);
    held_out.insert(held_out.end(), m.begin(), cut);
    training.insert(training.end(), cut, m.end());
  }
  std::sort(training.begin(), training.end());
  std::sort(held_out.begin(), held_out.end());
  return {{dataset, std::move(training)}, {dataset, std::move(held_out)}};
}

}  // namespace cordee::inline CORDEE_ABI
