// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of a data set, for your own: what data/dataset.hpp's concept says and a compiler cannot
// see.
//
//   TEST_CASE("my data") { dataset_laws(my_data{"folder"}); }
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

#include <doctest/doctest.h>

#include <cordee/core/text.hpp>
#include <cordee/data/dataset.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// A room for one image between two walls. Before a read all of it has one value, another one each
/// time, so that neither a byte that was left out nor one beyond the wall can hide.
class walled_room {
 public:
  static constexpr std::size_t wall = 64;

  explicit walled_room(std::size_t size) : bytes_(size + 2 * wall) {}

  template <Dataset S>
  int read(const S& dataset, std::size_t i, std::uint8_t paint) {
    std::fill(bytes_.begin(), bytes_.end(), paint);
    const int label = dataset.read(i, std::span(bytes_).subspan(wall, bytes_.size() - 2 * wall));
    const auto painted = [paint](std::uint8_t b) { return b == paint; };
    const auto begin = bytes_.begin(), end = bytes_.end();
    constexpr auto thick = static_cast<std::ptrdiff_t>(wall);
    stayed_ = stayed_ && std::all_of(begin, begin + thick, painted) &&
              std::all_of(end - thick, end, painted);
    return label;
  }
  [[nodiscard]] std::span<const std::uint8_t> pixels() const {
    return std::span(bytes_).subspan(wall, bytes_.size() - 2 * wall);
  }
  /// No read has written to a wall.
  [[nodiscard]] bool stayed() const { return stayed_; }

 private:
  std::vector<std::uint8_t> bytes_;
  bool stayed_ = true;
};

}  // namespace detail

/// The laws that a data set breaks, a sentence each; none is the good answer. Looks at `most`
/// examples, spread evenly. An exception of the data set is a broken law too.
template <Dataset S>
std::vector<std::string> broken_dataset_laws(const S& dataset, std::size_t most = 1000) {
  std::vector<std::string> broken;
  const std::size_t size = dataset.size(), each = extent(dataset.image()).size();
  const extent image = dataset.image();
  const int classes = dataset.classes();
  if (image.channels <= 0 || image.height <= 0 || image.width <= 0)
    return {text("its image is ", to_text(image), ": sides and channels are at least 1")};
  if (classes <= 0) return {text("it has ", classes, " classes: there is at least one")};

  std::vector<std::size_t> which;
  const std::size_t looks = std::min(size, most);
  for (std::size_t k = 0; k < looks; ++k) which.push_back(k * size / looks);
  std::vector<int> labels(looks);
  std::vector<std::uint8_t> pixels(looks * each);
  const auto same = [&](std::size_t k, int label, std::span<const std::uint8_t> found) {
    return label == labels[k] && std::equal(found.begin(), found.end(),
                                            pixels.begin() + static_cast<std::ptrdiff_t>(k * each));
  };
  const auto once = [&](const std::string& sentence) {
    if (std::find(broken.begin(), broken.end(), sentence) == broken.end())
      broken.push_back(sentence);
  };

  try {
    detail::walled_room room(each);
    for (std::size_t k = 0; k < looks; ++k) {
      labels[k] = room.read(dataset, which[k], 0xa5);
      std::copy(room.pixels().begin(), room.pixels().end(),
                pixels.begin() + static_cast<std::ptrdiff_t>(k * each));
      if (labels[k] < 0 || labels[k] >= classes)
        once(text("label ", labels[k], " of example ", which[k], " is not in 0 .. ", classes - 1));
    }
    // The other way round: an example does not depend on what was read before it.
    for (std::size_t k = looks; k-- > 0;)
      if (!same(k, room.read(dataset, which[k], 0x5a), room.pixels())) {
        once(text("example ", which[k], " is not the same when it is read again, or its ", each,
                  " bytes are not all written"));
        break;
      }
    if (!room.stayed()) once("reading writes beyond the room for one image");
    const S copy = dataset;
    if (copy.size() != size || dataset.size() != size || copy.classes() != classes ||
        extent(copy.image()) != image)
      once("image, classes or size of a copy are others, or change with reading");
  } catch (const std::exception& e) {
    return {text("reading fails: ", e.what())};
  }

  // Threads start at different places, every other one on a copy of its own.
  constexpr std::size_t readers = 4;
  std::array<std::string, readers> said;
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < readers; ++t)
      threads.emplace_back([&, t] {
        try {
          const S copy = dataset;
          detail::walled_room room(each);
          for (std::size_t n = 0; n < looks; ++n) {
            const std::size_t k = (n + t * looks / readers) % looks;
            const int label = room.read(t % 2 == 0 ? dataset : copy, which[k],
                                        static_cast<std::uint8_t>(17 * t + 3));
            if (!same(k, label, room.pixels())) {
              said[t] = text("example ", which[k], " is another one when several threads read");
              return;
            }
          }
        } catch (const std::exception& e) {
          said[t] = text("reading in several threads fails: ", e.what());
        }
      });
  }
  for (const std::string& one : said)
    if (!one.empty()) once(one);
  return broken;
}

/// The same as doctest's assertions.
template <Dataset S>
void dataset_laws(const S& dataset, std::size_t most = 1000) {
  const auto broken = broken_dataset_laws(dataset, most);
  for (const std::string& sentence : broken) FAIL_CHECK("dataset_laws: ", sentence);
  CHECK(broken.empty());
}

}  // namespace cordee::inline CORDEE_ABI
