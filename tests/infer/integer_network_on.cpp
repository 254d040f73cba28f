// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/infer/integer_network_on.hpp"

#include <limits>
#include <set>
#include <string>
#include <typeindex>

#include "tests/support/counted_uploads.hpp"
#include "tests/support/deferred.hpp"
#include "tests/support/emulated.hpp"
#include "tests/support/launched_kernels.hpp"

namespace {

/// The kernels whose machine code is a test.
std::set<std::type_index>& listed_kernels() {
  static std::set<std::type_index> all;
  return all;
}

}  // namespace

#define KERNEL(name, ...) \
  static const bool name##_is_listed = listed_kernels().insert(typeid(__VA_ARGS__)).second;
#define OPERATION(name, ...) KERNEL(name, cordee::detail::device::for_each_kernel<__VA_ARGS__>)
#include "tests/support/integer_kernels.cu"
#undef KERNEL
#undef OPERATION

using namespace support;
using cordee::detail::infer::gpu_program;

TEST_CASE("integer_network_on: a GPU, emulated, has the CPU's logits to the bit") {
  using packing = detail::ops::pack_filters_kernel<std::int8_t, std::int8_t>;  // once per network
  listed_kernels().insert(typeid(packing));
  const launched_kernels launched;
  for (const std::uint64_t seed : {1u, 2u})
    small_networks_have_the_cpus_logits(device_fixture{emulated{seed}});
  for (const std::type_index& kernel : launched.all())
    CHECK_MESSAGE(listed_kernels().contains(kernel),
                  "not in tests/support/integer_kernels.cu: ", std::string(kernel.name()));
  for (const std::type_index& kernel : listed_kernels())
    CHECK_MESSAGE(launched.all().contains(kernel),
                  "launched by no network: ", std::string(kernel.name()));
}

TEST_CASE("integer_network_on: a call is captured, and its replay has the CPU's logits") {
  a_captured_call_has_the_cpus_logits(device_fixture{deferred{}});
  a_captured_call_has_the_cpus_logits(device_fixture{deferred{}}, true);
}

TEST_CASE(
    "integer_network_on: offloaded weights, the same logits by two slots of the largest layer") {
  integer_network net = random_integers<random_resnet<gpu_with_b>>(9);
  const auto expected = logits_of(net, 3);
  for (std::uint64_t seed = 0; seed < 3; ++seed)
    CHECK(logits_on(device_fixture{counted_uploads{seed}}, net, 3, true) == expected);
  const device_fixture at{counted_uploads{0}};
  const integer_network_on resident(net, at.device, at.s);
  const std::size_t before = at.device.counted().device;
  const integer_network_on offloaded(net, at.device, at.s, {.offload_weights = true});
  constexpr std::size_t table = 256,
                        largest = 64 * 64 * 9 + 64 * sizeof(detail::infer::filter_rescaling);
  CHECK(offloaded.weight_bytes() == 2 * largest);
  CHECK(offloaded.weight_bytes() < resident.weight_bytes());
  CHECK(at.device.counted().device - before == offloaded.weight_bytes() + table);
  CHECK(at.device.counted().pinned == offloaded.uploaded_bytes());
  const auto images = at.put(random_bytes(net, 3));
  auto logits = at.put(std::vector<std::int32_t>(3 * net.classes()));
  const std::size_t uploaded = at.device.counted().uploaded;
  offloaded.run(images.span(), logits.span(), at.s);
  CHECK(at.device.counted().uploaded - uploaded == offloaded.uploaded_bytes());
  CHECK(at.get(logits) == expected);
}

TEST_CASE("integer_network_on: a wait that is left out changes the logits of offloaded weights") {
  integer_network net = random_integers<random_resnet<gpu_with_b>>(9);
  const auto expected = logits_of(net, 3);
  const auto seen = [&](missing_wait missing) {
    for (std::uint64_t seed = 0; seed < 8; ++seed) {
      const counted_uploads device{seed};
      const device_fixture<counted_uploads> at{device, device.make_compute_stream()};
      device.counted().missing = missing;
      if (logits_on(at, net, 3, true) != expected) return true;
    }
    return false;
  };
  CHECK(seen(missing_wait::of_compute));
  CHECK(seen(missing_wait::of_others));
}

TEST_CASE("integer_network_on: sizes that do not match, and too many images, are refused") {
  const device_fixture at{emulated{}};
  const integer_network net = random_integers<random_resnet<tiny_image>>(1);
  const integer_network_on on_gpu(net, at.device, at.s);
  const auto images = at.put(std::vector<std::uint8_t>(2 * net.image().size()));
  auto logits = at.put(std::vector<std::int32_t>(2 * net.classes()));
  const auto run = [&](std::size_t bytes, std::size_t numbers) {
    on_gpu.run(images.span().subspan(0, bytes), logits.span().subspan(0, numbers), at.s);
  };
  const auto message = [&](std::size_t bytes, std::size_t numbers) {
    return message_of<usage_error>([&] { run(bytes, numbers); });
  };
  const std::size_t size = net.image().size(), classes = net.classes();
  CHECK(message(size, classes + 1) == concat("integer_network_on: ", classes + 1,
                                             " logits for 1 of its images, ", classes,
                                             " for each"));
  CHECK(message(size - 1, classes) == concat("integer_network_on: ", size - 1,
                                             " bytes are not whole images of ",
                                             describe(net.image()), ", ", size, " bytes each"));
  const std::size_t many = std::size_t{1} << 31;
  CHECK(message_of<usage_error>([&] {
          on_gpu.run({nullptr, many * net.image().size()}, {nullptr, many * net.classes()}, at.s);
        }).find("2147483648 images in a call, at most 1864135 are possible") != std::string::npos);
}

TEST_CASE("integer_network_on: the most images by the largest activation, of padded channels") {
  const device_fixture at{emulated{}};
  // Of an image of 5 x 6 pixels 72 channels become 80.
  const integer_network net = random_integers<gpu_tiles>(1);
  const gpu_program<emulated> program(net.program(), at.device, at.s);
  CHECK(program.most_samples() == std::numeric_limits<std::int32_t>::max() / (5 * 6 * 80));
}
