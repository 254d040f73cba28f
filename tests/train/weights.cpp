// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include "tests/train/weights.hpp"

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

TEST_CASE("weights: every rank loads the bits that were saved") {
  const file f("weights.safetensors");
  for (const int ranks : {1, 3}) {
    std::vector<double> saved;
    on_ranks(ranks, [&](threads comm) {
      resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}> net;
      trainer run{net, sgd{}, slow_rate, ring{comm}, {.seed = 7}};
      run.save(f.path);
      if (comm.rank() == 0) saved = all_weights(run);
      return 0;
    });
    for (const auto& loaded : on_ranks(ranks, [&](threads comm) {
           resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}> net;
           trainer run{net, sgd{}, slow_rate, ring{comm}, {.seed = 8}};
           CHECK(all_weights(run) != saved);
           run.load(f.path);
           return all_weights(run);
         }))
      CHECK(loaded == saved);
  }
}

TEST_CASE("weights: names and shapes in files are torchvision's") {
  const file f("names.safetensors");
  resnet<8, fp32, cpu, resnet_options{.image = {3, 8, 8}, .shortcut = shortcut::b}> net;
  trainer run{net, sgd{}, slow_rate, solo{}};
  run.save(f.path);
  const tensor_file t = tensor_file::open(f.path);
  using dims = std::vector<std::size_t>;
  CHECK(t.at("conv1.weight").shape == dims{16, 3, 3, 3});
  CHECK(t.at("layer2.0.downsample.0.weight").shape == dims{32, 16, 1, 1});
  CHECK(t.at("layer3.0.bn2.running_var").shape == dims{64});
  CHECK(t.at("fc.weight").shape == dims{10, 64});
  CHECK(t.at("fc.bias").dtype == "F32");
  CHECK(t.entries().size() == run.segments().size());
  CHECK(t.metadata() == tensor_metadata{{"format", "pt"}, {"cordee", std::string(version)}});
  run.save(f.path, {{"classes", "daisy\nroses"}});
  CHECK(tensor_file::open(f.path).metadata() == tensor_metadata{{"classes", "daisy\nroses"},
                                                                {"format", "pt"},
                                                                {"cordee", std::string(version)}});
}

TEST_CASE("weights: with local_steps the mean of the ranks' weights is saved") {
  const file f("mean.safetensors");
  on_ranks(2, [&](threads comm) {
    quadratic<fp64> model{.shift = comm.rank() - 0.5};
    trainer run{model, local_steps{sgd{.momentum = 0}, 8}, slow_rate, ring{comm}};
    run.step(std::array{one_each(2)}, 0);
    run.save(f.path);
    return 0;
  });
  std::array<double, 4> w1{};
  tensor_file::open(f.path).read("W1", std::span<double>(w1));
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(close(w1[i],
                t4_start[0][i] - 0.05 * t4_curvature[0][i] * (t4_start[0][i] - t4_center[0][i]),
                1e-15));
}

TEST_CASE("weights: a file of another network is an error with tensor names, and changes nothing") {
  const file f("other.safetensors");
  {
    resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}, .classes = 7, .shortcut = shortcut::b}>
        net;
    trainer run{net, sgd{}, slow_rate, solo{}};
    run.save(f.path);
  }
  for (const int ranks : {1, 2}) {
    const std::string message = error_message([&] {
      threads::launch(
          ranks,
          [&](threads comm) {
            resnet<8, fp32, cpu, resnet_options{.image = {3, 8, 8}}> net;
            trainer run{net, sgd{}, slow_rate, ring{comm}};
            const auto before = all_weights(run);
            try {
              run.load(f.path);
            } catch (const error&) {
              CHECK(all_weights(run) == before);
              throw;
            }
          },
          long_deadline);
    });
    CHECK(contains(message,
                   "\"conv1.weight\" has shape [16, 1, 3, 3], the network's has [16, 3, 3, 3]"));
    CHECK(contains(message, "\"fc.weight\" has shape [7, 64], the network's has [10, 64]"));
    CHECK(contains(message, "\"layer2.0.downsample.0.weight\" is not a tensor of this network"));
  }
}

TEST_CASE("weights: a missing tensor is named; PyTorch's batch counters are ignored") {
  const file f("partial.safetensors");
  const float one = 1;
  save_tensors(f.path,
               std::vector<tensor_view>{{"W1", {1}, std::span(&one, 1)},
                                        {"bn1.num_batches_tracked", {1}, std::span(&one, 1)}});
  quadratic<fp32> model;
  trainer run{model, sgd{}, slow_rate, solo{}};
  const std::string message = error_message([&] { run.load(f.path); });
  CHECK(contains(message, "\"W1\" has shape [1], the network's has [4]"));
  CHECK(contains(message, "\"b1\" is missing"));
  CHECK_FALSE(contains(message, "num_batches_tracked"));
}

TEST_CASE(
    "weights: a file that cannot be read or written is an error on every rank, with its path") {
  const folder files;
  const std::string path = files.put("no folder", {}) + "/all.safetensors";
  for (const bool saves : {true, false}) {
    const std::string message = error_message([&] {
      threads::launch(
          3,
          [&](threads comm) {
            quadratic<fp32> model;
            trainer run{model, sgd{}, slow_rate, ring{comm}};
            if (saves)
              run.save(path);
            else
              run.load(path);
          },
          long_deadline);
    });
    CHECK(contains(message, "rank 0: "));
    CHECK(contains(message, path.c_str()));
  }
}

TEST_CASE("weights: save makes the folders that are missing, as the run has been paid for") {
  const folder files;
  quadratic<fp32> model;
  trainer run{model, sgd{}, slow_rate, solo{}};
  run.save(files.file("runs/first/weights.safetensors"));
  run.save(files.file("runs/first/weights.safetensors"));
  CHECK(run.load(files.file("runs/first/weights.safetensors")).empty());
}
