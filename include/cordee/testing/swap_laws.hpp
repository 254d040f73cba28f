// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The laws of models that share a device's memory (train/swapped_model.hpp), for two models of a
// group:
//
//   CHECK(swap_laws(teacher, student, s, [&](auto& resident) {
//           return predict(resident, pixels, normalization);
//         }) == "");
//
// Returns the first violation, or an empty string. The weights are what they were before.
#pragma once

#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/testing/same_bits.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {

template <class Resident>
auto weights_of(Resident& resident) {
  using Real = typename Resident::Real;
  using D = typename Resident::device;
  return copy_to_host<Real, D>(resident.model().get_device(), resident.weights(),
                               resident.compute());
}

/// Empty if b is refused, by both names, while a is resident.
template <class A, class B, class Stream>
std::string expect_refused(A& a, B& b, Stream s) {
  const auto first = a.make_resident(s);
  try {
    const auto second = b.make_resident(s);
  } catch (const usage_error& refusal) {
    const std::string text = refusal.what();
    for (const std::string& name : {a.name(), b.name()})
      if (text.find(concat("\"", name, "\"")) == std::string::npos)
        return concat("the refusal does not name \"", name, "\": ", text);
    return {};
  }
  return concat("\"", a.name(), "\" and \"", b.name(), "\" were resident at once");
}

}  // namespace detail::testing

/// Checks that two models of one group keep the bits of their weights and of outputs(resident), a
/// range of numbers, while the other is resident; that adopted weights are kept; and that a second
/// resident model is rejected.
template <class A, class B, class F>
std::string swap_laws(A& a, B& b, typename A::device::stream s, const F& outputs) {
  using detail::testing::weights_of;
  const auto observe = [&](auto& model) {
    auto resident = model.make_resident(s);
    auto weights = weights_of(resident);
    return std::pair(std::move(weights), outputs(resident));
  };
  const auto keeps_bits = [&](auto& model, const auto& before, const char* after) -> std::string {
    const auto now = observe(model);
    if (!same_bits(before.first, now.first))
      return concat("the weights of \"", model.name(), "\" have changed after ", after);
    if (!same_bits(before.second, now.second))
      return concat("the outputs of \"", model.name(), "\" have changed after ", after);
    return {};
  };
  const auto of_a = observe(a);
  const auto of_b = observe(b);
  std::string violation = keeps_bits(a, of_a, "the other model was resident");
  if (violation.empty()) violation = keeps_bits(b, of_b, "the other model was resident");
  if (violation.empty()) violation = detail::testing::expect_refused(a, b, s);
  if (violation.empty()) violation = detail::testing::expect_refused(b, a, s);
  if (violation.empty()) violation = detail::testing::expect_refused(a, a, s);
  if (!violation.empty()) return violation;

  using weights = std::remove_cvref_t<decltype(of_a.first)>;
  const auto adopt = [&](const weights& numbers) {
    auto resident = a.make_resident(s);
    resident.model().get_device().copy(resident.weights().data, numbers.data(),
                                       numbers.size() * sizeof(numbers[0]), s);
    resident.adopt_weights();
    return outputs(resident);
  };
  weights other = of_a.first;
  for (auto& x : other) x += 1;
  const auto expected = adopt(other);
  violation = keeps_bits(b, of_b, "the other model has adopted weights");
  if (violation.empty()) violation = keeps_bits(a, std::pair(other, expected), "they were adopted");
  if (!same_bits(adopt(of_a.first), of_a.second) && violation.empty())
    violation = concat("the outputs of \"", a.name(), "\" do not follow from its weights");
  return violation;
}

}  // namespace cordee::inline CORDEE_ABI
