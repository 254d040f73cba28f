// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A network on integers as a value: its steps in the order in which they run, each with its layer
// and the steps whose outputs it reads. Nothing here computes with a floating-point number.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <cordee/core/extent.hpp>
#include <cordee/infer/program/integer_layers.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

struct integer_step {
  std::variant<integer_convolution, ops::max_pool_problem, ops::subsample_problem, mean_problem,
               integer_classifier, integer_batch_norm>
      layer;
  std::string name{};             // of a layer with parameters
  int input = -1, residual = -1;  // numbers of the steps that are read; -1: the image, none
  int bytes = 1;                  // of a number of the output: 1 or 4

  [[nodiscard]] extent out() const {
    struct visitor {
      extent operator()(const integer_convolution& c) const { return c.problem.out(); }
      extent operator()(const ops::max_pool_problem& p) const { return p.out(); }
      extent operator()(const ops::subsample_problem& p) const { return p.out; }
      extent operator()(const mean_problem& p) const { return {p.in.channels, 1, 1}; }
      extent operator()(const integer_classifier& c) const {
        return {static_cast<int>(c.classes), 1, 1};
      }
      extent operator()(const integer_batch_norm& n) const { return n.in; }
    };
    return std::visit(visitor{}, layer);
  }
};

struct integer_program {
  extent image;
  std::vector<std::uint8_t> table;  // (channels, 256): the first layer's byte of a pixel's byte
  std::vector<integer_step> steps;  // the last one is the classifier

  [[nodiscard]] std::size_t classes() const { return steps.back().out().size(); }
  /// Whether batch norms are steps of their own.
  [[nodiscard]] bool has_batch_norm() const {
    return std::any_of(steps.begin(), steps.end(), [](const integer_step& s) {
      return std::holds_alternative<integer_batch_norm>(s.layer);
    });
  }
};

/// Where the outputs of the steps are in the memory of one sample: outputs that are read at the
/// same time do not overlap. With `chains`, an output of 32 bits is written over what its step
/// adds, if no later step reads that; bytes would replace numbers that other pixels still add.
struct memory_plan {
  std::vector<std::size_t> offsets;  // (1 + steps): of the image's bytes, then of the steps
  std::size_t size = 0;

  static constexpr std::size_t alignment = 64;

  /// `sizes`: bytes of the image's and the steps' outputs. `chains`: for each step the last one
  /// that runs together with it, part by part; empty: each step alone.
  memory_plan(const integer_program& program, std::span<const std::size_t> sizes,
              std::span<const int> chains = {})
      : offsets(sizes.size()) {
    const std::size_t count = sizes.size();
    std::vector<std::size_t> last(count);  // the last step, counted from 1, that reads an output
    for (std::size_t i = 0; i < count; ++i) last[i] = i;
    for (std::size_t i = 1; i < count; ++i)
      for (const int from : {program.steps[i - 1].input, program.steps[i - 1].residual})
        if (from >= 0 || i == 1) last[static_cast<std::size_t>(from + 1)] = i;
    const std::vector<std::size_t> last_read = last;
    for (std::size_t i = 0; i < count && !chains.empty(); ++i)
      if (last[i] > 0) last[i] = static_cast<std::size_t>(chains[last[i] - 1] + 1);
    const auto place_of_added = [&](std::size_t i) -> std::size_t {  // 0: none
      if (i == 0 || chains.empty()) return 0;
      const integer_step& s = program.steps[i - 1];
      if (s.residual < 0 || s.residual == s.input || s.bytes != 4 ||
          !std::holds_alternative<integer_convolution>(s.layer))
        return 0;
      const auto added = static_cast<std::size_t>(s.residual + 1);
      return last_read[added] == i && sizes[i] <= sizes[added] ? added : 0;
    };
    for (std::size_t i = 0; i < count; ++i) {
      if (const std::size_t added = place_of_added(i); added > 0) {
        offsets[i] = offsets[added];
        continue;
      }
      std::vector<std::pair<std::size_t, std::size_t>> taken;
      for (std::size_t k = 0; k < i; ++k)
        if (last[k] >= i) taken.emplace_back(offsets[k], offsets[k] + sizes[k]);
      std::sort(taken.begin(), taken.end());
      std::size_t at = 0;
      for (const auto& [first, end] : taken) {
        if (at + sizes[i] <= first) break;
        at = std::max(at, (end + alignment - 1) / alignment * alignment);
      }
      offsets[i] = at;
      size = std::max(size, at + sizes[i]);
    }
    size = (size + alignment - 1) / alignment * alignment;
  }
};

/// Calls f with a null pointer to activations of so many bytes.
template <class F>
void with_activation(int bytes, const F& f) {
  if (bytes == 1)
    f(static_cast<std::uint8_t*>(nullptr));
  else
    f(static_cast<std::int32_t*>(nullptr));
}

/// The bytes of the image's and the steps' outputs, one after another in (channels, height, width).
inline std::vector<std::size_t> plain_sizes(const integer_program& program) {
  std::vector<std::size_t> sizes{program.image.size()};
  for (const integer_step& s : program.steps)
    sizes.push_back(s.out().size() * static_cast<std::size_t>(s.bytes));
  return sizes;
}

/// Runs one sample by the definitions of `Layers`, integer_reference<...>.
template <class Layers>
void run_reference(const integer_program& program, const memory_plan& plan, std::byte* memory,
                   const std::uint8_t* image, std::int32_t* logits) {
  const auto at = [&](int step) {
    return memory + plan.offsets[static_cast<std::size_t>(step + 1)];
  };
  const std::size_t pixels = program.image.pixels();
  auto* const first = reinterpret_cast<std::uint8_t*>(at(-1));
  for (std::size_t i = 0; i < program.image.size(); ++i)
    first[i] = program.table[i / pixels * 256 + image[i]];

  for (int k = 0; k < static_cast<int>(program.steps.size()); ++k) {
    const integer_step& step = program.steps[static_cast<std::size_t>(k)];
    const auto bytes_of = [&](int i) {
      return i < 0 ? 1 : program.steps[static_cast<std::size_t>(i)].bytes;
    };
    const std::byte* const x = at(step.input);
    const auto* const added =
        step.residual < 0 ? nullptr : reinterpret_cast<const std::int32_t*>(at(step.residual));
    std::byte* const y = at(k);
    const auto run = [&]<class Layer>(const Layer& layer) {
      if constexpr (std::same_as<Layer, integer_convolution>) {
        with_activation(bytes_of(step.input), [&]<class In>(In*) {
          with_activation(step.bytes, [&]<class Out>(Out*) {
            Layers::convolution(layer, reinterpret_cast<const In*>(x), added,
                                reinterpret_cast<Out*>(y));
          });
        });
      } else if constexpr (std::same_as<Layer, integer_batch_norm>) {
        with_activation(step.bytes, [&]<class Out>(Out*) {
          Layers::batch_norm(layer, reinterpret_cast<const std::int32_t*>(x), added,
                             reinterpret_cast<Out*>(y));
        });
      } else if constexpr (std::same_as<Layer, ops::max_pool_problem>) {
        with_activation(step.bytes, [&]<class A>(A*) {
          Layers::max_pool(layer, reinterpret_cast<const A*>(x), reinterpret_cast<A*>(y));
        });
      } else if constexpr (std::same_as<Layer, ops::subsample_problem>) {
        with_activation(step.bytes, [&]<class A>(A*) {
          Layers::subsample(layer, reinterpret_cast<const A*>(x), reinterpret_cast<A*>(y));
        });
      } else if constexpr (std::same_as<Layer, mean_problem>) {
        Layers::mean(layer.in, reinterpret_cast<const std::int32_t*>(x),
                     reinterpret_cast<std::int32_t*>(y));
      } else {
        Layers::classifier(layer, reinterpret_cast<const std::int32_t*>(x), logits);
      }
    };
    std::visit(run, step.layer);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
