// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// This rank's part of a sharded update (comm/reducers/sharded.hpp; Xu et al. 2020, Rajbhandari et
// al. 2020): the ranges of all buckets, one behind the other, of weights, gradients and slots.
//
//   courier: reduce-scatter of each bucket
//   collect      own ranges of the gradient move to the front of its plane
//   norms        sums over the ranges, then over ranks: one message, alike on all ranks
//   step         the optimizer's step on the ranges; its sums per segment are of all ranks
//   gather       own ranges -> the weights' plane, all-gather of each bucket: all ranks' weights
//
// The optimizer's view has one piece of each segment, maybe an empty one, so that indices and norms
// of segments are those of the table. Its stream is a shard_device's, for which segmented_squares
// adds over ranks: optimizers need not know of any of it. On a GPU the host waits for such sums,
// and for the step's status before it launches the update.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/trace.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/frozen_layers.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// A stream of D whose sums of squares are those of all ranks.
template <class D>
struct shard_stream : D::stream {
  const void* context = nullptr;
  void (*sum_over_ranks)(const void* context, span_on<double, D>, typename D::stream) = nullptr;
};
/// D, where a view has a piece of each segment and the other ranks have the rest.
template <class D>
struct shard_device : D {
  using stream = shard_stream<D>;
};

/// squares[k] <- the sum over ranks of those of segment k's pieces. Collective.
template <class Real, class D, ops::SegmentBody<Real> Body>
void segmented_squares(shard_stream<D> s, std::span<const segment> pieces, const Body& body,
                       span_on<double, shard_device<D>> squares) {
  using ops::segmented_squares;
  const span_on<double, D> of_pieces{squares.data, pieces.size()};
  const typename D::stream plain = s;
  // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
  segmented_squares<Real>(plain, pieces, body, of_pieces);
  s.sum_over_ranks(s.context, of_pieces, plain);
}

/// This rank's shard of planes P with optimizer O and reducer R. Its constructor's arguments must
/// outlive it.
template <class P, class O, class R>
class shard {
 public:
  using Real = typename P::real;
  using D = typename P::device_type;
  using span = span_on<Real, D>;
  using stream = typename D::stream;

  static_assert(optim::norms_of<O> != norms_needed::before_propose,
                "sharded: no rank has norms of the mean gradient before the exchange: declare "
                "norms_needed::before_accept");

  [[gnu::cold]] shard(const D& device, P& planes, const R& reducer, std::span<const bucket> buckets)
      : device_(device), planes_(planes), reducer_(reducer), buckets_(buckets) {
    pieces_.resize(planes.trainables().size());
    for (std::size_t k = buckets.size(); k-- > 0;) {
      const bucket& b = buckets[k];
      const comm::number_range own = reducer.own_range(b.size);
      const auto within = [&](std::size_t offset) {
        return std::min(std::max(offset - b.offset, own.begin), own.end) - own.begin;
      };
      for (std::size_t i = 0; i < b.segments.size(); ++i) {
        const segment& s = b.segments[i];
        const std::size_t first = within(s.offset);
        pieces_[b.first_segment + i] = {s.name, s.kind, size_ + first, within(s.end()) - first, {}};
      }
      ranges_.push_back({b.offset + own.begin, size_, own.size()});
      size_ += own.size();
    }
    memory_ = buffer<Real, D>(device, size_ * (1 + slots));
  }
  shard(const shard&) = delete;
  shard& operator=(const shard&) = delete;

  /// Whether the plane of weights is that of gradients, too.
  [[nodiscard]] bool has_masters() const { return reducer_.masters; }
  /// Memory of this rank's parts; of its slots alone.
  [[nodiscard]] std::size_t bytes() const { return size_ * (1 + slots) * sizeof(Real); }
  [[nodiscard]] std::size_t slot_bytes() const { return size_ * slots * sizeof(Real); }
  /// All parts, which may be elsewhere between steps, as the planes (device/arena.hpp).
  [[nodiscard]] buffer<Real, D>& memory() { return memory_; }

  /// "1,024 bytes of optimizer slots on this rank, of 8,192 bytes in all"
  [[nodiscard, gnu::cold]] std::string describe() const {
    std::size_t all = 0;
    for (const bucket& b : buckets_) all += b.size;
    const bool masters = has_masters();
    return concat(core::grouped(masters ? bytes() : slot_bytes()), " bytes of optimizer slots ",
                  masters ? "and master weights " : "", "on this rank, of ",
                  core::grouped(all * (slots + (masters ? 1 : 0)) * sizeof(Real)), " bytes in all",
                  masters ? "" : concat("; with a copy of its weights ", core::grouped(bytes())));
  }
  /// The parts of the weights are those of the plane, which was written.
  void adopt_weights(stream s) {
    for (const range& r : ranges_)
      device_.copy(part(0).data + r.to, planes_.weights().data + r.from, r.size * sizeof(Real), s);
  }
  /// Slots from the weights, where the optimizer requires it.
  void initialize(const O& optimizer, stream s) {
    adopt_weights(s);
    if constexpr (optim::initializes_slots<O, decltype(view()), shard_stream<D>>()) {
      expects(pieces_.size() == core::count_trainable(planes_.table()),
              "sharded: this optimizer's slots begin as the weights, and frozen layers would have "
              "none: freeze no layers, or do not shard");
      if (!pieces_.empty()) optim::initialize_slots(optimizer, view(), stream_of(s));
    }
  }
  /// After the reduce-scatter: the gradient's own ranges are consecutive, in front.
  void collect(stream s) {
    for (const range& r : ranges_)
      move(grads().data + r.to, planes_.held_grads().of(r.from, r.size).data, r.size, s);
  }
  /// Squared norms of all segments of the mean gradient, and of the weights if wanted. Collective.
  void compute_norms(bool weights_too, stream s) {
    using ops::segmented_squares;
    const auto norms = planes_.squared_norms();
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    if (weights_too)
      segmented_squares<Real>(s, pieces(), grads(), norms.of_gradient, part(0), norms.of_weights);
    else
      segmented_squares<Real>(s, pieces(), grads(), norms.of_gradient);
    sum_over_ranks(norms.of_gradient, weights_too ? norms.of_weights : span_on<double, D>{}, s);
  }
  /// The optimizer's step on this rank's parts. Collective.
  void step(const O& optimizer, const step_info& info, stream s) {
    if (!pieces_.empty()) optimizer.accept(view(), info, stream_of(s));
  }
  /// All ranks' weights. Collective.
  void gather_weights(stream s) { gather(0, planes_.weights(), s); }
  /// The numbers of all ranks' slot k in `plane`, a whole one. Collective.
  void gather_slot(int k, span plane, stream s) {
    gather(1 + static_cast<std::size_t>(k), plane, s);
  }

  /// A piece of a segment in slot k: its numbers, and where they begin in the segment.
  struct held_piece {
    span numbers;
    std::size_t begin;
  };
  /// Whether the segment is trained.
  [[nodiscard]] bool has(const segment& s) const { return index_of(s) < pieces_.size(); }
  /// Requires has(s).
  [[nodiscard]] held_piece piece_of(int k, const segment& s) {
    const std::size_t i = index_of(s);
    return {part(1 + static_cast<std::size_t>(k)).subspan(pieces_[i].offset, pieces_[i].size),
            begin_of(i)};
  }

 private:
  static constexpr std::size_t slots = static_cast<std::size_t>(O::slots);

  // Numbers `from` of the table, which are numbers `to` of the parts.
  struct range {
    std::size_t from, to, size;
  };

  [[nodiscard]] std::span<const segment> pieces() const { return pieces_.span(); }
  [[nodiscard]] span part(std::size_t index) {
    return planes_.resident(memory_).span().subspan(index * size_, size_);
  }
  [[nodiscard]] span grads() { return {planes_.held_grads().numbers.data, size_}; }
  [[nodiscard]] std::size_t index_of(const segment& s) const {
    std::size_t i = 0;
    while (i < pieces_.size() && planes_.trainables()[i].offset != s.offset) ++i;
    return i;
  }
  [[nodiscard]] std::size_t begin_of(std::size_t i) const {
    const std::size_t offset = pieces_[i].offset;
    for (const range& r : ranges_)
      if (offset >= r.to && offset < r.to + r.size)
        return r.from + (offset - r.to) - planes_.trainables()[i].offset;
    return 0;
  }
  [[nodiscard]] auto view() {
    auto v = planes_.template view_of<shard_device<D>>(planes_.trainables(), 0, true);
    const auto of_shard = [](span x) { return span_on<Real, shard_device<D>>{x.data, x.size}; };
    v.weights = of_shard(part(0));
    v.grads = of_shard(grads());
    for (std::size_t k = 0; k < slots; ++k) v.slots[k] = of_shard(part(1 + k));
    v.segments = pieces();
    return v;
  }
  [[nodiscard]] shard_stream<D> stream_of(stream s) const {
    return {s, this, [](const void* self, span_on<double, D> sums, stream on) {
              static_cast<const shard*>(self)->sum_over_ranks(sums, {}, on);
            }};
  }
  // Sums over ranks of both, in one message.
  void sum_over_ranks(span_on<double, D> x, span_on<double, D> y, stream s) const {
    if (reducer_.comm.size() == 1) return;
    std::vector<double> sums(x.size + y.size);
    const auto copy = [&](void* out, const void* in, std::size_t n) {
      if (n > 0) device_.copy(out, in, n * sizeof(double), s);
    };
    copy(sums.data(), x.data, x.size);
    copy(sums.data() + x.size, y.data, y.size);
    device_.finish(s);
    allreduce_host(reducer_.comm, sums, reduce_op::sum);
    copy(x.data, sums.data(), x.size);
    copy(y.data, sums.data() + x.size, y.size);
  }
  // Moves a range that may overlap its destination, which a GPU's copies must not.
  void move(Real* out, const Real* in, std::size_t n, stream s) const {
    if (out == in || n == 0) return;
    if constexpr (!D::host_memory)
      if (in < out + n) {  // no range is moved to the back
        const device::stream_buffer<Real, stream> between(s, n);
        device_.copy(between.data(), in, n * sizeof(Real), s);
        return device_.copy(out, between.data(), n * sizeof(Real), s);
      }
    device_.copy(out, in, n * sizeof(Real), s);
  }
  void gather(std::size_t index, span plane, stream s) {
    const core::trace_range scope("gather");
    for (const range& r : ranges_)
      device_.copy(plane.data + r.from, part(index).data + r.to, r.size * sizeof(Real), s);
    for (const bucket& b : buckets_)
      reducer_.template gather<Real, D>(plane.subspan(b.offset, b.size), s);
  }

  D device_;
  P& planes_;
  const R& reducer_;
  std::span<const bucket> buckets_;
  core::pod_vector<segment> pieces_;  // as many as trained segments
  core::pod_vector<range> ranges_;    // in the order of the table
  std::size_t size_ = 0;              // numbers of a part
  buffer<Real, D> memory_;            // (1 + slots, size_): weights, slots
};

struct no_shard {
  explicit no_shard(const auto&...) {}
  [[nodiscard]] static std::size_t bytes() { return 0; }
};
template <class P, class M, class O, class R>
struct shard_type {
  using type = no_shard;
};
template <class P, class M, class O, class R>
  requires comm::ShardsUpdate<R>
struct shard_type<P, M, O, R> {
  static_assert(std::same_as<typename M::device, cpu> || GpuStream<typename M::device::stream>,
                "sharded: it runs on CPUs and GPUs: on another device name the reducer inside");
  using type = shard<P, O, R>;
};
template <class P, class M, class O, class R>
using shard_of = typename shard_type<P, M, O, R>::type;

/// Throws usage_error where the update, or the master weights, cannot be sharded.
template <class M, class R>
[[gnu::cold]] void check_sharded(const R& reducer, const trainer_options& options) {
  expects(M::device::host_memory || !options.capture_graphs,
          "sharded: the host adds norms over ranks within a step, so that no graph has all of it: "
          "leave .capture_graphs out");
  if (!reducer.masters) return;
  expects(options.freeze.empty(),
          "sharded: with .masters the gradients take the place of the weights, those of frozen "
          "layers too: freeze none, or leave .masters off");
  expects(nn::TakesPlanePart<M>,
          "sharded: with .masters the gradients take the place of the weights, which this model "
          "may read in a pass: leave .masters off");
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
