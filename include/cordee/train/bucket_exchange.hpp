// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The buckets of a step on their way from backward to the reducer.
//
//   segments ready -> bucket complete -> unscaled -> tested (check_local_gradient) -> propose -> mix
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cordee/comm/reducer_check.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/courier.hpp>
#include <cordee/train/gradient_scaler.hpp>
#include <cordee/train/planes.hpp>
#include <cordee/train/step.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// Of the model M, the optimizer O and the reducer R. What the constructor gets outlives it.
template <class M, class O, class R>
class bucket_exchange {
 public:
  using device = typename M::device;
  using stream = typename device::stream;
  using Real = typename M::precision::master;
  using span = span_on<Real, device>;
  using planes_type = planes<Real, device, O, R>;
  using scaler_type = gradient_scaler<typename M::precision, device>;

  [[gnu::cold]] bucket_exchange(M& model, const O& optimizer, const R& reducer, planes_type& memory,
                                const scaler_type& scaler, const trainer_options& options)
      : model_(model),
        optimizer_(optimizer),
        planes_(memory),
        scaler_(scaler),
        posts_early_(O::eager && options.overlap),
        buckets_(core::make_buckets(
            M::segments(), comm::message_limit<R>(bucket_bytes<device>(options)) / sizeof(Real))),
        scratch_(model.where(), comm::largest_scratch<Real>(reducer, buckets())),
        courier_(reducer, model.where()) {}

  [[nodiscard]] std::span<const bucket> buckets() const {
    return {buckets_.data(), buckets_.size()};
  }
  [[nodiscard]] const courier<R, Real, device>& carrier() const { return courier_; }
  /// Whether the host is blocked until the buckets are mixed.
  [[nodiscard]] bool blocks_host() const { return courier_.is_threaded(); }
  /// Whether the step has posted anything.
  [[nodiscard]] bool posted() const { return posted_; }

  void begin_step(const step_info& info) {
    info_ = info;
    next_ = 0;
    posted_ = false;
    mode_ = write_mode::add;
  }
  /// The backward pass of one micro-batch; segments become ready in the last one's.
  void run_backward(const typename M::packed_parameters& packed, write_mode mode, bool last,
                    stream s) {
    mode_ = mode;
    const auto ready = [&](std::size_t k) { last ? segments_ready(k, s) : void(); };
    if constexpr (nn::HasPackedGradients<M>) {
      model_.backward_packed(packed, planes_.grads(), mode, ready, s);
      if (!last)
        model_.unpack_gradients(planes_.grads(), 0, planes_.trainables().size(), mode, nullptr, s);
    } else {
      model_.backward(packed, planes_.grads(), mode, ready, s);
    }
  }
  /// A step without samples: the gradient is zero.
  void all_ready(stream s) { segments_ready(0, s, false); }
  /// Backward has written the gradients of segment k and of all later segments of the table:
  /// buckets that begin at k or later are complete.
  void segments_ready(std::size_t k, stream s, bool scaled = true) {
    for (; next_ < buckets_.size() && k <= buckets_[next_].first_segment; ++next_) {
      const bucket& b = buckets_[next_];
      if (scaled) finish_gradient(b, s);
      if constexpr (checks_early) check_local_gradient(b, s);
      if (posts_early_) post(b, true, s);
    }
  }
  /// A replayed graph has done what segments_ready does, and post_rest if `rest_too`.
  void replayed(bool rest_too) {
    next_ = buckets_.size();
    posted_ = rest_too || posts_early_;
  }
  void expect_all_ready() const {
    expects(next_ == buckets_.size(), "trainer: backward ended before every segment was ready");
  }
  /// Posts the buckets that were not posted during backward.
  void post_rest(bool finite, stream s) {
    if (posts_early_) return;
    for (const bucket& b : buckets_) post(b, finite, s);
  }
  /// Blocks until every bucket is mixed.
  void finish() { courier_.finish(); }

 private:
  static constexpr bool exact = O::needs == agreement::exact;
  static constexpr bool checks_early = !exact || O::norms == norms_needed::before_propose;

  // The gradient in the plane, without the loss scale.
  void finish_gradient(const bucket& b, stream s) {
    if constexpr (nn::HasPackedGradients<M>)
      model_.unpack_gradients(planes_.grads(), b.first_segment, b.segments.size(), mode_,
                              scaler_.device_factor(), s);
    else
      scaler_.unscale(planes_.grads().subspan(b.offset, b.size), s);
  }

  // Norms of this rank's gradient in one bucket. Where ranks step on their own gradients it is
  // tested as well; exact optimizers test the mean, so that all ranks decide alike.
  void check_local_gradient(const bucket& b, stream s) {
    planes_.compute_norms(b.segments, b.first_segment, O::norms == norms_needed::before_propose, s);
    if constexpr (exact) return;
    planes_.record_norms(b.segments, b.first_segment, false, s);
    if constexpr (O::needs == agreement::mixing)
      planes_.clear_if_nonfinite(planes_.grads().subspan(b.offset, b.size), s);
  }

  // Hands what the optimizer proposes for one bucket, if anything, to the courier.
  void post(const bucket& b, bool finite, stream s) {
    const span proposal =
        optimizer_.propose(planes_.view_of(b.segments, b.first_segment, finite), info_, s);
    if (proposal.empty()) return;
    posted_ = true;
    courier_.post({planes_.bucket_view_of(b, proposal, scratch_.span()), info_}, s);
  }

  M& model_;
  const O& optimizer_;
  planes_type& planes_;
  const scaler_type& scaler_;
  bool posts_early_;
  std::vector<bucket> buckets_;
  buffer<std::byte, device> scratch_;  // the reducer's; the courier mixes one bucket at a time
  step_info info_;
  std::size_t next_ = 0;  // the next bucket to become ready
  bool posted_ = false;
  write_mode mode_ = write_mode::add;  // of the last backward pass
  // Last: its thread is joined before what it uses is destroyed.
  courier<R, Real, device> courier_;
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
