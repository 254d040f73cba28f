// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The law of what may change where a network's numbers are, never the numbers: `recompute`,
// `offload_weights` and blocks of your own within them.
//
//   network<layers, fp16, gpu, tensor_core, image, 10> plain{device};
//   network<by_block, fp16, gpu, tensor_core, image, 10> other{device};
//   CHECK(same_passes(plain, other, batch, s) == "");
//
// Returns the first violation, or an empty string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/testing/same_bits.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::testing {

/// What a network's passes have written, by name.
template <class Real>
struct pass_record {
  std::string what;
  std::vector<Real> numbers;
};

template <class Net, class Batch>
auto record_passes(Net& net, const Batch& b, typename Net::device::stream s, int steps) {
  using D = typename Net::device;
  using Real = typename Net::precision::master;
  const D device = net.get_device();
  buffer<Real, D> weights(device, net.plane_size()), gradients(device, net.plane_size());
  auto packed = net.make_packed_parameters();
  net.initialize(weights.span(), 1);
  std::vector<pass_record<Real>> out;
  const auto add = [&](std::string_view what, auto& plane, int step) {
    const auto all = copy_to_host<Real, D>(device, plane.span(), s);
    for (const segment& one : net.segments())
      if (what != "gradient" || one.kind != kind::statistic)
        out.push_back({concat(what, " \"", one.name, "\" of step ", step + 1),
                       {all.data() + one.offset, all.data() + one.end()}});
  };
  for (int step = 0; step < steps; ++step) {
    net.pack_parameters(weights.span(), packed, s);
    net.forward(packed, weights.span(), b, phase::train, s);
    const double trained = net.read_metrics(s).loss;
    net.backward(
        packed, gradients.span(), step == 0 ? write_mode::overwrite : write_mode::add,
        [](std::size_t) {}, s);
    add("gradient", gradients, step);
    add("tensor", weights, step);  // statistics
    auto moved = copy_to_host<Real, D>(device, weights.span(), s);
    const auto by = copy_to_host<Real, D>(device, gradients.span(), s);
    for (const segment& one : net.segments())
      if (one.kind != kind::statistic)
        for (std::size_t i = one.offset; i < one.end(); ++i) moved[i] -= by[i] / 4;
    device.copy(weights.span().data, moved.data(), moved.size() * sizeof(Real), s);
    net.pack_parameters(weights.span(), packed, s);
    net.forward(packed, weights.span(), b, phase::evaluate, s);
    out.push_back({concat("loss of step ", step + 1),
                   {static_cast<Real>(trained), static_cast<Real>(net.read_metrics(s).loss)}});
  }
  return out;
}

}  // namespace detail::testing

/// Checks that two networks with equal tables have the same names, and bitwise equal losses,
/// gradients and statistics in `steps` updates on the same batch.
template <class A, class B>
std::string same_passes(A& a, B& b, const batch<typename A::device>& data,
                        typename A::device::stream s, int steps = 2) {
  const auto names = [](const auto& net) {
    std::string all;
    for (const segment& one : net.segments()) all += concat(one.name, " ", one.offset, "\n");
    return all;
  };
  if (names(a) != names(b)) return "the networks have tensors of other names or places";
  const auto expected = detail::testing::record_passes(a, data, s, steps);
  const auto found = detail::testing::record_passes(b, data, s, steps);
  for (std::size_t k = 0; k < expected.size(); ++k)
    if (!same_bits(expected[k].numbers, found[k].numbers))
      return concat("the ", expected[k].what, " has other bits");
  return {};
}

}  // namespace cordee::inline CORDEE_ABI
