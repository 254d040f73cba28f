// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Tensors of LibTorch in files of safetensors.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/io/save_tensors.hpp>
#include <cordee/io/tensor_file.hpp>

namespace cordee::inline CORDEE_ABI::detail::libtorch {

/// Number types by their names in files. Throws error for one that files have not.
inline std::string_view dtype_of(const std::string& name, torch::ScalarType type) {
  constexpr std::array<std::pair<torch::ScalarType, std::string_view>, 10> names{
      {{torch::kFloat, "F32"},
       {torch::kDouble, "F64"},
       {torch::kHalf, "F16"},
       {torch::kBFloat16, "BF16"},
       {torch::kLong, "I64"},
       {torch::kInt, "I32"},
       {torch::kShort, "I16"},
       {torch::kChar, "I8"},
       {torch::kByte, "U8"},
       {torch::kBool, "BOOL"}}};
  for (const auto& [known, text] : names)
    if (known == type) return text;
  throw error(concat("torch_model: \"", name, "\" is a tensor of ", c10::toString(type),
                     ", which files of weights do not have: make it one of float, double, half, "
                     "bfloat16, bool or integers"));
}
inline std::vector<std::size_t> shape_of(const torch::Tensor& t) {
  return {t.sizes().begin(), t.sizes().end()};
}

/// Requires a contiguous tensor of the host's, which outlives the view.
inline io::tensor_view view_of(const std::string& name, const torch::Tensor& t) {
  io::tensor_view view(name, shape_of(t), std::span<const float>{});
  view.dtype = dtype_of(name, t.scalar_type());
  view.bytes = {static_cast<const std::byte*>(t.data_ptr()), t.nbytes()};
  return view;
}

/// Reads a tensor if the file has it. Throws error for another number type or shape.
inline void read(const io::tensor_file& file, const std::string& name, torch::Tensor& t) {
  const io::tensor_entry* const entry = file.find(name);
  if (entry == nullptr) return;
  const std::vector<std::size_t> shape = shape_of(t);
  const bool one = shape.empty() && entry->shape == std::vector<std::size_t>{1};
  if (entry->dtype != dtype_of(name, t.scalar_type()) || (entry->shape != shape && !one))
    throw error(concat("\"", file.path(), "\": \"", name, "\" is of ", entry->dtype,
                       " or of a shape that the module's is not"));
  torch::Tensor own = torch::empty(t.sizes(), t.scalar_type());
  file.read_bytes(name, std::span(static_cast<std::byte*>(own.data_ptr()), own.nbytes()));
  const torch::NoGradGuard no_grad;
  t.copy_(own);
}

}  // namespace cordee::inline CORDEE_ABI::detail::libtorch
