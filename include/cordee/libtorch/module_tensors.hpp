// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The tensors of a module of LibTorch by their names in its state_dict, and what each is.
//
//   weight of a batch, layer, group or instance norm   scale      bias of one of them   shift
//   other parameters named bias                        bias       other parameters      weight
//   buffers of floating point                          statistic  other buffers         constant
//
// A norm is known by its C++ type or, in a module of TorchScript, by the name of its type. A tensor
// that has several names counts once, under the first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/script.h>
#include <torch/torch.h>

#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::libtorch {

struct module_tensor {
  std::string name;
  torch::Tensor tensor;
  cordee::kind kind = cordee::kind::weight;
  bool is_parameter = false;
  std::vector<std::string> other_names{};  // in files, beside its segment's
};

/// Whether the last part of a parameter's name is a bias's in LibTorch: recurrent layers name
/// theirs bias_ih_l0, bias_hh_l0, … for each layer and direction, attention in_proj_bias, others
/// bias.
inline bool names_bias(std::string_view name) {
  return name == "bias" || name == "in_proj_bias" || name.starts_with("bias_ih_l") ||
         name.starts_with("bias_hh_l");
}

class tensor_collector {
 public:
  /// Named tensors of a module: "fc.weight" of module "fc", "weight" of the root.
  void add_all(const std::string& module, const auto& named, bool is_parameter, bool of_norm) {
    for (const auto& [name, tensor] : named)
      add(module.empty() ? name : module + "." + name, tensor, is_parameter, of_norm);
  }
  [[nodiscard]] std::vector<module_tensor> take() { return std::move(all_); }

 private:
  void add(std::string name, const torch::Tensor& tensor, bool is_parameter, bool of_norm) {
    if (!tensor.defined()) return;  // an affine = false, say
    const auto [known, is_new] = places_.emplace(tensor.unsafeGetTensorImpl(), all_.size());
    if (!is_new) {
      all_[known->second].other_names.push_back(std::move(name));
      return;
    }
    const bool is_bias = names_bias(std::string_view(name).substr(name.rfind('.') + 1));
    const cordee::kind what = !is_parameter ? kind::statistic
                              : of_norm     ? (is_bias ? kind::shift : kind::scale)
                                            : (is_bias ? kind::bias : kind::weight);
    all_.push_back({std::move(name), tensor, what, is_parameter});
  }

  std::vector<module_tensor> all_;
  std::unordered_map<const void*, std::size_t> places_;
};

inline bool is_norm(const torch::nn::Module& m) {
  using namespace torch::nn;
  return m.as<BatchNorm1dImpl>() || m.as<BatchNorm2dImpl>() || m.as<BatchNorm3dImpl>() ||
         m.as<InstanceNorm1dImpl>() || m.as<InstanceNorm2dImpl>() || m.as<InstanceNorm3dImpl>() ||
         m.as<LayerNormImpl>() || m.as<GroupNormImpl>();
}

/// In the order in which the modules were registered.
inline std::vector<module_tensor> tensors_of(torch::nn::Module& root) {
  tensor_collector all;
  for (const auto& [name, m] : root.named_modules("", true).pairs()) {
    const bool norm = is_norm(*m);
    all.add_all(name, m->named_parameters(false).pairs(), true, norm);
    all.add_all(name, m->named_buffers(false).pairs(), false, norm);
  }
  return all.take();
}
inline std::vector<module_tensor> tensors_of(const torch::jit::Module& root) {
  tensor_collector all;
  for (const auto& m : root.named_modules()) {
    const auto type = m.value.type()->name();
    const bool norm = type && type->name().find("Norm") != std::string::npos;
    all.add_all(m.name, m.value.named_parameters(false), true, norm);
    all.add_all(m.name, m.value.named_buffers(false), false, norm);
  }
  return all.take();
}

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
