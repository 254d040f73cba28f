// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One image through one window, forwards or back: what fprop and dgrad of engine `direct` share.
//
// Output pixel j of a row takes tap s from padded input column j t + s (forwards) or, for outputs
// of one remainder modulo t, from column j + const (back): the input gradient of a strided layer is
// t x t correlations of stride 1, each with the taps that meet it. Input rows are copied into
// scratch with zero columns around them and, forwards, the columns of one remainder modulo t
// together; so pixels of a tile follow one another whatever the stride, and no tile knows about
// edges. Rows outside the image are not copied: their taps are left out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/storage.hpp>
#include <cordee/ops/direct/tile.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class Real, int V>
class correlation {
 public:
  correlation(const convolution_problem& p, bool back)
      : in_(back ? p.out() : p.in),
        out_(back ? p.in : p.out()),
        window_(p.window),
        stride_(p.stride),
        padding_(p.padding),
        back_(back),
        in_step_(back ? 1 : p.stride),
        out_step_(back ? p.stride : 1),
        form_{out_.channels, in_.channels, p.window} {
    left_ = back ? std::max(0, (window_ - 1 - padding_ + stride_ - 1) / stride_) : padding_;
    columns_ = back ? (out_.width - 1 + padding_) / stride_ + 1 + left_
                    : (out_.width - 1) * stride_ + window_;
    phase_ = (columns_ + in_step_ - 1) / in_step_;
    row_size_ = std::ptrdiff_t{V} * in_step_ * phase_;
    in_place_ =
        direct_block<V>(in_.channels) == V && in_step_ == 1 && left_ == 0 && columns_ <= in_.width;
    lines_.resize(static_cast<std::size_t>(out_step_));
    for (int r = 0; r < window_; ++r) {
      if (!back_) lines_[0].push_back({r - padding_, r});
      for (int b = 0; b < stride_ && back_; ++b)
        if ((b + padding_ - r) % stride_ == 0)
          lines_[static_cast<std::size_t>(b)].push_back({(b + padding_ - r) / stride_, r});
    }
    const int taps = (window_ + out_step_ - 1) / out_step_;
    depth_ = std::max(1, weights_at_once / (taps * taps * V * V * 2));
  }

  [[nodiscard]] const packed_form<V>& form() const { return form_; }

  void run(int samples, const Real* x, const Real* w, Real* y, into how, cpu::stream s) const {
    const std::size_t x_size = sample_size(in_, direct_block<V>(in_.channels));
    const std::size_t y_size = sample_size(out_, direct_block<V>(out_.channels));
    parallel(s, static_cast<std::size_t>(samples), 1, [&](std::size_t first, std::size_t last) {
      for (std::size_t n = first; n < last; ++n)
        sample(x + n * x_size, n + 1 < last, w, y + n * y_size, how == into::add);
    });
  }

 private:
  // Numbers of scratch that stay in a core's second-level cache, and weights that one call of a
  // tile walks through.
  static constexpr int scratch_at_once = 262144 / static_cast<int>(sizeof(Real));
  static constexpr int weights_at_once = 32768 / static_cast<int>(sizeof(Real));

  struct memory {
    scratch<Real> lowered, wide;
    std::vector<tap> taps;
  };

  void sample(const Real* x, bool more, const Real* w, Real* y, bool add) const {
    thread_local memory mine;
    const std::size_t size = sample_size(in_, direct_block<V>(in_.channels));
    const auto ins = static_cast<int>(blocks_of(in_.channels, V));
    const auto outs = static_cast<int>(blocks_of(out_.channels, V));
    fetcher next(
        x + (more ? size : 0), more ? size : 0,
        std::ptrdiff_t{(outs + 1) / 2} * ((ins + depth_ - 1) / depth_) * out_.height * out_step_);
    if (direct_block<V>(out_.channels) == V) return bands(mine, next, x, w, y, add);
    Real* const wide = mine.wide.reserve(blocks_of(out_.channels, V) * out_.pixels() * V);
    bands(mine, next, x, w, wide, false);
    for (std::size_t pixel = 0; pixel < out_.pixels(); ++pixel)
      for (int k = 0; k < out_.channels; ++k, ++y)
        *y = (add ? *y : Real{}) +
             wide[(static_cast<std::size_t>(k / V) * out_.pixels() + pixel) * V +
                  static_cast<std::size_t>(k % V)];
  }

  /// Bands of rows whose input fits the cache.
  void bands(memory& mine, fetcher& next, const Real* x, const Real* w, Real* y, bool add) const {
    const auto blocks = static_cast<int>(blocks_of(in_.channels, V));
    const int rows = (out_.height + out_step_ - 1) / out_step_;
    const auto fit = static_cast<int>(scratch_at_once / (row_size_ * blocks)) - window_;
    const int band = std::max(fit / in_step_, std::min(rows, 4));
    for (int i = 0; i < rows; i += band) {
      const int first = i * out_step_, last = std::min(out_.height, (i + band) * out_step_);
      int low = back_ ? (first + padding_ - window_ + 1) / stride_ : first * stride_ - padding_;
      int high =
          back_ ? (last - 1 + padding_) / stride_ + 1 : (last - 1) * stride_ + window_ - padding_;
      low = std::clamp(low, 0, in_.height);
      high = std::clamp(high, low, in_.height);
      if (in_place_) {
        rows_of(mine.taps, next,
                {x, 0, std::ptrdiff_t{V} * in_.width * in_.height, std::ptrdiff_t{V} * in_.width},
                w, y, add, first, last);
      } else {
        Real* const lowered = mine.lowered.reserve(static_cast<std::size_t>(row_size_) *
                                                   static_cast<std::size_t>(blocks * (high - low)));
        lower(x, low, high, blocks, lowered);
        rows_of(mine.taps, next, {lowered, low, row_size_ * (high - low), row_size_}, w, y, add,
                first, last);
      }
    }
  }

  /// Input rows low .. high-1 into scratch, (C / V, rows, t, columns / t, V).
  void lower(const Real* x, int low, int high, int blocks, Real* to) const {
    const int block = direct_block<V>(in_.channels);
    const int begin = left_, end = std::min(columns_, left_ + in_.width);  // columns that are there
    for (int b = 0; b < blocks; ++b)
      for (int row = low; row < high; ++row, to += row_size_) {
        if (!row_meets(row)) continue;
        // A narrow image has one block, wider than a register if V is 2.
        const Real* from = block == V ? x + (std::ptrdiff_t{b} * in_.height + row) * in_.width * V
                                      : x + std::ptrdiff_t{row} * in_.width * block + b * V;
        for (int phase = 0; phase < std::min(in_step_, window_); ++phase) {
          Real* const line = to + std::ptrdiff_t{phase} * phase_ * V;
          const int head = std::min(phase_, (begin - phase + in_step_ - 1) / in_step_);
          const int tail = std::max(head, (end - phase + in_step_ - 1) / in_step_);
          std::fill(line, line + head * V, Real{});
          const Real* px = from + std::ptrdiff_t{head * in_step_ + phase - begin} * block;
          if (block == V && in_step_ == 1)
            std::memcpy(line + head * V, px,
                        static_cast<std::size_t>((tail - head) * V) * sizeof(Real));
          else if (block == V)
            for (int j = head; j < tail; ++j, px += in_step_ * V)
              store<Real, V>(line + j * V, load<Real, V>(px));
          else
            widen(px, in_step_ * block, std::min(V, block - b * V), tail - head, line + head * V);
          std::fill(line + tail * V, line + phase_ * V, Real{});
        }
      }
  }
  static void widen(const Real* from, int step, int channels, int pixels, Real* to) {
    // A whole register where that stays inside the row; what it copies too much is never read.
    for (; pixels * step >= V + step; --pixels, from += step, to += V)
      store<Real, V>(to, load<Real, V>(from));
    for (; pixels > 0; --pixels, from += step, to += V)
      for (int c = 0; c < channels; ++c) to[c] = from[c];
  }
  [[nodiscard]] bool row_meets(int row) const {
    return back_ || (row + padding_) % stride_ < window_;
  }

  /// Tap r (or s) of output row (column) i T + b meets input row i t + offset, T and t the steps.
  struct meeting {
    int offset, tap;
  };
  using line = std::vector<meeting>;  // the taps of one remainder b

  /// Where the rows of input stand.
  struct source {
    const Real* x;
    int low;  // the first row
    std::ptrdiff_t block, row;
  };

  /// Output rows first .. last-1, `first` a multiple of the output step. Filter blocks outermost,
  /// so that their weights stay near.
  void rows_of(std::vector<tap>& taps, fetcher& next, const source& from, const Real* w, Real* y,
               bool add, int first, int last) const {
    const auto ins = static_cast<int>(blocks_of(in_.channels, V));
    const auto outs = static_cast<int>(blocks_of(out_.channels, V));
    const auto y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
    for (int k = 0; k < outs; k += 2)
      for (int c = 0; c < ins; c += depth_)
        for (int a = 0; a < std::min(out_step_, last - first); ++a)
          for (int b = 0; b < std::min(out_step_, out_.width); ++b) {
            const row_tile<Real> at{from.x,
                                    w + k * form_.block_size(),
                                    form_.block_size(),
                                    y + k * y_block + std::ptrdiff_t{V} * b,
                                    y_block,
                                    std::ptrdiff_t{V} * out_step_,
                                    add || c > 0,
                                    0};
            if (k + 1 < outs)
              rows_of<2, 1>(taps, next, from, at, c, a, b, first, last);
            else if (in_step_ == 1 && line_of(b).size() == 3)
              rows_of<1, 3>(taps, next, from, at, c, a, b, first, last);
            else
              rows_of<1, 1>(taps, next, from, at, c, a, b, first, last);
          }
  }
  /// Those of remainders a and b, from input blocks c and on. Rows that meet the same taps share a
  /// list of them.
  template <int Blocks, int Span>
  void rows_of(std::vector<tap>& taps, fetcher& next, const source& from, row_tile<Real> at, int c,
               int a, int b, int first, int last) const {
    const line& rows = line_of(a);
    const int pixels = (out_.width - b + out_step_ - 1) / out_step_;
    Real* const y = at.y;
    for (int h = first + a, met = -1, met_last = -1; h < last; h += out_step_) {
      const int row = h / out_step_ * in_step_;
      const auto there = [&](const meeting& m) {
        return row + m.offset >= 0 && row + m.offset < in_.height;
      };
      int begin = 0, end = static_cast<int>(rows.size());
      while (begin < end && !there(rows[static_cast<std::size_t>(begin)])) ++begin;
      while (begin < end && !there(rows[static_cast<std::size_t>(end - 1)])) --end;
      if (begin != met || end != met_last)
        list<Span>(taps, from,
                   std::span(rows).subspan(static_cast<std::size_t>(begin),
                                           static_cast<std::size_t>(end - begin)),
                   line_of(b), c, at.w_span);
      met = begin;
      met_last = end;
      at.x = from.x + (row - from.low) * from.row;
      at.y = y + std::ptrdiff_t{h} * out_.width * V;
      next.some();
      if (c == 0 && h + out_step_ < last) {
        const Real* const below = at.y + std::ptrdiff_t{out_step_} * out_.width * V;
        for (int block = 0; block < Blocks; ++block)
          for (int j = 0; j < pixels; ++j)
            __builtin_prefetch(below + block * at.y_block + j * at.y_step, 1);
      }
      correlate_row<Real, V, Blocks, Span>(at, pixels, taps.data(), taps.data() + taps.size());
    }
  }
  /// The taps of these rows and columns, from an output row whose input row is 0.
  template <int Span>
  void list(std::vector<tap>& taps, const source& from, std::span<const meeting> rows,
            const line& columns, int c, std::ptrdiff_t& w_span) const {
    taps.clear();
    for (int block = c; block < std::min(static_cast<int>(blocks_of(in_.channels, V)), c + depth_);
         ++block)
      for (const meeting& r : rows)
        for (std::size_t s = 0; s < columns.size(); s += Span) {
          // A span begins at its leftmost column: back, that is the last of its taps.
          const meeting& left = columns[back_ ? s + Span - 1 : s];
          const int column = left.offset + left_;
          taps.push_back({block * from.block + r.offset * from.row +
                              std::ptrdiff_t{V} * (column % in_step_ * phase_ + column / in_step_),
                          form_.at(block * V, r.tap, left.tap),
                          std::min(V, in_.channels - block * V)});
        }
    w_span = form_.at(0, 0, 1) * (back_ ? -stride_ : 1);
  }
  [[nodiscard]] const line& line_of(int remainder) const {
    return lines_[static_cast<std::size_t>(remainder)];
  }

  extent in_, out_;
  int window_, stride_, padding_;
  bool back_;
  int in_step_, out_step_;  // pixels of input and output from one pixel of a tile to the next
  int left_, columns_;      // zero columns before the image, and columns of a row of scratch
  int phase_;               // columns of one remainder
  std::ptrdiff_t row_size_;
  bool in_place_;  // x is its own scratch
  int depth_;      // input blocks to a call
  packed_form<V> form_;
  std::vector<line> lines_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
