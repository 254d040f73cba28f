// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A GPU that is not here, described to cuDNN: it then says what it could compute there. Written by
// hand; a real one can be read from CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION where there is one.
#pragma once

#include <memory>
#include <string_view>

#include <cordee/ops/grid/cudnn/graph.hpp>

namespace support {

inline cordee::detail::cudnn_target h200() {
  constexpr std::string_view words = R"({
    "deviceName": "NVIDIA H200", "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0,
    "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "totalGlobalMem": 150000000000,
    "multiProcessorCount": 132, "warpSize": 32, "l2CacheSize": 62914560,
    "smClockRateKHz": 1980000, "memClockRateKHz": 3201000, "memoryBusWidth": 6144,
    "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
    "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
    "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
    "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024})";
  cordee::detail::cudnn_descriptor device(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, words.data(), words.size());
  return {nullptr,
          std::make_shared<const cordee::detail::cudnn_descriptor>(std::move(device).finalised())};
}

}  // namespace support
