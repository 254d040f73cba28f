// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A consumer's program with the component cuda: a network on integers alone has the same logits on
// a GPU and on the CPU.
#include <iostream>
#include <vector>

#include <cordee/cordee.hpp>
#include <cordee/infer/integer_network_on.hpp>

using namespace cordee;
constexpr resnet_options options{.image = {1, 16, 16}, .classes = 4};
using network_type = resnet<8, int8, cpu, options>;

int main() {
  std::vector<float> plane(network_type::plane_size());
  network_type().initialize({plane.data(), plane.size()}, 1);
  for (const segment& s : network_type::segments()) {  // ranges that training would observe
    if (s.name.ends_with("input_min")) plane[s.offset] = 0;
    if (s.name.ends_with("input_max")) plane[s.offset] = 2;
  }
  integer_network net = integer_network::from<network_type>(plane, {});
  const std::vector<std::uint8_t> image(net.image().size(), 100);
  std::vector<std::int32_t> logits(net.classes());
  net.run(image, logits);
  try {
    const gpu device;
    const gpu::stream s = device.make_stream();
    const integer_network_on on_gpu(net, device, s);
    buffer<std::uint8_t, gpu> images(device, image.size());
    buffer<std::int32_t, gpu> found(device, logits.size());
    device.copy(images.span().data, image.data(), image.size(), s);
    on_gpu.run(images.span(), found.span(), s);
    const bool equal = copy_to_host<std::int32_t, gpu>(device, found.span(), s) == logits;
    std::cout << (equal ? "equal\n" : "different\n");
    return equal ? 0 : 1;
  } catch (const error& e) {
    std::cout << e.what() << "\n";
    return 1;
  }
}
