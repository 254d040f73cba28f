// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run's memory for `describe`: its parts, and what it is with and without each policy that
// changes it, where that saves bytes, with the price (docs/policies/memory.md).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/nn/memory_policies.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/step/memory_plan.hpp>
#include <cordee/train/step/on_host_price.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// The plan's total, with a pass of other sizes.
[[gnu::cold]] inline std::size_t total_with(const memory_plan& plan, const nn::pass_memory& pass) {
  std::size_t sum = plan.total() + pass.sum();
  for (const auto* const name : {"inputs", "activations", "gradients of activations", "workspace"})
    sum -= plan.bytes(name);
  return sum;
}

/// add_line(name, value): the parts, then each policy that the run has or could have. `samples`: of
/// a micro-batch, of which `micro` are accumulated.
template <class Run, class AddLine>
[[gnu::cold]] void describe_memory(Run& run, int samples, int micro, int ranks,
                                   const AddLine& add_line) {
  using M = typename Run::model_type;
  using R = std::remove_cvref_t<decltype(run.reducer())>;
  const memory_plan plan = run.plan_memory(samples);
  constexpr bool has_pass = requires(M& m) { m.memory_of_pass(samples); };
  add_line("peak", concat(core::grouped(plan.total()), " bytes",
                          has_pass ? concat(" at micro-batches of ", samples)
                                   : std::string(" without activations"),
                          ": ", plan.describe()));
  const auto add_policy = [&](bool in_use, std::string_view name, std::size_t bytes,
                              const std::string& price) {
    if (!in_use && bytes >= plan.total()) return;  // a price without a saving
    add_line(in_use ? "  without" : "  with",
             concat(name, " ", core::grouped(bytes), " bytes, at the price of ", price));
  };
  constexpr bool on_host = requires { run.host(); };
  if constexpr (has_pass && requires(M& m) { m.pass_layout(); }) {
    const M& model = run.model();
    const nn::pass_memory pass = model.memory_of_pass(samples, !on_host);
    const std::size_t packed = model.pass_layout().packed_on_device;
    nn::for_each_memory_policy(model.pass_layout(), pass, samples, [&](const nn::memory_policy& p) {
      add_policy(p.in_use, p.name, total_with(plan, p.pass) - packed + p.packed, p.price);
    });
    const auto with_micro_batches = [&](bool in_use, std::string_view name, int n) {
      add_policy(in_use, name, total_with(plan, model.memory_of_pass(n, !on_host)),
                 concat("batch norm's statistics over ", in_use ? samples : n, " samples"));
    };
    if (micro > 1) with_micro_batches(true, "accumulation", micro * samples);
    if (samples > 1)
      with_micro_batches(false, concat("micro-batches of ", samples / 2), samples / 2);
  }
  using O = std::remove_cvref_t<decltype(run.optimizer())>;
  if constexpr (MayUpdateOnHost<M, O, R>) {
    std::size_t packed = 0;  // gradients, until a bucket is complete
    if constexpr (has_pass)
      packed = run.model().memory_of_pass(samples).sum() -
               run.model().memory_of_pass(samples, false).sum();
    const std::size_t plane = run.weights().size * sizeof(typename Run::Real),
                      planes = (2 + static_cast<std::size_t>(O::slots)) * plane;
    add_policy(on_host, "on_host",
               on_host
                   ? plan.total() - plan.bytes("gradients") + planes +
                         status_bytes(run.segments()) + packed
                   : plan.total() - packed - on_host_price(run.model(), plan, run.segments()).freed,
               nn::describe_on_host(plane));
  }
  constexpr bool shards = comm::ShardsUpdate<R>;
  constexpr bool can_shard = shards || (!on_host && MayShard<O, R>);
  if (can_shard && ranks > 1)
    add_policy(shards, "sharded", total_with_shards(plan, shards, ranks),
               std::string(nn::describe_sharded));
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
