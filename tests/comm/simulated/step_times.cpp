// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/simulated/step_times.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

namespace {

const std::vector<segment> table{{"conv.weight", kind::weight, 0, 64, {}},
                                 {"fc.weight", kind::weight, 64, 64, {}}};

step_profile read(const std::string& text, int images = 4) {
  std::istringstream in(text);
  return read_step_times(in, table, images);
}
const std::string head = "part,tensor,images,seconds\n",
                  rest = "forward,,4,3\nbackward,conv.weight,4,5\nbackward,fc.weight,4,2\n",
                  whole = head + rest + "optimizer,,4,0.5\n";

}  // namespace

TEST_CASE("step times: a table's seconds are those of the step") {
  const step_profile step = read("# on a CPU\n\r\n" + whole);
  CHECK(step.forward == 3);
  CHECK(step.backward == std::vector<double>{5, 2});
  CHECK(step.optimizer == 0.5);
  CHECK(step.table.size() == 2);
  CHECK(step.total() == 10.5);
  CHECK(read(whole.substr(0, whole.size() - 1)).optimizer == 0.5);  // no end of the last line
}

TEST_CASE("step times: layers scale with the images, the optimizer does not") {
  const step_profile step = read(whole, 8);
  CHECK(step.forward == 6);
  CHECK(step.backward == std::vector<double>{10, 4});
  CHECK(step.optimizer == 0.5);
}

TEST_CASE("step times: a file that is no such table is refused with its line") {
  const auto thrown = [](const std::string& text) { return error_message([&] { read(text); }); };
  const auto third = [&](const std::string& line) { return thrown(head + "# x\n" + line + "\n"); };
  CHECK(thrown("") == "step times: no line forward,; measure this network again");
  CHECK(thrown(head + rest) == "step times: no line optimizer,; measure this network again");
  CHECK(thrown(head + "forward,,4,3\noptimizer,,4,0\nbackward,conv.weight,4,5") ==
        "step times: no line backward,fc.weight; measure this network again");
  CHECK(thrown("a,b\n") ==
        "step times: line 1: the first line is to be part,tensor,images,seconds");
  CHECK(third("forward,,4") ==
        "step times: line 3: four fields are needed: part,tensor,images,seconds");
  CHECK(third("sideways,,4,1") ==
        "step times: line 3: \"sideways\" is none of forward, backward, optimizer");
  CHECK(third("backward,conv2.weight,4,1") ==
        "step times: line 3: this network has no tensor \"conv2.weight\"; measure it, not another "
        "one");
  CHECK(third("forward,fc.weight,4,1") ==
        "step times: line 3: forward has no tensor: forward,,images,seconds");
  for (const std::string bad : {"-1", "inf", "nan", "", "1s", "1,2", "1e999"})
    CHECK(third("forward,,4," + bad) ==
          "step times: line 3: seconds is a number of at least 0, not \"" + bad + "\"");
  CHECK(third("forward,,0,1") == "step times: line 3: images are at least 1");
  CHECK(third("forward,,x,1") == "step times: line 3: images is a number of at least 0, not \"x\"");
  CHECK(thrown(head + "forward,,4,3\noptimizer,,8,1") ==
        "step times: line 3: 8 images, after 4: measure all with one batch");
  CHECK(thrown(head + "forward,,4,3\nforward,,4,3") ==
        "step times: line 3: forward, is there twice");
  CHECK(third(std::string(511, ' ')) == "step times: no line forward,; measure this network again");
  CHECK(third(std::string(512, ' ')) ==
        "step times: line 3: longer than 511 characters: not a table of times");
  CHECK(third(std::string(100'000, ',')) ==
        "step times: line 3: longer than 511 characters: not a table of times");
}
