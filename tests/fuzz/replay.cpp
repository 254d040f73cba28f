// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Gives each fuzz target the inputs of its corpus, among which is each that once failed: a test in
// every build, for any compiler. fuzz_targets.inc lists the targets, each of which is compiled with
// its own name for LLVMFuzzerTestOneInput, all in one unit.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#define CORDEE_FUZZ_TARGET(name) \
  extern "C" int fuzz_##name(const std::uint8_t* data, std::size_t size);
#include "fuzz_targets.inc"
#undef CORDEE_FUZZ_TARGET

namespace {

/// Ends the program where a law is broken.
void replay(const std::string& target, int (*run)(const std::uint8_t*, std::size_t)) {
  std::size_t inputs = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(CORDEE_FUZZ_CORPUS) + "/" + target)) {
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    INFO(entry.path().string());
    CHECK(run(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()) == 0);
    ++inputs;
  }
  CHECK_MESSAGE(inputs > 0, target);
}

}  // namespace

#define CORDEE_FUZZ_TARGET(name) \
  TEST_CASE("fuzz: the corpus of " #name) { replay(#name, fuzz_##name); }
#include "fuzz_targets.inc"
