// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The update of a model on a GPU by the host (optim/on_host.hpp): all planes are in page-locked
// memory, and the GPU holds the gradients of two buckets at a time.
//
//   compute stream   bucket 0    bucket 1    bucket 2    bucket 3 ...
//                    |bottom     |top        |bottom     |top
//   link stream       copy 0      copy 1      copy 2      copy 3
//                          `- before ----------'
//   host             waits for all; norms, loss scale, update; rounds a bucket, the GPU packs it
//
// Bucket k is at the bottom of the ring (gradient_ring.hpp) if k is even, else at its top. It is
// begun when bucket k - 2 has been copied. A layer that writes a gradient before bucket k - 2 is
// complete, as a residual block's last batch norm may, gets memory of bucket k's own from its first
// step on. Where the model writes gradients in slices
// (nn::parameter_packing::slice_of), a large segment is several buckets, so that this allocation
// has at most 0.18 bytes for each parameter, or two buckets of the limit. A slice that is larger
// than the limit lets more of a layer's copies overlap the next layer's computation.
//
// Running statistics stay in the planes' tail: kernels of batch norms read and write them there.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/ops/cpu/elementwise.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/precision/number.hpp>
#include <cordee/train/step/gradient_ring.hpp>
#include <cordee/train/step/host_buckets.hpp>
#include <cordee/train/step/on_host_price.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// A model that packs some segments from weights that were rounded elsewhere.
template <class M, class Number>
concept PacksNumbers =
    requires(const M m, const Number* numbers, typename M::packed_parameters packed,
             const typename M::precision::master* plane, typename M::device::stream s) {
      m.packing().pack_numbers(numbers, plane, std::size_t{}, std::size_t{},
                               reinterpret_cast<std::byte*>(packed.span().data), s);
    };

/// Updates model M, whose planes are P, on the host. Arguments of its constructor must outlive it.
template <class P, class M>
class host_update {
 public:
  using D = typename M::device;
  using stream = typename D::stream;
  using Real = typename M::precision::master;
  using number = typename precision::activation_of<typename M::precision>::type;
  using span = span_on<Real, D>;

  static_assert(nn::TakesPlanePart<M> && !Quantized<typename M::precision>,
                "on_host: the model reads packed weights alone and writes gradients where it is "
                "told: use a network in fp32, fp64, fp16 or bf16 whose layers all declare "
                "skips_frozen_gradients");

  template <class O>
  [[gnu::cold]] host_update(const M& model, P& planes, const O& optimizer,
                            std::span<const bucket> buckets, const trainer_options& options,
                            int /*ranks*/)
      : device_(model.get_device()),
        planes_(planes),
        buckets_(buckets),
        index_(planes.table(), buckets),
        rounds_(optimizer.round_gradients),
        host_(optimizer.threads > 0 ? cpu(optimizer.threads) : cpu()),
        link_(device_.make_stream()),
        ring_(device_, buckets, gradient_width<typename M::precision>(rounds_)),
        places_{this,
                [](void* self, std::size_t segment) {
                  return static_cast<host_update*>(self)->place_of(segment);
                },
                [](void* self, std::size_t segment, std::size_t k) {
                  return static_cast<host_update*>(self)->slice_of(segment, k);
                },
                [](void* self, std::size_t segment) {
                  return static_cast<host_update*>(self)->index_.count(segment) > 1;
                }} {
    expects(!rounds_ || sizeof(number) < sizeof(Real),
            "on_host: .round_gradients rounds to the model's precision, which is that of its "
            "gradients: leave it out");
    expects(!options.capture_graphs,
            "on_host: the host waits for gradients within a step, so that no graph has all of it: "
            "leave .capture_graphs out");
    expects(options.overlap,
            "on_host: buckets leave the GPU while backward runs: leave .overlap on, and take no "
            "statistics over ranks that need it off");
    expects(!options.measure_gradient_noise,
            "on_host: measure_gradient_noise would need norms of each rank's gradients on the GPU: "
            "leave one of them out");
    ring_.allocate();
    if (uses_numbers()) numbers_ = device::pinned<number, D>(device_, planes.weights().size);
    downloaded_.resize(buckets.size());
    flags_.resize(buckets.size());
  }
  host_update(const host_update&) = delete;
  host_update& operator=(const host_update&) = delete;

  /// Whether gradients are rounded before they are copied, with the loss scale in them.
  [[nodiscard]] bool rounds() const { return rounds_; }
  /// Where backward writes gradients.
  [[nodiscard]] device::plane_part<Real, D> gradients() const {
    return device::plane_part<Real, D>(places_);
  }
  /// The device's memory of bucket k.
  [[nodiscard]] span slot(std::size_t k) { return ring_.slot(k); }

  /// What exchanges the buckets; each is copied to the host behind its exchange. written(exchange,
  /// k): the gradient of bucket k, a slice, is written in a step's last pass.
  template <class Courier>
  [[gnu::cold]] void follow(Courier& courier, void* exchange,
                            void (*written)(void* exchange, std::size_t k)) {
    exchange_ = exchange;
    written_ = written;
    courier.follow_by({this, [](void* self, const bucket& b, span mean, stream s) {
                         static_cast<host_update*>(self)->download(
                             static_cast<std::size_t>(b.index), mean, s);
                       }});
    courier_ = &courier;
    wait_for_ = [](void* of, std::size_t count) { static_cast<Courier*>(of)->wait_for(count); };
  }

  /// A forward and backward pass on `s`: the step's first, and its last.
  void begin_pass(bool first, bool last, stream s) {
    first_ = first;
    last_ = last;
    compute_ = s;
    std::fill(flags_.begin(), flags_.end(), flags{});
    device_.await(s, device_.record(link_));
    parts_ = 0;
  }
  /// The stream of this pass.
  [[nodiscard]] stream compute() const { return compute_; }
  /// Before the first write to bucket k's gradients, in host order.
  void enter(std::size_t k) {
    if (flags_[k].entered) return;
    flags_[k].entered = true;
    if (k >= 2) {
      if (!flags_[k - 2].complete && !ring_.has_own(k)) ring_.allocate_own(k);
      if (!ring_.has_own(k)) {
        if (last_) wait_for_(courier_, k - 1);
        device_.await(compute_, downloaded_[k - 2]);
      }
    }
    const span x = slot(k);
    if (first_)
      device_.clear(x.data, x.size * sizeof(Real), compute_);
    else
      device_.copy(x.data, host_of(k), x.size * sizeof(Real), compute_);
  }
  /// Bucket k's gradients are written; it is exchanged next.
  void complete(std::size_t k) { flags_[k].complete = true; }
  /// In a pass that is not the last one: buckets that begin at this offset or later are complete,
  /// and are copied as they are.
  void parts_ready(std::size_t offset, stream s) {
    for (; parts_ < buckets_.size() && offset <= buckets_[parts_].offset; ++parts_) {
      enter(parts_);
      complete(parts_);
      const span x = slot(parts_);
      device_.await(link_, device_.record(s));
      device_.copy(host_of(parts_), x.data, x.size * sizeof(Real), link_);
      downloaded_[parts_] = device_.record(link_);
    }
  }
  /// wait() is for all copies and for the work launched on `s` so far.
  void mark(stream s) {
    device_.await(link_, device_.record(s));
    marked_ = device_.record(link_);
  }
  [[nodiscard]] const typename D::event& marked() const { return marked_; }
  /// Blocks the host.
  void wait() const { device::wait_for(device_, marked_, link_); }

  /// The host's threads.
  [[nodiscard]] cpu::stream workers() const { return host_.make_stream(); }
  /// Behind wait(): rounded gradients become the plane's, divided by the loss scale.
  void widen(Real unscale) {
    if constexpr (sizeof(number) < sizeof(Real)) {
      if (!rounds_) return;
      for (std::size_t k = 0; k < buckets_.size(); ++k) {
        const number* const from = numbers_.span().data() + buckets_[k].offset;
        Real* const to = host_of(k);
        ops::for_each_simd<Real>(workers(), buckets_[k].size,
                                 [=](auto at) { at.put(to, at(from) * unscale); });
      }
    }
  }
  /// The model's packed parameters from the planes' weights, those of `s`'s work from now on.
  void upload(const M& model, typename M::packed_parameters& packed, stream s) {
    if constexpr (packs_numbers) {
      for (std::size_t k = buckets_.size(); k-- > 0;) {
        const bucket& b = buckets_[k];
        const Real* const masters = planes_.weights().data + b.offset;
        number* const rounded = numbers_.span().data() + b.offset;
        ops::for_each_simd<Real>(workers(), b.size, [=](auto at) { at.put(rounded, at(masters)); });
        number* const staged = reinterpret_cast<number*>(slot(k).data);
        device_.copy(staged, rounded, b.size * sizeof(number), s);
        const std::size_t segment = index_.segment_of(b);
        auto* const to = reinterpret_cast<std::byte*>(packed.span().data);
        if constexpr (WritesSlices<M>)
          if (index_.count(segment) > 1) {
            model.packing().pack_slice(staged - b.offset, planes_.weights().data, segment,
                                       b.offset - planes_.table()[segment].offset, b.size, to, s);
            continue;
          }
        model.packing().pack_numbers(staged - b.offset, planes_.weights().data, segment,
                                     b.segments.size(), to, s);
      }
    } else {
      model.pack_parameters(planes_.weights(), packed, s);
    }
  }

  /// Bytes of the device's memory for gradients.
  [[nodiscard]] std::size_t device_bytes() const { return ring_.bytes(); }
  /// Bytes of the host's memory.
  [[nodiscard]] std::size_t host_bytes() const {
    return planes_.bytes() + numbers_.span().size() * sizeof(number);
  }
  /// Bytes of gradients that the link carries in a step of one micro-batch.
  [[nodiscard]] std::size_t bytes_down() const {
    return numbers() * (rounds_ ? sizeof(number) : sizeof(Real));
  }
  /// Bytes of weights that it carries in a step.
  [[nodiscard]] std::size_t bytes_up() const {
    return numbers() * (packs_numbers ? sizeof(number) : sizeof(Real));
  }
  /// "1,024 bytes of weights, gradients and optimizer state in the host's page-locked memory, …"
  [[nodiscard, gnu::cold]] std::string describe() const {
    return concat(core::grouped(host_bytes()),
                  " bytes of weights, gradients and optimizer state in the host's page-locked "
                  "memory, updated by ",
                  host_.workers(), " threads; a step copies ", core::grouped(bytes_down()),
                  " bytes of gradients to the host, and ", core::grouped(bytes_up()),
                  " bytes of weights back");
  }

 private:
  static constexpr bool packs_numbers = PacksNumbers<M, number> && sizeof(number) < sizeof(Real);
  struct flags {
    bool entered = false, complete = false;
  };

  [[nodiscard]] bool uses_numbers() const { return rounds_ || packs_numbers; }
  [[nodiscard]] Real* host_of(std::size_t k) {
    return planes_.held_grads().numbers.data + buckets_[k].offset;
  }
  [[nodiscard]] Real* place_of(std::size_t segment) {
    expects(index_.count(segment) == 1, "on_host: a layer writes a gradient whole that is cut");
    const std::size_t k = index_.bucket_of(segment);
    enter(k);
    return slot(k).data + (planes_.table()[segment].offset - buckets_[k].offset);
  }
  // Slice k of a segment; those before it are written.
  [[nodiscard]] device::gradient_slice<Real> slice_of(std::size_t segment, std::size_t k) {
    const std::size_t first = index_.bucket_of(segment);
    if (k > 0) slice_written(first + k - 1);
    if (k == index_.count(segment)) return {};
    const cordee::segment& of = planes_.table()[segment];
    const bucket& b = buckets_[first + k];
    enter(first + k);
    return {slot(first + k).data, b.offset - of.offset, std::min(b.size, of.end() - b.offset)};
  }
  // If it is the next bucket; otherwise it waits in memory of its own for those before it.
  void slice_written(std::size_t k) {
    if (last_)
      written_(exchange_, k);
    else if (parts_ == k)
      parts_ready(buckets_[k].offset, compute_);
  }
  // Copies bucket k, whose mean is complete when `s` has done what it was given.
  void download(std::size_t k, span mean, stream s) {
    if constexpr (sizeof(number) < sizeof(Real)) {
      if (rounds_) {
        number* const rounded = ring_.template rounded<number>(k);
        // for a GPU by argument-dependent lookup: ops/gpu/filter_layout.hpp
        convert(mean.size, static_cast<const Real*>(mean.data), rounded, s);
        device_.await(link_, device_.record(s));
        device_.copy(numbers_.span().data() + buckets_[k].offset, rounded,
                     mean.size * sizeof(number), link_);
        downloaded_[k] = device_.record(link_);
        return;
      }
    }
    device_.await(link_, device_.record(s));
    device_.copy(host_of(k), mean.data, mean.size * sizeof(Real), link_);
    downloaded_[k] = device_.record(link_);
  }
  [[nodiscard]] std::size_t numbers() const {
    std::size_t n = 0;
    for (const bucket& b : buckets_) n += b.size;
    return n;
  }

  D device_;
  P& planes_;
  std::span<const bucket> buckets_;
  bucket_index index_;
  bool rounds_;
  cpu host_;
  stream link_, compute_{};
  gradient_ring<Real, D> ring_;
  device::gradient_places<Real> places_;
  device::pinned<number, D> numbers_;  // rounded gradients, then rounded weights
  std::vector<typename D::event> downloaded_;
  std::vector<flags> flags_;  // of this pass
  std::size_t parts_ = 0;
  bool first_ = true, last_ = true;
  void *courier_ = nullptr, *exchange_ = nullptr;
  void (*written_)(void* exchange, std::size_t k) = nullptr;
  void (*wait_for_)(void* courier, std::size_t count) = nullptr;
  typename D::event marked_{};
};

struct no_host_update {
  explicit no_host_update(const auto&...) {}
};
template <class P, class M, bool OnHost>
struct host_update_type {
  using type = no_host_update;
};
template <class P, class M>
  requires(MayUpdateOnHost<M, typename P::optimizer_type, typename P::reducer_type> &&
           requires(M m) { m.pass_layout(); })
struct host_update_type<P, M, false> {
  using type = noted_host_price<M>;
};
template <class P, class M>
struct host_update_type<P, M, true> {
  using type = host_update<P, M>;
};
/// The host_update of a run; for one that updates elsewhere, nothing or its price on a GPU.
template <class P, class M>
using host_update_of = typename host_update_type<P, M, P::on_host>::type;

}  // namespace cordee::inline CORDEE_ABI::detail::train
