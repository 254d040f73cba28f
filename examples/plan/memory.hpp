// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a rank allocates of a processor's memory: the parts that the trainer has, from networks that
// are bound to a GPU without memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include <cordee/cordee.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/engines/reference/gpu.hpp>
#include <cordee/ops/engines/tensor_core/engine.hpp>

namespace plan {

using namespace cordee;
using cordee::detail::nn::pass_layout;
using cordee::detail::nn::pass_memory;
using cordee::detail::train::memory_plan;

/// Its memory has no bytes, and its kernels do not run.
class sized_gpu {
 public:
  static constexpr std::string_view name = "sized";
  static constexpr bool host_memory = false;

  struct event {};
  struct stream : cordee::detail::device::kernel_adl_base {
    template <class Kernel>
    void launch_kernel(std::size_t, const Kernel&) const {}
    [[nodiscard]] unsigned* counters(std::size_t) const { return nullptr; }
    [[nodiscard]] void* allocate(std::size_t) const { return nullptr; }
    void release(void*) const noexcept {}
    void copy(void*, const void*, std::size_t) const {}
    void finish() const {}
  };
  [[nodiscard]] stream make_stream() const { return {}; }
  [[nodiscard]] void* allocate(std::size_t) const { return nullptr; }
  void release(void*) const noexcept {}
  [[nodiscard]] void* pin(std::size_t) const { return nullptr; }
  void unpin(void*) const noexcept {}
  void copy(void*, const void*, std::size_t, stream) const {}
  void clear(void*, std::size_t, stream) const {}
  [[nodiscard]] event record(stream) const { return {}; }
  void await(stream, event) const {}
  void finish(stream) const {}
};

/// A rank's planes of state, and whether the update may be on the host or sharded.
struct slot_counts {
  int optimizer = 1, reducer = 0;
  bool moves_update = true;
};

/// Master weights, gradients and slots in fp32.
inline memory_plan planes_of(double numbers, const slot_counts& slots) {
  memory_plan plan;
  const auto add = [&](const char* name, int planes) {
    if (planes > 0) plan.add(name, static_cast<std::size_t>(4 * planes * numbers));
  };
  add("weights", 1);
  add("gradients", 1);
  add("optimizer slots", slots.optimizer);
  add("reducer slots", slots.reducer);
  return plan;
}

/// f(layout, pass, numbers in a plane) of a network in 16 or 32 bits, for micro-batches of so many
/// samples.
using layout_visitor = std::function<void(const pass_layout&, const pass_memory&, std::size_t)>;
template <int Depth>
void visit_layout(int width, int samples, const layout_visitor& f) {
  namespace train = cordee::detail::train;
  const auto visit = [&](auto&& net) {
    auto& price = net.pass_layout().on_host;
    const auto planes = planes_of(static_cast<double>(net.plane_size()), {});
    price = train::on_host_price(net, planes, net.segments());
    price.freed -= train::status_bytes(net.segments());  // planes_of has none
    f(net.pass_layout(), net.memory_of_pass(samples), net.plane_size());
  };
  if (width == 2)
    visit(resnet<Depth, fp16, sized_gpu, resnet_options{}, tensor_core>{});
  else
    visit(resnet<Depth, fp32, sized_gpu, resnet_options{}, reference>{});
}

inline std::string gigabytes(std::size_t bytes) {
  return concat(decimal::fixed(static_cast<double>(bytes) / 1e9, 2), " GB");
}

/// f(policy's name, bytes of a rank with it, price) for each policy that a rank may have.
template <class F>
void for_each_policy(const memory_plan& plan, const pass_layout& layout, const pass_memory& pass,
                     int samples, int ranks, bool moves_update, const F& f) {
  namespace train = cordee::detail::train;
  cordee::detail::nn::for_each_memory_policy(
      layout, pass, samples, [&](const cordee::detail::nn::memory_policy& p) {
        if (!p.in_use)
          f(std::string(p.name),
            train::total_with(plan, p.pass) - layout.packed_on_device + p.packed, p.price);
      });
  if (moves_update)
    f(std::string("on_host"), plan.total() - layout.on_host.freed,
      cordee::detail::nn::describe_on_host(layout.on_host.moved));
  if (moves_update && ranks > 1)
    f(std::string("sharded"), train::total_with_shards(plan, false, ranks),
      std::string(cordee::detail::nn::describe_sharded));
  for (int n = samples / 2; n > 0; n /= 2) {
    auto part = layout.of(static_cast<std::size_t>(n));
    part.workspace = pass.workspace;
    f(concat("micro-batches of ", n), train::total_with(plan, part),
      concat("batch norm's statistics over ", n, " samples"));
  }
}

/// "memory of a rank     1.78 GB of 16"; a processor whose memory is not known has any.
inline void print_total(std::size_t bytes, double available, const char* remark) {
  std::printf(
      "memory of a rank     %s%s%s\n", gigabytes(bytes).c_str(),
      std::isfinite(available) ? concat(" of ", decimal::fixed(available / 1e9, 0)).c_str() : "",
      remark);
}
/// Throws error where `bytes` are more than what is available.
inline void expect_fits(std::size_t bytes, double available, int samples,
                        std::string_view processor, const std::string& remedies) {
  if (static_cast<double>(bytes) > available)
    throw error(concat("--batch: ", samples, " images a rank need ", gigabytes(bytes), ", but ",
                       processor, " has ", available / 1e9, remedies));
}

/// Memory of a model whose activations are unknown.
inline void print_planes(double numbers, int width, int samples, const slot_counts& slots,
                         double available, std::string_view processor, bool prints) {
  const std::size_t bytes =
      planes_of(numbers, slots).total() + static_cast<std::size_t>(width * numbers);
  expect_fits(bytes, available, samples, processor, "");
  if (prints) print_total(bytes, available, ", activations not counted");
}

/// The parts of a rank, and a line for each policy. Throws error where they do not fit, with the
/// policies by which they would.
template <class Network>
void print_memory(const Network& net, int width, int samples, int ranks, const slot_counts& slots,
                  double available, std::string_view processor, bool prints) {
  const auto print = [&](const pass_layout& layout, const pass_memory& pass, std::size_t numbers) {
    memory_plan plan = planes_of(static_cast<double>(numbers), slots);
    plan.add("packed weights", layout.packed_on_device);
    plan.add("inputs", pass.inputs);
    plan.add("activations", pass.activations);
    plan.add("gradients of activations", pass.gradients);
    plan.add("workspace", pass.workspace);
    std::string remedies, lines;
    for_each_policy(
        plan, layout, pass, samples, ranks, slots.moves_update,
        [&](const std::string& name, std::size_t bytes, const std::string& price) {
          const std::string line =
              concat(name, ": ", gigabytes(bytes), ", at the price of ", price);
          if (static_cast<double>(bytes) <= available && !remedies.ends_with(" samples"))
            remedies += concat(remedies.empty() ? "; it fits with " : "; with ", line);
          if (!lines.ends_with(" samples\n")) lines += concat("  with ", line, "\n");
        });
    expect_fits(plan.total(), available, samples, processor, remedies);
    if (!prints) return;
    print_total(plan.total(), available, "");
    std::printf("  of which           %s\n%s", plan.describe().c_str(), lines.c_str());
  };
  net.visit(width, samples, print);
}

}  // namespace plan
