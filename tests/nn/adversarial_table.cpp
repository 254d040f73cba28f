// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/adversarial_table.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/precision/fp32.hpp>

using namespace cordee;
using namespace cordee::detail;

namespace {

using net = resnet<8, fp32, cpu>;
using table = nn::adversarial_table<net>;
constexpr auto& segments = table::segments;

constexpr const segment& of(std::string_view name) {
  for (const segment& s : segments)
    if (s.name == name) return s;
  throw "there is none";
}

}  // namespace

TEST_CASE("adversarial_table: the network's tensors stay, its batch norms stand twice") {
  static_assert(table::norms == 2 * net::convolutions());
  static_assert(segments.size() == net::segments().size() + 2 * table::norms);
  static_assert(core::count_trainable(segments) == net::tensors() + table::norms);
  for (const segment& s : net::segments().first(net::tensors())) {
    CHECK(of(s.name).offset == s.offset);
    CHECK(of(s.name).size == s.size);
  }
  CHECK(of("adversarial.bn1.weight").kind == kind::scale);
  CHECK(of("adversarial.layer1.0.bn2.bias").kind == kind::shift);
  CHECK(of("adversarial.bn1.running_var").shape == of("bn1.running_var").shape);
}

TEST_CASE(
    "adversarial_table: segments follow one another, and each set of statistics the network's") {
  std::size_t end = 0;
  for (const segment& s : segments) {
    CHECK(s.offset == end);
    end = s.offset + core::align_up(s.size);
  }
  CHECK(end == table::plane_size);
  for (std::size_t k = 0; k < table::statistics; ++k) {
    const segment& own = net::segments()[net::tensors() + k];
    const std::size_t first = net::tensors() + table::norms + k;
    CHECK(segments[first].offset == own.offset + table::statistics_shift);
    CHECK(segments[first + table::statistics].offset == own.offset + table::adversarial_shift);
    CHECK(segments[first + table::statistics].name == concat("adversarial.", own.name));
  }
}
