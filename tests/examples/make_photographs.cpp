// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Writes JPEGs for the test of examples/flowers.cpp: FOLDER/CLASS/N.jpg, five classes of six, each
// with a tint of its own, which a network learns in a few updates.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>

#include "tests/images/encode.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: make_photographs FOLDER\n", stderr);
    return 2;
  }
  try {
    unsigned seed = 0;
    const std::pair<const char*, support::tint> classes[] = {{"daisy", {90, 90, 90}},
                                                             {"dandelion", {60, 60, -120}},
                                                             {"roses", {100, -100, -60}},
                                                             {"sunflowers", {-90, 70, -90}},
                                                             {"tulips", {-60, -100, 110}}};
    for (const auto& [name, added] : classes) {
      const std::filesystem::path folder = std::filesystem::path(argv[1]) / name;
      std::filesystem::create_directories(folder);
      for (int n = 0; n < 6; ++n) {
        const int width = 260 + 20 * n, height = 240 + 30 * (n % 3);
        const auto file =
            support::encode_jpeg({.name = "420", .luma = {2, 2}}, width, height, ++seed, added);
        std::ofstream out(folder / (std::to_string(n) + ".jpg"), std::ios::binary);
        out.write(reinterpret_cast<const char*>(file.data()),
                  static_cast<std::streamsize>(file.size()));
        if (!out.flush()) throw std::ios_base::failure("cannot write");
      }
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
