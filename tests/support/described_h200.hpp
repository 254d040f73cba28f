// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Device properties of an H200 as a cuDNN descriptor, so that plans can be made without the GPU.
// They are what cuDNN 9.19 said of one, as scripts/gpu-check reports ("cudnn_device"), 2026-11-26.
#pragma once

#include <memory>
#include <string_view>

#include <cordee/ops/engines/cudnn/graph.hpp>

namespace support {

inline cordee::detail::ops::cudnn_target h200() {
  constexpr std::string_view properties = R"({
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "regsPerBlock": 65536, "multiProcessorCount": 132, "warpSize": 32,
    "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 6, "isTccDriver": 0,
    "supportCoopLaunch": 1, "totalGlobalMem": 150109880320, "smClockRateKHz": 1980000,
    "memClockRateKHz": 3201000, "l2CacheSize": 62914560, "cudaDeviceId": 0, "deviceVer": 900,
    "driverVer": 13000, "deviceName": "NVIDIA H200"})";
  cordee::detail::ops::cudnn_descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, properties.data(), properties.size());
  return {nullptr, std::make_shared<const cordee::detail::ops::cudnn_descriptor>(
                       std::move(device).finalized())};
}

}  // namespace support
