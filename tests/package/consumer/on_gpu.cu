// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A consumer's program with the component cuda: the umbrella includes the device gpu.
#include <iostream>

#include <cordee/cordee.hpp>

int main() {
  using namespace cordee;
  try {
    const gpu device;
    std::cout << "GPU " << device.ordinal() << "\n";
  } catch (const error& e) {
    std::cout << e.what() << "\n";
    return 1;
  }
}
