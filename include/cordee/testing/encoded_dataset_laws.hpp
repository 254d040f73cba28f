// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of sets of encoded images that a compiler cannot check (images/encoded_dataset.hpp), for
// one of your own:
//
//   TEST_CASE("my images obey the laws") {
//     CHECK(encoded_dataset_laws(my_images{"folder"}) == "");
//   }
//
// Each law returns its first violations, or an empty string.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/data/shuffled_indices.hpp>
#include <cordee/images/encoded_dataset.hpp>
#include <cordee/testing/report.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {

/// At most so many examples, evenly over the whole data set, as the first reads return them.
struct encoded_sample {
  std::vector<std::size_t> indices;
  std::vector<int> labels;
  std::vector<std::vector<std::uint8_t>> files;

  template <EncodedDataset S>
  encoded_sample(const S& dataset, std::size_t limit) {
    const std::size_t n = std::min<std::size_t>(dataset.size(), limit);
    files.resize(n);
    for (std::size_t k = 0; k < n; ++k) {
      indices.push_back(k * dataset.size() / n);
      labels.push_back(dataset.read(indices[k], files[k]));
    }
  }
  [[nodiscard]] std::size_t size() const { return indices.size(); }

  /// Whether example k is read again as it was, into bytes of any former content.
  template <EncodedDataset S>
  bool reads_equal(const S& dataset, std::size_t k, std::vector<std::uint8_t>& bytes) const {
    return dataset.read(indices[k], bytes) == labels[k] && bytes == files[k];
  }
};

}  // namespace detail::testing

namespace laws {

/// Checks that the optional `label` returns the same label as `read`.
template <EncodedDataset S>
std::string label_is_that_of_read(const S& dataset, const detail::testing::encoded_sample& sample) {
  if constexpr (detail::data::Labelled<S>)
    for (std::size_t k = 0; k < sample.size(); ++k)
      if (dataset.label(sample.indices[k]) != sample.labels[k])
        return concat("label(", sample.indices[k], ") is ", dataset.label(sample.indices[k]),
                      ", read returns ", sample.labels[k]);
  return {};
}

/// Checks that there are examples and classes, that labels are within 0 .. classes - 1, and that
/// names are distinct and not empty.
template <EncodedDataset S>
std::string has_labels_and_names(const S& dataset, const detail::testing::encoded_sample& sample) {
  detail::testing::report r;
  const int classes = dataset.classes();
  r.expect(dataset.size() > 0, "there are no examples");
  r.expect(classes > 0, "there are ", classes, " classes: there must be at least 1");
  std::vector<std::string> names;
  for (std::size_t k = 0; k < sample.size(); ++k) {
    const std::size_t i = sample.indices[k];
    r.expect(sample.labels[k] >= 0 && sample.labels[k] < classes, "label ", sample.labels[k],
             " of example ", i, " is not within 0 .. ", classes - 1);
    names.push_back(dataset.name(i));
    r.expect(!names.back().empty(), "example ", i, " has no name");
  }
  std::sort(names.begin(), names.end());
  const auto same = std::adjacent_find(names.begin(), names.end());
  r.expect(same == names.end(), "two examples have the name ", same == names.end() ? "" : *same);
  return r.violations();
}

/// Checks that every read of an example returns the same bytes and label, also from a copy, and
/// depends neither on earlier reads nor on the buffer's content.
template <EncodedDataset S>
std::string encoded_reads_are_repeatable(const S& dataset,
                                         const detail::testing::encoded_sample& sample) {
  const S copy = dataset;
  std::vector<std::uint8_t> bytes(100, 0xa5);
  for (std::size_t k = sample.size(); k-- > 0;) {
    if (!sample.reads_equal(dataset, k, bytes))
      return concat("a second read of example ", sample.indices[k], " differs");
    if (!sample.reads_equal(copy, k, bytes))
      return concat("example ", sample.indices[k], " differs in a copy of the data set");
  }
  if (copy.size() != dataset.size() || copy.classes() != dataset.classes())
    return "classes or size differ in a copy, or change by reading";
  return {};
}

/// Checks that concurrent reads of the data set and of copies return the same examples.
template <EncodedDataset S>
std::string concurrent_encoded_reads_agree(const S& dataset,
                                           const detail::testing::encoded_sample& sample) {
  constexpr std::size_t readers = 4;
  std::array<std::string, readers> violations;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < readers; ++t)
      threads.emplace_back([&, t] {
        try {
          const S copy = dataset;
          std::vector<std::uint8_t> bytes;
          for (std::size_t n = 0; n < sample.size(); ++n) {
            const std::size_t k = (n + t * sample.size() / readers) % sample.size();
            if (sample.reads_equal(t % 2 == 0 ? dataset : copy, k, bytes)) continue;
            violations[t] = concat("example ", sample.indices[k],
                                   " differs when several threads read concurrently");
            return;
          }
        } catch (const std::exception& e) {
          violations[t] = concat("read throws in several threads: ", e.what());
        }
      });
  }
  for (const std::string& violation : violations)
    if (!violation.empty()) return violation;
  return {};
}

/// Checks that the order of each epoch is a permutation of the examples that depends only on (seed,
/// epoch) and, with 20 examples or more, differs between epochs and between seeds.
template <EncodedDataset S>
std::string order_is_permutation(const S& dataset) {
  detail::testing::report r;
  std::vector<std::vector<std::uint32_t>> orders;
  for (const auto& [seed, epoch] : {std::pair<std::uint64_t, std::int64_t>{1, 0}, {1, 1}, {2, 0}}) {
    orders.push_back(detail::data::order_of(dataset, seed, epoch));
    std::vector<std::uint32_t> sorted = orders.back();
    std::sort(sorted.begin(), sorted.end());
    bool each = sorted.size() == dataset.size();
    for (std::size_t i = 0; i < sorted.size(); ++i) each = each && sorted[i] == i;
    r.expect(each, "the order of seed ", seed, ", epoch ", epoch,
             " does not have each example once");
    r.expect(detail::data::order_of(dataset, seed, epoch) == orders.back(),
             "a second call gives another order for seed ", seed, ", epoch ", epoch);
  }
  if (dataset.size() >= 20) {
    r.expect(orders[0] != orders[1], "two epochs have the same order");
    r.expect(orders[0] != orders[2], "two seeds have the same order");
  }
  return r.violations();
}

}  // namespace laws

/// All laws of encoded data sets, on at most `limit` examples, spread evenly. Returns the
/// violations, one per line; empty if every law holds.
template <EncodedDataset S>
std::string encoded_dataset_laws(const S& dataset, std::size_t limit = 200) {
  detail::testing::report r;
  try {
    const detail::testing::encoded_sample sample(dataset, limit);
    r.append(laws::has_labels_and_names(dataset, sample));
    r.append(laws::label_is_that_of_read(dataset, sample));
    r.append(laws::encoded_reads_are_repeatable(dataset, sample));
    r.append(laws::concurrent_encoded_reads_agree(dataset, sample));
    r.append(laws::order_is_permutation(dataset));
  } catch (const std::exception& e) {
    r.expect(false, "read throws: ", e.what());
  }
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
