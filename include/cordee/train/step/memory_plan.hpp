// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank allocates of its device, by name: known before the first step.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/nn/parameter_packing.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Parts of a memory, in bytes.
class memory_plan {
 public:
  struct part {
    std::string_view name;
    std::size_t bytes;
  };

  /// Adds to the part of this name, a literal.
  [[gnu::cold, gnu::noinline]] void add(std::string_view name, std::size_t bytes) {
    for (part& p : parts_)
      if (p.name == name) {
        p.bytes += bytes;
        return;
      }
    if (bytes > 0) parts_.push_back({name, bytes});
  }
  [[nodiscard]] std::size_t total() const {
    std::size_t sum = 0;
    for (const part& p : parts_) sum += p.bytes;
    return sum;
  }
  /// 0 without this part.
  [[nodiscard]] std::size_t bytes(std::string_view name) const {
    for (const part& p : parts_)
      if (p.name == name) return p.bytes;
    return 0;
  }
  /// "weights 1,024, gradients 1,024"
  [[nodiscard, gnu::cold, gnu::noinline]] std::string describe() const {
    std::string text;
    for (const part& p : parts_)
      text += concat(text.empty() ? "" : ", ", p.name, " ", core::grouped(p.bytes));
    return text;
  }

 private:
  core::pod_vector<part> parts_;
};

/// The total where this one of `ranks` ranks has its part of the slots, and a copy of its weights;
/// and the other way around.
[[gnu::cold]] inline std::size_t total_with_shards(const memory_plan& plan, bool sharded,
                                                   int ranks) {
  const std::size_t slots = plan.bytes("optimizer slots"), p = static_cast<std::size_t>(ranks);
  if (sharded) return plan.total() - plan.bytes("this rank's weights") + (p - 1) * slots;
  return plan.total() - slots + (slots + plan.bytes("weights")) / p;
}

/// A run's parts for micro-batches of so many samples; of models that do not state what a pass
/// allocates (memory_of_pass), the others.
template <class M, class Planes, class Exchange>
[[gnu::cold]] memory_plan plan_memory(const M& model, const typename M::packed_parameters& packed,
                                      const Planes& planes, const Exchange& exchange, int samples) {
  memory_plan plan;
  planes.add_memory(plan);
  exchange.add_memory(plan);
  if constexpr (requires { model.pass_layout(); })
    plan.add("packed weights", model.pass_layout().packed_on_device);
  else if constexpr (requires { packed.span().data; })
    plan.add("packed weights", packed.size() * sizeof(*packed.span().data));
  if constexpr (requires { model.uphill_bytes(); })  // nn/sharpness_aware.hpp
    plan.add("weights and gradients uphill", model.uphill_bytes());
  if constexpr (requires { model.memory_of_pass(samples); }) {
    const auto pass = model.memory_of_pass(samples, !Planes::on_host && nn::HasPackedGradients<M>);
    plan.add("inputs", pass.inputs);
    plan.add("activations", pass.activations);
    plan.add("gradients of activations", pass.gradients);
    plan.add("workspace", pass.workspace);
  }
  return plan;
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
