// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Lin et al.'s claim on a trained network: batch norms of integers with one shift give the outputs
// of the real ones, every activation of 300 images that training did not see.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/idx.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/infer/integer_network.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#if defined(CORDEE_SOURCE_DIR)

using namespace cordee;
using namespace cordee::detail::infer;

namespace {

template <int Channels, int Stride, class Shortcut>
using block = residual<
    sequential<convolution<Channels, 3, Stride>, batch_norm<relu>, convolution<Channels, 3>>,
    batch_norm<identity>, Shortcut>;
using small_resnet =
    network<sequential<convolution<16, 3, 2>, batch_norm<relu>, block<16, 1, identity>,
                       block<24, 2, projection<24, 2>>, global_average_pool, linear<10>>,
            int8, cpu, direct, extent{1, 28, 28}, 10>;

constexpr std::size_t trained = 4000, held_out = 100;

/// The first images of Fashion-MNIST's test set; the others are not trained on.
struct training_images {
  const idx& all;
  [[nodiscard]] std::size_t size() const { return trained; }
  [[nodiscard]] int classes() const { return all.classes(); }
  [[nodiscard]] extent image() const { return all.image(); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const { return all.read(i, pixels); }
};

/// The real k and b of a batch norm's channels, of what the convolution before it outputs.
struct real_norm {
  std::vector<long double> k, b;

  real_norm(const layer_list& list, const integer_program& program, const program_builder& builder,
            std::span<const float> plane, std::size_t at) {
    const listed_layer& norm = list.layers()[at];
    const auto before = static_cast<std::size_t>(norm.input);
    const listed_layer& layer = list.layers()[before];
    const auto& c = std::get<integer_convolution>(program.steps[before].layer);
    const long double x_step =
        detail::ops::fit_affine(plane[layer.range->offset], plane[layer.range[1].offset],
                                detail::ops::unsigned_bytes)
            .scale;
    const auto channels = static_cast<std::size_t>(c.problem.filters);
    const std::size_t each = c.problem.weights() / channels;
    for (std::size_t i = 0; i < channels; ++i) {
      std::vector<std::int8_t> w(each);
      const long double w_step = detail::ops::quantize_channel(
          each, plane.data() + layer.weights->offset + i * each, w.data());
      CHECK(std::equal(w.begin(), w.end(),
                       c.weights.begin() + static_cast<std::ptrdiff_t>(i * each)));
      const auto number = [&](const segment& s) -> long double { return plane[s.offset + i]; };
      const long double gain = number(norm.norm[0]) / std::sqrt(number(norm.statistics[1]) + 1e-5L);
      const long double y_step = builder.step(at);
      // The convolution outputs its sums times the factor, a power of two.
      const int exponent = c.factors[i].shift - 1;
      CHECK(c.factors[i].multiplier == 1 << 30);
      k.push_back(x_step * w_step * std::ldexp(gain, -exponent) / y_step);
      b.push_back((number(norm.norm[1]) - gain * number(norm.statistics[0])) / y_step);
    }
  }
};

}  // namespace

TEST_CASE("integer batch norms of a trained network give each output of the real ones") {
  const std::string prefix = std::string(CORDEE_SOURCE_DIR) + "/data/fashion-mnist/t10k-";
  const idx all{prefix + "images-idx3-ubyte", prefix + "labels-idx1-ubyte"};
  const training_images images{all};
  small_resnet net;
  trainer run{net, sgd{.momentum = 0.9}, [](double) { return 0.05; }, solo{}};
  loader feed{images, self_comm{}, {.global_batch = 50, .seed = 1}, {}, {}};
  run.fit(feed, 1);

  const std::vector<float> plane(run.weights().begin(), run.weights().end());
  const layer_list list = list_layers(static_cast<const small_resnet*>(nullptr), false);
  program_builder builder(list, plane);
  const integer_program program = builder.build(small_resnet::input, feed.normalization());
  std::vector<real_norm> norms;
  for (std::size_t i = 0; i < program.steps.size(); ++i)
    if (std::holds_alternative<integer_batch_norm>(program.steps[i].layer))
      norms.emplace_back(list, program, builder, plane, i);
  REQUIRE(norms.size() == 6);

  const auto sizes = plain_sizes(program);
  memory_plan plan(program, sizes);
  plan.size = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {  // apart, so that all of them remain
    plan.offsets[i] = plan.size;
    plan.size += (sizes[i] + 63) / 64 * 64;
  }
  std::vector<std::byte> memory(plan.size);
  const auto at = [&]<class A>(A*, int step) {
    return reinterpret_cast<const A*>(memory.data() +
                                      plan.offsets[static_cast<std::size_t>(step + 1)]);
  };
  constexpr const std::int32_t* wide = nullptr;

  std::size_t outputs = 0, wrong = 0, ties = 0, unclipped = 0, correct = 0, as_folded = 0;
  auto folded = integer_network::from<small_resnet>(plane, feed.normalization());
  for (std::size_t n = 0; n < held_out; ++n) {
    std::vector<std::uint8_t> pixels(small_resnet::input.size());
    const int label = all.read(images.size() + n, pixels);
    std::vector<std::int32_t> logits(10), logits_of_folded(10);
    run_reference<integer_reference<>>(program, plan, memory.data(), pixels.data(), logits.data());
    folded.run(pixels, logits_of_folded);
    const auto predicted = [](const std::vector<std::int32_t>& z) {
      return std::max_element(z.begin(), z.end()) - z.begin();
    };
    correct += predicted(logits) == label ? 1 : 0;
    as_folded += predicted(logits) == predicted(logits_of_folded) ? 1 : 0;

    auto real = norms.begin();
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const integer_step& step = program.steps[s];
      const auto* const norm = std::get_if<integer_batch_norm>(&step.layer);
      if (norm == nullptr) continue;
      const auto* const x = at(wide, step.input);
      const auto* const added = at(wide, step.residual);
      for (std::size_t i = 0; i < norm->in.size(); ++i) {
        const std::size_t c = i / norm->in.pixels();
        const long double exact = real->k[c] * x[i] + real->b[c] + 0.5L;
        auto wanted = static_cast<std::int64_t>(std::floor(exact));
        if (step.residual >= 0)
          wanted += detail::ops::rescaled(std::int64_t{added[i]}, norm->residual_factor);
        wanted += norm->offset;
        const auto clip = [&](std::int64_t v) {
          return std::clamp<std::int64_t>(v, norm->low, norm->high);
        };
        const std::int64_t y =
            step.bytes == 1 ? at(static_cast<const std::uint8_t*>(nullptr), static_cast<int>(s))[i]
                            : at(wide, static_cast<int>(s))[i];
        ++outputs;
        unclipped += wanted > norm->low && wanted < norm->high ? 1 : 0;
        // The builder's k and b are doubles: k x is below 2^25, its error below 2^-26.
        const long double to_tie = exact - std::floor(exact + 0.5L);
        const bool is_tie = std::abs(to_tie) < 0x1p-26L;
        ties += is_tie ? 1 : 0;
        wrong += y != clip(wanted) && !(is_tie && std::abs(y - clip(wanted)) == 1) ? 1 : 0;
      }
      ++real;
    }
  }
  MESSAGE(outputs, " outputs, ", unclipped, " not clipped, ", ties, " near a tie, ", correct,
          " of 100 right, ", as_folded, " as folded");
  CHECK(wrong == 0);
  CHECK(unclipped > outputs / 4);
  CHECK(ties < outputs / 100'000);
  CHECK(correct > 50);  // a guess: 10
  CHECK(as_folded >= 98);
}

#endif
