// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A program that the package's users compile: the mean of four ranks' numbers.
#include <array>
#include <cstdio>
#include <string>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/comm/transports/threads.hpp>
#include <cordee/core/version.hpp>

using namespace cordee;

int main() {
  double sum = 0;
  threads::launch(4, [&](threads comm) {
    std::array x{1.0 + comm.rank()};
    allreduce_host(comm, x, reduce_op::sum);
    if (comm.rank() == 0) sum = x[0];
  });
  std::printf("cordee %s: the sum of four ranks is %g\n", std::string(version).c_str(), sum);
  return sum == 10 ? 0 : 1;
}
