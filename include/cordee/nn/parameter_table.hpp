// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network's table of parameters, made at compile time.
//
// Layers add their parameters in forward order to a `parameter_registry`, which names them as
// torchvision does (conv1, bn1, layer2.0.downsample.0, fc) and assigns offsets: trainable segments
// first, running statistics after them. Layers are visited twice, to count and to write.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <cordee/core/extent.hpp>
#include <cordee/core/limits.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/random.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::nn {
/// Initial values of a segment: normal with this mean and variance.
struct initializer {
  double mean = 0, variance = 0;
};
}  // namespace detail::nn

/// Collects the parameters of a network in layer order.
class parameter_registry {
 public:
  /// A segment whose name is still a range of characters.
  struct entry {
    cordee::segment segment;           ///< All but the name.
    detail::nn::initializer initial;   ///< The distribution that initialize draws from.
    std::size_t name = 0, length = 0;  ///< The name, as a range of the characters.
  };
  /// Totals of everything added.
  struct totals {
    std::size_t trainable = 0, statistics = 0;          ///< Numbers of segments.
    std::size_t trainable_end = 0, statistics_end = 0;  ///< Ends of their numbers, with padding.
    std::size_t characters = 0;                         ///< Length of all names together.
    /// Trainable numbers without padding, and operations on one sample.
    std::int64_t parameters = 0, macs = 0;
    int convolutions = 0;  ///< Number of convolutions.
    /// Blocks of offload_weights, those nested in another, and trainable segments in none.
    std::size_t offloaded_blocks = 0, nested_blocks = 0, resident = 0, activation_blocks = 0;
  };
  /// A naming scope: the length of its prefix, and the layers counted in it.
  struct scope {
    std::size_t length = 0;                                     ///< Length of the prefix.
    int convolutions = 0, norms = 0, stages = 0, children = 0;  ///< Layers so far, by kind.
    bool numbered = false;  ///< Whether layers in it are named by position.
  };

  constexpr parameter_registry() = default;
  /// Only counts; includes ranges of layers' inputs if `ranges`.
  constexpr explicit parameter_registry(bool ranges) : ranges_(ranges) {}
  /// Writes to `entries` and `names`, which have the sizes in `counted`.
  constexpr parameter_registry(const totals& counted, entry* entries, char* names,
                               bool ranges = false)
      : entries_(entries), names_(names), counted_(counted), ranges_(ranges) {}

  [[nodiscard]] constexpr const totals& sum() const { return sum_; }  ///< Returns the totals.

  /// Enters conv1, conv2, …, and returns the scope for leave(), as these functions all do. In a
  /// numbered scope layers are named only by position, as blocks always are.
  constexpr scope enter_convolution() { return enter("conv", scope_.convolutions, 1); }
  /// Enters bn1, bn2, …
  constexpr scope enter_batch_norm() { return enter("bn", scope_.norms, 1); }
  /// Enters layer1, layer2, …, in which counting restarts.
  constexpr scope enter_stage() { return descend(enter("layer", scope_.stages, 1), false); }
  /// Enters 0, 1, …, in which counting restarts.
  constexpr scope enter_block() { return descend(enter("", scope_.children, 0), false); }
  /// Enters `name`, in which counting restarts, by position only if `numbered`.
  constexpr scope enter_named(std::string_view name, bool numbered) {
    const scope parent = scope_;
    append(name);
    return descend(parent, numbered);
  }
  constexpr void leave(const scope& parent) { scope_ = parent; }       ///< Returns to a scope.
  constexpr void add_activation_block() { ++sum_.activation_blocks; }  ///< Offloaded one.
  /// Begins a block of offloaded weights, to which tensors added from now on belong.
  constexpr void enter_offloaded() {
    ++sum_.offloaded_blocks;
    if (offloaded_++ > 0) ++sum_.nested_blocks;
  }
  constexpr void leave_offloaded() { --offloaded_; }  ///< Ends the block.

  /// Adds a tensor of the current scope; dimensions of zero are absent.
  constexpr void add_tensor(std::string_view leaf, kind tensor_kind, tensor_shape shape,
                            detail::nn::initializer initial) {
    std::size_t size = 1;
    for (const int n : shape)
      if (n != 0) size *= static_cast<std::size_t>(n);
    const bool statistic = tensor_kind == kind::statistic;
    if (!statistic && offloaded_ == 0) ++sum_.resident;
    std::size_t& end = statistic ? sum_.statistics_end : sum_.trainable_end;
    std::size_t& index = statistic ? sum_.statistics : sum_.trainable;
    if (entries_ != nullptr) {
      const std::size_t row = index + (statistic ? counted_.trainable : 0);
      char* name = names_ + sum_.characters;
      std::size_t length = 0;
      for (std::size_t i = 0; i < scope_.length; ++i) name[length++] = prefix_[i];
      for (const char c : leaf) name[length++] = c;
      entries_[row] = entry{.segment = {.name = {},
                                        .kind = tensor_kind,
                                        .offset = end + (statistic ? counted_.trainable_end : 0),
                                        .size = size,
                                        .shape = shape},
                            .initial = initial,
                            .name = sum_.characters,
                            .length = length};
    }
    sum_.characters += scope_.length + leaf.size();
    if (!statistic) sum_.parameters += static_cast<std::int64_t>(size);
    end += detail::core::align_up(size);
    ++index;
  }

  /// Adds the running range of the layer's input, initially empty, if layers quantize it.
  constexpr void add_input_range() {
    if (!ranges_) return;
    constexpr double infinity = detail::core::limits<double>::infinity();
    add_tensor("input_min", kind::statistic, {1}, {.mean = infinity});
    add_tensor("input_max", kind::statistic, {1}, {.mean = -infinity});
  }

  /// Adds multiply-accumulate operations of one sample, and convolutions.
  constexpr void add_macs(std::int64_t macs, int convolutions) {
    sum_.macs += macs;
    sum_.convolutions += convolutions;
  }

 private:
  constexpr scope enter(std::string_view base, int& counter, int from) {
    int& position = scope_.numbered ? scope_.children : counter;
    const int number = position++ + (scope_.numbered ? 0 : from);
    const scope parent = scope_;  // after counting, so that the next layer gets the next number
    if (!scope_.numbered)
      for (const char c : base) prefix_[scope_.length++] = c;
    append_digits(number);
    prefix_[scope_.length++] = '.';
    return parent;
  }
  constexpr void append_digits(int number) {
    if (number >= 10) append_digits(number / 10);
    prefix_[scope_.length++] = static_cast<char>('0' + number % 10);
  }
  constexpr scope descend(const scope& parent, bool numbered) {
    scope_ = scope{.length = scope_.length, .numbered = numbered};
    return parent;
  }
  constexpr void append(std::string_view name) {
    for (const char c : name) prefix_[scope_.length++] = c;
    prefix_[scope_.length++] = '.';
  }

  entry* entries_ = nullptr;
  char* names_ = nullptr;
  totals counted_, sum_;
  bool ranges_ = false;
  int offloaded_ = 0;  // depth of such blocks
  scope scope_;
  std::array<char, 96> prefix_{};
};

namespace detail::nn {

/// The table of network `Root` on images of extent `In`, with the ranges of layers' inputs if
/// `Ranges`.
template <class Root, extent In, bool Ranges = false>
class parameter_table {
 public:
  static constexpr parameter_registry::totals totals = [] {
    parameter_registry counter(Ranges);
    Root::describe(In, counter);
    return counter.sum();
  }();

 private:
  static constexpr std::size_t size = totals.trainable + totals.statistics;

  struct storage {
    std::array<parameter_registry::entry, size> entries{};
    std::array<char, totals.characters> names{};
  };
  static constexpr storage written_ = [] {
    storage s;
    parameter_registry writer(totals, s.entries.data(), s.names.data(), Ranges);
    Root::describe(In, writer);
    return s;
  }();
  // What the segments' names refer to: of written_ itself nothing is in the program.
  static constexpr std::array<char, totals.characters> names_ = written_.names;

 public:
  static constexpr std::array<detail::nn::initializer, size> initializers = [] {
    std::array<detail::nn::initializer, size> all;
    for (std::size_t i = 0; i < size; ++i) all[i] = written_.entries[i].initial;
    return all;
  }();
  static constexpr std::array<segment, size> segments = [] {
    std::array<segment, size> all;
    for (std::size_t i = 0; i < size; ++i) {
      all[i] = written_.entries[i].segment;
      all[i].name = {names_.data() + written_.entries[i].name, written_.entries[i].length};
    }
    return all;
  }();
};

/// Whether blocks of offloaded weights, if there are any, have all of a network's parameters.
template <class Table>
constexpr bool offloads_whole_blocks() {
  constexpr auto totals = Table::totals;
  static_assert(totals.nested_blocks == 0,
                "offload_weights: a block is within another one: keep the inner ones");
  static_assert(totals.offloaded_blocks == 0 || totals.resident == 0,
                "offload_weights: a layer with weights is outside of all blocks: put each such "
                "layer into one, the classifier too");
  return true;
}

/// What follows from a table about its network.
template <class Table>
struct network_facts {
  static constexpr std::span<const segment> segments() { return Table::segments; }  ///< See Model.
  /// Number of trainable parameters, without padding.
  static constexpr std::int64_t parameters() { return Table::totals.parameters; }
  /// Number of trainable segments.
  static constexpr std::size_t tensors() { return Table::totals.trainable; }
  /// Multiply-accumulate operations per sample of the forward pass's convolutions and matrix
  /// products.
  static constexpr std::int64_t macs() { return Table::totals.macs; }
  /// Number of convolutions, without linear layers.
  static constexpr int convolutions() { return Table::totals.convolutions; }
  /// Size of an arena plane in numbers.
  static constexpr std::size_t plane_size() {
    return Table::totals.trainable_end + Table::totals.statistics_end;
  }
};

/// The initial values of a plane of `size` numbers, a function of the seed alone. Drawn on the
/// host, so that they are the same bits on every device (docs/primitives.md).
template <class Real>
[[gnu::cold, gnu::noinline]] core::pod_vector<Real> draw_weights(
    std::span<const segment> table, std::span<const initializer> initializers, std::size_t size,
    std::uint64_t seed) {
  core::pod_vector<Real> plane;
  plane.resize(size);
  for (std::size_t i = 0; i < table.size(); ++i) {
    const double mean = initializers[i].mean, deviation = core::sqrt(initializers[i].variance);
    random_sequence random(seed, purpose::weights, i, 0);
    Real* const out = plane.data() + table[i].offset;
    for (std::size_t k = 0; k < table[i].size; ++k)
      out[k] = static_cast<Real>(mean + (deviation > 0 ? deviation * random.normal() : 0));
  }
  return plane;
}

}  // namespace detail::nn

}  // namespace cordee::inline CORDEE_ABI
