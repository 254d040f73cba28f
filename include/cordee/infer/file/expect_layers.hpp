// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Whether an integer program from a file is that of a network type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <variant>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/infer/file/program_file.hpp>
#include <cordee/infer/program/integer_program.hpp>
#include <cordee/infer/program/layer_list.hpp>

namespace cordee::inline CORDEE_ABI::detail::infer {

/// Whether a layer and a step of the same kind have equal problems.
inline bool same_problem(const listed_layer& l, const integer_step& s) {
  if (const auto* c = l.as<convolution_problem>())
    return *c == std::get<integer_convolution>(s.layer).problem;
  if (const auto* p = l.as<ops::max_pool_problem>()) {
    const auto& q = std::get<ops::max_pool_problem>(s.layer);
    return p->window == q.window && p->stride == q.stride && p->padding == q.padding;
  }
  if (const auto* c = l.as<classifier_problem>()) return s.out() == extent{c->classes, 1, 1};
  if (const auto* p = l.as<ops::subsample_problem>()) return s.out() == p->out;
  return true;
}

/// Throws error unless the program is one of these layers, with convolutions of so many bits.
inline void expect_layers(const integer_program& program, const extent& image,
                          std::span<const listed_layer> layers, int weight_bits,
                          const std::string& path) {
  const auto refuse = [&](auto... reason) {
    throw error(concat(path, ": a file of another network: ", reason...,
                       "; load it as the network type that saved it, or as any: load(path)"));
  };
  if (program.image != image)
    refuse("its images are ", describe(program.image), ", not ", describe(image));
  for (std::size_t i = 0; i < std::min(layers.size(), program.steps.size()); ++i) {
    const listed_layer& l = layers[i];
    const integer_step& s = program.steps[i];
    if (l.name != s.name || l.problem.index() != s.layer.index() || l.input != s.input ||
        l.residual != s.residual || !same_problem(l, s))
      refuse("step ", i, " is ", layer_names[s.layer.index()], " \"", s.name, "\" with output ",
             describe(s.out()), ", the network has ", layer_names[l.problem.index()], " \"", l.name,
             "\"");
    const auto* const c = std::get_if<integer_convolution>(&s.layer);
    if (c != nullptr && c->weight_bits != weight_bits)
      refuse("step ", i, ", convolution \"", s.name, "\", has weights of ", c->weight_bits,
             " bits, the network of ", weight_bits);
  }
  if (program.steps.size() != layers.size())
    refuse("it has ", program.steps.size(), " steps, the network ", layers.size());
}

}  // namespace cordee::inline CORDEE_ABI::detail::infer
