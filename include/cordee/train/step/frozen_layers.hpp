// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Layers that a run does not train (trainer_options::freeze), for transfer to other classes.
//
// A tensor is frozen if its name begins with one of the names given: "layer1" is all of that stage,
// "bn1.weight" one tensor. "layer3.1" is layer3.10 to layer3.19 too; "layer3.1." that block alone.
// No step exchanges or applies a gradient of frozen tensors, and they have no weight decay. A batch
// norm counts as frozen by its weight alone: it normalizes by its running statistics, which stay as
// they are.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/pod_vector.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/cpu.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// Takes the first name off a list that is not empty: "conv1, layer1".
[[gnu::cold, gnu::noinline]] inline std::string_view take_name(std::string_view& list) {
  std::size_t comma = 0;
  while (comma < list.size() && list[comma] != ',') ++comma;
  std::string_view name(list.data(), comma);
  list.remove_prefix(comma < list.size() ? comma + 1 : comma);
  while (!name.empty() && name.front() == ' ') name.remove_prefix(1);
  while (!name.empty() && name.back() == ' ') name.remove_suffix(1);
  return name;
}

[[gnu::cold, gnu::noinline]] inline bool begins_with(const segment& s, std::string_view name) {
  return !name.empty() && s.name.substr(0, name.size()) == name;
}

[[gnu::cold, gnu::noinline]] inline bool is_frozen(const segment& s, std::string_view frozen) {
  while (!frozen.empty())
    if (begins_with(s, take_name(frozen))) return true;
  return false;
}

/// "conv1, layer1"
[[gnu::cold]] std::string describe_frozen(std::same_as<std::string_view> auto frozen) {
  std::string out;
  while (!frozen.empty()) {
    const std::string_view name = take_name(frozen);
    out += concat(out.empty() ? "" : ", ", name);
  }
  return out;
}

/// Throws usage_error for a name that no trainable tensor begins with.
[[gnu::cold, gnu::noinline]] void expect_found(std::span<const segment> trainable,
                                               std::same_as<std::string_view> auto frozen) {
  while (!frozen.empty()) {
    const std::string_view name = take_name(frozen);
    bool is_found = false;
    for (std::size_t k = 0; k < trainable.size(); ++k) is_found |= begins_with(trainable[k], name);
    if (!is_found)
      throw usage_error(concat("trainer_options::freeze: no tensor of the network begins with \"",
                               name, "\"; the first is \"", trainable.front().name,
                               "\", the last \"", trainable.back().name, "\""));
  }
}

/// The trainable segments of a table but for the frozen ones. Throws usage_error for a name that no
/// tensor begins with, and if nothing is left.
[[gnu::cold, gnu::noinline]] core::pod_vector<segment> unfrozen(
    std::span<const segment> table, std::same_as<std::string_view> auto frozen) {
  const std::span<const segment> trainable = table.first(core::count_trainable(table));
  expect_found(trainable, frozen);
  core::pod_vector<segment> rest;
  for (std::size_t k = 0; k < trainable.size(); ++k)
    if (!is_frozen(trainable[k], frozen)) rest.push_back(trainable[k]);
  if (rest.empty() && !trainable.empty())
    throw usage_error("trainer_options::freeze: nothing is left to train");
  return rest;
}

/// A flag for each trainable segment.
[[gnu::cold, gnu::noinline]] core::pod_vector<std::uint8_t> frozen_flags(
    std::span<const segment> table, std::same_as<std::string_view> auto frozen) {
  core::pod_vector<std::uint8_t> flags;
  flags.resize(core::count_trainable(table));
  for (std::size_t k = 0; k < flags.size(); ++k) flags[k] = is_frozen(table[k], frozen) ? 1 : 0;
  return flags;
}

/// Where the group of the first of the unfrozen segments begins: those whose names are alike up to
/// a dot.
[[gnu::cold, gnu::noinline]] std::size_t first_group(
    std::span<const segment> table, std::same_as<std::span<const segment>> auto unfrozen) noexcept {
  const auto group_of = [](const segment& s) { return s.name.substr(0, s.name.find('.')); };
  std::size_t k = 0;
  while (k < table.size() && !unfrozen.empty() && group_of(table[k]) != group_of(unfrozen.front()))
    ++k;
  return unfrozen.empty() ? 0 : table[k].offset;
}

/// The type of cpu::allocate_zeros.
using host_zeros = device::external_memory (*)(std::size_t);

/// Called where layers are frozen. By pointers, so that programs which freeze nothing do not
/// compile them.
struct frozen_functions {
  std::string (*describe)(std::string_view);
  core::pod_vector<std::uint8_t> (*flags)(std::span<const segment>, std::string_view);
  core::pod_vector<segment> (*unfrozen)(std::span<const segment>, std::string_view);
  std::size_t (*first_group)(std::span<const segment>, std::span<const segment>) noexcept;
  host_zeros allocate_zeros;
};

/// The value of trainer_options::freeze: a text. The functions above are templates, called by
/// pointers that the constructor from a text sets.
class frozen_layers {
 public:
  frozen_layers() = default;
  template <std::convertible_to<std::string_view> Text>
  [[gnu::cold]] frozen_layers(const Text& names) : names_(std::string_view(names)) {
    static constexpr frozen_functions all{describe_frozen, frozen_flags, unfrozen, first_group,
                                          cpu::allocate_zeros};
    called_ = &all;
  }
  [[gnu::cold, gnu::noinline]] frozen_layers(const frozen_layers&) = default;
  [[gnu::cold, gnu::noinline]] frozen_layers& operator=(const frozen_layers&) = default;
  [[gnu::cold, gnu::noinline]] ~frozen_layers() = default;

  [[nodiscard]] bool empty() const { return names_.empty(); }
  [[nodiscard]] std::string describe() const {
    return empty() ? std::string() : called_->describe(names_);
  }
  [[nodiscard]] core::pod_vector<std::uint8_t> flags(std::span<const segment> table) const {
    return empty() ? core::pod_vector<std::uint8_t>() : called_->flags(table, names_);
  }
  /// The trainable segments that are not frozen; empty: all of the table's.
  [[nodiscard]] core::pod_vector<segment> unfrozen_segments(std::span<const segment> table) const {
    return empty() ? core::pod_vector<segment>() : called_->unfrozen(table, names_);
  }
  /// Null where nothing is frozen.
  [[nodiscard]] const frozen_functions* called() const { return empty() ? nullptr : called_; }

 private:
  std::string names_;
  const frozen_functions* called_ = nullptr;
};

/// Whether a model has running statistics, as far as the compiler knows its table.
template <class M>
consteval bool may_have_statistics() {
  if constexpr (requires {
                  typename std::bool_constant<core::count_trainable(M::segments()) == 0>;
                })
    return core::count_trainable(M::segments()) < M::segments().size();
  else
    return true;
}

/// A model whose backward ends at the first layer that is not frozen.
template <class M>
concept FreezesLayers =
    requires(M& model, std::span<const std::uint8_t> flags) { model.freeze(flags); };

/// Tells a model that can make use of it which of its trainable segments are frozen.
template <class M>
[[gnu::cold]] void freeze_layers(M& model, const frozen_layers& frozen) {
  if constexpr (FreezesLayers<M>) model.freeze(frozen.flags(model.segments()).span());
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
