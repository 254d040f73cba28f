// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/constant.hpp>
#include <cordee/train/step/named_segment.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::train;
using namespace support;

constexpr constant steady{0.05};

TEST_CASE("edit_distance counts insertions, deletions and replacements") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "ab") == 2);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("saturday", "sunday") == 3);
  CHECK(edit_distance("conv1.weight", "conv1.weight") == 0);
}

TEST_CASE("named_segment finds the name, or throws with the nearest one") {
  constexpr std::array table{segment{"conv1.weight", kind::weight, 0, 4},
                             segment{"layer1.0.conv1.weight", kind::weight, 64, 8},
                             segment{"fc.bias", kind::bias, 128, 2}};
  CHECK(named_segment(table, "layer1.0.conv1.weight").offset == 64);
  CHECK(named_segment(table, "fc.bias").size == 2);
  const auto message = [&](const char* name) {
    return error_message([&] { (void)named_segment(table, name); });
  };
  CHECK(message("fc.bais") == "no segment is named \"fc.bais\"; the nearest name is \"fc.bias\"");
  CHECK(contains(message("layer1.0.conv1.weights"), "nearest name is \"layer1.0.conv1"));
  CHECK(error_message([] { (void)named_segment({}, "fc.bias"); }) ==
        "no segment is named \"fc.bias\"");
}

TEST_CASE("weights and grads of one segment, by its name") {
  resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}> net;
  trainer run{net, sgd{}, steady, solo{}};
  for (const segment& s : run.segments()) {
    CHECK(run.weights(s.name).data == run.weights().data + s.offset);
    CHECK(run.weights(s.name).size == s.size);
    CHECK(run.grads(s.name).data == run.grads().data + s.offset);
  }
  CHECK(contains(error_message([&] { (void)run.weights("layer1.0.conv1.wieght"); }),
                 "no segment is named \"layer1.0.conv1.wieght\"; the nearest name is "
                 "\"layer1.0.conv1.weight\""));
}

TEST_CASE("save_gradients writes the mean gradient under the names of the trainable segments") {
  const std::string path =
      (std::filesystem::temp_directory_path() / concat("cordee-gradients-", getpid())).string();
  on_ranks(2, [&](threads comm) {
    quadratic<fp64> model{.shift = comm.rank() - 0.5};
    trainer run{model, sgd{}, steady, ring{comm}};
    run.step(std::array{one_each(2)}, 0);
    run.save_gradients(path);
    return 0;
  });
  const auto t = cordee::detail::io::tensor_file::open(path);
  CHECK(t.entries().size() == 4);  // not the statistic
  for (std::size_t k = 0; k < 4; ++k) {
    std::vector<double> g(t4_table[k].size);
    t.read(t4_table[k].name, std::span<double>(g));
    for (std::size_t i = 0; i < g.size(); ++i)  // 4 ulp: a mean of two gradients
      CHECK(close(g[i], t4_curvature[k][i] * (t4_start[k][i] - t4_center[k][i]), 1e-15));
  }
  std::filesystem::remove(path);
}
