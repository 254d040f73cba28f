// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which reducers can be made of others is known when the program compiles.
#include <cordee/comm/double_tree.hpp>
#include <cordee/comm/group.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/narrow.hpp>
#include <cordee/comm/native.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/threads.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/int8.hpp>

using namespace cordee;

template <class R>
void use(const R& reducer) {
  (void)reducer.template scratch<float>(1);
}

void compose(threads link) {
#if defined(HYBRID_WITH_MEMORY)
  use(hybrid{double_tree{link}, narrow{ring{link}, bf16{}}});
#elif defined(HYBRID_OF_TWO_LINKS)
  use(hybrid{double_tree{link}, ring{group{link, {0, 1}}}});
#elif defined(NARROW_TWICE)
  use(narrow{narrow{ring{link}, bf16{}}, int8{}});
#elif defined(NARROW_WITHOUT_HOPS)
  use(narrow{native{link}, bf16{}});
#else
  use(narrow{hybrid{double_tree{link}, ring{link}}, int8{}});
  use(hybrid{double_tree{group{link, {0, 1}}}, ring{group{link, {0, 1}}}, 100});
#endif
}
