// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/fold.hpp>

#include "tests/support/formulas.hpp"

using namespace cordee;
using namespace support;

namespace {

// Writes down what a rank is told to do.
struct diary {
  std::string said;

  void add(int next, blocks, int before, blocks) { note("add", next, before); }
  void pass(int next, blocks, int before, blocks) { note("pass", next, before); }
  void open() { said += "open"; }

 private:
  void note(const char* what, int next, int before) {
    said += std::string(what) + " to " + std::to_string(next) + " from " + std::to_string(before) +
            "; ";
  }
};

std::string day_of(fold f) {
  diary d;
  f.around(d, {0, 1},
           [&](const fold& inside) { d.said += "as " + std::to_string(inside.number()) + "; "; });
  return d.said;
}

}  // namespace

TEST_CASE("fold: p' ranks run the method, each under a number of its own that leads back to it") {
  for (int p = 1; p <= 33; ++p) {
    CAPTURE(p);
    std::set<int> numbers;
    int waiting = 0;
    for (int r = 0; r < p; ++r) {
      const fold f{r, p};
      CHECK(f.ranks() == below(p));
      CHECK(f.paired() == (r < 2 * (p - below(p))));
      waiting += f.waits() ? 1 : 0;
      if (f.waits()) {
        CHECK(fold{r + 1, p}.paired());
        CHECK_FALSE(fold{r + 1, p}.waits());
        continue;
      }
      CHECK(f.rank_of(f.number()) == r);
      CHECK((f.number() >= 0 && f.number() < f.ranks()));
      numbers.insert(f.number());
    }
    CHECK(waiting == p - below(p));
    CHECK(numbers.size() == whole(below(p)));
  }
}

TEST_CASE("fold: of six ranks two give theirs to their neighbours, and hear the result from them") {
  CHECK(day_of({0, 6}) == "add to 1 from -1; pass to -1 from 1; open");
  CHECK(day_of({1, 6}) == "add to -1 from 0; as 0; pass to 0 from -1; open");
  CHECK(day_of({2, 6}) == "add to 3 from -1; pass to -1 from 3; open");
  CHECK(day_of({3, 6}) == "add to -1 from 2; as 1; pass to 2 from -1; open");
  CHECK(day_of({4, 6}) == "as 2; open");
  CHECK(day_of({5, 6}) == "as 3; open");
}

TEST_CASE("fold: a power of two is left as it is") {
  for (const int p : {1, 2, 4, 8})
    for (int r = 0; r < p; ++r) CHECK(day_of({r, p}) == "as " + std::to_string(r) + "; open");
}
