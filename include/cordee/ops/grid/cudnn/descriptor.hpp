// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One object of cuDNN's graph API: made empty, given attributes, finalised; destroyed with its
// owner. Every status is checked, and an error is what cuDNN says about it.
//
//   auto t = cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
//                .with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_HALF)
//                .with(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array<std::int64_t, 4>{32, 64, 56, 56})
//                …
//                .finalised();
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <cudnn_graph.h>

#include <cordee/core/error.hpp>
#include <cordee/core/text.hpp>

namespace cordee::inline CORDEE_ABI {
namespace detail {

inline void cudnn_check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char more[512] = "";  // what this thread's last failure was about
  cudnnGetLastErrorString(more, sizeof more);
  throw error(
      text("cudnn: ", call, ": ", cudnnGetErrorString(status), *more == 0 ? "" : ": ", more));
}

/// What cuDNN calls a C++ type.
template <class T>
inline constexpr auto cudnn_type_of = nullptr;
template <>
inline constexpr auto cudnn_type_of<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto cudnn_type_of<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto cudnn_type_of<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto cudnn_type_of<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto cudnn_type_of<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto cudnn_type_of<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto cudnn_type_of<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto cudnn_type_of<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto cudnn_type_of<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;

class cudnn_descriptor {
 public:
  explicit cudnn_descriptor(cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t raw = nullptr;
    cudnn_check(cudnnBackendCreateDescriptor(type, &raw), "cudnnBackendCreateDescriptor");
    raw_.reset(raw);
  }
  [[nodiscard]] cudnnBackendDescriptor_t get() const { return raw_.get(); }

  template <class T>
  void set(cudnnBackendAttributeName_t name, const T* values, std::size_t n) {
    put(name, cudnn_type_of<T>, values, n);
  }
  template <class T>
  cudnn_descriptor with(cudnnBackendAttributeName_t name, const T& value) && {
    set(name, &value, 1);
    return std::move(*this);
  }
  template <class T, std::size_t N>
  cudnn_descriptor with(cudnnBackendAttributeName_t name, const std::array<T, N>& values) && {
    set(name, values.data(), N);
    return std::move(*this);
  }
  cudnn_descriptor with(cudnnBackendAttributeName_t name, const cudnn_descriptor& part) && {
    const cudnnBackendDescriptor_t raw = part.get();
    put(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw, 1);
    return std::move(*this);
  }
  /// A shape that no kernel computes may show only here.
  [[nodiscard]] cudnnStatus_t finalise() { return cudnnBackendFinalize(get()); }
  [[nodiscard]] cudnn_descriptor finalised() && {
    cudnn_check(finalise(), "cudnnBackendFinalize");
    return std::move(*this);
  }

  template <class T>
  [[nodiscard]] std::vector<T> values(cudnnBackendAttributeName_t name) const {
    std::vector<T> found(count(name, cudnn_type_of<T>));
    take(name, cudnn_type_of<T>, found.data(), found.size());
    return found;
  }
  [[nodiscard]] std::int64_t integer(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0;
    take(name, CUDNN_TYPE_INT64, &value, 1);
    return value;
  }
  /// cuDNN fills descriptors that its caller has made; heuristics fill fewer than they count.
  [[nodiscard]] std::vector<cudnn_descriptor> parts(cudnnBackendAttributeName_t name,
                                                    cudnnBackendDescriptorType_t type) const {
    std::vector<cudnn_descriptor> found;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::size_t n = count(name, CUDNN_TYPE_BACKEND_DESCRIPTOR); found.size() < n;)
      raw.push_back(found.emplace_back(type).get());
    const std::size_t filled = take(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(), raw.size());
    found.erase(found.begin() + static_cast<std::ptrdiff_t>(std::min(filled, found.size())),
                found.end());
    return found;
  }

 private:
  void put(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const void* values,
           std::size_t n) {
    cudnn_check(cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(n), values),
                text("cudnnBackendSetAttribute of attribute ", static_cast<int>(name)));
  }
  std::size_t take(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, void* to,
                   std::size_t most) const {
    std::int64_t n = 0;
    cudnn_check(
        cudnnBackendGetAttribute(get(), name, type, static_cast<std::int64_t>(most), &n, to),
        text("cudnnBackendGetAttribute of attribute ", static_cast<int>(name)));
    return static_cast<std::size_t>(n);
  }
  std::size_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    return take(name, type, nullptr, 0);
  }

  struct destroy {
    void operator()(void* raw) const { cudnnBackendDestroyDescriptor(raw); }
  };
  std::unique_ptr<void, destroy> raw_;
};

}  // namespace detail
}  // namespace cordee::inline CORDEE_ABI
