// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <cordee/data/shuffled_indices.hpp>
#include <cordee/testing/encoded_dataset_laws.hpp>

#include "tests/support/folder.hpp"

using namespace cordee;

namespace {

enum class fault {
  none,
  label_too_large,
  label_negative,
  other_label,
  appends,
  has_state,
  shares_position,
  throws,
  no_name,
  same_names,
  no_classes,
  repeats_in_order,
  short_order,
  random_order,
  same_epochs,
  same_seeds
};

struct encoded {
  fault planted = fault::none;
  std::shared_ptr<std::atomic<std::size_t>> memory = std::make_shared<std::atomic<std::size_t>>(0);

  int classes() const { return planted == fault::no_classes ? 0 : 7; }
  std::size_t size() const { return 60; }
  int read(std::size_t i, std::vector<std::uint8_t>& bytes) const {
    if (planted == fault::throws && i == 30) throw error("disk failure");
    if (planted == fault::shares_position) {  // a position shared by all readers
      memory->store(i);
      std::this_thread::yield();
      i = memory->load();
    }
    if (planted != fault::appends) bytes.clear();
    bytes.insert(bytes.end(), i, static_cast<std::uint8_t>(i));
    const std::size_t before = memory->exchange(i);
    if (planted == fault::has_state) bytes.push_back(static_cast<std::uint8_t>(before));
    if (planted == fault::label_too_large && i == 40) return 7;
    if (planted == fault::label_negative && i == 40) return -1;
    return static_cast<int>(i % 7);
  }
  int label(std::size_t i) const {
    return static_cast<int>((planted == fault::other_label && i == 20 ? 3 : i) % 7);
  }
  std::string name(std::size_t i) const {
    if (planted == fault::no_name && i == 20) return {};
    return concat("image ", planted == fault::same_names ? i / 2 : i);
  }
  std::vector<std::uint32_t> order(std::uint64_t seed, std::int64_t epoch) const {
    if (planted == fault::same_epochs) epoch = 0;
    if (planted == fault::same_seeds) seed = 0;
    if (planted == fault::random_order) seed = memory->fetch_add(1);
    auto all = detail::data::shuffled_indices(seed, epoch, size());
    if (planted == fault::repeats_in_order) all[3] = all[4];
    if (planted == fault::short_order) all.pop_back();
    return all;
  }
};

}  // namespace

TEST_CASE("encoded data set laws: a correct one obeys them") {
  CHECK(encoded_dataset_laws(encoded{}) == "");
  CHECK(encoded_dataset_laws(encoded{}, 7) == "");
}

TEST_CASE("encoded data set laws: every planted fault is detected") {
  for (const auto& [planted, sentence] :
       {std::pair{fault::label_too_large, "label 7 of example 40 is not within 0 .. 6"},
        std::pair{fault::label_negative, "label -1 of example 40"},
        std::pair{fault::other_label, "label(20) is 3, read returns 6"},
        std::pair{fault::appends, "differs"}, std::pair{fault::has_state, "differs"},
        std::pair{fault::shares_position, "differs when several threads read concurrently"},
        std::pair{fault::throws, "read throws: disk failure"},
        std::pair{fault::no_name, "example 20 has no name"},
        std::pair{fault::same_names, "two examples have the name image "},
        std::pair{fault::no_classes, "there are 0 classes"},
        std::pair{fault::repeats_in_order, "does not have each example once"},
        std::pair{fault::short_order, "does not have each example once"},
        std::pair{fault::random_order, "a second call gives another order"},
        std::pair{fault::same_epochs, "two epochs have the same order"},
        std::pair{fault::same_seeds, "two seeds have the same order"}}) {
    INFO(std::string(sentence));
    encoded data;
    data.planted = planted;
    std::string violations;
    // The threads of a race may take turns by chance.
    for (int attempt = 0; attempt < 100 && violations.find(sentence) == violations.npos; ++attempt)
      violations = encoded_dataset_laws(data);
    CHECK(support::contains_all(violations, {sentence}));
  }
}
