// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A program in C over the library cordee_infer, with files that this one writes.
#include <cstdio>
#include <string>

#include <doctest/doctest.h>
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
outcome predict(const std::string& path, int samples, int threads) {
  std::FILE* const pipe = ::popen(
      concat(CORDEE_PREDICT, " '", path, "' ", samples, " ", threads, " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome o;
  char part[256];
  while (std::fgets(part, sizeof part, pipe) != nullptr) o.printed += part;
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) o.status = WEXITSTATUS(status);
  return o;
}

template <class N>
void check_network(integer_network_options options = {}) {
  const folder f;
  auto net = random_integers<N>(1, options);
  net.save(f.file("net"));
  for (const int samples : {0, 1, 7}) {
    std::vector<std::uint8_t> images(static_cast<std::size_t>(samples) * N::input.size());
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<std::uint8_t>(97 * i);
    std::vector<std::int32_t> logits(static_cast<std::size_t>(samples) * net.classes());
    net.run(images, logits);
    std::string expected = concat(N::input.channels, " ", N::input.height, " ", N::input.width, " ",
                                  net.classes(), "\n");
    for (const std::int32_t l : logits) expected += concat(l, "\n");
    for (const int threads : {0, 1, 3}) {
      const outcome o = predict(f.file("net"), samples, threads);
      CHECK(o.status == 0);
      CHECK(o.printed == expected);
    }
  }
}

}  // namespace

TEST_CASE("cordee_infer: a program in C has the logits of integer_network, of any network") {
  check_network<random_resnet<tiny_image>>();
  check_network<random_resnet<tiny_image>>({.fold_batch_norm = false});
  check_network<
      random_resnet<resnet_options{.image = {3, 64, 64}, .classes = 3, .zero_gamma = false}, 18>>();
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
