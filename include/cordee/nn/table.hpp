// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network's table of parameters, made while the program compiles.
//
// Layers describe themselves in forward order to a `catalogue`, which numbers them in torchvision's
// way (conv1, bn1, layer2.0.downsample.0, fc) and lays the segments out: what trains first, the
// running statistics at the tail. It walks twice: once to count, once to write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include <cordee/core/extent.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

/// How a segment begins: normal with that mean and variance.
struct beginning {
  double mean = 0, variance = 0;
};

class catalogue {
 public:
  /// A segment whose name is still a range of characters.
  struct entry {
    segment what;
    beginning begin;
    std::size_t name = 0, length = 0;
  };
  struct totals {
    std::size_t trainable = 0, statistics = 0;  // segments
    std::size_t trainable_end = 0, statistics_end = 0;
    std::size_t characters = 0;
    std::int64_t parameters = 0, macs = 0;
    int convolutions = 0;
  };
  /// Where the name stood before somebody went deeper.
  struct mark {
    std::size_t length = 0;
    int convolutions = 0, norms = 0, stages = 0, children = 0;
    bool numbered = false;
  };

  constexpr catalogue() = default;
  constexpr explicit catalogue(bool ranges) : ranges_(ranges) {}
  constexpr catalogue(const totals& counted, entry* entries, char* names, bool ranges = false)
      : entries_(entries), names_(names), counted_(counted), ranges_(ranges) {}

  [[nodiscard]] constexpr const totals& sum() const { return sum_; }

  /// Go into a part of the name; `back` leaves it. A layer of a numbered scope is called by its
  /// position there, a block always is.
  constexpr mark convolution() { return enter("conv", here_.convolutions, 1); }
  constexpr mark norm() { return enter("bn", here_.norms, 1); }
  constexpr mark stage() { return descend(enter("layer", here_.stages, 1), false); }
  constexpr mark block() { return descend(enter("", here_.children, 0), false); }
  constexpr mark named(std::string_view name, bool numbered) {
    const mark before = here_;
    append(name);
    return descend(before, numbered);
  }
  constexpr void back(const mark& before) { here_ = before; }

  /// A tensor of the layer whose name was entered; dimensions of zero are absent.
  constexpr void tensor(std::string_view leaf, kind what, std::array<int, 4> shape,
                        beginning begin) {
    std::size_t size = 1;
    for (const int n : shape)
      if (n != 0) size *= static_cast<std::size_t>(n);
    const bool statistic = what == kind::statistic;
    std::size_t& end = statistic ? sum_.statistics_end : sum_.trainable_end;
    std::size_t& index = statistic ? sum_.statistics : sum_.trainable;
    if (entries_ != nullptr) {
      const std::size_t at = index + (statistic ? counted_.trainable : 0);
      char* name = names_ + sum_.characters;
      std::size_t length = 0;
      for (std::size_t i = 0; i < here_.length; ++i) name[length++] = prefix_[i];
      for (const char c : leaf) name[length++] = c;
      entries_[at] = {.what = {.name = {},
                               .what = what,
                               .offset = end + (statistic ? counted_.trainable_end : 0),
                               .size = size,
                               .shape = shape},
                      .begin = begin,
                      .name = sum_.characters,
                      .length = length};
    }
    sum_.characters += here_.length + leaf.size();
    if (!statistic) sum_.parameters += static_cast<std::int64_t>(size);
    end += aligned(size);
    ++index;
  }

  /// The range of what the layer reads, where layers quantise it; nothing seen is from infinity
  /// down.
  constexpr void input_range() {
    if (!ranges_) return;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    tensor("input_min", kind::statistic, {1}, {.mean = infinity});
    tensor("input_max", kind::statistic, {1}, {.mean = -infinity});
  }

  /// One convolution, or matrix product, of that many multiplications a sample.
  constexpr void work(std::int64_t macs, int convolutions) {
    sum_.macs += macs;
    sum_.convolutions += convolutions;
  }

 private:
  constexpr mark enter(std::string_view base, int& counter, int from) {
    int& position = here_.numbered ? here_.children : counter;
    const int number = position++ + (here_.numbered ? 0 : from);
    const mark before = here_;  // counted: the next one gets the next number
    if (!here_.numbered)
      for (const char c : base) prefix_[here_.length++] = c;
    if (number >= 10) prefix_[here_.length++] = static_cast<char>('0' + number / 10);
    prefix_[here_.length++] = static_cast<char>('0' + number % 10);
    prefix_[here_.length++] = '.';
    return before;
  }
  constexpr mark descend(const mark& before, bool numbered) {
    here_ = {.length = here_.length, .numbered = numbered};
    return before;
  }
  constexpr void append(std::string_view name) {
    for (const char c : name) prefix_[here_.length++] = c;
    prefix_[here_.length++] = '.';
  }

  entry* entries_ = nullptr;
  char* names_ = nullptr;
  totals counted_, sum_;
  bool ranges_ = false;
  mark here_;
  std::array<char, 96> prefix_{};
};

/// The table of network `Root` on images of extent `In`; `Ranges`: with those of layers' inputs.
template <class Root, extent In, bool Ranges = false>
class parameter_table {
 public:
  static constexpr catalogue::totals totals = [] {
    catalogue count(Ranges);
    Root::describe(In, count);
    return count.sum();
  }();

 private:
  static constexpr std::size_t size = totals.trainable + totals.statistics;

  struct pages {
    std::array<catalogue::entry, size> entries{};
    std::array<char, totals.characters> names{};
  };
  static constexpr pages written_ = [] {
    pages p;
    catalogue write(totals, p.entries.data(), p.names.data(), Ranges);
    Root::describe(In, write);
    return p;
  }();

 public:
  static constexpr std::array<beginning, size> beginnings = [] {
    std::array<beginning, size> all;
    for (std::size_t i = 0; i < size; ++i) all[i] = written_.entries[i].begin;
    return all;
  }();
  static constexpr std::array<segment, size> segments = [] {
    std::array<segment, size> all;
    for (std::size_t i = 0; i < size; ++i) {
      all[i] = written_.entries[i].what;
      all[i].name = {written_.names.data() + written_.entries[i].name, written_.entries[i].length};
    }
    return all;
  }();
};

}  // namespace cordee::inline CORDEE_ABI
