// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <cordee/data/cifar.hpp>
#include <cordee/data/idx.hpp>
#include <cordee/data/split.hpp>
#include <cordee/data/synthetic.hpp>
#include <cordee/testing/dataset_laws.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/numbered.hpp"

using namespace cordee;
using namespace support;

namespace {

enum class fault {
  none,
  label_too_large,
  label_negative,
  byte_left_out,
  writes_behind,
  writes_before,
  remembers,
  throws,
  shares_a_place,
  grows,
  flat,
  classless
};

/// `numbered`, with one fault.
struct faulty : numbered {
  fault wrong = fault::none;
  std::shared_ptr<std::atomic<std::size_t>> memory = std::make_shared<std::atomic<std::size_t>>(0);

  extent image() const { return wrong == fault::flat ? extent{1, 0, 2} : numbered::image(); }
  int classes() const { return wrong == fault::classless ? 0 : labels; }
  std::size_t size() const { return count + (wrong == fault::grows ? memory->load() : 0); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    if (wrong == fault::throws && i == 30) throw error("the disk is gone");
    if (wrong == fault::shares_a_place) {  // a position that all readers move
      memory->store(i);
      std::this_thread::yield();
      return numbered::read(memory->load(), pixels);
    }
    const std::size_t before = memory->exchange(i + 1);
    const int label = numbered::read(i, pixels);
    if (wrong == fault::byte_left_out && i == 20) pixels[0] = memory_of(pixels);
    if (wrong == fault::writes_behind) *(pixels.data() + pixels.size()) = 0xa5;
    if (wrong == fault::writes_before) *(pixels.data() - 1) = 7;
    if (wrong == fault::remembers && i != 0) pixels[1] = static_cast<std::uint8_t>(before);
    if (wrong == fault::label_too_large && i == 40) return labels;
    if (wrong == fault::label_negative && i == 40) return -1;
    return label;
  }

 private:
  /// What stood in the wall, and so in the room, before the read.
  static std::uint8_t memory_of(std::span<std::uint8_t> pixels) {
    return *(pixels.data() + pixels.size());
  }
};

std::string complaints(fault wrong) {
  faulty data;
  data.wrong = wrong;
  std::string all;
  for (const std::string& one : broken_dataset_laws(data)) all += one + "\n";
  return all;
}

file_bytes records(std::size_t count, int labels, int classes) {
  file_bytes all;
  for (std::size_t i = 0; i < count; ++i) {
    for (int k = 0; k < labels; ++k)
      all.push_back(static_cast<std::uint8_t>(i % static_cast<std::size_t>(classes)));
    for (std::size_t p = 0; p < 3072; ++p) all.push_back(static_cast<std::uint8_t>(p * 7 + i));
  }
  return all;
}

}  // namespace

TEST_CASE("dataset_laws: the library's own data sets obey them") {
  dataset_laws(synthetic{.extent = {3, 9, 7}, .classes = 10, .samples = 55, .seed = 3});
  dataset_laws(synthetic{.samples = 0});
  dataset_laws(numbered{});
  dataset_laws(split(numbered{}, 0.3).held_out);
  dataset_laws(subset(synthetic{.samples = 20}, {19, 3, 3, 0}));
  const folder f;
  dataset_laws(idx(f.put("i", {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 9, 8, 7, 6, 5, 4}),
                   f.put("l", {0, 0, 8, 1, 0, 0, 0, 2, 1, 0})));
  for (const char* name : {"1", "2", "3", "4", "5"})
    f.put(std::string("data_batch_") + name + ".bin", records(3, 1, 10));
  f.put("test_batch.bin", records(5, 1, 10));
  dataset_laws(cifar10{f.file("")});
  dataset_laws(cifar10{f.file(""), part::test});
  f.put("train.bin", records(7, 2, 20));
  f.put("test.bin", records(2, 2, 20));
  dataset_laws(cifar100{f.file("")});
  dataset_laws(cifar100{f.file(""), part::test, cifar100::coarse});
}

TEST_CASE("dataset_laws: only some examples of a large data set are read, the whole range of it") {
  faulty data;
  data.count = 100000;
  CHECK(broken_dataset_laws(data, 10).empty());
  data.wrong = fault::throws;  // at 30, which is not among the ten
  CHECK(broken_dataset_laws(data, 10).empty());
  CHECK_FALSE(broken_dataset_laws(data, 100000).empty());
}

TEST_CASE("dataset_laws: every fault is found and named") {
  CHECK(complaints(fault::none).empty());
  CHECK(says(complaints(fault::label_too_large), {"label 7 of example 40 is not in 0 .. 6"}));
  CHECK(says(complaints(fault::label_negative), {"label -1 of example 40"}));
  CHECK(says(complaints(fault::byte_left_out), {"example 20", "its 2 bytes are not all written"}));
  CHECK(says(complaints(fault::writes_behind), {"writes beyond the room"}));
  CHECK(says(complaints(fault::writes_before), {"writes beyond the room"}));
  CHECK(says(complaints(fault::remembers), {"not the same when it is read again"}));
  CHECK(says(complaints(fault::throws), {"reading fails: the disk is gone"}));
  CHECK(says(complaints(fault::grows), {"size of a copy are others, or change with reading"}));
  CHECK(says(complaints(fault::flat), {"its image is 1x0x2"}));
  CHECK(says(complaints(fault::classless), {"it has 0 classes"}));
}

TEST_CASE("dataset_laws: a place that readers share is found by reading in several threads") {
  // Chance decides when threads meet: many tries, until one is seen.
  bool seen = false;
  for (int attempt = 0; attempt < 200 && !seen; ++attempt)
    seen = says(complaints(fault::shares_a_place), {"is another one when several threads read"});
  CHECK(seen);
}
