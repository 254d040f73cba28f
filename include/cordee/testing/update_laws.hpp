// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of runs that differ in where they update alone, such as a run of `on_host{lamb{}}` beside
// one of `lamb{}`, or one over `sharded{two_shot{comm}}` beside `two_shot{comm}`: after each step
// they hold the same bits.
//
//   trainer on_gpu{net, my_optimizer{}, rate, solo{}};
//   trainer placed{other_net, on_host{my_optimizer{}}, rate, solo{}};
//   CHECK(same_updates(on_gpu, placed, 5, [&](auto& run, int k) { return batches_of(run, k); }) ==
//         "");
//
// Returns the violations of the first step that has one, or an empty string. Where a device fuses
// products and sums, or adds norms in another order, its updates differ by rounding: within the
// tolerance of docs/policies/memory.md, "Bits". So do sharded updates by norms of tensors, or over
// a reducer whose sums depend on the cut.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/testing/report.hpp>
#include <cordee/testing/same_bits.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {

/// A part of a run's plane, or a whole one, in the host's memory.
template <class Run>
auto on_host_of(Run& run, device::plane_part<typename Run::Real, typename Run::device> part) {
  return copy_to_host<typename Run::Real, typename Run::device>(run.model().get_device(),
                                                                part.numbers, run.compute());
}
/// The trained tensors' numbers of slot k; those of all ranks where the update is sharded.
template <class Run>
auto slot_of(Run& run, int k) {
  using Real = typename Run::Real;
  using part = device::plane_part<Real, typename Run::device>;
  std::vector<Real> all;
  const auto add = [&](part slot) {
    const std::vector<Real> numbers = on_host_of(run, slot);
    for (const segment& s : run.segments())
      if (s.kind != kind::statistic && slot.has(s))
        for (std::size_t i = s.offset; i < s.end(); ++i) all.push_back(numbers[i - slot.offset]);
  };
  if constexpr (requires { run.shard(); }) {
    buffer<Real, typename Run::device> whole(run.model().get_device(), run.weights().size);
    run.gather_slot(k, whole.span());
    add(part(whole.span()));
  } else {
    add(run.held_slot(k));
  }
  return all;
}

}  // namespace detail::testing

/// Checks that two runs of equal models and optimizers have the same outcomes, weights, statistics
/// and slots after each of `steps` steps on batches_of(run, k), a range of micro-batches, which
/// must be equal for both. Collective if the runs are.
template <class A, class B, class F>
std::string same_updates(A& a, B& b, int steps, const F& batches_of) {
  using detail::testing::on_host_of, detail::testing::slot_of;
  using optimizer = std::remove_cvref_t<decltype(a.optimizer())>;
  static_assert(std::is_same_v<optimizer, std::remove_cvref_t<decltype(b.optimizer())>>,
                "same_updates: both runs must have one type of optimizer, or one in an on_host");
  for (int k = 0; k < steps; ++k) {
    const auto of_a = a.step(batches_of(a, k), k);
    const auto of_b = b.step(batches_of(b, k), k);
    detail::testing::report r;
    r.expect(of_a.applied == of_b.applied, "step ", k, " is applied by one run alone");
    r.expect(of_a.loss_scale == of_b.loss_scale, "step ", k, ": the loss scales are ",
             of_a.loss_scale, " and ", of_b.loss_scale);
    r.expect(of_a.train.loss == of_b.train.loss, "step ", k, ": the losses are ", of_a.train.loss,
             " and ", of_b.train.loss);
    r.expect(same_bits(on_host_of(a, a.weights()), on_host_of(b, b.weights())), "step ", k,
             ": the weights differ");
    for (int slot = 0; slot < optimizer::slots; ++slot)
      r.expect(same_bits(slot_of(a, slot), slot_of(b, slot)), "step ", k, ": slot ", slot,
               " of the optimizer differs");
    if (std::string violations = r.violations(); !violations.empty()) return violations;
  }
  return {};
}

}  // namespace cordee::inline CORDEE_ABI
