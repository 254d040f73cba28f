// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A run that goes wrong as it is told; mpi_faults.cmake looks at how it ends. A ring of means, one
// after another, of which the last rank spoils the third.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/comm/mpi.hpp>

using namespace cordee;

int main(int argc, char** argv) {
  const std::string fault = argc > 1 ? argv[1] : "none";
  const std::chrono::milliseconds deadline(argc > 2 ? std::atoi(argv[2]) : 1000);
  try {
    mpi::launch(
        [&](mpi link) {
          std::vector<double> x(1000, link.rank());
          for (int k = 0; k < 6; ++k) {
            if (k == 3 && link.rank() == link.size() - 1) {
              if (fault == "throw") throw error("the sensor fell off");
              if (fault == "kill") std::raise(SIGKILL);
              if (fault == "delay") std::this_thread::sleep_for(deadline * 3 / 2);
              if (fault == "stuck") std::this_thread::sleep_for(deadline * 100);
              if (fault == "short") x.resize(999);
              if (fault == "leave") return;
            }
            agree(link, x, sum{});
          }
        },
        {.deadline = deadline});
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return EXIT_FAILURE;
  }
  std::puts("all is well");
}
