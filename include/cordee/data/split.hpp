// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A subset of a data set, and the stratified split into training and validation examples.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/algorithm.hpp>
#include <cordee/core/counted_ptr.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::data {

/// The examples of a data set at the given indices, in that order.
template <Dataset S>
class subset {
 public:
  subset(S dataset, std::vector<std::size_t> indices) : dataset_(std::move(dataset)) {
    for (const std::size_t i : indices)
      expects(i < dataset_.size(), "subset: an index is beyond the data set");
    *indices_ = std::move(indices);
  }

  [[nodiscard]] extent image() const { return dataset_.image(); }
  [[nodiscard]] int classes() const { return dataset_.classes(); }
  [[nodiscard]] std::size_t size() const { return indices_->size(); }
  [[nodiscard]] std::vector<std::string> class_names() const { return class_names_of(dataset_); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    expects(i < indices_->size(), "subset: the index is beyond the subset");
    return dataset_.read((*indices_)[i], pixels);
  }
  int read(std::size_t i, std::span<std::uint8_t> pixels, random_sequence random) const
    requires DrawnAtRandom<S>
  {
    expects(i < indices_->size(), "subset: the index is beyond the subset");
    return dataset_.read((*indices_)[i], pixels, random);
  }
  [[nodiscard]] int label(std::size_t i) const
    requires Labelled<S>
  {
    expects(i < indices_->size(), "subset: the index is beyond the subset");
    return dataset_.label((*indices_)[i]);
  }
  /// The whole data set's order without the examples that are not here. Requires distinct indices.
  [[nodiscard]] std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const
    requires Ordered<S>
  {
    constexpr std::uint32_t absent = ~std::uint32_t{0};
    std::vector<std::uint32_t> place(dataset_.size(), absent), result;
    for (std::size_t k = 0; k < indices_->size(); ++k)
      place[(*indices_)[k]] = static_cast<std::uint32_t>(k);
    for (const std::uint32_t i : dataset_.order(seed, epoch))
      if (place[i] != absent) result.push_back(place[i]);
    return result;
  }
  [[nodiscard]] auto reading() const
    requires requires(const S s) { s.reading(); }
  {
    return dataset_.reading();
  }
  [[nodiscard]] std::string describe() const
    requires requires(const S s) { s.describe(); }
  {
    return concat(detail::core::grouped(size()), " of ", dataset_.describe());
  }
  [[nodiscard]] decltype(auto) resampling() const
    requires requires(const S s) { s.resampling(); }
  {
    return dataset_.resampling();
  }
  /// Indices into the whole data set.
  [[nodiscard]] std::span<const std::size_t> indices() const { return *indices_; }

 private:
  S dataset_;
  detail::core::counted_ptr<std::vector<std::size_t>> indices_ =
      detail::core::counted_ptr<std::vector<std::size_t>>::make();
};

/// The result of `split`.
template <Dataset S>
struct train_validation {
  subset<S> training, validation;
};

/// Integers that sum to round(fraction * sum of counts), each within 1 of fraction * count, by the
/// largest-remainder method; ties go to the first.
inline std::vector<std::size_t> apportion(const std::vector<std::size_t>& counts, double fraction) {
  std::vector<std::size_t> share;
  std::vector<double> remainder;
  std::size_t total = 0, assigned = 0;
  for (const std::size_t n : counts) {
    const double exact = static_cast<double>(n) * fraction;
    share.push_back(static_cast<std::size_t>(exact));
    remainder.push_back(exact - detail::core::floor(exact));
    total += n;
    assigned += share.back();
  }
  const auto target =
      static_cast<std::size_t>(detail::core::llround(static_cast<double>(total) * fraction));
  for (std::size_t left = counts.size(); left > 0 && assigned < target; --left) {
    const auto largest = std::max_element(remainder.begin(), remainder.end());
    const auto c = static_cast<std::size_t>(largest - remainder.begin());
    *largest = -1;  // served
    if (share[c] == counts[c]) continue;
    ++share[c];
    ++assigned;
  }
  return share;
}

}  // namespace detail::data

/// Moves a fraction of the examples to `validation`, the same fraction of each class to within one
/// example, chosen only by the seed; the rest is `training`. Both keep the data set's order. If the
/// data set has label(i), classes come from it, so a broken image counts in its own class. @throws
/// usage_error for a fraction out of its range; error for an invalid label.
template <Dataset S>
detail::data::train_validation<S> split(const S& dataset, double validation_fraction,
                                        std::uint64_t seed = 0) {
  expects(validation_fraction >= 0 && validation_fraction <= 1,
          "split: the fraction is not within 0 .. 1");
  std::vector<std::vector<std::size_t>> members(static_cast<std::size_t>(dataset.classes()));
  std::vector<std::uint8_t> pixels(dataset.image().size());
  const auto label_of = [&](std::size_t i) {
    if constexpr (detail::data::Labelled<S>)
      return dataset.label(i);
    else
      return dataset.read(i, pixels);
  };
  for (std::size_t i = 0; i < dataset.size(); ++i) {
    const int label = label_of(i);
    if (label < 0 || label >= dataset.classes())
      throw error(concat("split: example ", i, " has the label ", label, ", expected 0 to ",
                         dataset.classes() - 1));
    members[static_cast<std::size_t>(label)].push_back(i);
  }

  std::vector<std::size_t> counts;
  for (const auto& m : members) counts.push_back(m.size());
  const std::vector<std::size_t> share = detail::data::apportion(counts, validation_fraction);
  std::vector<std::size_t> training, validation;
  for (std::size_t c = 0; c < members.size(); ++c) {
    auto& m = members[c];
    random_sequence random(seed, purpose::split, 0, c);
    for (std::size_t k = 0; k < share[c]; ++k)  // the first elements of a shuffle
      std::swap(m[k], m[k + random.below(static_cast<std::uint32_t>(m.size() - k))]);
    const auto boundary = m.begin() + static_cast<std::ptrdiff_t>(share[c]);
    validation.insert(validation.end(), m.begin(), boundary);
    training.insert(training.end(), boundary, m.end());
  }
  std::sort(training.begin(), training.end());
  std::sort(validation.begin(), validation.end());
  return {{dataset, std::move(training)}, {dataset, std::move(validation)}};
}

}  // namespace cordee::inline CORDEE_ABI
