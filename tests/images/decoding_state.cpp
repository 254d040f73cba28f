// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <cordee/images/decoding_state.hpp>
#include <cordee/io/file.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace support;
using detail::images::decoding_state;
using detail::io::read_text;

TEST_CASE("decoding_state: the first broken image is printed at once, all by reason at the end") {
  const folder f;
  const std::string path = f.put("log", {});
  std::fflush(stderr);
  const int kept = ::dup(STDERR_FILENO), log = ::open(path.c_str(), O_WRONLY);
  ::dup2(log, STDERR_FILENO);
  std::optional<decoding_state> state(100);
  state->record_broken(3, "a.jpg", "a.jpg: it is truncated");
  state->record_broken(3, "a.jpg", "a.jpg: it is truncated");
  state->record_broken(4, "b.jpg", "b.jpg: it is truncated");
  state->record_broken(5, "c.jpg", "c.jpg: it is empty");
  const std::string begun = read_text(path), described = state->describe_broken();
  const std::size_t count = state->broken().size();
  state.reset();
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  ::close(log);
  CHECK(begun ==
        "decoded_images: a.jpg: it is truncated; the next image takes its place, as of others\n");
  CHECK(count == 3);
  CHECK(described ==
        "3 broken images were replaced by the next: 2: it is truncated (the first: a.jpg); 1: it "
        "is empty (c.jpg)");
  CHECK(read_text(path) == concat(begun, "decoded_images: ", described, "\n"));
}
