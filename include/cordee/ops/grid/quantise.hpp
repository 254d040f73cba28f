// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What quantised layers ask of a grid (ops/quantise.hpp, ops/quantise_lanes.hpp): the range of what
// they read, what quantisation leaves of it, the mask of its gradients, and weights as bytes.
//
// Ranges and scales stand in the device's memory and kernels read them there: so the host waits for
// none of them, and a pass can be recorded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include <cordee/device/grid.hpp>
#include <cordee/ops/grid/elementwise.hpp>
#include <cordee/ops/grid/largest.hpp>
#include <cordee/ops/quantise.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

/// What all threads' ranges span; for once in a body.
template <int Threads, class Block>
CORDEE_DEVICE real_range whole_of(Block& b, const real_range& mine) {
  const double high = largest_of<Threads>(b, mine.high), low = -largest_of<Threads>(b, -mine.low);
  return {static_cast<float>(low), static_cast<float>(high)};
}

/// The range of every chunk: of all reals where one number of it is none, or infinite.
struct range_by_chunk {
  static constexpr int threads = 256;
  static constexpr std::size_t chunk = 64 * threads;
  std::size_t n;
  const float* x;
  real_range* to;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return 2 * threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const std::size_t first = b.index() * chunk, last = std::min(first + chunk, n);
    real_range mine;
    for (std::size_t i = first + static_cast<std::size_t>(b.thread()); i < last; i += threads) {
      const bool finite = x[i] * 0.0f == 0;
      mine.widen({finite ? x[i] : -infinity, finite ? x[i] : infinity});
    }
    mine = whole_of<threads>(b, mine);
    if (b.thread() == 0) to[b.index()] = mine;
  }
};

/// One block: what was seen widens the record, and says what quantises the input.
struct note_range {
  static constexpr int threads = 256;
  std::size_t chunks;
  const real_range* of;
  const float *low, *high;  // the running range
  input_record* record;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return 2 * threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    constexpr float none = std::numeric_limits<float>::quiet_NaN();
    real_range all;
    for (auto i = static_cast<std::size_t>(b.thread()); i < chunks; i += threads) all.widen(of[i]);
    all = whole_of<threads>(b, all);
    if (b.thread() != 0) return;
    if (all.low == -infinity || all.high == infinity) all = {none, none};
    if (chunks == 0) all = {};
    record->seen.widen(all);
    record->by = fit_input({*low, *high}, all, chunks > 0);
  }
};
struct recall_range {
  const float *low, *high;
  input_record* record;
  CORDEE_DEVICE void operator()(std::size_t) const {
    record->known = *low <= *high;
    record->by = fit_affine(*low, *high, unsigned_bytes);
  }
};

struct simulates {
  const affine<float>* k;
  CORDEE_DEVICE float operator()(float x) const { return k->simulate(x); }
};
struct masks {
  const affine<float>* k;
  CORDEE_DEVICE float operator()(float x, float g) const { return k->passes(x) ? g : 0; }
};
struct adds_passed {
  const float* x;
  const affine<float>* k;
  const float* g;
  float* onto;
  CORDEE_DEVICE void operator()(std::size_t i) const { onto[i] += k->passes(x[i]) ? g[i] : 0; }
};

/// A block quantises one filter by its largest weight.
template <class Left>
struct quantise_filter {
  static constexpr int threads = 128;
  std::size_t each;
  const float* w;
  std::int8_t* q;
  Left* left;
  float* scales;

  [[nodiscard]] static constexpr std::size_t shared_bytes() { return threads * sizeof(double); }
  template <class Block>
  CORDEE_DEVICE void operator()(Block& b) const {
    const std::size_t first = b.index() * each, last = first + each,
                      mine = first + static_cast<std::size_t>(b.thread());
    double most = 0;
    for (std::size_t i = mine; i < last; i += threads) {
      const float a = w[i] < 0 ? -w[i] : w[i];
      if (!(a <= most)) most = a == a ? a : std::numeric_limits<float>::infinity();
    }
    const auto k = fit_symmetric(static_cast<float>(largest_of<threads>(b, most)));
    if (b.thread() == 0) scales[b.index()] = k.scale;
    for (std::size_t i = mine; i < last; i += threads) {
      const int whole = k.quantise(w[i]);
      q[i] = static_cast<std::int8_t>(whole);
      left[i] = rounded<Left>(static_cast<float>(whole) * k.scale);
    }
  }
};

}  // namespace detail

/// Training: the layer reads these n numbers, and has the running range low .. high.
template <GridStream S>
void note_input(std::size_t n, const float* x, const float* low, const float* high,
                input_record* record, S s) {
  using pass = detail::range_by_chunk;
  const std::size_t chunks = blocks_for(n, pass::chunk);
  const lent<real_range, S> ranges(s, chunks);
  s.launch(chunks, pass{n, x, ranges.data()});
  s.launch(1, detail::note_range{chunks, ranges.data(), low, high, record});
}
/// Evaluation: it is quantised by the running range, if there is one.
template <GridStream S>
void recall_input(const float* low, const float* high, input_record* record, S s) {
  once(s, detail::recall_range{low, high, record});
}

/// y <- what quantisation leaves of x
template <GridStream S>
void simulate(std::size_t n, const float* x, const affine<float>* k, float* y, S s) {
  detail::for_each_pack(s, n, x, y, detail::simulates{k});
}

/// g <- g where the gradient passes x straight through, 0 elsewhere; or adds that to `onto`.
template <GridStream S>
void pass_straight(std::size_t n, const float* x, const affine<float>* k, float* g, float* onto,
                   S s) {
  if (onto == nullptr)
    detail::for_each_pack(s, n, x, g, detail::masks{k});
  else
    for_each(s, n, detail::adds_passed{x, k, g, onto});
}

/// Weights (filters, each) as bytes, their scales, and what quantisation leaves of them.
template <Number Left, GridStream S>
void quantise_filters(std::size_t filters, std::size_t each, const float* w, std::int8_t* q,
                      Left* left, float* scales, S s) {
  s.launch(filters, detail::quantise_filter<Left>{each, w, q, left, scales});
}

}  // namespace cordee::inline CORDEE_ABI
