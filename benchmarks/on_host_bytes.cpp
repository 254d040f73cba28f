// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Bytes for each of ResNet-50's parameters: in a GPU's memory, in the host's, and over the link in
// a step, with lamb and with on_host{lamb{}} (docs/policies/memory.md). Counted by a double of a
// GPU whose kernels do not run: in fp16 by engine tensor_core, from images of 64 x 64, on which
// these figures do not depend.
#include <cstddef>
#include <cstdio>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>
#include <cordee/ops/gpu/reduce.hpp>
#include <cordee/ops/gpu/segmented.hpp>

#include "tests/support/idle_device.hpp"

using namespace cordee;

namespace {

using support::idle_device;
constexpr resnet_options options{.image = {3, 64, 64}, .classes = 1000};
using net_type = resnet<50, fp16, idle_device, options, tensor_core>;

template <class O>
void count(const char* name, const O& optimizer) {
  const idle_device device;
  auto& counted = device.count();
  net_type net{device};
  const synthetic images{.extent = options.image, .classes = 1000, .samples = 64};
  loader feed{images, self_comm{}, {.global_batch = 2}};
  const std::size_t before = counted.device_bytes;
  trainer run{net, optimizer, constant{.learning_rate = 0.1}, solo{}};
  const std::size_t made = counted.device_bytes - before, packed = run.packed_parameters().size();
  std::size_t parameters = 0;
  for (const segment& s : net_type::segments().first(net_type::tensors())) parameters += s.size;
  upload<idle_device> uploaded(device);
  for (int k = 0; k < 2; ++k) {  // the first step's buffers grow
    const auto batches = uploaded.to(feed.next(), run.compute());
    counted.down = counted.up = 0;
    (void)run.step(batches, 0);
  }
  const auto each = [&](std::size_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(parameters);
  };
  std::printf("%-22s device %.3f, of them packed weights %.3f; host %.3f; down %.3f, up %.3f\n",
              name, each(made), each(packed), each(counted.pinned_bytes), each(counted.down),
              each(counted.up));
}

}  // namespace

int main() {
  std::printf("bytes for each parameter\n");
  count("lamb", lamb{});
  count("on_host", on_host{lamb{}});
  count("on_host, rounded", on_host{lamb{}, true});
}
