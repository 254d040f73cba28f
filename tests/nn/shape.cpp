// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/shape.hpp>

using namespace cordee;

namespace {

constexpr shape filled(const shape& said) {
  return said.filled({3, 5, 7}, 11, shortcut::b, stem::large);
}
constexpr bool same(const shape& a, const shape& b) {
  return a.image == b.image && a.classes == b.classes && a.shortcut == b.shortcut &&
         a.group == b.group && a.zero_gamma == b.zero_gamma && a.stem == b.stem;
}
constexpr shape usual{
    .image = {3, 5, 7}, .classes = 11, .shortcut = shortcut::b, .stem = stem::large};

/// A network told what it looks like: a shape may be a template argument.
template <shape S>
constexpr int classes = S.classes;

}  // namespace

static_assert(same(filled({}), usual), "where nothing was said the family's own stands");
static_assert(usual.group == 0 && usual.zero_gamma, "the whole batch, and blocks as the identity");
static_assert(classes<shape{.classes = 4}> == 4);

TEST_CASE("shape: what was said stays, each thing by itself, and the rest is the family's own") {
  const auto check = [](auto member, const auto& value) {
    shape said, expected = usual;
    said.*member = expected.*member = value;
    CHECK(same(filled(said), expected));
  };
  check(&shape::image, extent{1, 28, 28});
  check(&shape::classes, 4);
  check(&shape::shortcut, shortcut::a);
  check(&shape::group, 32);
  check(&shape::zero_gamma, false);
  check(&shape::stem, stem::small);
}

TEST_CASE("shape: to fill what is full changes nothing") {
  constexpr shape full{{1, 2, 3}, 4, shortcut::a, 5, false, stem::small};
  CHECK(same(filled(full), full));
}
