// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// cordee::zeromq with threads as ranks, which find each other by a communicator of threads.
#pragma once

#include <chrono>

#include <cordee/comm/transports/threads.hpp>
#include <cordee/comm/transports/zeromq.hpp>

namespace support {

/// f(comm) on so many ranks. Throws the error of the rank that throws the cause.
inline constexpr auto launch_zeromq = [](int ranks, const auto& f,
                                         std::chrono::milliseconds deadline) {
  cordee::threads::launch(ranks,
                          [&](cordee::threads host_comm) {
                            try {
                              cordee::zeromq::launch(f, cordee::rendezvous_comm{host_comm},
                                                     {.deadline = deadline});
                            } catch (const cordee::aborted&) {
                            }
                          },
                          {.deadline = std::chrono::seconds(60)});
};

}  // namespace support
