// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Programs in C over the library cordee_infer, with files that this one writes.
#include <cstdio>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/auxv.h>
#include <sys/wait.h>

#include "tests/infer/saved_network.hpp"
#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;

namespace {

struct outcome {
  int status = -1;
  std::string printed{};
};
outcome outcome_of(const std::string& command) {
  std::FILE* const pipe = ::popen((command + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome o;
  char part[256];
  while (std::fgets(part, sizeof part, pipe) != nullptr) o.printed += part;
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) o.status = WEXITSTATUS(status);
  return o;
}
/// CORDEE_INFER_ISA=isa predict path samples threads
outcome predict(const std::string& path, int samples, int threads, const std::string& isa = "") {
  return outcome_of(concat("CORDEE_INFER_ISA='", isa, "' ", CORDEE_PREDICT, " '", path, "' ",
                           samples, " ", threads));
}

/// The instruction sets of the library's variants, the fastest first.
std::vector<std::string> variants() {
  std::istringstream list(CORDEE_INFER_ISAS);
  return {std::istream_iterator<std::string>(list), {}};
}
/// By Linux, whose names these are but for Arm's.
bool supported(const std::string& isa) {
#if defined(__aarch64__)
  const bool dots = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return isa == "baseline" ||
         (dots && (isa == "dotprod" || (::getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0));
#else
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("flags"))
      return isa == "baseline" || (line + " ").find(" " + isa + " ") != std::string::npos;
  return isa == "baseline";
#endif
}

struct batch {
  int samples, threads;
};
template <class N>
void check_network(std::initializer_list<batch> batches, integer_network_options options = {}) {
  const folder f;
  auto net = random_integers<N>(1, options);
  net.save(f.file("net"));
  for (const auto [samples, threads] : batches) {
    std::vector<std::uint8_t> images(static_cast<std::size_t>(samples) * N::input.size());
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(97 * i);
    std::vector<std::int32_t> logits(static_cast<std::size_t>(samples) * net.classes());
    net.run(images, logits);
    std::string expected = concat(" ", N::input.channels, " ", N::input.height, " ", N::input.width,
                                  " ", net.classes(), "\n");
    for (const std::int32_t l : logits) expected += concat(l, "\n");
    for (const std::string& isa : variants()) {
      if (!supported(isa)) continue;
      CAPTURE(isa);
      const outcome o = predict(f.file("net"), samples, threads, isa);
      CHECK(o.status == 0);
      CHECK(o.printed == isa + expected);
    }
  }
}

}  // namespace

TEST_CASE(
    "cordee_infer: a program in C has the logits of integer_network, of any network, with each of "
    "the instruction sets") {
  check_network<random_resnet<tiny_image>>(
      {{0, 1}, {1, 0}, {1, 3}, {7, 1}, {7, 2}, {7, 3}, {7, 5}, {7, 8}, {40, 1}});
  check_network<random_resnet<tiny_image>>({{7, 1}, {7, 3}}, {.fold_batch_norm = false});
  check_network<
      random_resnet<resnet_options{.image = {3, 64, 64}, .classes = 3, .zero_gamma = false}, 18>>(
      {{1, 1}, {7, 3}});
}

TEST_CASE("cordee_infer: the fastest instructions that the processor has, or those asked for") {
  const folder f;
  random_integers<random_resnet<tiny_image>>(1).save(f.file("net"));
  std::string fastest;
  for (const std::string& isa : variants()) {
    if (fastest.empty() && supported(isa)) fastest = isa;
    if (supported(isa)) continue;
    const outcome o = predict(f.file("net"), 1, 1, isa);
    CHECK(o.status == 3);
    CHECK(o.printed.starts_with(concat("error: cordee_infer_open: CORDEE_INFER_ISA is ", isa,
                                       ", which this processor does not have",
                                       isa == "avx512_amx" ? ": the " : "\n")));
  }
  CHECK(predict(f.file("net"), 0, 1).printed.starts_with(fastest + " "));
  std::string names;
  for (const std::string& isa : variants()) names += (names.empty() ? "" : ", ") + isa;
  for (const char* const unknown : {"avx", "AVX2", "avx2 ", "baseline,avx2"}) {
    const outcome o = predict(f.file("net"), 1, 1, unknown);
    CHECK(o.status == 3);
    CHECK(o.printed == concat("error: cordee_infer_open: CORDEE_INFER_ISA is ", unknown,
                              ", and this library has ", names, "\n"));
  }
}

TEST_CASE(
    "cordee_infer: two threads use networks of their own at once, and have errors of their "
    "own") {
  const folder f;
  random_integers<random_resnet<tiny_image>>(1).save(f.file("net"));
  random_integers<
      random_resnet<resnet_options{.image = {3, 16, 16}, .classes = 5, .zero_gamma = false}>>(2)
      .save(f.file("other"));
  for (const int threads : {1, 2, 3}) {
    const outcome o = outcome_of(
        concat(CORDEE_TWO_THREADS, " '", f.file("net"), "' '", f.file("other"), "' ", threads));
    CHECK(o.status == 0);
    CHECK(o.printed == "");
  }
}

TEST_CASE(
    "cordee_infer: opening fails with an error when any allocation does, predicting allocates "
    "nothing") {
  const folder f;
  random_integers<random_resnet<tiny_image>>(1).save(f.file("net"));
  for (const int threads : {1, 2, 3, 5, 8}) {
    const outcome o = outcome_of(concat(CORDEE_OUT_OF_MEMORY, " '", f.file("net"), "' ", threads));
    CHECK(o.status == 0);
    CHECK(o.printed == "");
  }
}

TEST_CASE("cordee_infer: a missing, a damaged and a hostile file are errors that name it") {
  const folder f;
  random_integers<random_resnet<tiny_image>>(2).save(f.file("net"));
  const auto good = f.get("net");
  const auto refused = [&](const char* name) {
    const outcome o = predict(f.file(name), 1, 1);
    CHECK(o.status == 3);
    CHECK_MESSAGE(o.printed.find(f.file(name)) != std::string::npos, o.printed);
  };
  refused("none");
  auto bytes = good;
  bytes.back() ^= 1;
  f.put("damaged", bytes);
  refused("damaged");
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{7}, good.size() / 2, good.size() - 1}) {
    f.put("short", {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    refused("short");
  }
  bytes = good;
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = 0xff;  // a header of 2^64 - 1 bytes
  f.put("hostile", bytes);
  refused("hostile");
}
