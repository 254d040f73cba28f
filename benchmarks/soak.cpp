// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "benchmarks/soak.hpp"

#include <chrono>

#include <cordee/comm/transports/threads.hpp>

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "soak: the training of benchmarks/soak.py, ranks as threads");
    const soak::plan p = soak::read_plan(o);
    const int ranks = o.whole("ranks", 4, "threads");
    o.done();
    cordee::threads::launch(ranks, [&](cordee::threads comm) { soak::train(comm, p); },
                            {.deadline = std::chrono::seconds(60)});
  });
}
