// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/nn/resnet_options.hpp>

using namespace cordee;

namespace {

constexpr resnet_options filled(const resnet_options& options) {
  return options.with_defaults({3, 5, 7}, 11, shortcut::b, stem::large);
}
constexpr bool same(const resnet_options& a, const resnet_options& b) {
  return a.image == b.image && a.classes == b.classes && a.shortcut == b.shortcut &&
         a.ghost_batch == b.ghost_batch && a.zero_gamma == b.zero_gamma && a.stem == b.stem;
}
constexpr resnet_options defaults{
    .image = {3, 5, 7}, .classes = 11, .shortcut = shortcut::b, .stem = stem::large};

/// Options may be a template argument.
template <resnet_options S>
constexpr int classes = S.classes;

}  // namespace

static_assert(same(filled({}), defaults), "options that are not set have the family's defaults");
static_assert(defaults.ghost_batch == 0 && defaults.zero_gamma,
              "statistics over the whole batch, and blocks that are the identity initially");
static_assert(classes<resnet_options{.classes = 4}> == 4);

TEST_CASE("resnet_options: an option that is set stays, the others have the defaults") {
  const auto check = [](auto member, const auto& value) {
    resnet_options options, expected = defaults;
    options.*member = expected.*member = value;
    CHECK(same(filled(options), expected));
  };
  check(&resnet_options::image, extent{1, 28, 28});
  check(&resnet_options::classes, 4);
  check(&resnet_options::shortcut, shortcut::a);
  check(&resnet_options::ghost_batch, 32);
  check(&resnet_options::zero_gamma, false);
  check(&resnet_options::stem, stem::small);
}

TEST_CASE("resnet_options: defaults do not change options that are all set") {
  constexpr resnet_options full{{1, 2, 3}, 4, shortcut::a, 5, false, stem::small};
  CHECK(same(filled(full), full));
}
