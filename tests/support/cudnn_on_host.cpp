// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/cudnn_on_host.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include <cuda_runtime_api.h>

#include "tests/support/host_graph.hpp"

support::host_cudnn& support::host_state() {
  static host_cudnn one;
  return one;
}

struct cudnnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using namespace support::host;
using support::host_state;

std::string last_error;  // of cudnnGetLastErrorString
cudnnStatus_t fail(const char* why, cudnnStatus_t status = CUDNN_STATUS_BAD_PARAM) {
  last_error = why;
  return status;
}

}  // namespace

// The library's functions -----------------------------------------------------------------------

const char* cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                              : "CUDNN_STATUS_BAD_PARAM";
}
void cudnnGetLastErrorString(char* to, std::size_t room) {
  std::strncpy(to, last_error.c_str(), room - 1);
}
cudnnStatus_t cudnnCreate(cudnnHandle_t* made) {
  ++host_state().handles;
  *made = new cudnnContext;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  --host_state().handles;
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t s) {
  handle->stream = s;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  ++host_state().descriptors;
  auto* const d = new descriptor{type, false, {}, nullptr, {}};
  all_descriptors().insert(d);
  *made = d;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t raw) {
  --host_state().descriptors;
  all_descriptors().erase(&descriptor_of(raw));
  delete &descriptor_of(raw);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  descriptor& o = descriptor_of(raw);
  if (o.finalized) return fail("an attribute is set after finalization");
  const std::size_t n = static_cast<std::size_t>(count);
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    for (std::size_t i = 0; i < n; ++i)
      if (!descriptor_of(static_cast<const cudnnBackendDescriptor_t*>(values)[i]).finalized)
        return fail("a descriptor attribute is not finalized");
  const auto* const bytes = static_cast<const unsigned char*>(values);
  o.values[name].assign(bytes, bytes + n * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t raw) {
  descriptor& o = descriptor_of(raw);
  if (operations.contains(o.type) && !fits(o)) return fail("the tensors' dimensions do not match");
  if (o.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) ++host_state().heuristics;
  if (o.type == CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR) ++host_state().variant_packs;
  if (o.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR &&
      !o.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine.finalises)
    return fail("not supported on this device", CUDNN_STATUS_NOT_SUPPORTED);
  o.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t raw,
                                       cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t most,
                                       std::int64_t* count, void* to) {
  descriptor& o = descriptor_of(raw);
  if (!o.finalized) return fail("an attribute is read before finalization");
  const auto part = [&](std::int64_t i) -> descriptor& {
    return descriptor_of(static_cast<cudnnBackendDescriptor_t*>(to)[i]);
  };
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    auto engines = o.value<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A
                       ? host_state().engines
                       : host_state().fallbacks;
    if (is_fused(o.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)))
      std::erase_if(engines, [](const support::host_engine& e) { return !e.fuses; });
    *count = static_cast<std::int64_t>(engines.size());
    for (std::int64_t i = 0; i < std::min(most, *count); ++i) {
      part(i).engine = engines[static_cast<std::size_t>(i)];
      part(i).graph = &o.part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      part(i).finalized = true;
    }
  } else if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    *count = 1;
    if (most > 0) {
      part(0).engine = o.engine;
      part(0).finalized = true;
    }
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    const auto& notes = o.engine.notes;
    *count = static_cast<std::int64_t>(notes.size());
    std::copy_n(notes.begin(), std::min(most, *count),
                static_cast<cudnnBackendNumericalNote_t*>(to));
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
    *count = 1;
    std::memcpy(to, &o.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG).engine.workspace, 8);
  } else {
    const std::vector<unsigned char>& found = o.values.at(name);
    *count = static_cast<std::int64_t>(found.size() / size_of(type));
    if (most > 0) std::memcpy(to, found.data(), found.size());
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const descriptor& config = descriptor_of(plan).part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const descriptor& graph = *config.graph;
  if (handle->stream == nullptr) return fail("no stream is set");
  if (!config.engine.executes) return fail("this engine fails");
  auto* const workspace = descriptor_of(pack).value<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
  std::fill_n(static_cast<unsigned char*>(workspace), config.engine.workspace, 0xff);
  const auto memory = [&](const descriptor& words) -> void* {
    const descriptor& bound = descriptor_of(pack);
    for (std::size_t i = 0; i < bound.parts(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS); ++i)
      if (bound.int64(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i) ==
          words.int64(CUDNN_ATTR_TENSOR_UNIQUE_ID))
        return bound.value<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
    return nullptr;
  };
  for (const auto& [id, words] : tensors_of(graph)) {
    void* const at = memory(*words);
    if (is_virtual(*words)) {
      if (at != nullptr) return fail("an intermediate tensor is bound");
    } else if (at == nullptr || reinterpret_cast<std::uintptr_t>(at) % 16 != 0) {
      return fail("a tensor is not bound, or not at a multiple of 16 bytes");
    } else {
      host_state().bytes += static_cast<std::size_t>(tensor(*words, at).bytes());
    }
  }
  if (!is_fused(graph)) host_state().bytes += accumulated_bytes(graph);
  host_state().skipped_bytes += skipped_bytes(graph);
  if (host_state().computes) {
    std::map<const descriptor*, void*> bound;  // the pack may be gone when it is computed
    for (const auto& [id, words] : tensors_of(graph)) bound[words] = memory(*words);
    const auto compute = [&graph, bound] {
      compute_graph(graph, [&bound](const descriptor& words) { return bound.at(&words); });
    };
    if (host_state().submit != nullptr)
      host_state().submit(handle->stream, compute);
    else
      compute();
  }
  if (is_fused(graph)) ++host_state().fused;
  host_state().executed.push_back(config.engine.index);
  const float launch = host_state().idle ? config.engine.host_milliseconds : 0;
  const float factor = is_fused(graph) ? host_state().fused_factor : 1;
  host_state().clock += static_cast<double>(config.engine.milliseconds * factor + launch);
  host_state().idle = false;
  return CUDNN_STATUS_SUCCESS;
}
