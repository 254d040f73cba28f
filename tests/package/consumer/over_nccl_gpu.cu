// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A consumer's program with the component nccl, compiled as CUDA: ResNet-50 in fp16 with a GPU per
// rank, LARS, and the all-reduce of NCCL itself.
#include <iostream>

#include <cordee/comm/nccl.hpp>
#include <cordee/cordee.hpp>

int main() {
  using namespace cordee;
  const synthetic images{.extent = {3, 224, 224}, .classes = 1000, .samples = 512, .seed = 1};
  try {
    nccl::launch([&](nccl comm) {
      resnet<50, fp16, gpu> net;
      loader feed{images, comm, {.global_batch = 256, .seed = 1}};
      trainer run{net, lars{.momentum = 0.9, .weight_decay = 5e-5, .trust_coefficient = 0.001},
                  warmup{5, polynomial{.peak = 2, .epochs = 90, .power = 2}}, native{comm}};
      run.fit(feed, 1);
    });
  } catch (const error& e) {
    std::cout << e.what() << "\n";
    return 1;
  }
}
