// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Sections of a step captured as graphs (as CUDA graphs are): their launches are recorded once and
// launched together from then on.
//
//   first call:   runs directly (buffers grow, engines choose their algorithms)
//   second call:  captured, then replayed
//   afterwards:   replayed
//
// A graph is reused while the arguments of its launches are the same: the batch's memory and sizes,
// and what the model adds to them. What else changes from step to step is read from the step's
// status, in the device's memory. So many are kept that the micro-batches of a step, which have
// memory of their own, find theirs; the one that was not used for longest makes room.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/graph_capture.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/enqueued_courier.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// A model that returns, as an optional, what the launches of its passes depend on beside their
/// batch; nullopt if they cannot be captured.
template <class M>
concept CapturableModel = requires(const M m, batch<typename M::device> b) {
  { m.captured_arguments(b) } -> std::equality_comparable;
  { m.captured_arguments(b).has_value() } -> std::same_as<bool>;
};

/// Whether steps of this model and optimizer can be captured at all.
template <class M, class O>
concept CapturableStep =
    device::GraphCapture<typename M::device> && CapturableModel<M> && optim::Capturable<O>;

/// `step` is the last pass and everything behind it.
enum class graph_section { pass, last_pass, finish_reduction, accept, step };

/// Steps that cannot be captured, all on the CPU among them: every section runs directly.
template <class M, class O, class R, bool = CapturableStep<M, O>>
class graph_cache {
 public:
  graph_cache(const typename M::device&, const trainer_options& options)
      : requested_(options.capture_graphs) {}

  void begin_step(std::size_t /*micro_batches*/) {}
  [[nodiscard]] bool joins(bool /*courier_is_threaded*/) const { return false; }
  template <class F>
  bool run(graph_section, const M&, const nn::batch_of<M>&, typename M::device::stream, const F& f,
           bool /*overwrites*/ = false) {
    f();
    return false;
  }
  /// How kernels are launched, and why.
  [[nodiscard]] std::string_view describe(const M& /*model*/) const {
    return !requested_ ? "one by one (option capture_graphs: as graphs)"
           : !device::GraphCapture<typename M::device>
               ? "one by one: this device captures no graphs"
           : !optim::Capturable<O>
               ? "one by one: this optimizer decides on the host what it launches"
               : "one by one: this model does not return its captured_arguments";
  }

 private:
  bool requested_;
};

template <class M, class O, class R>
class graph_cache<M, O, R, true> {
  using D = typename M::device;

 public:
  graph_cache(const D& device, const trainer_options& options)
      : device_(device),
        requested_(options.capture_graphs),
        exchanges_during_pass_(!captures_exchange && detail::optim::is_eager<O> &&
                               options.overlap) {}

  /// Before the sections of a step of so many micro-batches.
  void begin_step(std::size_t micro_batches) {
    micro_batches_ = std::max(micro_batches_, micro_batches);
  }
  /// Whether the last pass and what follows are one section: nothing between needs the host.
  [[nodiscard]] bool joins(bool courier_is_threaded) const {
    return requested_ && !courier_is_threaded && captures_exchange && O::needs != agreement::loose;
  }
  /// Effects: launches what f launches on s, where a pass overwrites gradients or adds to them.
  /// Returns whether that was a replay, in which case the host's part of f (its callbacks) was not
  /// executed.
  template <class F>
  bool run(graph_section section, const M& model, batch<D> b, typename D::stream s, const F& f,
           bool overwrites = false) {
    const auto key = [&] {
      entry e{section, overwrites, b, model.captured_arguments(b), temporary_bytes(s), {}, ++uses_};
      e.b.loss_scale = 1;  // kernels read b.device_loss_scale
      e.b.epoch = 0;       // what depends on it is among the captured arguments
      return e;
    };
    if (!captures(section) || !key().arguments) {
      f();
      return false;
    }
    for (entry& known : entries_)
      if (known.same_key(key())) {
        known.last_use = ++uses_;
        if (!known.graph) known.graph = device_.capture(s, f);
        device_.replay(*known.graph, s);
        return true;
      }
    f();
    if (entries_.size() >= capacity()) {
      auto oldest = entries_.begin();
      for (auto at = oldest; at != entries_.end(); ++at)
        if (at->last_use < oldest->last_use) oldest = at;
      entries_.erase(oldest);
    }
    entries_.push_back(key());  // made after f, which may have grown the model's buffers
    return false;
  }

  [[nodiscard]] std::string_view describe(const M& model) const {
    return !requested_ ? "one by one (option capture_graphs: as graphs)"
           : !model.captured_arguments(batch<D>{})
               ? "one by one: the host takes part in each pass, as in sums of batch norm over ranks"
           : exchanges_during_pass_
               ? "forward and backward one by one, since buckets are exchanged meanwhile; the rest "
                 "as graphs from its second call on"
               : "as graphs from the second batch of the same memory and sizes on; one by one "
                 "before";
  }

 private:
  static constexpr bool captures_exchange = optim::Capturable<R> || ExchangesOnStream<M, R>;
  // Each micro-batch in the two buffers of an upload in turn, of a smaller update at an epoch's end
  // as well, and some to spare.
  [[nodiscard]] std::size_t capacity() const { return 4 * micro_batches_ + 12; }

  struct entry {
    graph_section section;
    bool overwrites;
    batch<D> b;
    decltype(std::declval<const M&>().captured_arguments(batch<D>{})) arguments;
    std::size_t temporary_bytes;  // which stands for the address of the stream's temporary memory
    std::optional<typename D::graph> graph;
    std::uint64_t last_use;

    [[nodiscard]] bool same_key(const entry& other) const {
      return section == other.section && overwrites == other.overwrites && b == other.b &&
             arguments == other.arguments && temporary_bytes == other.temporary_bytes;
    }
  };

  static std::size_t temporary_bytes(typename D::stream s) {
    if constexpr (requires { s.temporary_bytes(); })
      return s.temporary_bytes();
    else
      return 0;
  }

  [[nodiscard]] bool captures(graph_section section) const {
    return requested_ && !(section == graph_section::last_pass && exchanges_during_pass_);
  }

  D device_;
  bool requested_, exchanges_during_pass_;
  std::size_t micro_batches_ = 1;  // of a step, at most
  std::uint64_t uses_ = 0;
  std::vector<entry> entries_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
