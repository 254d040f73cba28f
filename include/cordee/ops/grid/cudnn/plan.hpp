// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The ways in which cuDNN can compute a graph, its heuristics' favourite first: an engine with its
// knobs set, compiled for one GPU.
//
// Engines say of themselves, in notes, how they sum. Left out are those that sum narrow products in
// narrow numbers, transform by Fourier or by large Winograd tiles, or convert what they are given:
// what is left rounds as a sum of products in float does. For fp32 the tensor cores would round
// the factors to eleven bits (TF32), so they take part only if asked for.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <cordee/ops/grid/cudnn/graph.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

/// Memory of the three tensors; the question says which one is written.
struct cudnn_tensors {
  void *x = nullptr, *w = nullptr, *y = nullptr;
};

class cudnn_plan {
 public:
  /// Of a finalised plan; the graph and the configuration live as long as it.
  cudnn_plan(std::shared_ptr<const cudnn_graph> graph, cudnn_descriptor config,
             cudnn_descriptor plan)
      : graph_(std::move(graph)),
        config_(std::move(config)),
        plan_(std::move(plan)),
        workspace_(
            static_cast<std::size_t>(plan_.integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE))) {}

  [[nodiscard]] std::size_t workspace() const { return workspace_; }  // bytes

  void execute(cudnnHandle_t handle, const cudnn_tensors& at, void* workspace) const {
    const auto pack =
        cudnn_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
            .with(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
                  std::array<std::int64_t, 3>{cudnn_x, cudnn_w, cudnn_y})
            .with(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, std::array<void*, 3>{at.x, at.w, at.y})
            .with(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace)
            .finalised();
    cudnn_check(cudnnBackendExecute(handle, plan_.get(), pack.get()), "cudnnBackendExecute");
  }

 private:
  std::shared_ptr<const cudnn_graph> graph_;
  cudnn_descriptor config_, plan_;
  std::size_t workspace_;
};

/// Whether an engine of which cuDNN notes this may answer.
inline bool admitted(cudnnBackendNumericalNote_t note, const cudnn_question& q) {
  switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      return !q.how.deterministic;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
      return q.how.tf32 || q.number != CUDNN_DATA_FLOAT;
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
inline bool admitted(const cudnn_descriptor& config, const cudnn_question& q) {
  const auto engine = config.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  const auto notes =
      engine.front().values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
  return std::ranges::all_of(notes, [&](auto note) { return admitted(note, q); });
}

/// What the heuristics propose: the favourites of one mode.
inline std::vector<cudnn_descriptor> cudnn_configs(const cudnn_graph& graph,
                                                   const cudnn_target& target,
                                                   cudnnBackendHeurMode_t mode) {
  auto asked = cudnn_descriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
                   .with(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get())
                   .with(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (target.device)
    asked = std::move(asked).with(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *target.device);
  return std::move(asked).finalised().parts(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                            CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
}

/// The first `most` plans that the target bears; none if cuDNN has no engine for the question.
inline std::vector<cudnn_plan> cudnn_plans(const cudnn_question& q, const cudnn_target& target,
                                           std::size_t most) {
  const auto graph = std::make_shared<const cudnn_graph>(q, target);
  std::vector<cudnn_plan> plans;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (cudnn_descriptor& config : cudnn_configs(*graph, target, mode)) {
      if (plans.size() == most) return plans;
      if (!admitted(config, q)) continue;
      auto plan = cudnn_descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
                      .with(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      plan = target.device
                 ? std::move(plan).with(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *target.device)
                 : std::move(plan).with(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, target.handle);
      // Heuristics also propose what this GPU or its driver does not bear.
      if (plan.finalise() == CUDNN_STATUS_SUCCESS)
        plans.emplace_back(graph, std::move(config), std::move(plan));
    }
  return plans;
}

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
