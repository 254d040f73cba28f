// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every layer of the integer form, given the integers that it reads,
// against the simulation of training in double precision:
// fake-quantized input and weights, convolution, batch norm, shortcut.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/infer/quantize/program_builder.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/int8.hpp>

#include "tests/infer/imagenets_form.hpp"
#include "tests/infer/random_plane.hpp"

using namespace cordee;
using namespace cordee::detail::infer;
using cordee::detail::ops::fixed_point;
using support::random_plane, support::segment_named;

namespace {

constexpr normalization pixels{{0.4F, 0.5F, 0.3F, 0}, {4, 3, 5, 1}};

/// A network, and all activations of one image.
template <class N>
struct run_of {
  std::vector<float> plane;
  layer_list list = list_layers(static_cast<const N*>(nullptr));
  program_builder builder{list, plane};
  integer_program program = builder.build(N::input, pixels);
  std::vector<std::uint8_t> image;
  std::vector<std::vector<double>> outputs;  // integers, of each step
  std::vector<double> steps;                 // the real that an output's integer stands for
  std::vector<std::int32_t> logits;

  explicit run_of(std::vector<float> weights)
      : plane(std::move(weights)), logits(program.classes()) {
    random_sequence draw(8, purpose::test, 0, 0);
    for (std::size_t i = 0; i < N::input.size(); ++i)
      image.push_back(static_cast<std::uint8_t>(draw.below(256)));
    const auto sizes = plain_sizes(program);
    memory_plan plan(program, sizes);
    plan.size = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {  // apart, so that all of them remain
      plan.offsets[i] = plan.size;
      plan.size += (sizes[i] + 63) / 64 * 64;
    }
    std::vector<std::byte> memory(plan.size);
    run_reference<integer_reference<>>(program, plan, memory.data(), image.data(), logits.data());
    for (std::size_t k = 0; k < program.steps.size(); ++k) {
      outputs.emplace_back();
      with_activation(program.steps[k].bytes, [&]<class A>(A*) {
        const auto* const y = reinterpret_cast<const A*>(memory.data() + plan.offsets[k + 1]);
        outputs[k].assign(y, y + program.steps[k].out().size());
      });
    }
  }

  double number(const segment* s, std::size_t i) const {
    return static_cast<double>(plane[s->offset + i]);
  }
  detail::ops::affine_quantizer<float> quantizer(const listed_layer& l) const {
    return detail::ops::fit_affine(plane[l.range->offset], plane[l.range[1].offset],
                                   detail::ops::unsigned_bytes);
  }
};

double value_of(fixed_point f) { return std::ldexp(f.multiplier, f.shift - 31); }

/// Checks step `at`, a convolution; returns how many outputs were not clipped.
template <class N>
int check_convolution(run_of<N>& run, std::size_t at) {
  const listed_layer& l = run.list.layers()[at];
  const integer_convolution& c = std::get<integer_convolution>(run.program.steps[at].layer);
  const integer_step& step = run.program.steps[at];
  const convolution_problem& p = c.problem;
  const auto k = run.quantizer(l);
  const double x_step = static_cast<double>(k.scale);
  // The input's bytes, minus the zero point.
  std::vector<double> q(p.in.size());
  for (std::size_t i = 0; i < q.size(); ++i) {
    const std::size_t channel = i / p.in.pixels();
    if (step.input < 0) {
      const float x =
          (static_cast<float>(run.image[i]) / 255 - pixels.mean[channel]) * pixels.scale[channel];
      CHECK(run.program.table[channel * 256 + run.image[i]] == k.quantize(x));
      q[i] = k.quantize(x) - k.zero_point;
      continue;
    }
    const double v = run.outputs[static_cast<std::size_t>(step.input)][i];
    if (run.program.steps[static_cast<std::size_t>(step.input)].bytes == 4) {
      const auto stream = static_cast<std::int32_t>(v);
      q[i] = static_cast<double>(c.byte_of<std::int64_t>(stream)) - k.zero_point;
      const double real = v * run.steps[static_cast<std::size_t>(step.input)] / x_step,
                   clipped = std::clamp<double>(real, -k.zero_point, 255 - k.zero_point);
      CHECK(std::abs(q[i] - clipped) <= 0.5 + 0x1p-20);
    } else {
      q[i] = v - k.zero_point;
    }
  }
  const extent out = p.out();
  int inside = 0;
  const std::size_t each = p.weights() / static_cast<std::size_t>(p.filters);
  // What the output's integers stand for; before the mean, by the first filter's factor.
  double y_step = 0;
  int y_zero = 0;
  for (std::size_t r = run.list.layers().size(); r-- > 0;)
    if (const listed_layer& reader = run.list.layers()[r];
        reader.input == static_cast<int>(at) && reader.range != nullptr) {
      const auto read = run.quantizer(reader);
      y_step = static_cast<double>(read.scale) / (step.bytes == 4 ? residual_steps : 1);
      y_zero = step.bytes == 4 ? 0 : read.zero_point;
    }
  for (std::size_t f = 0; f < static_cast<std::size_t>(p.filters); ++f) {
    std::vector<std::int8_t> w(each);
    const double w_step = static_cast<double>(detail::ops::quantize_channel(
        each, run.plane.data() + l.weights->offset + f * each, w.data()));
    const double factor = l.norm == nullptr ? 1
                                            : run.number(l.norm, f) /
                                                  std::sqrt(run.number(l.statistics + 1, f) + 1e-5),
                 shift = l.norm == nullptr
                             ? 0
                             : run.number(l.norm + 1, f) - run.number(l.statistics, f) * factor;
    const double unit = x_step * w_step * std::abs(factor);
    if (y_step == 0 && c.factors[f].multiplier > 0) y_step = unit / value_of(c.factors[f]);
    REQUIRE(y_step > 0);
    CHECK(std::abs(y_step * value_of(c.factors[f]) - unit) <= 0x1p-28 * unit + 0x1p-32 * y_step);
    for (int i = 0; i < out.height; ++i)
      for (int j = 0; j < out.width; ++j) {
        double sum = 0;
        std::size_t tap = 0;
        for (int ch = 0; ch < p.in.channels; ++ch)
          for (int r = 0; r < p.window; ++r)
            for (int s = 0; s < p.window; ++s, ++tap) {
              const int h = i * p.stride + r - p.padding, m = j * p.stride + s - p.padding;
              if (h < 0 || h >= p.in.height || m < 0 || m >= p.in.width) continue;
              sum += w[tap] * q[static_cast<std::size_t>((ch * p.in.height + h) * p.in.width + m)];
            }
        double real = sum * x_step * w_step * factor + shift;
        const double product = std::abs(sum) * unit / y_step;
        const std::size_t index =
            (f * static_cast<std::size_t>(out.height) + static_cast<std::size_t>(i)) *
                static_cast<std::size_t>(out.width) +
            static_cast<std::size_t>(j);
        double roundings = 0.5;
        if (step.residual >= 0) {
          const auto added = static_cast<std::size_t>(step.residual);
          real += run.outputs[added][index] * run.steps[added];
          roundings += 0.5;
        }
        if (l.relu) real = std::max(real, 0.0);
        const double wanted = std::clamp<double>(real / y_step + y_zero, c.low, c.high);
        // Both factors have 31 bits, or 2^-62 of the sum; the bias has 2^-s.
        const double tolerance = roundings + std::ldexp(0.5, -c.bias_shift) + 0x1p-30 * product +
                                 0x1p-28 * std::abs(wanted);
        CHECK(std::abs(run.outputs[at][index] - wanted) <= tolerance);
        inside += wanted > c.low && wanted < c.high ? 1 : 0;
      }
  }
  run.steps.push_back(y_step);
  return inside;
}

template <class N>
void check_layers(std::vector<float> plane) {
  run_of<N> run(std::move(plane));
  for (std::size_t at = 0; at < run.program.steps.size(); ++at) {
    const listed_layer& l = run.list.layers()[at];
    const auto input = static_cast<std::size_t>(std::max(0, l.input));
    if (l.as<convolution_problem>() != nullptr) {
      CHECK(check_convolution(run, at) > 10);
    } else if (const auto* p = l.as<classifier_problem>()) {
      const segment &w = *l.weights, &b = *l.bias;
      const auto features = static_cast<std::size_t>(p->features);
      for (std::size_t k = 0; k < static_cast<std::size_t>(p->classes); ++k) {
        std::vector<std::int16_t> q(features);
        const double scale = static_cast<double>(detail::ops::quantize_channel(
            features, run.plane.data() + w.offset + k * features, q.data(), 15));
        double real = run.number(&b, k);
        for (std::size_t f = 0; f < features; ++f)
          real += q[f] * scale * run.outputs[input][f] * run.steps[input];
        const double step = run.builder.logit_step();
        // The shift, the factor, and the bias, each half a unit.
        CHECK(std::abs(run.logits[k] * step - real) <= 1.5 * step + 0x1p-28 * std::abs(real));
        CHECK(std::abs(real) > 100 * step);
      }
    } else {
      run.steps.push_back(run.steps[input]);
    }
  }
}

constexpr resnet_options with_a{.image = {3, 10, 9}, .classes = 4, .zero_gamma = false};
constexpr resnet_options with_b{
    .image = {3, 10, 9}, .classes = 4, .shortcut = shortcut::b, .zero_gamma = false};

using tiny = resnet<8, int8, cpu, with_b>;

integer_program built(const std::vector<float>& plane) { return run_of<tiny>(plane).program; }
void set(std::vector<float>& plane, std::string_view name, float value) {
  const segment& s = segment_named<tiny>(name);
  std::fill_n(plane.begin() + static_cast<std::ptrdiff_t>(s.offset), s.size, value);
}
std::string refusal(const std::vector<float>& plane) {
  try {
    static_cast<void>(built(plane));
  } catch (const error& e) {
    return e.what();
  }
  return "none";
}
template <Layer Root, extent Input>
std::string refusal_of() {
  using model = network<Root, int8, cpu, direct, Input, 2>;
  const auto plane = random_plane<model>(7);
  const layer_list list = list_layers(static_cast<const model*>(nullptr));
  try {
    static_cast<void>(program_builder(list, plane).build(Input, pixels));
  } catch (const usage_error& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("integer form: every layer is the simulated one within its roundings, CIFAR's form") {
  check_layers<resnet<8, int8, cpu, with_a>>(random_plane<resnet<8, int8, cpu, with_a>>(1));
  check_layers<resnet<14, int8, cpu, with_b>>(random_plane<resnet<14, int8, cpu, with_b>>(2));
}

TEST_CASE("integer form: every layer is the simulated one within its roundings, ImageNet's form") {
  check_layers<support::imagenets_form>(random_plane<support::imagenets_form>(4));
}

#if defined(CORDEE_ALL_TESTS)
TEST_CASE("integer form: every layer is the simulated one within its roundings, larger networks") {
  constexpr resnet_options large{
      .image = {3, 40, 40}, .classes = 3, .zero_gamma = false, .stem = stem::large};
  constexpr resnet_options small_stem{
      .image = {1, 16, 16}, .classes = 3, .zero_gamma = false, .stem = stem::small};
  check_layers<resnet<18, int8, cpu, large>>(random_plane<resnet<18, int8, cpu, large>>(3));
  check_layers<resnet<50, int8, cpu, small_stem>>(
      random_plane<resnet<50, int8, cpu, small_stem>>(4));
}
#endif

TEST_CASE(
    "integer form: an uncalibrated network and numbers that are not finite are refused by name") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto plane = random_plane<tiny>(5);
  CHECK(refusal(plane) == "none");
  auto changed = plane;
  set(changed, "layer2.0.downsample.0.input_min", infinity);
  set(changed, "layer2.0.downsample.0.input_max", -infinity);
  CHECK(refusal(changed).starts_with("layer \"layer2.0.downsample.0\" has no range of its input"));
  changed = plane;
  set(changed, "layer1.0.conv1.input_max", infinity);
  CHECK(
      refusal(changed).starts_with("layer \"layer1.0.conv1\" has no form in integers: the range"));
  changed = plane;
  set(changed, "layer3.0.conv2.weight", NAN);
  CHECK(refusal(changed).starts_with(
      "layer \"layer3.0.conv2\" has no form in integers: its weights"));
  changed = plane;
  set(changed, "layer3.0.bn2.running_var", NAN);
  CHECK(
      refusal(changed).starts_with("layer \"layer3.0.conv2\" has no form in integers: its batch"));
  changed = plane;
  set(changed, "layer3.0.bn2.bias", infinity);
  CHECK(
      refusal(changed).starts_with("layer \"layer3.0.conv2\" has no form in integers: its batch"));
  changed = plane;
  set(changed, "fc.bias", -infinity);
  CHECK(refusal(changed).starts_with("layer \"fc\" has no form in integers: its bias"));
}

TEST_CASE(
    "integer form: channels of zeros, tiny batch norms and ranges of one number are defined") {
  auto plane = random_plane<tiny>(6);
  set(plane, "layer1.0.conv1.weight", 0);
  set(plane, "layer1.0.conv2.input_min", -0.5F);  // a zero point of bytes between two convolutions
  set(plane, "layer2.0.bn1.weight", 0);
  set(plane, "layer3.0.bn1.weight", 1e-30F);
  set(plane, "layer2.0.bn2.weight", 0);
  set(plane, "layer2.0.bn2.bias", 0);
  set(plane, "layer2.0.bn2.running_mean", 0);
  check_layers<tiny>(plane);
}

TEST_CASE("integer form: a normalization that is not finite is refused") {
  const auto plane = random_plane<tiny>(5);
  const layer_list list = list_layers(static_cast<const tiny*>(nullptr));
  const auto build = [&](const normalization& of_pixels) {
    static_cast<void>(program_builder(list, plane).build(tiny::input, of_pixels));
  };
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {NAN, infinity, -infinity})
    for (std::size_t c = 0; c < 4; ++c)
      for (const bool is_scale : {false, true}) {
        normalization changed = pixels;
        (is_scale ? changed.scale : changed.mean)[c] = bad;
        if (c < 3)
          CHECK_THROWS_WITH_AS(build(changed),
                               doctest::Contains("the normalization of the images is not finite"),
                               usage_error);
        else
          CHECK_NOTHROW(build(changed));  // of a fourth channel that images do not have
      }
}

TEST_CASE("integer form: what does not begin with a convolution and end in linear is refused") {
  constexpr extent image{3, 6, 6};
  using tail = sequential<convolution<4>, batch_norm<relu>, global_average_pool, linear<2>>;
  const std::string sentence = "infer: a network begins with a convolution and ends in linear";
  CHECK(refusal_of<tail, image>() == "none");
  CHECK(refusal_of<sequential<max_pool<3, 2>, tail>, image>().starts_with(sentence));
  CHECK(refusal_of<sequential<subsample_pad<5>, tail>, image>().starts_with(sentence));
  CHECK(refusal_of<sequential<global_average_pool, linear<2>>, image>().starts_with(sentence));
  CHECK(refusal_of<linear<2>, extent{3, 1, 1}>().starts_with(sentence));
  CHECK(refusal_of<sequential<convolution<2>, global_average_pool>, image>().starts_with(sentence));
  CHECK(refusal_of<identity, extent{2, 1, 1}>().starts_with(sentence));
  using two = sequential<convolution<4>, global_average_pool, linear<3>, linear<2>>;
  CHECK(refusal_of<two, image>().starts_with("infer: a network has one linear, which is its last"));
}
