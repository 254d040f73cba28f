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
using namespace cordee::detail::data;
using namespace support;

namespace {

enum class fault {
  none,
  label_too_large,
  label_negative,
  omits_byte,
  writes_after,
  writes_before,
  has_state,
  throws,
  shares_position,
  grows,
  empty_image,
  no_classes
};

/// `numbered` with one fault.
struct faulty : numbered {
  fault planted = fault::none;
  std::shared_ptr<std::atomic<std::size_t>> memory = std::make_shared<std::atomic<std::size_t>>(0);

  extent image() const {
    return planted == fault::empty_image ? extent{1, 0, 2} : numbered::image();
  }
  int classes() const { return planted == fault::no_classes ? 0 : labels; }
  std::size_t size() const { return count + (planted == fault::grows ? memory->load() : 0); }
  int read(std::size_t i, std::span<std::uint8_t> pixels) const {
    if (planted == fault::throws && i == 30) throw error("disk failure");
    if (planted == fault::shares_position) {  // a position shared by all readers
      memory->store(i);
      std::this_thread::yield();
      return numbered::read(memory->load(), pixels);
    }
    const std::size_t before = memory->exchange(i + 1);
    const int label = numbered::read(i, pixels);
    if (planted == fault::omits_byte && i == 20) pixels[0] = fill_of(pixels);
    if (planted == fault::writes_after) *(pixels.data() + pixels.size()) = 0xa5;
    if (planted == fault::writes_before) *(pixels.data() - 1) = 7;
    if (planted == fault::has_state && i != 0) pixels[1] = static_cast<std::uint8_t>(before);
    if (planted == fault::label_too_large && i == 40) return labels;
    if (planted == fault::label_negative && i == 40) return -1;
    return label;
  }

 private:
  /// The fill byte before the read, which is that of the guard.
  static std::uint8_t fill_of(std::span<std::uint8_t> pixels) {
    return *(pixels.data() + pixels.size());
  }
};

std::string violations(fault planted) {
  faulty data;
  data.planted = planted;
  return dataset_laws(data);
}

file_bytes records(std::size_t count, int labels, int classes) {
  file_bytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    for (int k = 0; k < labels; ++k)
      bytes.push_back(static_cast<std::uint8_t>(i % static_cast<std::size_t>(classes)));
    for (std::size_t p = 0; p < 3072; ++p) bytes.push_back(static_cast<std::uint8_t>(p * 7 + i));
  }
  return bytes;
}

}  // namespace

TEST_CASE("dataset_laws hold for the library's data sets") {
  CHECK(dataset_laws(synthetic{.extent = {3, 9, 7}, .classes = 10, .samples = 55, .seed = 3}) ==
        "");
  CHECK(dataset_laws(synthetic{.samples = 0}) == "");
  CHECK(dataset_laws(numbered{}) == "");
  CHECK(dataset_laws(split(numbered{}, 0.3).validation) == "");
  CHECK(dataset_laws(subset(synthetic{.samples = 20}, {19, 3, 3, 0})) == "");
  const folder f;
  CHECK(dataset_laws(
            idx(f.put("i", {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 9, 8, 7, 6, 5, 4}),
                f.put("l", {0, 0, 8, 1, 0, 0, 0, 2, 1, 0}))) == "");
  for (const char* name : {"1", "2", "3", "4", "5"})
    f.put(std::string("data_batch_") + name + ".bin", records(3, 1, 10));
  f.put("test_batch.bin", records(5, 1, 10));
  CHECK(dataset_laws(cifar10{f.file("")}) == "");
  CHECK(dataset_laws(cifar10{f.file(""), cifar10::test}) == "");
  f.put("train.bin", records(7, 2, 20));
  f.put("test.bin", records(2, 2, 20));
  CHECK(dataset_laws(cifar100{f.file("")}) == "");
  CHECK(dataset_laws(cifar100{f.file(""), cifar100::test, cifar100::coarse}) == "");
}

TEST_CASE("dataset_laws reads at most `limit` examples, evenly over the data set") {
  faulty data;
  data.count = 100000;
  CHECK(dataset_laws(data, 10).empty());
  data.planted = fault::throws;  // at 30, which is not among the ten
  CHECK(dataset_laws(data, 10).empty());
  CHECK_FALSE(dataset_laws(data, 100000).empty());
}

TEST_CASE("dataset_laws: every fault is detected and named") {
  CHECK(violations(fault::none).empty());
  CHECK(contains_all(violations(fault::label_too_large),
                     {"label 7 of example 40 is not within 0 .. 6"}));
  CHECK(contains_all(violations(fault::label_negative), {"label -1 of example 40"}));
  CHECK(contains_all(violations(fault::omits_byte),
                     {"example 20", "not all of its 2 bytes are written"}));
  CHECK(contains_all(violations(fault::writes_after), {"writes outside"}));
  CHECK(contains_all(violations(fault::writes_before), {"writes outside"}));
  CHECK(contains_all(violations(fault::has_state), {"a second read of example", "differs"}));
  CHECK(contains_all(violations(fault::throws), {"read throws: disk failure"}));
  CHECK(contains_all(violations(fault::grows), {"size differ in a copy, or change by reading"}));
  CHECK(contains_all(violations(fault::empty_image), {"the image is 1x0x2"}));
  CHECK(contains_all(violations(fault::no_classes), {"there are 0 classes"}));
}

TEST_CASE("dataset_laws: a position shared by readers is detected by concurrent reads") {
  // Whether threads collide is chance: up to 200 attempts.
  bool detected = false;
  for (int attempt = 0; attempt < 200 && !detected; ++attempt)
    detected =
        contains_all(violations(fault::shares_position), {"differs when several threads read"});
  CHECK(detected);
}
