// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <new>
#include <system_error>

#include <doctest/doctest.h>

#include <cordee/checkpoint/read_outcome.hpp>

#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;
using namespace support;

TEST_CASE("outcome_of: wrong bytes are damage; what is not read, for want of memory too, is not") {
  const auto damaged = [](const auto& f) {
    const read_outcome o = outcome_of(f);
    CHECK((o.damage.empty() || o.failure.empty()));
    return !o.damage.empty();
  };
  CHECK(damaged([] { throw error("a wrong checksum"); }));
  CHECK(damaged([] { const auto j = nlohmann::json::parse("{"); }));
  CHECK_FALSE(damaged([] {}));
  CHECK_FALSE(damaged([] { throw detail::io::read_error("cannot read"); }));
  CHECK_FALSE(damaged([] { throw std::bad_alloc(); }));
  CHECK_FALSE(damaged([] { throw std::system_error(EIO, std::generic_category()); }));
  CHECK(outcome_of([] { throw std::bad_alloc(); }).failure == "std::bad_alloc");
}

TEST_CASE("throw_on_all_ranks: every rank throws the sentence of the lowest rank that has one") {
  const auto by_rank = on_ranks(3, [](threads comm) {
    throw_on_all_ranks(comm, "");
    return error_message([&] {
      throw_on_all_ranks(comm, comm.rank() == 0   ? ""
                               : comm.rank() == 1 ? "resume: at sea"
                                                  : "elsewhere");
    });
  });
  for (const std::string& message : by_rank) CHECK(message == "resume: at sea");
}
