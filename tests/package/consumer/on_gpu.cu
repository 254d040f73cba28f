// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A stranger's program with the component cuda: the umbrella brings the device along.
#include <iostream>

#include <cordee/cordee.hpp>

int main() {
  using namespace cordee;
  try {
    const gpu device;
    std::cout << "GPU " << device.ordinal() << "\n";
  } catch (const error& e) {
    std::cout << e.what() << "\n";
  }
}
