// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Policies that change what a training pass allocates, and their prices (docs/policies/memory.md).
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include <cordee/core/concat.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/nn/pass_memory.hpp>

namespace cordee::inline CORDEE_ABI::detail::nn {

/// A pass with the policy where the network does not have it (`in_use`), else without.
struct memory_policy {
  std::string_view name;
  bool in_use;
  pass_memory pass;
  std::size_t packed;  // bytes of the device for packed weights
  std::string price;   // of using the policy
};

/// A pass whose numbers take `to` bytes in place of `from`; the coefficients of batch norms stay.
constexpr pass_memory with_numbers_of(const pass_memory& pass, std::size_t from, std::size_t to) {
  return {pass.inputs / from * to, pass.activations / from * to, pass.gradients / from * to,
          pass.workspace};
}

/// f(policy) for each policy of the network alone. `pass`: its own, of so many samples.
template <class F>
[[gnu::cold]] void for_each_memory_policy(const pass_layout& layout, const pass_memory& pass,
                                          int samples, const F& f) {
  const auto n = static_cast<std::size_t>(samples);
  if (!layout.blocks.empty()) {
    const auto move = [&](std::string_view name, block_memory to, std::string price) {
      const bool in_use = layout.has(to);
      auto other = layout.of(n, in_use ? block_memory::resident : to);
      other.workspace = pass.workspace;
      f(memory_policy{name, in_use, other, layout.packed_on_device, std::move(price)});
    };
    move("recompute", block_memory::recomputed, "nearly one more forward pass");
    if (!layout.host_memory) {
      move("offload_activations", block_memory::offloaded,
           concat(core::grouped(layout.copied_bytes(n)),
                  " bytes over the host link each way for each micro-batch, and of the host's "
                  "memory"));
      const bool by_block = layout.packed_on_device != layout.packed;
      f(memory_policy{"offload_weights", by_block, pass,
                      by_block ? layout.packed : layout.weight_slots(),
                      concat("up to ", core::grouped(2 * layout.packed),
                             " bytes over the host link for each micro-batch")});
    }
  }
  if (layout.number == 4)
    f(memory_policy{"fp16 or bf16", false, with_numbers_of(pass, 4, 2), layout.packed_on_device / 2,
                    "activations and their gradients rounded to 16 bits"});
  else if (layout.number == 2)
    f(memory_policy{"16-bit numbers", true, with_numbers_of(pass, 2, 4),
                    layout.packed_on_device * 2,
                    "activations and their gradients rounded to 16 bits"});
}

/// The price of an update by the host of a plane of so many bytes.
[[gnu::cold]] std::string describe_on_host(std::same_as<std::size_t> auto plane) {
  return concat(core::grouped(plane),
                " bytes of gradients to the host and the weights' back in each step, and an update "
                "there");
}

/// The price of sharded updates.
inline constexpr std::string_view describe_sharded =
    "an all-gather of the weights in place of the second half of the all-reduce";

/// What a pass has yet to allocate beside activations and their gradients.
struct missing_memory {
  std::size_t workspace = 0;
  std::size_t packed_gradients = 0;  // but for an update by the host
};

/// Same, for a network that already holds `held` bytes of workspace.
template <class Net>
[[gnu::cold]] missing_memory missing_of(const Net& net, int samples, std::size_t held) {
  if constexpr (requires { net.memory_of_pass(samples); }) {
    const std::size_t packed = net.memory_of_pass(samples).workspace,
                      unpacked = net.memory_of_pass(samples, false).workspace,
                      missing = packed - std::min(packed, held),
                      of_packed = std::min(missing, packed - std::min(packed, unpacked));
    return {missing - of_packed, of_packed};
  } else {
    return {};
  }
}

/// " This batch fits with ...", by what alone makes `samples` fit into so many bytes.
[[gnu::cold]] std::string describe_what_fits(const std::same_as<pass_layout> auto& layout,
                                             std::size_t available, int samples,
                                             const missing_memory& missing) {
  std::string text;
  const auto add = [&](std::string_view name, std::size_t bytes, std::string_view price) {
    text += concat(text.empty() ? ". It fits with " : "; with ", name, ": ", core::grouped(bytes),
                   " bytes, at the price of ", price);
  };
  const auto pass = layout.of(static_cast<std::size_t>(samples));
  available -= std::min(available, missing.workspace + missing.packed_gradients);
  for_each_memory_policy(layout, pass, samples, [&](const memory_policy& p) {
    // The weights are among what is not available.
    const std::size_t freed = layout.packed_on_device - std::min(p.packed, layout.packed_on_device);
    if (!p.in_use && p.pass.sum() <= available + freed) add(p.name, p.pass.sum() - freed, p.price);
  });
  const host_price& on_host = layout.on_host;
  if (on_host.freed > 0 && pass.sum() <= available + on_host.freed + missing.packed_gradients)
    add("on_host", pass.sum() - std::min(on_host.freed, pass.sum()),
        describe_on_host(on_host.moved));
  if (const std::size_t freed = layout.freed_by_shards;
      freed > 0 && pass.sum() <= available + freed)
    add("sharded", pass.sum() - std::min(freed, pass.sum()), describe_sharded);
  std::size_t micro = 0;
  for (int parts = 2; parts <= samples && micro == 0; ++parts)
    if (const auto n = static_cast<std::size_t>(samples / parts); layout.of(n).sum() <= available)
      micro = n;
  if (micro > 0)
    add(concat("accumulated micro-batches of ", micro), layout.of(micro).sum(),
        concat("batch norm's statistics over ", micro, " samples"));
  return text;
}

}  // namespace cordee::inline CORDEE_ABI::detail::nn
