// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Fashion-MNIST for the examples.
#pragma once

#include <filesystem>
#include <string>

#include <cordee/data/idx.hpp>
#include <cordee/data/split.hpp>

namespace examples {

/// Calls f(training, held_out): with 9,000 and 1,000 of the 10,000 bundled images; or, where the
/// folder has the full set, with its 60,000 training and 10,000 test images.
template <class F>
void with_fashion_mnist(const std::string& folder, const F& f) {
  const std::filesystem::path at = folder;
  const auto file = [&](const char* name) { return (at / name).string(); };
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(at / name) || std::filesystem::exists(file(name) + ".gz");
  };
  const cordee::idx test{file("t10k-images-idx3-ubyte"), file("t10k-labels-idx1-ubyte")};
  if (exists("train-images-idx3-ubyte"))
    return f(cordee::idx{file("train-images-idx3-ubyte"), file("train-labels-idx1-ubyte")}, test);
  const auto [training, held_out] = cordee::split(test, 0.1, 1);
  f(training, held_out);
}

}  // namespace examples
