// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Device properties of GPUs as a cuDNN descriptor, so that plans can be made without the GPU. Those
// of an H200 are what cuDNN 9.19 said of one, as scripts/gpu-check reports ("cudnn_device"),
// 2026-11-26. Those of an H100 and a B200 are an H200's but for what NVIDIA's data sheets say:
// compute capability, multiprocessors, memory, second-level cache.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <cordee/core/concat.hpp>
#include <cordee/ops/engines/cudnn/graph.hpp>

namespace support {

inline cordee::detail::ops::cudnn_target described_gpu(std::string_view name, int version,
                                                       int multiprocessors, std::int64_t memory,
                                                       std::int64_t cache) {
  const std::string properties = cordee::concat(
      R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
    "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
    "maxThreadsPerSM": 2048, "pciDeviceId": 6, "isTccDriver": 0, "supportCoopLaunch": 1,
    "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "cudaDeviceId": 0, "driverVer": 13000,
    "multiProcessorCount": )",
      multiprocessors, R"(, "totalGlobalMem": )", memory, R"(, "l2CacheSize": )", cache,
      R"(, "deviceVer": )", version, R"(, "deviceName": ")", name, R"("})");
  cordee::detail::ops::cudnn_descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, properties.data(), properties.size());
  return {nullptr, std::make_shared<const cordee::detail::ops::cudnn_descriptor>(
                       std::move(device).finalized())};
}
inline cordee::detail::ops::cudnn_target h200() {
  return described_gpu("NVIDIA H200", 900, 132, 150'109'880'320, 62'914'560);
}
inline cordee::detail::ops::cudnn_target h100() {
  return described_gpu("NVIDIA H100 80GB HBM3", 900, 132, 85'028'765'696, 52'428'800);
}
inline cordee::detail::ops::cudnn_target b200() {
  return described_gpu("NVIDIA B200", 1000, 148, 191'000'000'000, 132'644'864);
}

}  // namespace support
