// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Stretches of a step that are handed over as one: a GPU's launches, recorded once.
//
//   met for the first time: run as it is (buffers grow, engines choose their plans)
//   the second time:        recorded, and replayed
//   from then on:           replayed
//
// It is the same stretch while whatever its launches carry is the same: the batch's memory, sizes
// and words, and what the model says of itself. What else differs from step to step stands in the
// account, on the device.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/core/protocol.hpp>
#include <cordee/device/records.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step.hpp>

namespace cordee::inline CORDEE_ABI {

/// A model that knows what its passes carry beside their batch; nothing if they cannot be recorded.
template <class M>
concept ReplaysPasses = requires(const M m, batch<typename M::device> b) {
  { m.carries(b) } -> std::equality_comparable;
  { m.carries(b).has_value() } -> std::same_as<bool>;
};

namespace detail {

enum class stretch { pass, last_pass, settle, accept };

/// Whether a step of these may be replayed at all.
template <class M, class O>
concept ReplaysSteps = Records<typename M::device> && ReplaysPasses<M> && Replays<O>;

/// Hands over the stretches of a trainer's steps.
template <class M, class O, class R, bool = ReplaysSteps<M, O>>
class player {
 public:
  player(const typename M::device&, const trainer_options& options) : wanted_(options.replay) {}

  template <class F>
  bool operator()(stretch, const M&, const batch<typename M::device>&, typename M::device::stream,
                  const F& f) {
    f();
    return false;
  }
  /// How launches are handed over, and why.
  [[nodiscard]] std::string_view words() const {
    return !wanted_                       ? "one by one (option replay: recorded once)"
           : !Records<typename M::device> ? "one by one: this device does not record them"
           : !Replays<O> ? "one by one: the rule decides on the host what it hands over"
                         : "one by one: the model does not say what its passes carry";
  }

 private:
  bool wanted_;
};

template <class M, class O, class R>
class player<M, O, R, true> {
  using D = typename M::device;

 public:
  player(const D& device, const trainer_options& options)
      : device_(device),
        wanted_(options.replay),
        travelling_(!Replays<R> && O::eager && options.overlap) {}

  /// Whether f was recorded, so that what it says to the host it does not say now.
  template <class F>
  bool operator()(stretch part, const M& model, batch<D> b, typename D::stream s, const F& f) {
    const auto words = [&] {
      entry now{part, b, model.carries(b), {}};
      now.b.loss_scale = 1;  // stands in b.scale
      now.b.epoch = 0;       // what of it counts the model says
      return now;
    };
    if (!recorded(part) || !words().carried) {
      f();
      return false;
    }
    for (entry& known : all_)
      if (known.same(words())) {
        if (!known.what) known.what = device_.record_work(s, f);
        device_.replay(*known.what, s);
        return true;
      }
    f();
    if (all_.size() == most) all_.erase(all_.begin());
    all_.push_back(words());  // as they are now that its buffers are as large as it needs them
    return false;
  }

  [[nodiscard]] std::string_view words() const {
    return !wanted_      ? "one by one (option replay: recorded once)"
           : travelling_ ? "forward and backward one by one, since buckets travel meanwhile; the "
                           "rest recorded when it is met again, and replayed"
                         : "recorded when a batch of the same memory, size and words is met again, "
                           "and replayed; one by one elsewhere";
  }

 private:
  // Two memories of an upload in turn, a smaller batch at an epoch's end, and some to spare.
  static constexpr std::size_t most = 16;

  struct entry {
    stretch part;
    batch<D> b;
    decltype(std::declval<const M&>().carries(batch<D>{})) carried;
    std::optional<typename D::recording> what;

    [[nodiscard]] bool same(const entry& other) const {
      return part == other.part && b == other.b && carried == other.carried;
    }
  };

  [[nodiscard]] bool recorded(stretch part) const {
    return wanted_ && !(part == stretch::last_pass && travelling_);
  }

  D device_;
  bool wanted_, travelling_;  // travelling: the host exchanges buckets during a pass
  std::vector<entry> all_;
};

}  // namespace detail

}  // namespace cordee::inline CORDEE_ABI
