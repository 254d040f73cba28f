// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Layers that a run does not train (trainer_options::freeze), for transfer to other classes.
//
// A tensor is frozen if its name begins with one of the names given: "layer1" is all of that stage,
// "bn1.weight" one tensor. Frozen tensors have no gradient, no exchange and no update, so no weight
// decay; batch norms among them normalize by their running statistics, which stay as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/segment.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

[[gnu::cold]] inline bool is_frozen(const segment& s, std::span<const std::string> frozen) {
  for (const std::string& name : frozen)
    if (s.name.starts_with(name)) return true;
  return false;
}

/// "conv1, layer1"
[[gnu::cold]] inline std::string describe_frozen(std::span<const std::string> frozen) {
  std::string out;
  for (const std::string& name : frozen) out += concat(out.empty() ? "" : ", ", name);
  return out;
}

/// The trainable segments of a table but for the frozen ones. Throws usage_error for a name that no
/// tensor begins with, and if nothing is left.
[[gnu::cold]] inline std::vector<segment> unfrozen(std::span<const segment> table,
                                                   std::span<const std::string> frozen) {
  const std::span<const segment> trainable = table.first(core::count_trainable(table));
  for (const std::string& name : frozen) {
    bool is_found = false;
    for (const segment& s : trainable) is_found |= !name.empty() && s.name.starts_with(name);
    if (!is_found)
      throw usage_error(concat("trainer_options::freeze: no tensor of the network begins with \"",
                               name, "\"; the first is \"", trainable.front().name,
                               "\", the last \"", trainable.back().name, "\""));
  }
  std::vector<segment> rest;
  for (const segment& s : trainable)
    if (!is_frozen(s, frozen)) rest.push_back(s);
  if (rest.empty() && !trainable.empty())
    throw usage_error("trainer_options::freeze: nothing is left to train");
  return rest;
}

/// Tells a model that can make use of it which of its trainable segments are frozen.
template <class M>
[[gnu::cold]] void freeze_layers(M& model, std::span<const std::string> frozen) {
  if constexpr (requires(std::vector<std::uint8_t> flags) { model.freeze(flags); }) {
    std::vector<std::uint8_t> flags;  // (trainable segments); empty: none
    if (!frozen.empty())
      for (const segment& s : M::segments().first(core::count_trainable(M::segments())))
        flags.push_back(is_frozen(s, frozen) ? 1 : 0);
    model.freeze(flags);
  }
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
