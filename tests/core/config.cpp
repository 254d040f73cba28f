// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <type_traits>
#include <typeinfo>

#include <doctest/doctest.h>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>

#define WORDS_OF(what) WORDS(what)
#define WORDS(what) #what

namespace {

// The annotations stand where a CUDA compiler wants them, in front of constexpr and of lambdas too.
CORDEE_HOST_DEVICE constexpr int twice(int x) { return 2 * x; }
CORDEE_HOST inline int on_host(int x) { return x; }
struct annotated {
  CORDEE_HOST_DEVICE constexpr annotated() = default;
  CORDEE_DEVICE int on_device(int x) const { return x; }
};

}  // namespace

static_assert(twice(21) == 42);

TEST_CASE("config: without a CUDA compiler the annotations say nothing") {
  const annotated a;
  CHECK(on_host(1) + a.on_device(2) == 3);
#if !defined(__CUDACC__)
  for (const std::string words :
       {"" WORDS_OF(CORDEE_HOST), "" WORDS_OF(CORDEE_DEVICE), "" WORDS_OF(CORDEE_HOST_DEVICE)})
    CHECK(words.empty());
#endif
}

TEST_CASE("config: the ABI's name says what the target was built with") {
  const std::string name = WORDS_OF(CORDEE_ABI);
#if defined(CORDEE_HAS_ZLIB)
  CHECK(name == "v0_zlib");
#else
  CHECK(name == "v0");
#endif
}

TEST_CASE("config: the name is part of every symbol, and of nothing that a user writes") {
  const std::string name = WORDS_OF(CORDEE_ABI);
  const std::string symbol = typeid(cordee::error).name();
  CHECK_MESSAGE(symbol.find("6cordee" + std::to_string(name.size()) + name) != std::string::npos,
                symbol);
  static_assert(std::is_same_v<cordee::error, cordee::CORDEE_ABI::error>);
}
