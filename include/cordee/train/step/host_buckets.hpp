// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The buckets of a run. Where the host updates (host_update.hpp), a large segment is several of
// them if the model writes its gradient in slices.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/precision/precision.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The most numbers of two neighboring buckets.
[[nodiscard, gnu::cold]] inline std::size_t largest_pair(std::span<const bucket> buckets) {
  std::size_t most = 0;
  for (std::size_t k = 0; k < buckets.size(); ++k)
    most = std::max(most, buckets[k].size + (k > 0 ? buckets[k - 1].size : 0));
  return most;
}

/// A model that writes the gradient of a segment, and packs its weights, in slices: see
/// nn::parameter_packing::slice_of.
template <class M>
concept WritesSlices = requires(const M m) {
  { m.packing().slice_of(std::size_t{}) } -> std::convertible_to<std::size_t>;
};

/// The buckets of `trainables`, some or all of the table's segments, where those of the host are
/// updated: as make_buckets, but large segments are cut. The GPU has `width` bytes for a number.
template <class M>
[[nodiscard, gnu::cold]] core::pod_vector<bucket> host_buckets(const M& model,
                                                               std::span<const segment> table,
                                                               std::span<const segment> trainables,
                                                               std::size_t limit,
                                                               std::size_t width) {
  core::pod_vector<bucket> whole = core::make_buckets(trainables, limit);
  if constexpr (WritesSlices<M>) {
    std::size_t most = 0;
    for (const bucket& b : whole) most += b.size;
    most = std::max(limit, most * 9 / (100 * width));
    core::pod_vector<bucket> cut;
    for (bucket b : whole) {
      std::size_t slice = 0;
      for (std::size_t k = 0; b.size > most && k < table.size(); ++k)
        if (table[k].offset == b.offset) slice = model.packing().slice_of(k);
      while (slice % core::segment_alignment != 0) slice *= 2;
      const std::size_t begin = b.offset, end = b.offset + b.size;
      const std::size_t step = slice == 0 ? b.size : std::max<std::size_t>(most / slice, 1) * slice;
      for (std::size_t n = (b.size + step - 1) / step; n-- > 0;) {
        b.index = static_cast<int>(cut.size());
        b.offset = begin + n * step;
        b.size = std::min(step, end - b.offset);
        cut.push_back(b);
      }
    }
    return cut;
  }
  return whole;
}

/// The GPU's bytes for a number of the gradient, which may be rounded to the precision there.
template <class Precision>
constexpr std::size_t gradient_width(bool rounds) {
  return sizeof(typename Precision::master) +
         (rounds ? sizeof(typename precision::activation_of<Precision>::type) : 0);
}

/// The buckets of a run of these planes, by the limits of its options and its reducer R.
template <class M, class R, class Planes, class O>
[[gnu::cold]] core::pod_vector<bucket> buckets_of_run(const M& model, const Planes& planes,
                                                      const O& optimizer,
                                                      const trainer_options& options) {
  using device = typename M::device;
  const bucket_limit most =
      bucket_limit_of<device, typename R::communicator_type>(options, Planes::on_host);
  const std::size_t limit = comm::message_limit<R>(most.bytes) / sizeof(typename Planes::real);
  if constexpr (Planes::on_host)
    return host_buckets(model, planes.table(), planes.trainables(), limit,
                        gradient_width<typename M::precision>(optimizer.round_gradients));
  else
    return core::make_buckets(planes.trainables(), limit);
}

/// Which buckets the segments of a table are in, those that are not frozen.
class bucket_index {
 public:
  [[gnu::cold]] bucket_index(std::span<const segment> table, std::span<const bucket> buckets)
      : table_(table) {
    first_.resize(table.size());
    count_.resize(table.size());
    for (std::size_t k = 0; k < buckets.size(); ++k)
      for (std::size_t i = 0; i < buckets[k].segments.size(); ++i) {
        const std::size_t segment = segment_of(buckets[k]) + i;
        if (count_[segment]++ == 0) first_[segment] = static_cast<std::uint32_t>(k);
      }
  }
  /// The bucket of a segment, or the first of them, which has its end.
  [[nodiscard]] std::size_t bucket_of(std::size_t segment) const { return first_[segment]; }
  /// How many buckets have a part of a segment.
  [[nodiscard]] std::size_t count(std::size_t segment) const { return count_[segment]; }
  /// A bucket's first segment, or that which it is a slice of.
  [[nodiscard]] std::size_t segment_of(const bucket& b) const {
    std::size_t k = 0;
    while (table_[k].end() <= b.offset) ++k;
    return k;
  }

 private:
  std::span<const segment> table_;
  core::pod_vector<std::uint32_t> first_, count_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
