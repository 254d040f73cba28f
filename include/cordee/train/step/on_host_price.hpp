// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What an update by the host (optim/on_host.hpp) would free of a GPU's memory, for `describe`, and
// for the error of a batch that does not fit.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include <cordee/core/segment.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/nn/pass_memory.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/host_buckets.hpp>
#include <cordee/train/step/memory_plan.hpp>
#include <cordee/train/step/step.hpp>
#include <cordee/train/step/step_status.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Whether a run on a GPU may have its optimizer in an on_host, or has.
template <class M, class O, class R>
concept MayUpdateOnHost =
    !M::device::host_memory && O::needs == agreement::exact && optim::is_eager<O> &&
    R::slots == 0 && !Quantized<typename M::precision> && nn::TakesPlanePart<M>;

/// Norms and status, which are with the planes.
constexpr std::size_t status_bytes(std::span<const segment> table) {
  return 3 * sizeof(double) * table.size() + sizeof(step_status);
}

/// Of a run with these parts, on the GPU.
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

/// Tells a network on a GPU what its run would free so, until the run ends.
template <class M>
class noted_host_price {
 public:
  template <class Planes>
  [[gnu::cold]] noted_host_price(M& model, const Planes& planes, const auto&...) : model_(model) {
    memory_plan plan;
    planes.add_memory(plan);
    model.pass_layout().on_host = on_host_price(model, plan, planes.table());
  }
  noted_host_price(const noted_host_price&) = delete;
  noted_host_price& operator=(const noted_host_price&) = delete;
  ~noted_host_price() { model_.pass_layout().on_host = {}; }

 private:
  M& model_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::train
