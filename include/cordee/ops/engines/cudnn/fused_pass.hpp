// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An execution of a fused graph (fused_graphs.hpp): its place among the convolutions of a network,
// and its plan with the variant packs that it has run with.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/device/cuda_status.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/engines/cudnn/fused_graphs.hpp>
#include <cordee/ops/engines/cudnn/plan_key.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

struct cudnn_place {
  fused_graph kind{};
  convolution_problem p;  // padded
  int samples = 0;
  cudnnDataType_t type{};
  cudnn_settings settings{};
};

inline std::string_view name_of(fused_graph kind) {
  constexpr std::array<std::string_view, 9> names{"conv_stats",
                                                  "bn_relu_conv_stats",
                                                  "bn_add_relu_conv_stats",
                                                  "dual_bn_relu_conv_stats",
                                                  "bn_relu_wgrad",
                                                  "dgrad_relu_bn",
                                                  "dgrad_add_relu_bn",
                                                  "dgrad_dual_relu_bn",
                                                  "dgrad_add_pooled_bn"};
  return names[static_cast<std::size_t>(kind)];
}
/// The words of a table's line before the choice.
inline std::string describe(const cudnn_place& at) {
  const convolution_problem& p = at.p;
  return concat(name_of(at.kind), " ", p.in.channels, "x", p.in.height, "x", p.in.width, " ",
                p.filters, " window ", p.window, " stride ", p.stride, " padding ", p.padding,
                p.margin > 0 ? " by pairs of columns" : "", " samples ", at.samples, " ",
                describe(at.type));
}

/// A plan of a fused graph, and the variant packs of the addresses that it has run with.
class cudnn_fused_pass {
 public:
  static constexpr std::size_t most_tensors = 24;
  using addresses = std::array<void*, most_tensors>;

  cudnn_fused_pass(std::shared_ptr<const cudnn_fused_graph> graph, cudnn_fused_plan plan)
      : graph_(std::move(graph)),
        plan_(std::move(plan)),
        workspace_bytes_(plan_.workspace_bytes()) {}

  /// data[i]: of the graph's tensors()[i].
  template <device::CudaStream S>
  void execute(cudnnHandle_t handle, const addresses& data, S s) {
    const device::stream_buffer<std::byte, S> workspace(s, workspace_bytes_);
    cudnn_check(
        cudnnBackendExecute(handle, plan_.plan.get(), variant_pack(data, workspace.data()).get()),
        "cudnnBackendExecute of a fused graph");
  }

 private:
  const cudnn_descriptor& variant_pack(const addresses& data, void* workspace) {
    constexpr std::size_t most = 256;
    const std::pair key(data, workspace);
    if (const auto found = packs_.find(key); found != packs_.end()) return found->second;
    if (packs_.size() == most) packs_.clear();
    std::vector<std::int64_t> ids;
    for (const fused_tensor& t : graph_->tensors()) ids.push_back(t.id);
    cudnn_descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids.data(), ids.size());
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data.data(), ids.size());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, &workspace, 1);
    return packs_.emplace(key, std::move(pack).finalized()).first->second;
  }

  std::shared_ptr<const cudnn_fused_graph> graph_;
  cudnn_fused_plan plan_;
  std::size_t workspace_bytes_;
  std::map<std::pair<addresses, void*>, cudnn_descriptor> packs_;
};

/// The graph of an input gradient at the end of a residual block, or at the maxima of a pool.
template <class N, class Real>
fused_graph sum_graph(const normalized_input<N, Real>& in) {
  return in.shortcut.x != nullptr ? fused_graph::dgrad_dual_relu_bn
         : in.adds()              ? fused_graph::dgrad_add_relu_bn
                                  : fused_graph::dgrad_add_pooled_bn;
}
/// Its tensors. The sums go to the saved rows `shift` and `slope`, the factors of dx to `factors`,
/// (6, lanes).
template <class N, class Real>
cudnn_fused_pass::addresses sum_addresses(const N* dy, const N* packed,
                                          const normalized_input<N, Real>& in, const N* other,
                                          N* dx, float* factors, std::size_t lanes) {
  cudnn_fused_pass::addresses out{};
  std::size_t count = 0;
  const auto add = [&](auto*... memory) {
    ((out[count++] = const_cast<void*>(static_cast<const void*>(memory))), ...);
  };
  const auto add_norm = [&](const batch_norm_tensors<N, Real>& t) {
    const batch_norm_coefficients<Real> row(t.saved, lanes, 0);
    add(t.x, row.mean, row.inv_std, t.gamma, t.beta);
  };
  const auto add_gradients = [&](const batch_norm_tensors<N, Real>& t, float* of) {
    const batch_norm_coefficients<Real> row(t.saved, lanes, 0);
    add(row.slope, row.shift, of, of + lanes, of + 2 * lanes);
  };
  const bool dual = in.shortcut.x != nullptr;
  add(dy, packed);
  add_norm(in.norm);
  if (dual)
    add_norm(in.shortcut);
  else if (in.adds())
    add(in.residual);
  add(other, dx);
  add_gradients(in.norm, factors);
  if (dual) add_gradients(in.shortcut, factors + 3 * lanes);
  return out;
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
