// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What an integer program may ask of the machine that loads it: a file of a few bytes can describe
// activations of any size, and a convolution of any length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/ops/layout.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Limits of the sizes that a program may have, and its file.
struct program_limits {
  static constexpr std::int64_t side = 1 << 14, channels = 1 << 16;
  static constexpr std::size_t numbers = std::size_t{1} << 24;  // of an activation of one image
  // Bytes of a worker (memory_of_worker), of which there are as many as threads. Two or more share
  // one image more.
  static constexpr std::size_t memory = std::size_t{1} << 30;
  static constexpr std::size_t steps = 4096;
  // Operations for one image: six times those of a ResNet-152 at 224 x 224.
  static constexpr std::int64_t operations = std::int64_t{1} << 36;

  [[nodiscard]] static bool has_size(const extent& e) {
    const auto is_side = [](int n) { return n >= 1 && n <= side; };
    return e.channels >= 1 && e.channels <= channels && is_side(e.height) && is_side(e.width) &&
           e.size() <= numbers;
  }
};

/// Products of convolutions and the classifier, comparisons of max pools, and numbers that are read
/// and written, of one image.
inline std::int64_t operations(const integer_program& program) {
  auto sum = static_cast<std::int64_t>(program.image.size());
  for (const integer_step& s : program.steps) {
    const auto out = static_cast<std::int64_t>(s.out().size());
    const extent in =
        s.input < 0 ? program.image : program.steps[static_cast<std::size_t>(s.input)].out();
    sum += out + static_cast<std::int64_t>(in.size());
    if (const auto* c = std::get_if<integer_convolution>(&s.layer)) sum += c->problem.macs();
    if (const auto* p = std::get_if<ops::max_pool_problem>(&s.layer))
      sum += out * p->window * p->window;
    if (const auto* c = std::get_if<integer_classifier>(&s.layer))
      sum += static_cast<std::int64_t>(c->weights.size());
  }
  return sum;
}

/// The most bytes that an engine of at most 16 lanes takes for an image.
inline std::size_t memory_of_image(const integer_program& program) {
  const auto blocked = [](const extent& e) {
    return ops::sample_size(e, ops::channel_block_size<16>(e.channels));
  };
  std::vector<std::size_t> sizes{blocked(program.image)};
  for (const integer_step& s : program.steps)
    sizes.push_back(blocked(s.out()) * (static_cast<std::size_t>(s.bytes) + (s.bytes > 1 ? 1 : 0)));
  return memory_plan(program, sizes).size;
}

/// The most bytes that an engine takes for copies of a convolution's input with its padding: of 8
/// bits and, with AVX2, of 16.
inline std::size_t memory_of_copies(const convolution_problem& p) {
  const extent padded{p.in.channels, p.in.height + 2 * p.padding, p.in.width + 2 * p.padding};
  return ops::sample_size(padded, ops::channel_block_size<16>(p.in.channels)) * 3;
}

/// The most bytes of a worker: of four images, and of copies for one convolution at a time. A few
/// MiB are not counted: of sums, and of the copies of several small inputs.
inline std::size_t memory_of_worker(const integer_program& program) {
  std::size_t copies = 0;
  for (const integer_step& s : program.steps)
    if (const auto* const c = std::get_if<integer_convolution>(&s.layer))
      copies = std::max(copies, memory_of_copies(c->problem));
  return 4 * memory_of_image(program) + copies;
}

/// A sentence on what a program has more of than the limits; nothing if it keeps to them.
inline std::optional<std::string> exceeded_limit(const integer_program& program) {
  using limits = program_limits;
  if (program.image.channels > 4 || !limits::has_size(program.image))
    return concat("its images are ", describe(program.image), "; 1 to 4 channels are possible");
  if (program.steps.size() > limits::steps)
    return concat("its program has ", program.steps.size(), " steps, not 1 to ", limits::steps);
  for (std::size_t k = 0; k < program.steps.size(); ++k)
    if (const integer_step& s = program.steps[k]; !limits::has_size(s.out()))
      return concat("step ", k, ", \"", s.name, "\": its output ", describe(s.out()),
                    " is too large or empty");
  if (const std::size_t bytes = memory_of_worker(program); bytes > limits::memory)
    return concat("a worker needs ", bytes, " bytes of memory, more than ", limits::memory);
  if (const std::int64_t all = operations(program); all > limits::operations)
    return concat("an image takes ", all, " operations, more than ", limits::operations);
  return std::nullopt;
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
