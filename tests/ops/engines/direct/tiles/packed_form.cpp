// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/direct/tiles/packed_form.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

template <int V>
void check_form(const packed_form<V>& form) {
  CAPTURE(V);
  CAPTURE(form.outputs);
  CAPTURE(form.inputs);
  CAPTURE(form.window);
  const auto blocks = static_cast<int>(channel_blocks(form.outputs, V));
  CHECK(form.size() == static_cast<std::size_t>(blocks * form.block_size()));
  // Canonical weight i is the number i; numbers that only fill a block stay -1. In two halves.
  const int taps = form.window * form.window, weights = form.outputs * form.inputs * taps;
  std::vector<int> packed(form.size(), -1), wanted(static_cast<std::size_t>(weights)),
      unpacked(wanted.size(), 5), added(wanted.size(), 5), counts(wanted.size());
  std::iota(wanted.begin(), wanted.end(), 0);
  const packed_form<V> other{form.inputs, form.outputs, form.window};
  std::vector<int> repacked(form.size(), -1), swapped(other.size(), -1);
  const auto end = static_cast<std::size_t>(blocks);
  for (const auto& [first, last] : {std::pair{std::size_t{0}, end / 2}, std::pair{end / 2, end}}) {
    const std::ptrdiff_t from = static_cast<std::ptrdiff_t>(first) * form.block_size();
    form.for_each_run(first, last, [&](const auto& run, auto channels) {
      for (int c = 0; c < channels; ++c)
        for (int tap = 0; tap < taps; ++tap) {
          const int weight = static_cast<int>(run.canonical) + c * taps + tap;
          CHECK(weight == (run.k * form.inputs + run.c + c) * taps + tap);
          const std::ptrdiff_t at = from + run.packed + tap * form.tap_size() + c * V;
          CHECK(at == run.k / V * form.block_size() + run.k % V +
                          form.at(run.c + c, tap / form.window, tap % form.window));
          packed[static_cast<std::size_t>(at)] = weight;
          counts[static_cast<std::size_t>(weight)] += 1;
        }
    });
    form.unpack(first, last, packed.data() + from, unpacked.data(), write_mode::overwrite);
    form.unpack(first, last, packed.data() + from, added.data(), write_mode::add);
    form.pack(first, last, wanted.data(), repacked.data() + from);
    form.swap_channels(first, last, packed.data() + from, swapped.data());
  }
  CHECK(repacked == packed);
  for (int weight = 0; weight < weights; ++weight) {
    const int k = weight / taps / form.inputs, c = weight / taps % form.inputs, tap = weight % taps;
    const std::ptrdiff_t at =
        c / V * other.block_size() + c % V + other.at(k, tap / form.window, tap % form.window);
    CHECK(swapped[static_cast<std::size_t>(at)] == weight);
  }
  CHECK(std::count(swapped.begin(), swapped.end(), -1) ==
        static_cast<std::ptrdiff_t>(other.size() - wanted.size()));
  CHECK(counts == std::vector<int>(counts.size(), 1));
  CHECK(std::count(packed.begin(), packed.end(), -1) ==
        static_cast<std::ptrdiff_t>(form.size() - wanted.size()));
  CHECK(unpacked == wanted);
  std::iota(wanted.begin(), wanted.end(), 5);
  CHECK(added == wanted);
}

}  // namespace

TEST_CASE("packed_form: every weight has one offset, and is packed, unpacked and swapped there") {
  for (const int outputs : {1, 8, 9, 16, 33})
    for (const int inputs : {1, 3, 4, 5, 16, 17, 48})
      for (const int window : {1, 2, 3, 7}) {
        check_form(packed_form<2>{outputs, inputs, window});
        check_form(packed_form<8>{outputs, inputs, window});
        check_form(packed_form<16>{outputs, inputs, window});
      }
}

TEST_CASE("packed_form: the order is channels of a block, taps, rows, blocks") {
  constexpr packed_form<8> form{16, 24, 3};
  CHECK(form.at(0, 0, 0) == 0);
  CHECK(form.at(1, 0, 0) == 8);
  CHECK(form.at(0, 0, 1) == 64);
  CHECK(form.at(0, 1, 0) == 3 * 64);
  CHECK(form.at(8, 0, 0) == 9 * 64);
  CHECK(form.block_size() == 27 * 64);
  constexpr packed_form<8> narrow{16, 3, 3};
  CHECK(narrow.at(0, 0, 1) == 3 * 8);
  CHECK(narrow.block_size() == 27 * 8);
}
