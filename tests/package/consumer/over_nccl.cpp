// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A stranger's program with the component nccl.
#include <iostream>

#include <cordee/comm/nccl.hpp>

int main() {
  try {
    cordee::nccl::launch([](cordee::nccl link) { std::cout << "ranks: " << link.size() << "\n"; });
  } catch (const cordee::error& e) {
    std::cout << e.what() << "\n";
  }
}
