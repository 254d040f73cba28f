// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One image through one window, forwards or back: what fprop and dgrad of engine `direct` share.
//
// Output pixel j of a row takes tap s from padded input column j t + s (forwards) or, for outputs
// of one remainder modulo t, from column j + const (back): the input gradient of a strided layer is
// t x t correlations of stride 1, each with the taps that meet it. The 3x3 window of padding 1 runs
// in place (slide.hpp); where another window overhangs, input rows are copied into scratch with
// zero columns around them, so that no tile knows about edges. Rows outside the image are not
// there: their taps are left out. A lone tap behind a stride runs without it, over what it meets.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <cordee/device/cpu.hpp>
#include <cordee/ops/convolution.hpp>
#include <cordee/ops/direct/packed_form.hpp>
#include <cordee/ops/direct/slide.hpp>
#include <cordee/ops/direct/storage.hpp>
#include <cordee/ops/direct/tile.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

template <class Real, int V>
class correlation {
 public:
  correlation(const convolution_problem& p, bool back)
      : correlation(met_pixels<V>(p), met_pixels<V>(p).layer(p), back) {}

  [[nodiscard]] const packed_form<V>& form() const { return form_; }

  void run(int samples, const Real* x, const Real* w, Real* y, into how, cpu::stream s) const {
    const auto n = static_cast<std::size_t>(samples), groups = (n + at_once_ - 1) / at_once_;
    const std::size_t cuts = groups > 0 ? cuts_for(groups, workers_of(s)) : 0;
    each_task(s, groups * cuts, [&](std::size_t task) {
      const std::size_t group = task / cuts, cut = task % cuts, first = n * group / groups;
      some(n * (group + 1) / groups - first, x + first * x_size_, w, y + first * y_size_,
           how == into::add, {2 * (pairs() * cut / cuts), 2 * (pairs() * (cut + 1) / cuts)});
    });
  }

 private:
  correlation(const met_pixels<V>& met, const convolution_problem& p, bool back)
      : met_(met),
        in_(back ? p.out() : p.in),
        out_(back ? p.in : p.out()),
        window_(p.window),
        stride_(p.stride),
        padding_(p.padding),
        back_(back),
        in_step_(back ? 1 : p.stride),
        out_step_(back ? p.stride : 1),
        block_(direct_block<V>(in_.channels)),
        form_{out_.channels, in_.channels, p.window} {
    left_ = back ? std::max(0, (window_ - 1 - padding_ + stride_ - 1) / stride_) : padding_;
    columns_ = back ? (out_.width - 1 + padding_) / stride_ + 1 + left_
                    : (out_.width - 1) * stride_ + window_;
    slides_ = window_ == 3 && padding_ == 1 && stride_ <= 2 &&
              (block_ == V || (block_ == image_pitch && in_step_ * out_step_ == 1 && !back));
    in_place_ = slides_ || (left_ == 0 && columns_ <= in_.width);
    lines_ = lines_of(p, back);
    const int taps = (window_ + out_step_ - 1) / out_step_;
    depth_ = std::max(1, weights_at_once / (taps * (slides_ ? 3 : taps) * V * V * 2));
    x_size_ = moves() && !back ? sample_size(met_.in, V) : sample_size(in_, block_);
    y_size_ = moves() && back ? sample_size(met_.in, V)
                              : sample_size(out_, direct_block<V>(out_.channels));
    if (in_place_ && band() >= rows() && direct_block<V>(out_.channels) == V)
      at_once_ = static_cast<std::size_t>(
          std::clamp(blocks_near(1, in_.height) / depth_, 1, moves() ? 2 : 4));
  }

  // Numbers of scratch that stay in the second-level cache, and of weights to one call of a tile.
  static constexpr int scratch_at_once = 262144 / static_cast<int>(sizeof(Real));
  static constexpr int image_pitch = 3;  // a colour image slides too
  static constexpr int weights_at_once =
      (many_registers<Real, V> ? 32768 : 16384) / static_cast<int>(sizeof(Real));

  [[nodiscard]] std::size_t pairs() const { return (blocks_of(out_.channels, V) + 1) / 2; }
  /// Few samples are shared out by filters as well, so that nobody waits long for a slow worker.
  [[nodiscard]] std::size_t cuts_for(std::size_t groups, int workers) const {
    if (workers == 1 || !in_place_ || moves()) return 1;
    return std::clamp(8 * static_cast<std::size_t>(workers) / groups, std::size_t{1}, pairs());
  }
  /// Blocks of y's channels; the last may lie beyond them.
  struct blocks_out {
    std::size_t first, last;
  };
  struct memory {
    scratch<Real> padded, wide, met;
    std::vector<tap> taps;
  };

  /// Only the pixels that a lone tap meets, to where they are dense, or from there.
  [[nodiscard]] bool moves() const { return met_.stride > 1; }
  /// Samples that share each reading of the weights, of the large layers over small images.
  void some(std::size_t samples, const Real* x, const Real* w, Real* y, bool add,
            const blocks_out& filters) const {
    thread_local memory mine;
    if (moves() && !back_) {
      const std::size_t size = sample_size(in_, V);
      Real* const met = mine.met.reserve(samples * size);
      for (std::size_t n = 0; n < samples; ++n) met_.gather(x + n * x_size_, met + n * size);
      x = met;
    }
    const std::size_t size = sample_size(out_, V);
    if (moves() && back_) {
      Real* const met = mine.met.reserve(samples * size);
      bands(mine, samples, x, w, met, false, filters);
      for (std::size_t n = 0; n < samples; ++n) met_.scatter(met + n * size, y + n * y_size_, add);
      return;
    }
    if (direct_block<V>(out_.channels) == V) return bands(mine, samples, x, w, y, add, filters);
    Real* const wide = mine.wide.reserve(size);
    bands(mine, samples, x, w, wide, false, filters);
    for (std::size_t pixel = 0; pixel < out_.pixels(); ++pixel)
      for (int k = 0; k < out_.channels; ++k, ++y)
        *y = (add ? *y : Real{}) +
             wide[(static_cast<std::size_t>(k / V) * out_.pixels() + pixel) * V +
                  static_cast<std::size_t>(k % V)];
  }

  /// Where the rows of input stand. Pitches count numbers.
  struct source {
    const Real* x;
    int low;  // the first row
    std::ptrdiff_t block, row;
    std::size_t samples = 1;
  };

  /// Output rows of one remainder modulo the step, and how many of them make a band.
  [[nodiscard]] int rows() const { return (out_.height + out_step_ - 1) / out_step_; }
  [[nodiscard]] int band() const {
    // What is in place can be taken in parts, if y is not summed up anew too often.
    const int blocks = in_place_ ? std::min(ins(), std::max(depth_, 8)) : ins();
    const auto fit = static_cast<int>(scratch_at_once / (row() * blocks));
    return std::max((fit - window_) / in_step_ + 1, std::min(rows(), 4));
  }
  [[nodiscard]] std::ptrdiff_t row() const {
    return std::ptrdiff_t{block_} * (in_place_ ? in_.width : columns_);
  }
  [[nodiscard]] int ins() const { return static_cast<int>(blocks_of(in_.channels, block_)); }
  /// Blocks of the input, of so many samples' first rows, that stay in the second-level cache.
  [[nodiscard]] int blocks_near(int samples, int rows) const {
    return scratch_at_once / (samples * static_cast<int>(row()) * rows);
  }

  /// Bands of rows whose input stays in the cache from filter to filter.
  void bands(memory& mine, std::size_t samples, const Real* x, const Real* w, Real* y, bool add,
             const blocks_out& filters) const {
    const int rows = this->rows(), band = this->band();
    const std::ptrdiff_t row = this->row();
    for (int i = 0; i < rows; i += band) {
      const int first = i * out_step_, last = std::min(out_.height, (i + band) * out_step_);
      if (in_place_) {
        rows_of(mine.taps, {x, 0, row * in_.height, row, samples}, w, y, add, first, last, filters);
        continue;
      }
      int low = back_ ? (first + padding_ - window_ + 1) / stride_ : first * stride_ - padding_;
      int high =
          back_ ? (last - 1 + padding_) / stride_ + 1 : (last - 1) * stride_ + window_ - padding_;
      low = std::clamp(low, 0, in_.height);
      high = std::clamp(high, low, in_.height);
      Real* const padded = mine.padded.reserve(static_cast<std::size_t>(row) *
                                               static_cast<std::size_t>(ins() * (high - low)));
      pad_rows(x, in_, block_, low, high, left_, columns_, padded);
      rows_of(mine.taps, {padded, low, row * (high - low), row}, w, y, add, first, last, filters);
    }
  }

  /// Output rows first .. last-1, `first` a multiple of the output step. Weights stay near from
  /// row to row, the input of several samples from filter to filter.
  void rows_of(std::vector<tap>& taps, const source& from, const Real* w, Real* y, bool add,
               int first, int last, const blocks_out& filters) const {
    const int ins = this->ins();
    const int read = (last - first - 1) / out_step_ * in_step_ + window_;  // rows of the input
    int near = blocks_near(static_cast<int>(from.samples), std::min(in_.height, read));
    if (near < ins) near = in_place_ ? std::max(1, near / depth_) * depth_ : ins;
    const auto outs = static_cast<int>(std::min(filters.last, blocks_of(out_.channels, V)));
    const auto y_block = static_cast<std::ptrdiff_t>(out_.pixels()) * V;
    const int step = in_pairs() ? 2 : 1;
    for (int part = 0; part < ins; part += near)
      for (auto k = static_cast<int>(filters.first); k < outs; k += step)
        for (int c = part; c < std::min(ins, part + near); c += depth_)
          for (int a = 0; a < std::min(out_step_, last - first); ++a)
            for (int b = 0; b < (slides_ ? 1 : std::min(out_step_, out_.width)); ++b) {
              const bool pair = step == 2 && k + 1 < outs;
              row_tile<Real> at{.pixels = (out_.width - b + out_step_ - 1) / out_step_,
                                .columns = in_.width,
                                .x = from.x,
                                .x_step = std::ptrdiff_t{block_} * in_step_,
                                .x_row = from.row * in_step_,
                                .w = w + k * form_.block_size(),
                                .w_block = pair ? form_.block_size() : 0,
                                .w_span = form_.at(0, 0, 1) * (back_ ? -1 : 1),
                                .y = y + k * y_block + std::ptrdiff_t{V} * b,
                                .y_block = pair ? y_block : 0,
                                .y_step = std::ptrdiff_t{V} * out_step_,
                                .y_row = std::ptrdiff_t{V} * out_.width * out_step_,
                                .add = add || c > 0,
                                .edge = zero_pixel<Real, V>};
              if (slides_) at.pixels = out_.width;
              rows_of(taps, from, at, c, a, b, first, last, kernel(pair));
            }
  }
  /// Filter blocks go two at a time, but those of an image, and where few registers are better
  /// filled by twice the pixels: behind a stride a pixel serves few sums.
  [[nodiscard]] bool in_pairs() const {
    return !slides_ || (block_ == V && (out_step_ == 1 || many_registers<Real, V>));
  }
  using rows_kernel = void (*)(row_tile<Real>, const tap*, const tap*);
  [[nodiscard]] rows_kernel kernel(bool pair) const {
    constexpr int lone = lone_blocks<Real, V>;
    if (!slides_) return pair ? correlate_rows<Real, V, 2> : correlate_rows<Real, V, lone>;
    if (block_ != V) return slide_rows<Real, V, image_pitch, 1, 1, 1>;
    if (in_step_ == 2) return slide_rows<Real, V, V, 2, 2, 1>;  // a lone block twice: there are few
    if constexpr (many_registers<Real, V>)
      if (out_step_ == 2 && pair) return slide_rows<Real, V, V, 2, 1, 2>;
    if (out_step_ == 2) return slide_rows<Real, V, V, 1, 1, 2>;
    return pair ? slide_rows<Real, V, V, 2, 1, 1> : slide_rows<Real, V, V, lone, 1, 1>;
  }
  /// Those of remainders a and b, from input block c on, all that meet the same taps at once.
  void rows_of(std::vector<tap>& taps, const source& from, row_tile<Real> at, int c, int a, int b,
               int first, int last, rows_kernel rows_of) const {
    const Real* const x = at.x;
    Real* const y = at.y;
    for (int h = first + a, next = h; h < last; h = next) {
      const std::span<const meeting> met = met_by(h, a);
      const auto same = [&](std::span<const meeting> other) {
        return other.data() == met.data() && other.size() == met.size();
      };
      do next += out_step_;
      while (next < last && same(met_by(next, a)));
      list(taps, from, met, lines_[static_cast<std::size_t>(b)], c);
      at.rows = (next - h) / out_step_;
      at.x = x + (h / out_step_ * in_step_ - from.low) * from.row;
      at.y = y + std::ptrdiff_t{h} * out_.width * V;
      for (std::size_t n = 0; n < from.samples; ++n) {
        rows_of(at, taps.data(), taps.data() + taps.size());
        at.x += sample_size(in_, block_);
        at.y += sample_size(out_, V);
      }
    }
  }
  /// The window's rows that output row h, of remainder a, finds inside the image.
  [[nodiscard]] std::span<const meeting> met_by(int h, int a) const {
    const line& all = lines_[static_cast<std::size_t>(a)];
    std::span<const meeting> rows{all.data(), all.size()};
    const auto outside = [row = h / out_step_ * in_step_, this](const meeting& m) {
      return row + m.offset < 0 || row + m.offset >= in_.height;
    };
    while (!rows.empty() && outside(rows.front())) rows = rows.subspan(1);
    while (!rows.empty() && outside(rows.back())) rows = rows.first(rows.size() - 1);
    return rows;
  }
  /// The taps of these rows and columns, from an output row whose input row is 0.
  void list(std::vector<tap>& taps, const source& from, std::span<const meeting> rows,
            const line& columns, int c) const {
    taps.clear();
    for (int block = c; block < std::min(ins(), c + depth_); ++block)
      for (const meeting& r : rows) {
        const std::ptrdiff_t x = block * from.block + r.offset * from.row;
        const int channels = std::min(block_, in_.channels - block * block_);
        if (slides_) {
          taps.push_back({x, form_.at(block * V, r.tap, back_ ? 2 : 0), channels});
        } else if (block_ != V && !back_) {  // few channels: a window row's follow one another
          taps.push_back({x, form_.at(0, r.tap, 0), window_ * channels});
        } else {
          for (const meeting& s : columns)
            taps.push_back({x + std::ptrdiff_t{block_} * (s.offset + left_),
                            form_.at(block * V, r.tap, s.tap), channels});
        }
      }
  }

  met_pixels<V> met_;
  extent in_, out_;
  int window_, stride_, padding_;
  bool back_;
  int in_step_, out_step_;  // pixels of input and output from one pixel of a tile to the next
  int block_;               // channels to a block of the input
  int left_, columns_;      // zero columns before the image, and columns of a padded row
  bool slides_, in_place_;
  int depth_;                                  // input blocks to a call
  std::size_t at_once_ = 1, x_size_, y_size_;  // samples, and how far apart they stand
  packed_form<V> form_;
  std::vector<line> lines_;  // by an output row's remainder
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
