// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A backend descriptor of cuDNN's graph API: created, given attributes, finalized; destroyed with
// its owner. Every status is checked; an error carries cuDNN's message.
//
//   auto t = cudnn_descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR)
//                .with(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_HALF)
//                .with(CUDNN_ATTR_TENSOR_DIMENSIONS, std::array<std::int64_t, 4>{32, 64, 56, 56})
//                …
//                .finalized();
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <cudnn_graph.h>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

inline void cudnn_check(cudnnStatus_t status, std::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char detail[512] = "";  // of this thread's last failure
  cudnnGetLastErrorString(detail, sizeof detail);
  throw error(
      concat("cudnn: ", call, ": ", cudnnGetErrorString(status), *detail == 0 ? "" : ": ", detail));
}

/// The attribute type of a C++ type.
template <class T>
inline constexpr auto cudnn_attribute_type = nullptr;
template <>
inline constexpr auto cudnn_attribute_type<char> = CUDNN_TYPE_CHAR;
template <>
inline constexpr auto cudnn_attribute_type<float> = CUDNN_TYPE_FLOAT;
template <>
inline constexpr auto cudnn_attribute_type<std::int64_t> = CUDNN_TYPE_INT64;
template <>
inline constexpr auto cudnn_attribute_type<void*> = CUDNN_TYPE_VOID_PTR;
template <>
inline constexpr auto cudnn_attribute_type<cudnnHandle_t> = CUDNN_TYPE_HANDLE;
template <>
inline constexpr auto cudnn_attribute_type<cudnnDataType_t> = CUDNN_TYPE_DATA_TYPE;
template <>
inline constexpr auto cudnn_attribute_type<cudnnConvolutionMode_t> = CUDNN_TYPE_CONVOLUTION_MODE;
template <>
inline constexpr auto cudnn_attribute_type<cudnnBackendHeurMode_t> = CUDNN_TYPE_HEUR_MODE;
template <>
inline constexpr auto cudnn_attribute_type<cudnnBackendNumericalNote_t> = CUDNN_TYPE_NUMERICAL_NOTE;

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
    set_attribute(name, cudnn_attribute_type<T>, values, n);
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
  cudnn_descriptor with(cudnnBackendAttributeName_t name, const cudnn_descriptor& descriptor) && {
    const cudnnBackendDescriptor_t raw = descriptor.get();
    set_attribute(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &raw, 1);
    return std::move(*this);
  }
  /// cuDNN may reject an unsupported shape only here.
  [[nodiscard]] cudnnStatus_t finalize() { return cudnnBackendFinalize(get()); }
  [[nodiscard]] cudnn_descriptor finalized() && {
    cudnn_check(finalize(), "cudnnBackendFinalize");
    return std::move(*this);
  }

  template <class T>
  [[nodiscard]] std::vector<T> values(cudnnBackendAttributeName_t name) const {
    std::vector<T> out(count(name, cudnn_attribute_type<T>));
    get_attribute(name, cudnn_attribute_type<T>, out.data(), out.size());
    return out;
  }
  [[nodiscard]] std::int64_t int64(cudnnBackendAttributeName_t name) const {
    std::int64_t value = 0;
    get_attribute(name, CUDNN_TYPE_INT64, &value, 1);
    return value;
  }
  /// cuDNN fills descriptors that the caller creates; heuristics may fill fewer than they count.
  [[nodiscard]] std::vector<cudnn_descriptor> descriptors(cudnnBackendAttributeName_t name,
                                                          cudnnBackendDescriptorType_t type) const {
    std::vector<cudnn_descriptor> out;
    std::vector<cudnnBackendDescriptor_t> raw;
    for (std::size_t n = count(name, CUDNN_TYPE_BACKEND_DESCRIPTOR); out.size() < n;)
      raw.push_back(out.emplace_back(type).get());
    const std::size_t filled =
        get_attribute(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw.data(), raw.size());
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(std::min(filled, out.size())), out.end());
    return out;
  }

 private:
  void set_attribute(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     const void* values, std::size_t n) {
    cudnn_check(cudnnBackendSetAttribute(get(), name, type, static_cast<std::int64_t>(n), values),
                concat("cudnnBackendSetAttribute of attribute ", static_cast<int>(name)));
  }
  std::size_t get_attribute(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            void* values, std::size_t capacity) const {
    std::int64_t n = 0;
    cudnn_check(cudnnBackendGetAttribute(get(), name, type, static_cast<std::int64_t>(capacity), &n,
                                         values),
                concat("cudnnBackendGetAttribute of attribute ", static_cast<int>(name)));
    return static_cast<std::size_t>(n);
  }
  std::size_t count(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    return get_attribute(name, type, nullptr, 0);
  }

  struct destroy {
    void operator()(void* raw) const { cudnnBackendDestroyDescriptor(raw); }
  };
  std::unique_ptr<void, destroy> raw_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::ops
