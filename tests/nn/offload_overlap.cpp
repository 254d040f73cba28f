// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Copies over the host link beside a pass: by the clocks of a GPU's streams a training pass takes
// as long as without them, and longer by all of them where there is one stream alone.
#include <cstddef>
#include <cstdint>
#include <memory>

#include <doctest/doctest.h>

#include <cordee/nn/linear.hpp>
#include <cordee/nn/offload_activations.hpp>
#include <cordee/nn/offload_weights.hpp>
#include <cordee/nn/pooling.hpp>
#include <cordee/nn/residual.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>

#include "tests/nn/network_fixture.hpp"
#include "tests/support/linked_device.hpp"

using namespace cordee;
using namespace support;

namespace {

/// A GPU each of whose kernels takes a unit of time and computes nothing.
struct clocked_device : linked_device {
  struct stream : linked_device::stream {
    stream() = default;
    stream(const linked_device::stream& s) : linked_device::stream(s) {}
    template <class Kernel>
    void launch_kernel(std::size_t, const Kernel&) const {
      work(1);
    }
  };

  explicit clocked_device(bool one_stream = false) {
    if (one_stream) only = std::make_shared<stream>(linked_device::make_stream());
  }
  [[nodiscard]] stream make_stream() const {
    return only != nullptr ? *only : stream(linked_device::make_stream());
  }

  std::shared_ptr<stream> only;
};

enum class policy { none, weights, activations };
template <policy P, Layer L>
using block = detail::nn::weights_of<P == policy::weights,
                                     detail::nn::activations_of<P == policy::activations, L>>;
/// A stem, eight equal blocks and a classifier.
template <policy P>
using net_of = network<
    sequential<
        block<P, sequential<convolution<8>, batch_norm<relu>>>,
        repeat<8, block<P, residual<sequential<convolution<8>, batch_norm<relu>, convolution<8>>,
                                    batch_norm<>, identity>>>,
        global_average_pool, block<P, linear<5>>>,
    fp32, clocked_device, reference, extent{4, 8, 8}, 5>;

struct pass_cost {
  double time;        // until all work of the pass is done
  std::size_t bytes;  // over the link, both ways
};
/// Of a training pass behind another one.
template <class Net>
pass_cost cost_of(bool one_stream, double bytes_per_time) {
  const clocked_device device(one_stream);
  auto& count = device.count();
  const auto s = device.make_stream();
  constexpr std::size_t samples = 2;
  Net net{device};
  buffer<float, clocked_device> plane(device, Net::plane_size()),
      gradients(device, Net::plane_size());
  buffer<std::uint8_t, clocked_device> pixels(device, samples * Net::input.size());
  buffer<std::int32_t, clocked_device> labels(device, samples);
  batch<clocked_device> b;
  b.pixels = pixels.span();
  b.labels = labels.span();
  b.global_samples = b.count = samples;
  auto packed = net.make_packed_parameters();
  net.pack_parameters(plane.span(), packed, s);
  pass_cost cost{};
  for (int k = 0; k < 2; ++k) {
    device.finish(s);
    count.bytes_per_time = bytes_per_time;
    count.down = count.up = 0;
    const double begin = count.host_time;
    net.forward(packed, plane.span(), b, phase::train, s);
    net.backward(
        packed, gradients.span(), write_mode::overwrite, [](std::size_t) {}, s);
    device.finish(s);
    cost = {count.host_time - begin, count.down + count.up};
  }
  return cost;
}

/// All copies take half of the pass. Those of a block take no longer than another block's kernels;
/// at most the first block of each direction is waited for.
template <policy P>
void check_overlap() {
  const pass_cost resident = cost_of<net_of<policy::none>>(false, 1);
  CHECK(resident.bytes == 0);
  CHECK(cost_of<net_of<policy::none>>(true, 1).time == resident.time);
  const auto bytes = static_cast<double>(cost_of<net_of<P>>(false, 1).bytes);
  REQUIRE(bytes > 0);
  const double copies = resident.time / 2, rate = bytes / copies;
  const double beside = cost_of<net_of<P>>(false, rate).time,
               behind = cost_of<net_of<P>>(true, rate).time;
  MESSAGE("" << resident.time << " units, " << beside << " with copies of " << copies << ", "
             << behind << " on one stream");
  CHECK(beside >= resident.time);
  CHECK(beside <= resident.time + copies / 4);
  CHECK(behind >= (1 - 1e-9) * (resident.time + copies));  // sums of hundreds of numbers
}

}  // namespace

TEST_CASE("offload_activations: copies overlap the pass") { check_overlap<policy::activations>(); }

TEST_CASE("offload_weights: uploads overlap the pass") { check_overlap<policy::weights>(); }
