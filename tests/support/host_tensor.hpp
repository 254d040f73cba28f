// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's backend descriptors as attributes by name, and the memory of a tensor that one describes.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/support/cudnn_on_host.hpp"

namespace support::host {

struct descriptor {
  cudnnBackendDescriptorType_t type;
  bool finalized = false;
  host_engine engine;                 // for engines and engine configurations
  const descriptor* graph = nullptr;  // for engine configurations
  std::map<cudnnBackendAttributeName_t, std::vector<unsigned char>> values;

  template <class T>
  [[nodiscard]] T value(cudnnBackendAttributeName_t name, std::size_t i = 0) const {
    T found;
    std::memcpy(&found, values.at(name).data() + i * sizeof(T), sizeof(T));
    return found;
  }
  [[nodiscard]] std::int64_t int64(cudnnBackendAttributeName_t name, std::size_t i = 0) const {
    return value<std::int64_t>(name, i);
  }
  [[nodiscard]] const descriptor& part(cudnnBackendAttributeName_t name, std::size_t i = 0) const {
    return *static_cast<const descriptor*>(value<void*>(name, i));
  }
  [[nodiscard]] std::size_t parts(cudnnBackendAttributeName_t name) const {
    return values.at(name).size() / sizeof(void*);
  }
};
/// Those that are alive; never destroyed, as caches of plans are destroyed after all else.
inline std::set<const descriptor*>& all_descriptors() {
  static auto* const all = new std::set<const descriptor*>;
  return *all;
}
inline descriptor& descriptor_of(cudnnBackendDescriptor_t raw) {
  return *static_cast<descriptor*>(raw);
}

inline std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    default:
      return 4;
  }
}

/// Memory with the dimensions and strides of a tensor descriptor.
struct tensor {
  tensor(const descriptor& words, void* at)
      : dims(four(words, CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(four(words, CUDNN_ATTR_TENSOR_STRIDES)),
        type(words.value<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
        memory(at) {}

  using index = std::array<std::int64_t, 4>;
  static index four(const descriptor& words, cudnnBackendAttributeName_t name) {
    return {words.int64(name, 0), words.int64(name, 1), words.int64(name, 2), words.int64(name, 3)};
  }
  [[nodiscard]] std::int64_t at(const index& i) const {
    return std::inner_product(i.begin(), i.end(), strides.begin(), std::int64_t{0});
  }
  /// The same of a tensor with one number, or one for each channel, where `i` is of a larger one.
  [[nodiscard]] std::int64_t broadcast(index i) const {
    for (std::size_t axis = 0; axis < 4; ++axis)
      if (dims[axis] == 1) i[axis] = 0;
    return at(i);
  }
  [[nodiscard]] std::int64_t bytes() const {
    return dims[0] * dims[1] * dims[2] * dims[3] * (type == CUDNN_DATA_FLOAT ? 4 : 2);
  }
  /// Numbers from the first to the last, those between included.
  [[nodiscard]] std::int64_t numbers() const {
    return at({dims[0] - 1, dims[1] - 1, dims[2] - 1, dims[3] - 1}) + 1;
  }
  [[nodiscard]] double read(std::int64_t i) const {
    if (type == CUDNN_DATA_HALF) return static_cast<cordee::half*>(memory)[i].exact();
    if (type == CUDNN_DATA_BFLOAT16) return static_cast<cordee::bfloat*>(memory)[i].exact();
    return static_cast<float*>(memory)[i];
  }
  /// The numbers from the first to the last.
  [[nodiscard]] std::vector<double> all() const {
    std::vector<double> numbers_read(static_cast<std::size_t>(numbers()));
    for (std::size_t i = 0; i < numbers_read.size(); ++i)
      numbers_read[i] = read(static_cast<std::int64_t>(i));
    return numbers_read;
  }
  void write(std::int64_t i, double x) const {
    const float rounded = static_cast<float>(x);
    if (type == CUDNN_DATA_HALF)
      static_cast<cordee::half*>(memory)[i] = cordee::half::nearest(rounded);
    else if (type == CUDNN_DATA_BFLOAT16)
      static_cast<cordee::bfloat*>(memory)[i] = cordee::bfloat::nearest(rounded);
    else
      static_cast<float*>(memory)[i] = rounded;
  }

  index dims, strides;
  cudnnDataType_t type;
  void* memory;
};

}  // namespace support::host
