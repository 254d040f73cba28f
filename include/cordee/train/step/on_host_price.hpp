// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What updates by the host (optim/on_host.hpp), or sharded ones (comm/reducers/sharded.hpp), would
// free of a GPU's memory, for `describe`, and for the error of a batch that does not fit.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/pass_memory.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/host_buckets.hpp>
#include <cordee/train/step/memory_plan.hpp>
#include <cordee/train/step/preconditioner.hpp>
#include <cordee/train/step/step.hpp>
#include <cordee/train/step/step_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Whether a run on a GPU may have its optimizer in an on_host, or has.
template <class M, class O, class R>
concept MayUpdateOnHost = !M::device::host_memory && O::needs == agreement::exact &&
                          optim::is_eager<O> && R::slots == 0 && !comm::ShardsUpdate<R> &&
                          !Quantized<typename M::precision> && nn::TakesPlanePart<M>;

/// Whether a run of this optimizer over this reducer may shard its updates.
template <class O, class R>
concept MayShard = requires { requires R::can_shard; } && divides_update<O>();

/// Norms and status, which are with the planes.
constexpr std::size_t status_bytes(std::span<const segment> table) {
  return 3 * sizeof(double) * table.size() + sizeof(step_status);
}

/// Price of updating on the host instead, for a run with these parts on the GPU.
template <class M>
[[gnu::cold]] nn::host_price on_host_price(const M& model, const memory_plan& plan,
                                           std::span<const segment> table) {
  constexpr std::size_t width = sizeof(typename M::precision::master);
  const std::size_t ring =
      width * largest_pair(host_buckets(model, table, table, on_host_bucket_bytes / width, width));
  const std::size_t plane = plan.bytes("weights"),
                    planes = plane + plan.bytes("gradients") + plan.bytes("optimizer slots");
  return {planes + status_bytes(table) - ring, plane};
}

/// Tells a network on a GPU what its run would free so, and by `sharded`, until the run ends.
template <class M>
class noted_host_price {
 public:
  template <class Planes>
  [[gnu::cold]] noted_host_price(M& model, const Planes& planes, const auto& /*optimizer*/,
                                 const auto& /*buckets*/, const auto& /*options*/, int ranks)
      : model_(model) {
    memory_plan plan;
    planes.add_memory(plan);
    auto& layout = model.pass_layout();
    layout.on_host = on_host_price(model, plan, planes.table());
    if constexpr (MayShard<typename Planes::optimizer_type, typename Planes::reducer_type>)
      if (const std::size_t whole = plan.total(); ranks > 1)
        layout.freed_by_shards = whole - std::min(whole, total_with_shards(plan, false, ranks));
  }
  noted_host_price(const noted_host_price&) = delete;
  noted_host_price& operator=(const noted_host_price&) = delete;
  ~noted_host_price() {
    model_.pass_layout().on_host = {};
    model_.pass_layout().freed_by_shards = 0;
  }

 private:
  M& model_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
