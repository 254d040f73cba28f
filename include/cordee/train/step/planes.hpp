// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run's memory: the planes of the arena by name, the views of them that optimizers and reducers
// get, per-segment norms and the status of the step.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/device/predicated.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/ops/cpu/segmented.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/frozen_layers.hpp>
#include <cordee/train/step/gradient_plane.hpp>
#include <cordee/train/step/memory_plan.hpp>
#include <cordee/train/step/named_segment.hpp>
#include <cordee/train/step/residence.hpp>
#include <cordee/train/step/segment_state.hpp>
#include <cordee/train/step/step_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Planes: master weights (running statistics at the tail), gradients, O::slots of the optimizer O,
/// R::slots of the reducer R. All start at zero. The gradients may be in memory of their own.
template <class Real, Device D, class O, class R>
class planes {
 public:
  using span = span_on<Real, D>;
  using part = device::plane_part<Real, D>;
  using device_type = D;
  using stream = typename D::stream;
  using real = Real;
  using optimizer_type = O;
  using reducer_type = R;
  using segments = std::span<const segment>;  // consecutive ones of the table
  /// Whether all planes are in memory of the host, which the device reads, too (optim/on_host.hpp).
  static constexpr bool on_host = optim::UpdatesOnHost<O>;
  template <class T>
  using memory = device::placed_memory<T, D, on_host>;

  /// No step exchanges or applies gradients of segments whose names begin with one of `frozen`.
  /// Slots are from the first to the last segment that is trained, unless the optimizer initializes
  /// them from the weights; gradients too, unless the model may write others (`written`).
  /// `gradient_memory`: of the device, for the gradients; null: of the run's choice.
  [[gnu::cold]] planes(const D& device, segments table, const frozen_layers& frozen = {},
                       device::external_memory&& gradient_memory = nullptr,
                       frozen_gradients written = frozen_gradients::all, bool one_plane = false)
      : device_(device),
        table_(table),
        unfrozen_(frozen.unfrozen_segments(table)),
        one_plane_(one_plane),
        gradients_(device, table, on_host ? segments{} : unfrozen_.span(), written,
                   std::move(gradient_memory), frozen.called()),
        arena_(device, table, first_slot() + whole_slots + R::slots, first_slot(), slot_size()),
        saved_statistics_(device, arena_.plane_size() - trainable_size()),
        squared_weight_norms_(device, table.size()),
        squared_grad_norms_(device, table.size()),
        sums_(device, table.size()),
        numbers_(device, table.size()),
        step_status_(device, 1) {}
  /// The gradients of an exact optimizer are where the reducer's transport wants them. Throws what
  /// the reducer has against the table.
  [[gnu::cold]] planes(const D& device, segments table, const frozen_layers& frozen,
                       frozen_gradients written, const R& reducer)
      : planes(device, table, frozen,
               O::needs == agreement::exact && !on_host && !comm::shards_masters(reducer)
                   ? gradient_plane<Real, D>::allocate_registered(reducer, device, table, frozen,
                                                                  written)
                   : nullptr,
               written, comm::shards_masters(reducer)) {
    if constexpr (requires { reducer.check(trainables()); }) reducer.check(trainables());
  }

  [[nodiscard]] segments table() const { return table_; }
  /// Without those that are frozen.
  [[nodiscard]] segments trainables() const {
    return unfrozen_.empty() ? table_.first(core::count_trainable(table_)) : unfrozen_.span();
  }
  [[nodiscard]] std::size_t bytes() const {
    return (arena_.size() + (gradients_.is_in_arena() ? 0 : gradients_.size())) * sizeof(Real);
  }

  /// Names all of the above, and what is beside the planes.
  void add_memory(memory_plan& plan) const {
    if constexpr (on_host)
      return plan.add("norms and status", saved_statistics_.size() * sizeof(Real));
    const bool beside = !gradients_.is_in_arena();
    plan.add("weights", arena_.plane_size() * sizeof(Real));
    if (beside || !one_plane_)
      plan.add("gradients", (beside ? gradients_.size() : arena_.plane_size()) * sizeof(Real));
    plan.add("optimizer slots", whole_slots * slot_size() * sizeof(Real));
    plan.add("reducer slots", R::slots * slot_size() * sizeof(Real));
    plan.add("norms and status", saved_statistics_.size() * sizeof(Real) +
                                     (3 * sums_.size() + numbers_.size()) * sizeof(double) +
                                     sizeof(step_status));
  }

  [[nodiscard]] train::residence& residence() { return residence_; }
  /// x, when the planes are on the device.
  template <class T>
  [[nodiscard]] T& resident(T& x) const {
    residence_.make_resident();
    return x;
  }
  /// All of the arena, wherever weights() is.
  [[nodiscard]] memory<Real>& arena_memory() { return arena_.memory(); }

  [[nodiscard, gnu::cold, gnu::noinline]] span weights() { return resident(arena_).plane(0); }
  /// The gradients, or slot k of the optimizer or k - O::slots of the reducer: as much as there is.
  [[nodiscard, gnu::cold, gnu::noinline]] part held_grads() {
    if constexpr (comm::ShardsUpdate<R>)
      if (one_plane_) return {weights()};
    return resident(gradients_).is_in_arena() ? part(arena_.plane(1)) : gradients_.part();
  }
  [[nodiscard, gnu::cold, gnu::noinline]] part held_slot(int k) {
    expects(!comm::ShardsUpdate<R>,
            "trainer: with sharded no rank holds a whole slot: gather_slot(k) is that of all");
    return {resident(arena_).plane(first_slot() + k), first_slot_offset()};
  }
  [[nodiscard]] span grads() {
    return held_grads().whole(arena_.plane_size(), "gradients", "held_grads()");
  }
  [[nodiscard]] span slot(int k) {
    return held_slot(k).whole(arena_.plane_size(), "slots", "held_slot(k)");
  }
  [[nodiscard]] span reducer_slot(int k) { return slot(O::slots + k); }
  /// The numbers of a segment in a plane.
  [[nodiscard]] span span_of(const part& plane, std::string_view name) const {
    return plane.of(named_segment(table_, name));
  }
  [[nodiscard]] span gradient_of(const bucket& b) { return held_grads().of(b.offset, b.size); }
  [[nodiscard, gnu::cold, gnu::noinline]] span statistics() {
    return weights().subspan(trainable_size(), saved_statistics_.size());
  }
  /// The optimizer's numbers of all segments of the table, beside its slots.
  [[nodiscard]] auto& numbers() { return numbers_; }
  /// In the device's memory.
  [[nodiscard]] span_on<const step_info, D> info() const { return {&status()->info, 1}; }
  [[nodiscard]] step_status* status() { return step_status_.span().data; }
  [[nodiscard]] const step_status* status() const { return step_status_.span().data; }

  void clear(span x, stream s) { device_.clear(x.data, x.size * sizeof(Real), s); }
  void clear_grads(stream s) {
    if constexpr (on_host) return;  // buckets are cleared as they begin
    const part all = held_grads();
    const std::size_t first = gradients_.first_written();
    // With one plane for both, the statistics are behind the gradients.
    const std::size_t end = one_plane_ ? trainable_size() : all.offset + all.numbers.size;
    clear(all.of(first, end - first), s);
  }
  void copy(span out, span in, stream s) {
    device_.copy(out.data, in.data, in.size * sizeof(Real), s);
  }
  /// Resets the status and saves the running statistics, in case the step is skipped. `checks`: its
  /// gradient is tested.
  void begin_step(const step_info& info, bool checks, stream s) {
    checks_ = checks;
    residence_.begin_step();
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    launch_single(s, begin_step_op{info, status()});
    copy(saved_statistics_.span(), statistics(), s);
  }

  /// After a step's forward passes: spoils `gradient` if a running statistic is not finite now.
  template <class M>
  [[gnu::noinline]] void check_statistics(span gradient, stream s) {
    if constexpr (!may_have_statistics<M>()) return;
    const span now = statistics();
    const check_statistics_op<Real> op{now.data, saved_statistics_.span().data, gradient.data,
                                       status()};
    if (!checks_ || now.empty()) return;
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    if constexpr (!D::host_memory)
      for_each(s, now.size, op);
    else
      for (std::size_t i = 0; i < now.size; ++i) op(i);
  }

  /// What a reducer gets of one bucket: `values` to mix, its own slots, scratch memory.
  [[nodiscard]] bucket_view<Real, D, R::slots> bucket_view_of(const bucket& b, span values,
                                                              span_on<std::byte, D> scratch) {
    bucket_view<Real, D, R::slots> view{&b, values, {}, scratch};
    for (int k = 0; k < R::slots; ++k)
      view.slots[static_cast<std::size_t>(k)] = held_slot(O::slots + k).of(b.offset, b.size);
    return view;
  }

  /// Passes the initial weights to an optimizer and a reducer that need them.
  void initialize(const O& optimizer, const R& reducer, std::span<const bucket> buckets, stream s) {
    if constexpr (initializes) {
      const segments all = table_.first(core::count_trainable(table_));  // frozen ones as well
      if constexpr (on_host) device_.finish(s);
      if (!all.empty())
        optim::initialize_slots(optimizer, view_of<optimizer_device>(all, 0, true),
                                optimizer_stream_of(s));
    }
    if constexpr (comm::InitializableOn<R, Real, D>)
      for (const bucket& b : buckets)
        reducer.initialize(bucket_view_of(b, weights().subspan(b.offset, b.size), {}), s);
  }

  /// What an optimizer gets of some segments, the first of which has index `first` in the table.
  template <class To = D>
  [[nodiscard]] optimizer_view<Real, To, O::slots> view_of(segments some, std::size_t first,
                                                           bool finite) {
    const std::size_t start = some.front().offset;
    const std::size_t size = some.back().offset + detail::core::align_up(some.back().size) - start;
    const auto part_of = [&](const part& plane) {
      return span_on<Real, To>{plane.of(start, size).data, size};
    };
    const auto per_segment = [&](memory<double>& x) {
      return span_on<double, To>{x.span().data + first, some.size()};
    };
    optimizer_view<Real, To, O::slots> v{part_of(weights()), part_of(held_grads()), {}, some};
    for (int k = 0; k < whole_slots; ++k)
      v.slots[static_cast<std::size_t>(k)] = part_of(held_slot(k));
    v.squared_weight_norms = per_segment(squared_weight_norms_);
    v.squared_grad_norms = per_segment(squared_grad_norms_);
    v.squared_global_norm = {&status()->squared_global_norm, 1};
    v.sums = per_segment(sums_);
    v.finite = finite;
    v.info = {&status()->info, 1};
    v.numbers = numbers_.template of<To>(first, some.size());
    return v;
  }

  /// Computes the squared norms of the gradient, and of the weights if wanted, of some segments.
  /// By work of a stream of `To`, which reads the planes.
  template <class To = D>
  void compute_norms(segments some, std::size_t first, bool weights_too, typename To::stream s) {
    const std::size_t start = some.front().offset, size = some.back().end() - start;
    const auto part_of = [&](const part& plane) {
      return span_on<Real, To>{plane.of(start, size).data, size};
    };
    const span_on<Real, To> gradient = part_of(held_grads());
    const auto norms = [&](auto& all) {
      return span_on<double, To>{all.span().data + first, some.size()};
    };
    // for a GPU by argument-dependent lookup: ops/gpu/segmented.hpp
    if (weights_too)
      segmented_squares<Real>(s, some, gradient, norms(squared_grad_norms_), part_of(weights()),
                              norms(squared_weight_norms_));
    else
      segmented_squares<Real>(s, some, gradient, norms(squared_grad_norms_));
  }
  /// Squared norms of all trainable segments, which are computed elsewhere.
  struct norm_spans {
    span_on<double, D> of_gradient, of_weights;
  };
  [[nodiscard]] norm_spans squared_norms() {
    const std::size_t n = trainables().size();
    return {{squared_grad_norms_.span().data, n}, {squared_weight_norms_.span().data, n}};
  }
  /// Enters the gradient's norms in the status, see record_norms_op.
  template <class Stream = stream>
  void record_norms(segments some, std::size_t first, bool keep_nonfinite, Stream s) {
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    launch_single(s, record_norms_op{squared_grad_norms_.span().data + first, some.size(),
                                     keep_nonfinite, status()});
  }
  /// Adds the gradient's norms to those of this rank alone.
  void add_local_norms(segments some, std::size_t first, stream s) {
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    launch_single(
        s, add_local_norms_op{squared_grad_norms_.span().data + first, some.size(), status()});
  }
  /// The status after the work launched on `s`. Blocks the host.
  [[nodiscard]] step_status read_status(stream s) const {
    return on_host_after(step_status_, s)[0];
  }

  /// bucket <- 0 if the norms recorded last were not finite.
  void clear_if_nonfinite(span bucket, stream s) { replace_if(last_nonfinite(), bucket, {}, s); }
  /// If any norm of this step was not finite, restores the running statistics, and clears the
  /// reducer's slots (error feedback) if the step is skipped as a whole.
  void undo_if_nonfinite(bool skipped, stream s) {
    replace_if(any_nonfinite(), statistics(), saved_statistics_.span(), s);
    for (int k = 0; skipped && k < R::slots; ++k)
      replace_if(any_nonfinite(), held_slot(O::slots + k).numbers, {}, s);
  }

  /// f(view of all trainable segments, stream), without effect if any norm of this step was not
  /// finite. On a GPU f is called in any case: its kernels test the flag (device/predicated.hpp).
  template <class F>
  void unless_nonfinite(stream s, const F& f) {
    if constexpr (GpuStream<stream>)
      f(view_of<device::predicated<D>>(trainables(), 0, true),
        typename device::predicated<D>::stream{s, any_nonfinite()});
    else if (!D::host_memory || *any_nonfinite() == 0)
      f(view_of(trainables(), 0, true), s);
  }

  /// f(segment, |w|, |g|, square root of the optimizer's sum) for each trainable segment, of the
  /// norms that the optimizer got last. Blocks the host.
  template <class F>
  void for_norms(stream s, const F& f) const {
    const auto weights = on_host_after(squared_weight_norms_, s);
    const auto grads = on_host_after(squared_grad_norms_, s);
    const auto sums = on_host_after(sums_, s);
    for (std::size_t k = 0; k < trainables().size(); ++k)
      f(trainables()[k], core::sqrt(weights[k]), core::sqrt(grads[k]), core::sqrt(sums[k]));
  }
  /// Squared norms of the trainable segments' gradients, as computed last. Blocks the host.
  [[nodiscard]] auto squared_grad_norms(stream s) const {
    return on_host_after(squared_grad_norms_, s);
  }

 private:
  using optimizer_device = std::conditional_t<on_host, cpu, D>;
  // A sharded update has the others.
  static constexpr int whole_slots = comm::ShardsUpdate<R> ? 0 : O::slots;
  static constexpr bool initializes =
      !comm::ShardsUpdate<R> &&
      optim::initializes_slots<O, optimizer_view<Real, optimizer_device, O::slots>,
                               typename optimizer_device::stream>();
  static auto optimizer_stream_of(stream s) {
    if constexpr (on_host)
      return cpu::stream{};
    else
      return s;
  }
  /// x after the work launched on `s`, for the host to read. Blocks the host.
  [[nodiscard]] auto on_host_after(const auto& x, stream s) const {
    if constexpr (D::host_memory)
      return x.span();
    else
      return copy_to_host(device_, x.span(), s);
  }
  /// The arena's plane behind weights and gradients.
  [[nodiscard]] int first_slot() const { return gradients_.is_in_arena() && !one_plane_ ? 2 : 1; }
  [[nodiscard]] bool has_whole_slots() const { return initializes || unfrozen_.empty(); }
  [[nodiscard, gnu::noinline]] std::size_t first_slot_offset() const {
    return has_whole_slots() ? 0 : unfrozen_[0].offset;
  }
  [[nodiscard, gnu::cold, gnu::noinline]] std::size_t slot_size() const {
    return arena<Real, D>::size_of_plane(has_whole_slots() ? table_ : unfrozen_.span()) -
           first_slot_offset();
  }
  [[nodiscard]] std::size_t trainable_size() const {
    const std::size_t n = core::count_trainable(table_);
    return n == 0 ? 0 : table_[n - 1].offset + core::align_up(table_[n - 1].size);
  }

  [[nodiscard]] const std::int32_t* any_nonfinite() const {
    return &step_status_.span().data->nonfinite_norms;
  }
  [[nodiscard]] const std::int32_t* last_nonfinite() const {
    return &step_status_.span().data->last_norm_nonfinite;
  }

  // to <- from, or zero if `from` is empty, where the flag is set
  void replace_if(const std::int32_t* flag, span to, span_on<const Real, D> from, stream s) {
    // for a GPU by argument-dependent lookup: device/gpu_kernel.hpp
    if constexpr (!D::host_memory)
      for_each(s, to.size, replace_op<Real>{flag, from.data, to.data});
    else if (*flag == 0)
      return;
    else if (from.empty())
      clear(to, s);
    else
      device_.copy(to.data, from.data, to.size * sizeof(Real), s);
  }

  D device_;
  segments table_;
  core::pod_vector<segment> unfrozen_;  // empty where none is frozen
  bool one_plane_;                      // of weights, and of gradients during a step
  gradient_plane<Real, D> gradients_;
  arena<Real, D, memory<Real>> arena_;
  buffer<Real, D> saved_statistics_;  // as they were when the step began
  memory<double> squared_weight_norms_, squared_grad_norms_, sums_;  // one number per segment
  segment_state<O, D, memory<double>> numbers_;
  memory<step_status> step_status_;
  bool checks_ = true;  // this step's gradient is tested
  train::residence residence_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
