// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Device properties of an H200 as a cuDNN descriptor, so that plans can be made without the GPU.
// Written by hand: the report of scripts/gpu-check has those of a real GPU, as "cudnn_device".
#pragma once

#include <memory>
#include <string_view>

#include <cordee/ops/engines/cudnn/graph.hpp>

namespace support {

inline cordee::detail::ops::cudnn_target h200() {
  constexpr std::string_view properties = R"({
    "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
    "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150000000000,
    "multiProcessorCount": 132, "warpSize": 32, "l2CacheSize": 62914560,
    "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
    "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024})";
  cordee::detail::ops::cudnn_descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, properties.data(), properties.size());
  return {nullptr, std::make_shared<const cordee::detail::ops::cudnn_descriptor>(
                       std::move(device).finalized())};
}

}  // namespace support
