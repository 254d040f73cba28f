// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A consumer's program with the component nccl.
#include <iostream>

#include <cordee/comm/nccl.hpp>

int main() {
  try {
    cordee::nccl::launch([](cordee::nccl comm) { std::cout << "ranks: " << comm.size() << "\n"; });
  } catch (const cordee::error& e) {
    std::cout << e.what() << "\n";
    return 1;
  }
}
