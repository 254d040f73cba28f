// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cordee/ops/segment_body.hpp>

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

struct uniform {
  template <class At>
  constexpr void operator()(At) const {}
};
/// Idle on biases; `k` is the segment's.
struct per_segment {
  std::size_t k = 99;
  bool bias = false;
  per_segment for_segment(kind what, std::size_t segment) const {
    return {segment, what == kind::bias};
  }
  [[nodiscard]] bool is_idle() const { return bias; }
};
struct not_copyable : uniform {
  not_copyable(const not_copyable&) {}
};

}  // namespace

static_assert(SegmentBody<uniform, float> && SegmentBody<per_segment, float>);
static_assert(PerSegmentBody<per_segment> && !PerSegmentBody<uniform>);
static_assert(!SegmentBody<not_copyable, float> && !SegmentBody<int, float>);

TEST_CASE("segment_body: a body gets the coefficients of its segment") {
  const per_segment body;
  CHECK(detail::ops::body_for_segment(body, kind::weight, 3).k == 3);
  CHECK_FALSE(detail::ops::is_idle(detail::ops::body_for_segment(body, kind::weight, 3)));
  CHECK(detail::ops::is_idle(detail::ops::body_for_segment(body, kind::bias, 3)));
}

TEST_CASE("segment_body: a body without for_segment is the same for all, and never idle") {
  CHECK_FALSE(detail::ops::is_idle(detail::ops::body_for_segment(uniform{}, kind::weight, 0)));
}
