// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <chrono>

#include <cordee/comm/mpi.hpp>

#include "benchmarks/soak.hpp"

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "soak: the training of benchmarks/soak.py, ranks as processes");
    const soak::plan p = soak::read_plan(o);
    o.done();
    cordee::mpi::launch([&](cordee::mpi comm) { soak::train(comm, p); },
                        {.deadline = std::chrono::seconds(60)});
  });
}
