// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/checkpoint/staged_io.hpp>
#include <cordee/device/cpu.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using support::folder;

namespace {

/// Memory that the host does not read: every copy is recorded, as pieces of both sides.
struct recording_device {
  static constexpr bool host_memory = false;
  struct stream {};
  struct copied {
    const void *out, *in;
    std::size_t size;
  };

  std::vector<copied>* copies;
  int* unfinished;  // copies since the last wait

  void copy(void* out, const void* in, std::size_t size, stream) const {
    std::memcpy(out, in, size);
    copies->push_back({out, in, size});
    ++*unfinished;
  }
  void finish(stream) const { *unfinished = 0; }
};

support::file_bytes numbered(std::size_t size) {
  support::file_bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 2654435761u >> 24);
  return bytes;
}

}  // namespace

TEST_CASE("staged_io: device memory is written and read in pieces through one buffer") {
  const folder files;
  std::vector<recording_device::copied> copies;
  int unfinished = 0;
  staged_io<recording_device> staging({&copies, &unfinished}, {});
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, staging_bytes - 1, staging_bytes,
                                 staging_bytes + 1, 2 * staging_bytes + 5}) {
    copies.clear();
    const support::file_bytes memory = numbered(size);
    support::file_bytes written;
    staging.write(std::as_bytes(std::span(memory)), [&](std::span<const std::byte> piece) {
      CHECK(unfinished == 0);  // the copy is complete before it is written
      const auto* const begin = reinterpret_cast<const std::uint8_t*>(piece.data());
      written.insert(written.end(), begin, begin + piece.size());
    });
    CHECK(written == memory);
    CHECK(copies.size() == (size + staging_bytes - 1) / staging_bytes);
    for (const auto& c : copies) CHECK((c.size <= staging_bytes && c.out == copies[0].out));

    copies.clear();
    support::file_bytes file{1, 2, 3};
    file.insert(file.end(), memory.begin(), memory.end());
    const detail::io::input_file input(files.put("file", file));
    support::file_bytes read(size);
    staging.read(input, 3, std::as_writable_bytes(std::span(read)));
    CHECK(read == memory);
    CHECK(unfinished == 0);
    CHECK(copies.size() == (size + staging_bytes - 1) / staging_bytes);
    for (const auto& c : copies) CHECK((c.size <= staging_bytes && c.in == copies[0].in));
  }
}

TEST_CASE("staged_io: the host's memory is passed as it is") {
  const folder files;
  staged_io<cpu> staging(cpu{1}, {});
  const support::file_bytes memory = numbered(3 * staging_bytes);
  int calls = 0;
  staging.write(std::as_bytes(std::span(memory)), [&](std::span<const std::byte> piece) {
    CHECK((reinterpret_cast<const std::uint8_t*>(piece.data()) == memory.data() &&
           piece.size() == memory.size()));
    ++calls;
  });
  CHECK(calls == 1);
  const detail::io::input_file input(files.put("file", memory));
  support::file_bytes read(memory.size());
  staging.read(input, 0, std::as_writable_bytes(std::span(read)));
  CHECK(read == memory);
}
