// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/data/slice_reader.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;
using detail::data::slice_reader;

namespace {

/// numbered, and how often each example was read.
struct counted : numbered {
  std::shared_ptr<std::vector<std::atomic<int>>> reads;

  explicit counted(std::size_t n, std::size_t broken = ~std::size_t{0})
      : numbered{n, 7, broken}, reads(std::make_shared<std::vector<std::atomic<int>>>(n)) {}
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    ++(*reads)[i];
    if (i % 3 == 0) std::this_thread::yield();  // later samples may be finished first
    return numbered::read(i, pixels);
  }
};

/// The indices of all batches, whose sizes are checked.
template <class S>
std::vector<int> samples_of(slice_reader<S>& reader, std::size_t batch_size) {
  std::vector<int> samples;
  bool last = false;
  for (auto read = reader.next(); !read.empty(); read = reader.next()) {
    REQUIRE(read.size() == 1);
    CHECK(!last);
    last = read.front().labels.size < batch_size;
    CHECK(read.front().labels.size > 0);
    CHECK(read.front().global_samples == read.front().count);
    const std::vector<int> of_batch = support::samples_of(read);
    samples.insert(samples.end(), of_batch.begin(), of_batch.end());
  }
  CHECK(reader.next().empty());
  return samples;
}

/// Example i is read when as many threads as are expected are in `read` at once, or when they have
/// not come in 30 seconds.
struct meeting {
  struct shared {
    std::atomic<int> inside{0};
    std::atomic<bool> all_inside{false};
  };
  int expected;
  std::shared_ptr<shared> state = std::make_shared<shared>();

  extent image() const { return {1, 1, 1}; }
  int classes() const { return 1; }
  std::size_t size() const { return static_cast<std::size_t>(expected); }
  int read(std::size_t, std::span<std::uint8_t> pixels) const {
    if (++state->inside == expected) state->all_inside = true;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!state->all_inside && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    --state->inside;
    pixels[0] = 0;
    return 0;
  }
};

}  // namespace

TEST_CASE("slice_reader: each sample once and in order, whatever the threads and batches") {
  for (const std::size_t size : {0u, 1u, 9u, 10u, 11u, 50u})
    for (const int ranks : world_sizes)
      for (const int threads : {1, 2, 3, 8})
        for (const int batch_size : {1, 5, 100}) {
          if (threads > 2 && batch_size == 1 && size == 50) continue;
          CAPTURE(size);
          CAPTURE(ranks);
          CAPTURE(threads);
          CAPTURE(batch_size);
          const counted data(size);
          std::vector<int> all;
          for (int rank = 0; rank < ranks; ++rank) {
            const std::size_t first = size * static_cast<std::size_t>(rank) /
                                      static_cast<std::size_t>(ranks),
                              last = size * static_cast<std::size_t>(rank + 1) /
                                     static_cast<std::size_t>(ranks);
            slice_reader reader(data, first, last, batch_size, {}, threads);
            CHECK(reader.threads() == threads);
            const auto own = samples_of(reader, static_cast<std::size_t>(batch_size));
            CHECK(own.size() == last - first);
            all.insert(all.end(), own.begin(), own.end());
          }
          std::vector<int> expected(size);
          std::iota(expected.begin(), expected.end(), 0);
          CHECK(all == expected);
          for (const auto& reads : *data.reads) CHECK(reads == 1);
        }
}

TEST_CASE("slice_reader: a batch stays as it is while the next one is read") {
  const counted data(40);
  slice_reader reader(data, 0, 40, 10, {}, 2);
  for (int begin = 0; begin < 40; begin += 10) {
    const auto batch = reader.next();
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const int later = std::min(begin + 19, 39);  // of the next batch, which is being read
    while ((*data.reads)[static_cast<std::size_t>(later)] == 0 &&
           std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    CHECK((*data.reads)[static_cast<std::size_t>(later)] == 1);
    std::vector<int> expected(10);
    std::iota(expected.begin(), expected.end(), begin);
    CHECK(support::samples_of(batch) == expected);
  }
}

TEST_CASE("slice_reader: the threads read at the same time") {
  for (const int threads : {2, 3}) {
    const meeting data{threads};
    slice_reader reader(data, 0, data.size(), threads, {}, threads);
    CHECK(reader.next().size() == 1);
    CHECK(data.state->all_inside);
  }
}

TEST_CASE("slice_reader: a sample that cannot be read is named after the batches before it") {
  for (const int threads : {1, 2, 8}) {
    const counted data(50, 23);
    slice_reader reader(data, 0, 50, 10, {}, threads);
    CHECK(reader.next().size() == 1);
    CHECK(reader.next().size() == 1);
    CHECK(message_of<error>([&] { reader.next(); }) == "example 23 cannot be read");
  }
}

TEST_CASE("slice_reader: by default one thread, and the rank's cores where samples are drawn") {
  struct drawn : numbered {
    int read(std::size_t i, std::span<std::uint8_t> pixels, random_sequence) const {
      return numbered::read(i, pixels);
    }
    using numbered::read;
  };
  const cpu::worker_limit cores(3);
  CHECK(slice_reader(numbered{}, 0, 1, 1, {}, 0).threads() == 1);
  CHECK(slice_reader(drawn{}, 0, 1, 1, {}, 0).threads() == 3);
  CHECK(slice_reader(drawn{}, 0, 1, 1, {}, 2).threads() == 2);
}
