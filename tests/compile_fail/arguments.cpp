// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What is no schedule and no data set is named in a sentence.
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/data/loader.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/quadratic.hpp"

using namespace cordee;
using namespace support;

struct images {
  extent image() const { return {1, 2, 2}; }
#if !defined(DATA_SET_WITHOUT_CLASSES)
  int classes() const { return 2; }
#endif
  std::size_t size() const { return 8; }
#if defined(DATA_SET_READS_NOTHING)
  void read(std::size_t, std::span<std::uint8_t>) const {}
#else
  int read(std::size_t, std::span<std::uint8_t>) const { return 0; }
#endif
};

void run_it() {
  quadratic<fp32> model;
#if defined(NUMBER_FOR_A_SCHEDULE)
  trainer run{model, sgd{}, 0.1, solo{}};
#else
  trainer run{model, sgd{}, [](double) { return 0.1; }, solo{}};
#endif
#if defined(PATH_FOR_A_DATA_SET)
  loader feed{"data/cifar", self_comm{}, {.global_batch = 4}};
#elif defined(NUMBER_FOR_VALIDATION)
  const validation number{0.1};
#else
  loader feed{images{}, self_comm{}, {.global_batch = 4}};
#endif
}
