// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/imagenets_form.hpp"
#include "tests/infer/random_plane.hpp"
#include "tests/ops/engines/amx/tested_unit.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using support::random_plane;

namespace {

constexpr int V = detail::ops::lanes<float>;

/// All steps are shared, in as many parts as there are workers.
constexpr stage_costs costless{0, 0};

/// A network's program, random images, and their logits by the definitions.
template <class N>
struct defined {
  integer_program program;
  std::vector<std::uint8_t> images;
  std::vector<std::int32_t> logits;

  defined(const std::vector<float>& plane, std::size_t samples, bool fold = true, int bits = 8)
      : program(program_builder(list_layers(static_cast<const N*>(nullptr), fold), plane, bits)
                    .build(N::input, {{0.4F, 0.5F, 0.3F, 0}, {4, 3, 5, 1}})),
        images(samples * N::input.size()),
        logits(samples * N::classes) {
    random_sequence draw(7, purpose::test, 0, 0);
    for (auto& byte : images) byte = static_cast<std::uint8_t>(draw.below(256));
    const memory_plan plan(program, plain_sizes(program));
    std::vector<std::byte> memory(plan.size);
    for (std::size_t n = 0; n < samples; ++n)
      run_reference<integer_reference<>>(program, plan, memory.data(),
                                         images.data() + n * N::input.size(),
                                         logits.data() + n * N::classes);
  }

  /// Whether so many images from `first` on have these logits.
  template <int Lanes, class Correlation>
  bool equal(direct_program<Lanes, Correlation>& direct, std::size_t samples,
             std::size_t first = 0) const {
    std::vector<std::int32_t> own(samples * N::classes, -1);
    direct.run(samples, images.data() + first * N::input.size(), own.data());
    return std::equal(own.begin(), own.end(),
                      logits.begin() + static_cast<std::ptrdiff_t>(first * N::classes));
  }
  template <int Lanes, class Correlation = detail::ops::default_byte_correlation<Lanes>>
  bool equal_of(std::size_t samples, int workers, const stage_costs& costs = {}) const {
    direct_program<Lanes, Correlation> direct(program, cpu(workers), costs);
    return equal(direct, samples);
  }
  /// The same for all numbers of images on up to eight workers, which share all steps, or those
  /// that are worth it.
  void check_sharing(const stage_costs& costs = costless) const {
    for (const int workers : {1, 2, 3, 5, 8}) {
      direct_program<V> direct(program, cpu(workers), costs);
      for (const std::size_t samples : {1u, 2u, 3u, 5u, 8u, 9u})
        if (samples * N::classes <= logits.size()) CHECK(equal(direct, samples));
    }
  }
};

constexpr resnet_options with_a{.image = {3, 10, 9}, .classes = 4, .zero_gamma = false};
constexpr resnet_options with_b{
    .image = {1, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false};
using a = resnet<8, int8, cpu, with_a>;
using b = resnet<14, int8, cpu, with_b>;

using whole = resnet<20, int8, cpu, resnet_options{.zero_gamma = false}>;
/// Few filters, and filters that do not fill a block; a max pool of bytes.
using odd = network<sequential<convolution<3, 5>, relu, max_pool<2, 2, 0>, convolution<21, 3, 2>,
                               batch_norm<relu>, convolution<5, 1>, global_average_pool, linear<2>>,
                    int8, cpu, direct, extent{2, 11, 13}, 2>;
/// A block whose sum is read by a convolution alone, so it is stored in bytes.
using byte_sum = network<
    sequential<convolution<32, 3>, relu,
               residual<sequential<convolution<64, 1>>, batch_norm<identity>, projection<64, 1>>,
               convolution<32, 1>, global_average_pool, linear<3>>,
    int8, cpu, direct, extent{3, 12, 11}, 3>;

using by_tiles = detail::ops::byte_correlation_by_tiles<V, support::tested_unit>;

}  // namespace

TEST_CASE(
    "direct_program: the same integers as the definitions, any number of samples and workers") {
  const defined<a> of_a(random_plane<a>(1), 9);
  for (const std::size_t samples : {0u, 4u}) CHECK(of_a.equal_of<V>(samples, 3));
  of_a.check_sharing();
  of_a.check_sharing({});
  defined<b>(random_plane<b>(2), 9).check_sharing();
  defined<odd>(random_plane<odd>(5), 9).check_sharing();
  CHECK(defined<a>(random_plane<a>(3), 2).equal_of<4>(2, 1));
  CHECK(defined<b>(random_plane<b>(4), 2).equal_of<8>(2, 1));
}

TEST_CASE("direct_program: the same integers as the definitions, ImageNet's form") {
  const defined<support::imagenets_form> few(random_plane<support::imagenets_form>(5), 9);
  few.check_sharing();
  few.check_sharing({});
  if (support::has_tested_unit()) CHECK(few.equal_of<V, by_tiles>(2, 2, costless));
}

#if defined(CORDEE_ALL_TESTS)
TEST_CASE("direct_program: the same integers as the definitions, ResNet-18 and ResNet-50") {
  constexpr resnet_options large{
      .image = {3, 40, 40}, .classes = 3, .zero_gamma = false, .stem = stem::large};
  constexpr resnet_options bottlenecks{
      .image = {1, 16, 16}, .classes = 35, .zero_gamma = false, .stem = stem::small};
  using basic = resnet<18, int8, cpu, large>;
  using deep = resnet<50, int8, cpu, bottlenecks>;
  defined<basic>(random_plane<basic>(5), 1).check_sharing({});
  const defined<deep> of_50(random_plane<deep>(6), 1);
  of_50.check_sharing();
  if (support::has_tested_unit()) CHECK(of_50.equal_of<V, by_tiles>(1, 2, costless));
}
#endif

TEST_CASE("direct_program: the same with batch norms as steps, and with weights of few bits") {
  defined<a>(random_plane<a>(1), 9, false).check_sharing();
  defined<b>(random_plane<b>(2), 9, false).check_sharing();
  defined<a>(random_plane<a>(1), 9, true, 4).check_sharing();
  defined<b>(random_plane<b>(2), 9, true, 2).check_sharing();
}

TEST_CASE("direct_program: the same where a block's sum is stored in bytes") {
  const defined<byte_sum> all(random_plane<byte_sum>(9), 9);
  CHECK(std::any_of(all.program.steps.begin(), all.program.steps.end(),
                    [](const integer_step& s) { return s.residual >= 0 && s.bytes == 1; }));
  all.check_sharing();
  if (support::has_tested_unit()) {
    CHECK(all.equal_of<V, by_tiles>(4, 1));
    CHECK(all.equal_of<V, by_tiles>(1, 2, costless));
  }
}

TEST_CASE("direct_program: one call after another, of other images") {
  const defined<a> all(random_plane<a>(1), 9);
  for (const int workers : {2, 3, 8}) {
    direct_program<V> direct(all.program, cpu(workers), costless);
    for (std::size_t call = 0; call < 300; ++call) CHECK(all.equal(direct, 1 + call % 2, call % 8));
  }
}

TEST_CASE("direct_program: factors that do not fit 32 bits are computed in 64") {
  auto plane = random_plane<a>(7);
  for (const char* name : {"layer1.0.conv2.input_max", "layer2.0.conv1.input_max"})
    plane[support::segment_named<a>(name).offset] = 1e-3F;
  const defined<a> all(plane, 3);
  CHECK(all.equal_of<V>(2, 1));
  direct_program<V> direct(all.program, cpu(3), costless);
  CHECK(all.equal(direct, 2));
}

TEST_CASE("direct_program: the same integers by AMX's tiles") {
  const defined<whole> of_20(random_plane<whole>(8), 2);
  if (support::has_tested_unit()) CHECK(of_20.equal_of<V, by_tiles>(2, 1));
  if (support::has_tested_unit()) CHECK(of_20.equal_of<V, by_tiles>(1, 3, costless));
  const defined<odd> of_odd(random_plane<odd>(5), 9);
  if (support::has_tested_unit()) CHECK(of_odd.equal_of<V, by_tiles>(9, 2));
  if (support::has_tested_unit()) CHECK(of_odd.equal_of<V, by_tiles>(7, 5, costless));
}
