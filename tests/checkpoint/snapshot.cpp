// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/checkpoint/snapshot.hpp>
#include <cordee/comm/reducers/compressed.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp16.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

namespace {

/// Names of the tensors in the files that a run with this optimizer and reducer writes on 2 ranks.
template <class O, class Make>
std::string names_of_files(const O& optimizer, const Make& make, const folder& files) {
  on_ranks(2, [&](threads comm) {
    labelled<fp32> model;
    trainer run{model, optimizer, falling, make(comm)};
    snapshot_memory memory;
    snapshot{run, &memory}.write(files.file(""));
    return 0;
  });
  std::string text;
  for (const std::string& name : {std::string(common_file), rank_file(0), rank_file(1)}) {
    text += name + ":";
    if (detail::io::is_readable(files.file(name)))
      for (const std::string& tensor : detail::io::tensor_file::open(files.file(name)).names())
        text += " " + tensor;
    text += "\n";
  }
  return text;
}

constexpr auto renamed_table = [] {
  auto table = t4_table;
  table[2].name = "W3";
  return table;
}();
struct renamed : labelled<fp32> {
  static constexpr std::span<const segment> segments() { return renamed_table; }
};

}  // namespace

TEST_CASE("snapshot: what all ranks hold is written once, what differs by each rank") {
  const folder alike, different;
  CHECK(names_of_files(
            sgd{},
            [](threads comm) {
              return compressed{ring{comm}, fp16{}};
            },
            alike) ==
        "common.safetensors: W1 b1 W2 b2 slot0/W1 slot0/b1 slot0/W2 slot0/b2\n"
        "rank-0.safetensors: seen reducer_slot0/W1 reducer_slot0/b1 reducer_slot0/W2 "
        "reducer_slot0/b2\n"
        "rank-1.safetensors: seen reducer_slot0/W1 reducer_slot0/b1 reducer_slot0/W2 "
        "reducer_slot0/b2\n");
  CHECK(names_of_files(
            local_steps{sgd{}, 2}, [](threads comm) { return ring{comm}; }, different) ==
        "common.safetensors:\n"
        "rank-0.safetensors: W1 b1 W2 b2 slot0/W1 slot0/b1 slot0/W2 slot0/b2 seen\n"
        "rank-1.safetensors: W1 b1 W2 b2 slot0/W1 slot0/b1 slot0/W2 slot0/b2 seen\n");
}

TEST_CASE("snapshot: slots of frozen tensors are zeros in files, and others are left out") {
  const folder files;
  labelled<fp32> model;
  snapshot_memory memory;
  for (const bool copies : {false, true}) {
    trainer run{model, sgd{}, falling, solo{}, {.freeze = "W1, b2"}};
    CHECK(run.arena_bytes() == (2 * 320 + 128) * sizeof(float));
    const auto held = run.held_slot(0);
    for (std::size_t i = 0; i < held.numbers.size; ++i) held.numbers[i] = static_cast<float>(i + 1);
    snapshot{run, copies ? &memory : nullptr}.write(files.file(""));
    const auto common = detail::io::tensor_file::open(files.file("common.safetensors"));
    const auto numbers_of = [&](const char* name, std::size_t n) {
      std::vector<float> numbers(n);
      common.read(name, std::span(numbers));
      return numbers;
    };
    CHECK(numbers_of("slot0/W1", 4) == std::vector<float>(4));
    CHECK(numbers_of("slot0/b1", 2) == std::vector<float>{1, 2});
    CHECK(numbers_of("slot0/W2", 2) == std::vector<float>{65, 66});
    CHECK(numbers_of("slot0/b2", 1) == std::vector<float>(1));

    trainer all{model, sgd{}, falling, solo{}};
    CHECK(read_planes(all, common, true) == 0);
    CHECK((all.slot(0)[0] == 0 && all.slot(0)[65] == 2 && all.slot(0)[129] == 66));
    CHECK(all.slot(0)[192] == 0);
  }
  trainer all{model, sgd{}, falling, solo{}};
  for (float& x : all.slot(0)) x = 5;
  snapshot{all, &memory}.write(files.file(""));
  const auto common = detail::io::tensor_file::open(files.file("common.safetensors"));
  trainer run{model, sgd{}, falling, solo{}, {.freeze = "W1, b2"}};
  CHECK(read_planes(run, common, true) == 2);
  CHECK((run.held_slot(0).numbers[0] == 5 && run.held_slot(0).numbers[65] == 5));
  CHECK(run.held_slot(0).numbers[2] == 0);  // padding
  CHECK(describe_left_out(0) == "");
  CHECK(describe_left_out(2) ==
        "resume: slots of frozen tensors (2) are left out, which are not zero in the checkpoint: "
        "when these tensors are trained again they begin at zero\n");
}

TEST_CASE("snapshot: planes are read back, and another network's first difference is named") {
  const folder files;
  labelled<fp32> model;
  trainer run{model, sgd{}, falling, solo{}};
  for (std::size_t i = 0; i < 4; ++i) run.slot(0)[i] = static_cast<float>(i);
  run.weights()[128] = 0.25f;
  snapshot{run}.write(files.file(""));
  const auto common = detail::io::tensor_file::open(files.file("common.safetensors"));
  const auto own = detail::io::tensor_file::open(files.file("rank-0.safetensors"));
  trainer other{model, sgd{}, falling, solo{}};
  read_planes(other, common, true);
  CHECK((other.slot(0)[3] == 3 && other.weights()[128] == 0.25f));
  CHECK(read_state(own).progress.step == 0);

  renamed with_w3;
  trainer third{with_w3, sgd{}, falling, solo{}};
  CHECK(contains_all(message_of<error>([&] { read_planes(third, common, true); }),
                     {"resume:", "common.safetensors has no tensor \"W3\""}));
  labelled<fp64> doubles;
  trainer exact{doubles, sgd{}, falling, solo{}};
  CHECK(contains_all(message_of<error>([&] { read_planes(exact, common, true); }),
                     {"\"W1\" is F32 [4], this network's is F64 [4]"}));
}
