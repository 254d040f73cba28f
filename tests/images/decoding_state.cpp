// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <doctest/doctest.h>

#include <cordee/images/decoding_state.hpp>

#include "tests/support/printed_by.hpp"

using namespace cordee;
using namespace support;
using detail::images::decoding_state;

TEST_CASE("decoding_state: the first broken image is printed at once, all by reason at the end") {
  std::string begun, described;
  const std::string printed = printed_by([&](const std::string& path) {
    decoding_state state(100);
    state.record_broken(3, "a.jpg", "a.jpg: it is truncated");
    state.record_broken(3, "a.jpg", "a.jpg: it is truncated");
    state.record_broken(4, "b.jpg", "b.jpg: it is truncated");
    state.record_broken(5, "c.jpg", "c.jpg: it is empty");
    CHECK(state.broken().size() == 3);
    begun = text_of(path);
    described = state.describe_broken();
  });
  CHECK(begun ==
        "decoded_images: a.jpg: it is truncated; the next readable image takes its place, as for "
        "all that are broken\n");
  CHECK(described ==
        "3 broken images were replaced by the next: 2: it is truncated (the first: a.jpg); 1: it "
        "is empty (c.jpg)");
  CHECK(printed == concat(begun, "decoded_images: ", described, "\n"));
}
