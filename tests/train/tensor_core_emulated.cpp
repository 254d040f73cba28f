// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network with engine `tensor_core`, emulated, computes what it computes with engine `reference`.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/nn/resnet.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/histogram.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/quantize.hpp>
#include <cordee/ops/gpu/quantized_table.hpp>
#include <cordee/ops/gpu/quantizing_batch_norm.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/support/emulated.hpp"
#include "tests/support/way_error.hpp"

using namespace cordee;
using namespace support;

namespace {

/// Batch norms compute their statistics by themselves.
struct separate_statistics : tensor_core {
  static constexpr bool computes_statistics = false;
};
template <class Engine>
using fp16_network =
    resnet<8, fp16, emulated, resnet_options{.image = {1, 8, 8}, .zero_gamma = false}, Engine>;
template <class Engine>
using ghost_network =
    resnet<8, fp16, emulated,
           resnet_options{.image = {1, 8, 8}, .ghost_batch = 2, .zero_gamma = false}, Engine>;
template <class Engine>
using int8_network = network<sequential<convolution<12>, batch_norm<relu>, convolution<20, 3, 2>,
                                        batch_norm<relu>, global_average_pool, linear<5>>,
                             int8, emulated, Engine, extent{1, 8, 8}, 5>;

/// Convolutions and batch norms are neighbors, or have identities between them: then each does its
/// own work.
template <class... Between>
using body = sequential<Between..., convolution<16>, Between..., batch_norm<relu>, Between...,
                        convolution<16>, Between...>;
template <class... Between>
using int8_blocks = network<
    sequential<convolution<12>, Between..., batch_norm<relu>,
               residual<body<Between...>, batch_norm<>, sequential<Between..., projection<16, 1>>>,
               repeat<2, residual<body<Between...>, batch_norm<>>>, convolution<8>, batch_norm<>,
               global_average_pool, linear<5>>,
    int8, emulated, separate_statistics, extent{1, 8, 8}, 5>;

/// The gradients of one batch by tensor, the loss, that of an evaluation of the same batch after
/// it, and the ranges of an int8 network.
struct step_result {
  std::vector<std::vector<double>> gradients;
  double loss = 0, evaluated = 0;
  std::vector<double> ranges, counts;  // counts: histograms of all layers
  bool operator==(const step_result&) const = default;
};

/// A gradient that nothing has computed.
constexpr float untouched = 77;
constexpr double infinity = std::numeric_limits<double>::infinity();

/// Prepared by prepare(network, batch). Of an int8 network without ranges, its first step, and no
/// evaluation.
template <class Net, bool HasRanges = true, class Prepare>
step_result step(const Prepare& prepare) {
  constexpr int samples = 3;
  const emulated device{1};
  const auto s = device.make_stream();
  Net net{device};
  buffer<float, emulated> plane(device, net.plane_size()), gradients(device, net.plane_size());
  net.initialize(plane.span(), 1);
  if constexpr (Quantized<typename Net::precision>) {
    net.quantization.percentile = 90;
    // Zero is not the first byte, and part of each layer's input is outside of its range.
    if constexpr (HasRanges)
      for (const segment& one : net.segments()) {
        if (one.name.ends_with("input_min")) plane.span().data[one.offset] = -0.5f;
        if (one.name.ends_with("input_max")) plane.span().data[one.offset] = 0.8f;
      }
  }
  auto packed = net.make_packed_parameters();
  net.pack_parameters(plane.span(), packed, s);
  std::vector<std::uint8_t> pixels(samples * net.input.size());
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * 37);
  const std::vector<std::int32_t> labels{3, 1, 4};
  batch<emulated> b;
  b.pixels = {pixels.data(), pixels.size()};
  b.labels = {labels.data(), labels.size()};
  b.global_samples = b.count = samples;
  std::fill_n(gradients.span().data, gradients.size(), untouched);
  prepare(net, b);
  net.forward(packed, plane.span(), b, phase::train, s);
  net.backward(
      packed, gradients.span(), write_mode::overwrite, [](std::size_t) {}, s);
  std::vector<detail::ops::real_range> observed;
  step_result out;
  out.loss = net.read_metrics(s).mean_loss();
  if constexpr (Quantized<typename Net::precision>) {
    auto& q = net.quantization;
    q.copy_observations(device, s);
    device.finish(s);
    q.enter_observations();
    for (const auto& layer : q.observer.layers) observed.push_back(layer.observed);
    out.ranges = q.observer.take_minima(true);
    out.counts = q.observer.take_histograms(true);
    q.clip_to_percentile(out.ranges, out.counts);
  }
  for (const segment& one : net.segments().first(net.tensors())) {
    const float* const first = gradients.span().data + one.offset;
    out.gradients.emplace_back(first, first + one.size);
  }
  if constexpr (!HasRanges) return out;
  net.forward(packed, plane.span(), b, phase::evaluate, s);
  out.evaluated = net.read_metrics(s).mean_loss();
  for (std::uint8_t& byte : pixels) byte = static_cast<std::uint8_t>(byte & 128 ? 255 : 0);
  net.forward(packed, plane.span(), b, phase::evaluate, s);
  if constexpr (Quantized<typename Net::precision>) {  // an evaluation observes nothing
    net.quantization.copy_observations(device, s);
    device.finish(s);
    net.quantization.enter_observations();
    for (std::size_t k = 0; k < observed.size(); ++k)
      CHECK(net.quantization.observer.layers[k].observed == observed[k]);
  }
  return out;
}

/// Of a tensor of gradients the error may be `tolerance` times its norm.
constexpr auto unprepared = [](auto&, auto&) {};
template <class Net, class ReferenceNet, class Prepare = decltype(unprepared)>
void check_steps(double tolerance, const Prepare& prepare = unprepared) {
  const step_result tested = step<Net>(prepare), expected = step<ReferenceNet>(prepare);
  CHECK(relatively_close(tested.loss, expected.loss, 2e-3));
  CHECK(relatively_close(tested.evaluated, expected.evaluated, 2e-3));
  REQUIRE(tested.gradients.size() == expected.gradients.size());
  for (std::size_t tensor = 0; tensor < expected.gradients.size(); ++tensor) {
    double off = 0, whole = 0;
    for (std::size_t i = 0; i < expected.gradients[tensor].size(); ++i) {
      off += std::pow(tested.gradients[tensor][i] - expected.gradients[tensor][i], 2);
      whole += std::pow(expected.gradients[tensor][i], 2);
    }
    CAPTURE(tensor);
    CHECK(whole > 0);
    CHECK(std::sqrt(off / whole) < tolerance);
  }
  // The first layer's input is the image, on both; the others' are rounded.
  REQUIRE(tested.ranges.size() == expected.ranges.size());
  for (std::size_t k = 0; k < expected.ranges.size(); ++k)
    CHECK(std::abs(tested.ranges[k] - expected.ranges[k]) <=
          (k < 2 ? 0 : 0.02) * std::max(std::abs(expected.ranges[k & ~std::size_t{1}]),
                                        std::abs(expected.ranges[k | 1])));
}

}  // namespace

TEST_CASE(
    "ResNet-8 in half precision: engine tensor_core's step is engine reference's but for "
    "rounding") {
  check_steps<fp16_network<tensor_core>, fp16_network<reference>>(1e-2);  // some units of 2^-11
}
#if defined(CORDEE_ALL_TESTS)
TEST_CASE("ResNet-8 in half precision, its blocks recomputed: the same bits on a GPU, emulated") {
  using recomputed =
      resnet<8, fp16, emulated,
             resnet_options{.image = {1, 8, 8}, .zero_gamma = false, .recompute = true},
             tensor_core>;
  CHECK(step<recomputed>(unprepared) == step<fp16_network<tensor_core>>(unprepared));
  const auto frozen = [](auto& net, auto&) { net.freeze_batch_norm_at = 0; };
  CHECK(step<recomputed>(frozen) == step<fp16_network<tensor_core>>(frozen));
}
TEST_CASE("weights by block: the bits of resident ones on a GPU, emulated, in fp16 and int8") {
  using by_block =
      resnet<8, fp16, emulated,
             resnet_options{.image = {1, 8, 8}, .zero_gamma = false, .offload_weights = true},
             tensor_core>;
  using recomputed_by_block = resnet<
      8, fp16, emulated,
      resnet_options{
          .image = {1, 8, 8}, .zero_gamma = false, .recompute = true, .offload_weights = true},
      tensor_core>;
  CHECK(step<by_block>(unprepared) == step<fp16_network<tensor_core>>(unprepared));
  CHECK(step<recomputed_by_block>(unprepared) == step<fp16_network<tensor_core>>(unprepared));
  using bytes_by_block =
      network<sequential<offload_weights<sequential<convolution<12>, batch_norm<relu>>>,
                         offload_weights<sequential<convolution<20, 3, 2>, batch_norm<relu>>>,
                         global_average_pool, offload_weights<linear<5>>>,
              int8, emulated, tensor_core, extent{1, 8, 8}, 5>;
  CHECK(step<bytes_by_block>(unprepared) == step<int8_network<tensor_core>>(unprepared));
}
#endif
// Statistics of 4 to 192 numbers, in another order of additions, change roundings of fp16.
TEST_CASE(
    "ResNet-8: convolutions compute the statistics of batch norms, where these are the batch's") {
  const auto equal_steps = [](const auto& prepare, auto ghosts) {
    using tested =
        std::conditional_t<ghosts.value, ghost_network<tensor_core>, fp16_network<tensor_core>>;
    using expected = std::conditional_t<ghosts.value, ghost_network<separate_statistics>,
                                        fp16_network<separate_statistics>>;
    return step<tested>(prepare) == step<expected>(prepare);
  };
  check_steps<fp16_network<tensor_core>, fp16_network<separate_statistics>>(1e-2);
  CHECK(!equal_steps(unprepared, std::false_type{}));  // taken in other chunks
  CHECK(equal_steps(unprepared, std::true_type{}));
  CHECK(equal_steps([](auto& net, auto&) { net.freeze_batch_norm_at = 0; }, std::false_type{}));
  CHECK(equal_steps(  // shared by ranks
      [](auto& net, auto&) {
        net.batch_norm_allreduce = {[](void*, std::span<double>) {}, nullptr};
      },
      std::false_type{}));
  CHECK(equal_steps(
      [](auto& net, auto&) {
        std::vector<std::uint8_t> frozen(net.tensors());
        for (std::size_t k = 0; k < frozen.size(); ++k)
          frozen[k] = net.segments()[k].name.find("bn") != std::string_view::npos;
        net.freeze(frozen);
      },
      std::false_type{}));
}
TEST_CASE("int8: engine tensor_core's step is engine reference's but for bf16 backward") {
  // Some units of 2^-8, and numbers that round to the other byte.
  check_steps<int8_network<tensor_core>, int8_network<reference>>(3e-2);
}
TEST_CASE("int8: what neighbors do for a convolution has the bits of what it does by itself") {
  CHECK(step<int8_blocks<>>(unprepared) == step<int8_blocks<identity>>(unprepared));
  CHECK(step<int8_blocks<>, false>(unprepared) == step<int8_blocks<identity>, false>(unprepared));
  const auto frozen = [](auto& net, auto&) { net.freeze_batch_norm_at = 0; };
  CHECK(step<int8_blocks<>>(frozen) == step<int8_blocks<identity>>(frozen));
}
TEST_CASE("a GPU's layers write no gradient of a frozen segment, and all others") {
  const auto check = []<class Net>(std::type_identity<Net>, const auto& is_frozen,
                                   const auto& check_trained) {
    std::vector<std::uint8_t> frozen(Net::tensors());
    for (std::size_t k = 0; k < frozen.size(); ++k) frozen[k] = is_frozen(k) ? 1 : 0;
    const auto some = step<Net, false>([&](auto& net, auto&) { net.freeze(frozen); }).gradients;
    for (std::size_t k = 0; k < frozen.size(); ++k) {
      INFO(Net::segments()[k].name);
      const auto kept = std::count(some[k].begin(), some[k].end(), untouched);
      CHECK(kept == (frozen[k] != 0 ? std::ssize(some[k]) : 0));
      if (frozen[k] == 0) check_trained(k, some[k]);
    }
  };
  const auto nothing = [](std::size_t, const auto&) {};
  const std::type_identity<fp16_network<tensor_core>> half;
  const std::type_identity<int8_blocks<>> bytes;
  for (const std::size_t odd : {0u, 1u}) {  // one of a batch norm's two, and of the classifier's
    check(
        half, [&](std::size_t k) { return k % 2 == odd; }, nothing);
    check(
        bytes, [&](std::size_t k) { return k % 2 == odd; }, nothing);
  }
  check(
      bytes, [](std::size_t k) { return int8_blocks<>::segments()[k].kind != kind::weight; },
      nothing);
  using ghosts = ghost_network<tensor_core>;
  const auto all = step<ghosts, false>(unprepared).gradients;
  check(
      std::type_identity<ghosts>{},
      [](std::size_t k) { return ghosts::segments()[k].kind == kind::shift; },
      [&](std::size_t k, const auto& gradient) { CHECK(gradient == all[k]); });
}
TEST_CASE("int8: a frozen convolution keeps a known range, and computes the gradient of x alone") {
  const auto is_frozen = [](const segment& one) {
    return one.name.ends_with("conv2.weight") || one.name.ends_with("downsample.0.weight");
  };
  const auto freeze = [&](auto& net, auto&) {
    std::vector<std::uint8_t> flags;
    for (const segment& one : net.segments().first(net.tensors())) flags.push_back(is_frozen(one));
    net.freeze(flags);
  };
  const auto check = [&]<class Net, bool HasRanges>(std::type_identity<Net>,
                                                    std::bool_constant<HasRanges>) {
    const step_result some = step<Net, HasRanges>(freeze), all = step<Net, HasRanges>(unprepared);
    CHECK(some.loss == all.loss);
    CHECK(some.evaluated == all.evaluated);
    const Net net{emulated{}};
    std::size_t layer = 0;
    for (std::size_t k = 0; k < net.tensors(); ++k) {
      const segment& one = net.segments()[k];
      CAPTURE(one.name);
      const std::vector<double> kept(one.size, untouched);
      CHECK(some.gradients[k] == (is_frozen(one) ? kept : all.gradients[k]));
      if (one.name.find("conv") == one.name.npos && one.name.find("sample.0") == one.name.npos)
        continue;
      const bool observes = !HasRanges || !is_frozen(one);
      for (const std::size_t end : {2 * layer, 2 * layer + 1})
        CHECK(some.ranges[end] == (observes ? all.ranges[end] : infinity));
      constexpr std::size_t bins = detail::ops::histogram_bins::count;
      const auto counts = [&](const step_result& r) {
        const auto first = r.counts.begin() + static_cast<std::ptrdiff_t>(layer * bins);
        return std::vector(first, first + bins);
      };
      CHECK(counts(all) != std::vector<double>(bins));
      CHECK(counts(some) == (observes ? counts(all) : std::vector<double>(bins)));
      ++layer;
    }
    CHECK(2 * layer == all.ranges.size());
  };
  check(std::type_identity<int8_blocks<>>{}, std::true_type{});
  check(std::type_identity<int8_blocks<>>{}, std::false_type{});
  check(std::type_identity<int8_blocks<identity>>{}, std::true_type{});
}
