// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Execution plans of an operation graph, in the order of cuDNN's heuristics: an engine
// configuration (an engine and its knobs), finalized for one device.
//
// cuDNN describes an engine's arithmetic by numerical notes. Excluded are engines that accumulate
// in reduced precision, use FFT or large Winograd tiles, or convert their inputs: those left round
// as a sum of products in float does. On fp32, tensor cores round the inputs to 11 bits (TF32);
// they are used only if the settings allow it.
#pragma once

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include <cordee/ops/engines/cudnn/graph.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

/// The variant pack's data pointers; the pass determines which tensor is written.
struct cudnn_pointers {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

class cudnn_plan {
 public:
  /// Requires a finalized plan; keeps the graph and the configuration alive with it.
  cudnn_plan(std::shared_ptr<const cudnn_graph> graph, cudnn_descriptor config,
             cudnn_descriptor plan)
      : graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)),
        workspace_bytes_(
            static_cast<std::size_t>(plan_.int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

  [[nodiscard]] std::size_t workspace_bytes() const { return workspace_bytes_; }

  /// Not concurrently with itself: it may make a variant pack.
  void execute(cudnnHandle_t handle, const cudnn_pointers& data, void* workspace) {
    cudnn_check(cudnnBackendExecute(handle, plan_.get(), variant_pack(data, workspace).get()),
                "cudnnBackendExecute");
  }

 private:
  /// The pack of these addresses. cuDNN takes no attribute of a finalized pack, so there is one for
  /// each set of addresses: for each layer of the plan, as these keep theirs from step to step.
  const cudnn_descriptor& variant_pack(const cudnn_pointers& data, void* workspace) {
    constexpr std::size_t most = 256;
    const std::array<void*, 4> addresses{data.x, data.w, data.y, workspace};
    if (const auto found = packs_.find(addresses); found != packs_.end()) return found->second;
    if (packs_.size() == most) packs_.clear();
    return packs_
        .emplace(addresses,
                 cudnn_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                     .with(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                           std::array<std::int64_t, 3>{cudnn_x_id, cudnn_w_id, cudnn_y_id})
                     .with(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                           std::array<void*, 3>{data.x, data.w, data.y})
                     .with(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
                     .finalized())
        .first->second;
  }

  std::shared_ptr<const cudnn_graph> graph_;
  cudnn_descriptor config_, plan_;
  std::size_t workspace_bytes_;
  std::map<std::array<void*, 4>, cudnn_descriptor> packs_;
};

/// May an engine with this note compute the key's pass?
inline bool is_admissible(cudnnBackendNumericalNote_t note, const cudnn_plan_key& key) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      return !key.settings.deterministic;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return key.settings.tf32 || key.data_type != CUDNN_DATA_FLOAT;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
    case CUDNN_NUMERICAL_NOTE_FFT:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:
      return false;
    default:
      return true;
  }
}
inline bool is_admissible(const cudnn_descriptor& config, const cudnn_plan_key& key) {
  const auto engine =
      config.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto notes =
      engine.front().values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  return std::ranges::all_of(notes, [&](auto note) { return is_admissible(note, key); });
}

/// Engine configurations by the heuristics of one mode, best first.
inline std::vector<cudnn_descriptor> cudnn_engine_configs(const cudnn_graph& graph,
                                                          const cudnn_target& target,
                                                          cudnnBackendHeurMode_t mode) {
  auto heuristics = cudnn_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                        .with(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
                        .with(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.device)
    heuristics = std::move(heuristics).with(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  return std::move(heuristics)
      .finalized()
      .descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

/// The first `max_plans` plans that the target supports; empty if cuDNN has no engine for the key.
inline std::vector<cudnn_plan> cudnn_plans(const cudnn_plan_key& key, const cudnn_target& target,
                                           std::size_t max_plans) {
  const auto graph = std::make_shared<const cudnn_graph>(key, target);
  std::vector<cudnn_plan> plans;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (cudnn_descriptor& config : cudnn_engine_configs(*graph, target, mode)) {
      if (plans.size() == max_plans) return plans;
      if (!is_admissible(config, key)) continue;
      auto plan = cudnn_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                      .with(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      plan = target.device
                 ? std::move(plan).with(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device)
                 : std::move(plan).with(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
      // Heuristics also return configurations that this GPU or its driver does not support.
      if (plan.finalize() == CUDNN_STATUS_SUCCESS)
        plans.emplace_back(graph, std::move(config), std::move(plan));
    }
  return plans;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
