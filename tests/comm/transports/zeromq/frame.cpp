// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include <cordee/comm/transports/zeromq/frame.hpp>

using namespace cordee::detail::comm;

namespace {

std::string frame(zeromq_header h, std::size_t payload) {
  std::string bytes(sizeof h + payload, 'x');
  std::memcpy(bytes.data(), &h, sizeof h);
  return bytes;
}
bool accepts(const zeromq_header& h, std::size_t payload) {
  return parse_header(frame(h, payload), 4).has_value();
}

}  // namespace

TEST_CASE("parse_header: takes chunks within their transfer, and answers") {
  CHECK(accepts({.size = 0}, 0));
  CHECK(accepts({.context = 3, .size = 10}, 10));
  CHECK(accepts({.kind = zeromq_header::synchronous, .size = 10, .offset = 4}, 6));
  CHECK(accepts({.size = 3 * zeromq_chunk, .offset = zeromq_chunk}, zeromq_chunk));
  CHECK(accepts({.kind = zeromq_header::consumed}, 0));
  CHECK(accepts({.kind = zeromq_header::left}, 0));
}

TEST_CASE("parse_header: takes nothing else") {
  CHECK_FALSE(parse_header("", 4).has_value());
  CHECK_FALSE(parse_header(frame({.size = 10}, 10).substr(0, sizeof(zeromq_header) - 1), 4));
  CHECK_FALSE(accepts({.magic = zeromq_magic + 1, .size = 10}, 10));
  CHECK_FALSE(accepts({.kind = zeromq_header::hello}, 0));
  CHECK_FALSE(accepts({.kind = 5}, 0));
  CHECK_FALSE(accepts({.context = 4}, 0));
  CHECK_FALSE(accepts({.size = 10}, 0));
  CHECK_FALSE(accepts({.size = 10}, 11));
  CHECK_FALSE(accepts({.size = 10, .offset = 5}, 6));
  CHECK_FALSE(accepts({.size = 10, .offset = 11}, 1));
  CHECK_FALSE(accepts({.size = ~std::uint64_t{0}, .offset = ~std::uint64_t{0}}, 1));
  CHECK_FALSE(accepts({.size = 2 * zeromq_chunk}, zeromq_chunk + 1));
  CHECK_FALSE(accepts({.kind = zeromq_header::consumed}, 1));
  CHECK_FALSE(accepts({.kind = zeromq_header::left}, 1));
}

TEST_CASE("parse_header: whatever the bytes, a chunk that it takes lies within its transfer") {
  std::mt19937_64 random(1);
  int taken = 0;
  for (int k = 0; k < 200'000; ++k) {
    zeromq_header h{.kind = static_cast<std::uint8_t>(random() % 7),
                    .context = static_cast<std::uint8_t>(random() % 6),
                    .size = random() % 64,
                    .offset = random() % 64};
    if (random() % 8 == 0) h.size = random();
    if (random() % 8 == 0) h.offset = random();
    const std::size_t n = random() % 64;
    const auto parsed = parse_header(frame(h, n), 4);
    if (!parsed) continue;
    ++taken;
    if (parsed->kind >= zeromq_header::consumed) continue;
    REQUIRE(parsed->offset <= parsed->size);
    REQUIRE(n <= parsed->size - parsed->offset);
  }
  CHECK(taken > 1000);
}

TEST_CASE("zeromq_hello: parse reverses serialize, and rejects what is none") {
  const auto hello = zeromq_hello::parse(zeromq_hello{7, "secret"}.serialize());
  REQUIRE(hello.has_value());
  CHECK(hello->rank == 7);
  CHECK(hello->secret == "secret");
  CHECK_FALSE(zeromq_hello::parse("").has_value());
  CHECK_FALSE(zeromq_hello::parse(zeromq_hello{7, ""}.serialize().substr(1)).has_value());
  CHECK_FALSE(zeromq_hello::parse(frame({.size = 8}, 8)).has_value());
  CHECK(zeromq_hello::parse(zeromq_hello{7, ""}.serialize())->secret.empty());
}
