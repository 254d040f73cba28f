// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <type_traits>
#include <typeinfo>

#include <doctest/doctest.h>

#include <cordee/core/config.hpp>
#include <cordee/core/error.hpp>
#include <cordee/ops/cpu/simd.hpp>

#define STRING_OF(macro) STRING(macro)
#define STRING(text) #text

namespace {

// The annotations stand where a CUDA compiler accepts them.
CORDEE_HOST_DEVICE constexpr int twice(int x) { return 2 * x; }
CORDEE_HOST inline int on_host_only(int x) { return x; }
struct annotated {
  CORDEE_HOST_DEVICE constexpr annotated() = default;
  CORDEE_DEVICE int on_device(int x) const { return x; }
};

}  // namespace

static_assert(twice(21) == 42);

TEST_CASE("config: without a CUDA compiler the annotations expand to nothing") {
  const annotated a;
  CHECK(on_host_only(1) + a.on_device(2) == 3);
#if !defined(__CUDACC__)
  for (const std::string expansion :
       {"" STRING_OF(CORDEE_HOST), "" STRING_OF(CORDEE_DEVICE), "" STRING_OF(CORDEE_HOST_DEVICE)})
    CHECK(expansion.empty());
#endif
}

TEST_CASE("config: the ABI namespace names every CORDEE_HAS_* that is defined, and the ISA") {
  std::string expected = "v0";
#if defined(CORDEE_HAS_ZLIB)
  expected += "_zlib";
#endif
#if defined(CORDEE_HAS_CUDA)
  expected += "_cuda";
#endif
#if defined(CORDEE_HAS_CUDNN)
  expected += "_cudnn";
#endif
  expected += "_simd" + std::to_string(cordee::detail::ops::register_bytes);
#if defined(__AVX2__) && !defined(__AVX512F__)
  expected += "i";  // registers of 32 bytes hold integers
#endif
#if defined(__AMX_TILE__)
  expected += "_amx";
#elif (defined(__AVX512BF16__) && !defined(__cooperlake__) && !defined(__AVX512FP16__)) || \
    defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
  expected += "_bf16";
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  expected += "_fma";
#endif
  CHECK(STRING_OF(CORDEE_ABI) == expected);
}

TEST_CASE("config: the ABI namespace is part of mangled names, and users need not write it") {
  const std::string name = STRING_OF(CORDEE_ABI);
  const std::string symbol = typeid(cordee::error).name();
  CHECK_MESSAGE(symbol.find("6cordee" + std::to_string(name.size()) + name) != std::string::npos,
                symbol);
  static_assert(std::is_same_v<cordee::error, cordee::CORDEE_ABI::error>);
}
