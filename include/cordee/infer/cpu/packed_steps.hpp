// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The convolutions of an integer program with their weights packed, which of them write a copy in
// bytes of their output, and which steps run as a chain: some pixels at a time, which stay in the
// second-level cache.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include <cordee/infer/cpu/direct_layers.hpp>
#include <cordee/infer/cpu/packed_convolution.hpp>
#include <cordee/infer/program/integer_program.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Correlation: with the functions of ops::byte_correlation.
template <int V, class Correlation = ops::default_byte_correlation<V>>
class packed_steps {
  using packed_convolution = infer::packed_convolution<V, Correlation>;

 public:
  /// Keeps references to the program's steps.
  explicit packed_steps(const integer_program& program)
      : steps_(program.steps.data(), program.steps.size()),
        copy_readers_(copy_readers()),
        sizes_(blocked_sizes(program.image)),
        first_grouped_(find_first_grouped()) {
    convolutions_.resize(steps_.size());  // nvcc: the constructors' lists would have vectors
    for (std::size_t k = 0; k < steps_.size(); ++k)
      if (const auto* const c = convolution_of(steps_[k]))
        convolutions_[k].emplace(*c, steps_[k].residual < 0 ? 0 : wide_limit);
    last_of_rows_ = chains();
    last_of_chain_ = merged_chains();
    rows_ahead_ = find_rows_ahead();
  }

  /// Requires that step k is a convolution.
  [[nodiscard]] const packed_convolution& operator[](int k) const { return *convolution(k); }
  template <class Memory>
  void reserve(Memory& memory, std::size_t samples) const {
    for (const auto& c : convolutions_)
      if (c) c->reserve(memory, samples);
  }

  /// Bytes of the image and of the steps' outputs, each with its copy.
  [[nodiscard]] std::span<const std::size_t> sizes() const { return sizes_; }
  /// The first step with more bytes of weights than of outputs that it reads and writes.
  [[nodiscard]] int first_grouped() const { return first_grouped_; }

  /// What makes the copy in bytes of a step's output; or null.
  [[nodiscard]] const stream_bytes<V>* copy_of(int k) const {
    const int reader = copy_readers_[static_cast<std::size_t>(k)];
    return reader < 0 ? nullptr : &(*this)[reader].to_bytes();
  }
  /// Whether a step's output has a copy in the bytes of this convolution.
  [[nodiscard]] bool has_copy(int k, const integer_convolution& c) const {
    const int reader = copy_readers_[static_cast<std::size_t>(k)];
    if (reader < 0) return false;
    const integer_convolution& copied = (*this)[reader].layer();
    return copied.input_factor == c.input_factor && copied.zero_point == c.zero_point;
  }

  /// For each step, the last one of its chain, whose outputs are in memory at once: consecutive
  /// convolutions with equally many pixels, or a convolution and the max pool of its output.
  [[nodiscard]] std::span<const int> last_of_chain() const { return last_of_chain_; }
  /// The last one with windows of one pixel from this step on, in the same chain: each computes its
  /// pixels from those of the ones before, so that any part of the rows can be computed alone.
  [[nodiscard]] int last_pointwise(int k) const {
    return last_of_rows_[static_cast<std::size_t>(k)];
  }
  /// Whether a step is a convolution that computes any of its rows.
  [[nodiscard]] bool is_by_rows(int k) const { return convolution(k).has_value() && runs_rows(k); }
  /// So many rows ahead of the last step of its chain a step is: those that windows read.
  [[nodiscard]] int rows_ahead(int k) const { return rows_ahead_[static_cast<std::size_t>(k)]; }
  /// Whether a step can be in a chain of windows of one pixel.
  [[nodiscard]] bool is_pointwise(int k) const {
    const auto& c = convolution(k);
    return c && c->layer().problem.window == 1 && c->layer().problem.padding == 0 && runs_rows(k);
  }

 private:
  static const integer_convolution* convolution_of(const integer_step& s) {
    return std::get_if<integer_convolution>(&s.layer);
  }
  [[nodiscard]] const integer_step& step(int k) const {
    return steps_[static_cast<std::size_t>(k)];
  }
  [[nodiscard]] const std::optional<packed_convolution>& convolution(int k) const {
    return convolutions_[static_cast<std::size_t>(k)];
  }

  /// For each step, the first convolution that reads its 32-bit output as a copy in that reader's
  /// bytes; -1 if there is none.
  [[nodiscard]] std::vector<int> copy_readers() const {
    std::vector<int> readers(steps_.size(), -1);
    for (std::size_t k = steps_.size(); k-- > 0;) {
      const integer_step& s = steps_[k];
      if (convolution_of(s) != nullptr && s.input >= 0 && step(s.input).bytes > 1 &&
          convolution_of(step(s.input)) != nullptr)
        readers[static_cast<std::size_t>(s.input)] = static_cast<int>(k);
    }
    return readers;
  }
  [[nodiscard]] std::vector<std::size_t> blocked_sizes(const extent& image) const {
    std::vector<std::size_t> sizes{direct_layers<V>::size_of(image)};
    for (std::size_t k = 0; k < steps_.size(); ++k)
      sizes.push_back(direct_layers<V>::size_of(steps_[k].out()) *
                      (static_cast<std::size_t>(steps_[k].bytes) + (copy_readers_[k] < 0 ? 0 : 1)));
    return sizes;
  }
  [[nodiscard]] int find_first_grouped() const {
    const auto size = [&](int k) { return sizes_[static_cast<std::size_t>(k + 1)]; };
    int k = 0;
    for (; k < static_cast<int>(steps_.size()); ++k)
      if (const auto* const c = convolution_of(step(k)))
        if (c->weights.size() > size(step(k).input) + size(k)) break;
    return k;
  }

  [[nodiscard]] bool runs_rows(int k) const {
    return convolution(k)->runs_rows(step(k).residual >= 0, step(k).bytes, copy_of(k));
  }
  /// Whether step k can follow the pointwise steps from `first` on.
  [[nodiscard]] bool continues(int first, int k) const {
    if (!is_pointwise(first) || !is_pointwise(k)) return false;
    const packed_convolution &a = (*this)[first], &b = (*this)[k];
    return b.rows() == a.rows() && b.row_pixels() == a.row_pixels() &&
           (step(k).input < first || b.layer().problem.stride == 1);
  }
  /// Whether step k is the max pool of the convolution before it.
  [[nodiscard]] bool is_pool_of(int convolved, int k) const {
    const auto& c = convolution(convolved);
    return c && runs_rows(convolved) && step(k).input == convolved &&
           std::holds_alternative<ops::max_pool_problem>(step(k).layer) &&
           c->row_pixels() == step(convolved).out().width;
  }
  /// Whether step k can be in the chain of `first`. Windows read bytes there: of 32 bits, the rows
  /// above, which they read again, could be overwritten by the sum to which they are added.
  [[nodiscard]] bool follows(int first, int k) const {
    if (!is_by_rows(first) || !is_by_rows(k)) return false;
    const packed_convolution &a = (*this)[first], &b = (*this)[k];
    const convolution_problem& p = b.layer().problem;
    const bool in_chain = step(k).input >= first;
    return b.rows() == a.rows() && b.row_pixels() == a.row_pixels() &&
           (!in_chain || (p.stride == 1 && p.padding < p.window)) &&
           (p.window == 1 || (step(k).input >= 0 && step(step(k).input).bytes == 1));
  }
  /// Chains that follow each other, as long as all their weights stay in the second-level cache.
  [[nodiscard]] std::vector<int> merged_chains() const {
    const int count = static_cast<int>(steps_.size());
    std::vector<int> last = last_of_rows_;
    for (int first = 0, k; first < count; first = k) {
      std::size_t weights = 0;
      const auto fits = [&](int from, int to) {
        std::size_t more = 0;
        for (int i = from; i < to; ++i) {
          if (!follows(first, i)) return false;
          more += (*this)[i].layer().weights.size();
        }
        weights += more;
        return weights <= chained_weights;
      };
      k = last_of_rows_[static_cast<std::size_t>(first)] + 1;
      if (fits(first, k))
        while (k < count && k != first_grouped_ &&
               fits(k, last_of_rows_[static_cast<std::size_t>(k)] + 1))
          k = last_of_rows_[static_cast<std::size_t>(k)] + 1;
      std::fill(last.begin() + first, last.begin() + k, k - 1);
    }
    return last;
  }
  /// No step is ahead of one before it: that one may read what this one overwrites.
  [[nodiscard]] std::vector<int> find_rows_ahead() const {
    std::vector<int> ahead(steps_.size());
    for (std::size_t k = steps_.size(); k-- > 0;) {
      const auto need = [&](int from, int rows) {
        if (from >= 0 && last_of_chain_[static_cast<std::size_t>(from)] == last_of_chain_[k])
          ahead[static_cast<std::size_t>(from)] =
              std::max(ahead[static_cast<std::size_t>(from)], rows);
      };
      need(static_cast<int>(k) - 1, ahead[k]);
      if (const auto* const c = convolution_of(steps_[k]))
        need(steps_[k].input, ahead[k] + c->problem.window - 1 - c->problem.padding);
    }
    return ahead;
  }
  /// Bytes; of a second-level cache of 1 MiB or more, beside the rows.
  static constexpr std::size_t chained_weights = std::size_t{5} << 17;

  [[nodiscard]] std::vector<int> chains() const {
    const int count = static_cast<int>(steps_.size());
    std::vector<int> last(steps_.size());
    for (int first = 0, k; first < count; first = k) {
      const auto may_add = [&] { return k < count && k != first_grouped_; };
      for (k = first + 1; may_add() && continues(first, k);) ++k;
      if (k == first + 1 && may_add() && is_pool_of(first, k)) ++k;
      std::fill(last.begin() + first, last.begin() + k, k - 1);
    }
    return last;
  }

  std::span<const integer_step> steps_;
  std::vector<int> copy_readers_;
  std::vector<std::size_t> sizes_;
  int first_grouped_;
  std::vector<std::optional<packed_convolution>> convolutions_;
  std::vector<int> last_of_rows_, last_of_chain_, rows_ahead_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::infer
