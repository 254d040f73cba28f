// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include <cordee/ops/engines/amx/tiles/permission.hpp>
#include <cordee/ops/engines/amx/tiles/tile_unit.hpp>

using namespace cordee::detail::ops;

TEST_CASE(
    "permission: is granted where the system shows AMX, and refused with a reason elsewhere") {
  std::ifstream file("/proc/cpuinfo");
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const auto has = [&](const char* flag) { return all.find(flag) != std::string::npos; };
  const bool shown = has(" amx_tile") && has(" amx_int8") && has(" amx_bf16");
  const tile_permission& answer = tiles_of_process();
  INFO(answer.reason);
  CHECK(answer.granted == shown);
  CHECK(tiles_permitted() == answer.granted);
  CHECK((*answer.reason == '\0') == answer.granted);
#if CORDEE_ABI_AMX
  if (!answer.granted) return;
  const float one = 1;
  float sum = 0;
  amx_tiles unit(tile_shapes{}.set(0, 1, 4));
  unit.load<0>(&one, 4);
  unit.store<0>(&sum, 4);
  CHECK(sum == 1);
#endif
}
