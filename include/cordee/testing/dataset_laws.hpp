// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of data sets that a compiler cannot check (data/dataset.hpp), for a data set of your
// own:
//
//   TEST_CASE("my data set obeys the laws") { CHECK(dataset_laws(my_dataset{"folder"}) == ""); }
//
// Each law returns its first violation, or an empty string.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/testing/report.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {

/// A buffer for one image between two guard zones. Before each read all of it is filled with a byte
/// that the caller varies, so that bytes left out and bytes written outside are both detected.
class guarded_buffer {
 public:
  static constexpr std::size_t guard = 64;

  explicit guarded_buffer(std::size_t size) : bytes_(size + 2 * guard) {}

  template <Dataset S>
  int read(const S& dataset, std::size_t i, std::uint8_t fill) {
    std::fill(bytes_.begin(), bytes_.end(), fill);
    const int label = dataset.read(i, std::span(bytes_).subspan(guard, bytes_.size() - 2 * guard));
    const auto is_fill = [fill](std::uint8_t b) { return b == fill; };
    const auto begin = bytes_.begin(), end = bytes_.end();
    constexpr auto length = static_cast<std::ptrdiff_t>(guard);
    intact_ = intact_ && std::all_of(begin, begin + length, is_fill) &&
              std::all_of(end - length, end, is_fill);
    return label;
  }
  [[nodiscard]] std::span<const std::uint8_t> pixels() const {
    return std::span(bytes_).subspan(guard, bytes_.size() - 2 * guard);
  }
  /// True unless a read has written to a guard zone.
  [[nodiscard]] bool is_intact() const { return intact_; }

 private:
  std::vector<std::uint8_t> bytes_;
  bool intact_ = true;
};

/// At most so many examples, evenly over the whole data set, with their images and labels.
class dataset_sample {
 public:
  template <Dataset S>
  dataset_sample(const S& dataset, std::size_t limit)
      : image_size_(extent(dataset.image()).size()),
        labels_(std::min<std::size_t>(dataset.size(), limit)),
        pixels_(labels_.size() * image_size_) {
    for (std::size_t k = 0; k < labels_.size(); ++k)
      indices_.push_back(k * dataset.size() / labels_.size());
  }

  [[nodiscard]] std::size_t size() const { return indices_.size(); }
  [[nodiscard]] std::size_t index(std::size_t k) const { return indices_[k]; }
  [[nodiscard]] std::size_t image_size() const { return image_size_; }

  void record(std::size_t k, int label, std::span<const std::uint8_t> pixels) {
    labels_[k] = label;
    std::copy(pixels.begin(), pixels.end(), image(k));
  }
  [[nodiscard]] bool equals(std::size_t k, int label, std::span<const std::uint8_t> pixels) {
    return label == labels_[k] && std::equal(pixels.begin(), pixels.end(), image(k));
  }

 private:
  std::vector<std::uint8_t>::iterator image(std::size_t k) {
    return pixels_.begin() + static_cast<std::ptrdiff_t>(k * image_size_);
  }

  std::size_t image_size_;
  std::vector<std::size_t> indices_;
  std::vector<int> labels_;
  std::vector<std::uint8_t> pixels_;  // (size, channels, height, width)
};

}  // namespace detail::testing

namespace laws {

/// Checks that width, height, channels and classes are at least 1.
template <Dataset S>
std::string has_valid_extent(const S& dataset) {
  const extent image = dataset.image();
  if (image.channels <= 0 || image.height <= 0 || image.width <= 0)
    return concat("the image is ", describe(image), ": sides and channels must be at least 1");
  if (dataset.classes() <= 0)
    return concat("there are ", dataset.classes(), " classes: there must be at least 1");
  return {};
}

/// Checks that labels are within 0 .. classes - 1; that every byte of an image is written and none
/// outside it; that an example does not depend on earlier reads; and that reading changes neither
/// the data set nor a copy.
template <Dataset S>
std::string reads_are_repeatable(const S& dataset, detail::testing::dataset_sample& sample) {
  const std::size_t size = dataset.size();
  const extent image = dataset.image();
  const int classes = dataset.classes();
  detail::testing::guarded_buffer buffer(sample.image_size());
  detail::testing::report r;
  for (std::size_t k = 0; k < sample.size(); ++k) {
    const int label = buffer.read(dataset, sample.index(k), 0xa5);
    sample.record(k, label, buffer.pixels());
    r.expect(label >= 0 && label < classes, "label ", label, " of example ", sample.index(k),
             " is not within 0 .. ", classes - 1);
  }
  for (std::size_t k = sample.size(); k-- > 0;)  // in reverse order, into another fill
    if (!sample.equals(k, buffer.read(dataset, sample.index(k), 0x5a), buffer.pixels())) {
      r.expect(false, "a second read of example ", sample.index(k), " differs, or not all of its ",
               sample.image_size(), " bytes are written");
      break;
    }
  r.expect(buffer.is_intact(), "read writes outside of the image's bytes");
  const S copy = dataset;
  r.expect(copy.size() == size && dataset.size() == size && copy.classes() == classes &&
               extent(copy.image()) == image,
           "image, classes or size differ in a copy, or change by reading");
  return r.violations();
}

/// Checks that concurrent reads return the same examples. Requires that `sample` is recorded.
/// Threads start at different examples, every second one with its own copy.
template <Dataset S>
std::string concurrent_reads_agree(const S& dataset, detail::testing::dataset_sample& sample) {
  constexpr std::size_t readers = 4;
  std::array<std::string, readers> violations;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < readers; ++t)
      threads.emplace_back([&, t] {
        try {
          const S copy = dataset;
          detail::testing::guarded_buffer buffer(sample.image_size());
          for (std::size_t n = 0; n < sample.size(); ++n) {
            const std::size_t k = (n + t * sample.size() / readers) % sample.size();
            const int label = buffer.read(t % 2 == 0 ? dataset : copy, sample.index(k),
                                          static_cast<std::uint8_t>(17 * t + 3));
            if (!sample.equals(k, label, buffer.pixels())) {
              violations[t] = concat("example ", sample.index(k),
                                     " differs when several threads read concurrently");
              return;
            }
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

}  // namespace laws

/// All laws of data sets, on at most `limit` examples, spread evenly. Returns the violations, one
/// per line; empty if every law holds.
template <Dataset S>
std::string dataset_laws(const S& dataset, std::size_t limit = 1000) {
  detail::testing::report r;
  r.append(laws::has_valid_extent(dataset));
  if (!r.violations().empty()) return r.violations();
  detail::testing::dataset_sample sample(dataset, limit);
  try {
    r.append(laws::reads_are_repeatable(dataset, sample));
    r.append(laws::concurrent_reads_agree(dataset, sample));
  } catch (const std::exception& e) {
    r.expect(false, "read throws: ", e.what());
  }
  return r.violations();
}

}  // namespace cordee::inline CORDEE_ABI
