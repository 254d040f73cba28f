// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// One mean of n floats over simulated ranks, on device phantom.
#pragma once

#include <cstddef>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/comm/transports/simulated.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/phantom.hpp>

namespace support {

using namespace cordee;

template <class Make>
simulation simulated_mean(int ranks, std::size_t n, const Make& make,
                          const simulated::options& o = {}) {
  return simulated::launch(
      ranks,
      [&](simulated comm) {
        const phantom device = comm.device();
        const auto reducer = make(comm);
        buffer<float, phantom> x(phantom{}, n);
        buffer<std::byte, phantom> scratch(phantom{}, reducer.template scratch<float>(n));
        reducer.mix(bucket_view<float, phantom, 0>{nullptr, x.span(), {}, scratch.span()},
                    step_info{}, device.make_stream());
      },
      o);
}

}  // namespace support
