// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/gossip.hpp>
#include <cordee/comm/hybrid.hpp>
#include <cordee/comm/ring.hpp>
#include <cordee/comm/self_comm.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/schedule/cosine.hpp>
#include <cordee/schedule/legw.hpp>
#include <cordee/schedule/multistep.hpp>
#include <cordee/schedule/polynomial.hpp>
#include <cordee/schedule/warmup.hpp>
#include <cordee/train/member_values.hpp>

using namespace cordee;
using detail::train::member_values;

namespace {

struct nested {
  double a = 0.1;
  int b = -3;
  struct {
    bool on = true;
    std::array<float, 2> pair{0.5f, 2};
  } inner{};
  std::vector<int> list{4, 5};
  kinds mask = kind::weight | kind::bias;
  std::string word{};
};
struct with_others {
  const double* address = nullptr;
  std::function<double(double)> f{};
  self_comm comm{};
  double a = 1;
};
struct nothing {};
struct c_array {
  double a = 1, b[3] = {1, 2, 3};
};
struct pair_of_words {
  std::string a, b;
};
struct array_of_classes {
  double a = 1;
  pair_of_words b[3];
  int c = 2, d = 3;
};
struct without_defaults {
  const self_comm& reference;
  kinds mask;
  std::vector<int> list;
  pair_of_words words;
  int last;
};
struct derived : nested {
  int more = 7;
};
class hidden {
 public:
  explicit hidden(int x) : x_(x) {}
  int x() const { return x_; }

 private:
  int x_;
};
struct thirteen {
  int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, k = 11, l = 12, m = 13;
};
struct twelve {
  int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10, k = 11, l = 12;
};

// The values differ for each of these.
template <class T>
void check_all_differ(const std::vector<T>& policies) {
  for (std::size_t i = 0; i < policies.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) {
      CAPTURE(i);
      CAPTURE(k);
      CHECK(member_values(policies[i]) != member_values(policies[k]));
    }
}

}  // namespace

TEST_CASE("member_values: numbers, enumerations, lists and nested aggregates, in their order") {
  CHECK(member_values(nested{}) == "{0.1, -3, {1, {0.5, 2}}, {4, 5}, 3, {}}");
  CHECK(member_values(twelve{}) == "{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}");
  CHECK(member_values(nothing{}).empty());
  const self_comm comm;
  CHECK(member_values(without_defaults{comm, kind::bias, {3}, {"a", ""}, 5}) ==
        "{2, {3}, {{97}, {}}, 5}");
  CHECK(member_values(hybrid{ring{comm}, ring{comm}, 7}) == "{7}");
}

TEST_CASE("member_values: a number has the digits that give it back") {
  struct one {
    double x;
  };
  CHECK(member_values(one{0.1}) == "{0.1}");
  CHECK(member_values(one{std::nextafter(0.1, 1)}) == "{0.10000000000000002}");
  CHECK(member_values(one{-std::numeric_limits<double>::infinity()}) == "{-inf}");
}

TEST_CASE("member_values: addresses, functions, communicators and private members are left out") {
  CHECK(member_values(with_others{}) == "{1}");
  CHECK(member_values([x = 3](double) { return x; }).empty());
  CHECK(member_values(hidden{3}).empty());
  CHECK(member_values(ring{self_comm{}}).empty());
  CHECK(member_values(gossip<self_comm, topologies::torus2d>{{}, {.rows = 2}}) == "{{2}}");
}

TEST_CASE("member_values: an aggregate that cannot be taken apart has none, and compiles") {
  CHECK(member_values(c_array{}).empty());
  CHECK(member_values(array_of_classes{}).empty());
  CHECK(member_values(derived{}).empty());
  CHECK(member_values(thirteen{}).empty());
}

TEST_CASE("member_values: every option of every optimizer counts") {
  check_all_differ<sgd>({sgd{}, sgd{.momentum = 0.5}, sgd{.nesterov = true},
                         sgd{.weight_decay = 0.1}, sgd{.decay_on = kind::bias}});
  check_all_differ<lars>({lars{}, lars{.momentum = 0.5}, lars{.weight_decay = 0.1},
                          lars{.trust_coefficient = 0.1}, lars{.nesterov = true},
                          lars{.decay_on = kind::bias}, lars{.adapt_on = kind::bias}});
  check_all_differ<lamb>({lamb{}, lamb{.beta1 = 0.5}, lamb{.beta2 = 0.5}, lamb{.epsilon = 0.1},
                          lamb{.weight_decay = 0.1}, lamb{.decay_on = kind::bias}});
  check_all_differ<adamw>({adamw{}, adamw{.beta1 = 0.5}, adamw{.beta2 = 0.5}, adamw{.epsilon = 0.1},
                           adamw{.weight_decay = 0.1}});
  check_all_differ<decentlam>({decentlam{}, decentlam{.momentum = 0.5},
                               decentlam{.weight_decay = 0.1}, decentlam{.nesterov = true}});
  check_all_differ<local_steps<sgd>>({local_steps{sgd{}, 8}, local_steps{sgd{}, 4},
                                      local_steps{sgd{.momentum = 0.5}, 8},
                                      local_steps{sgd{}, 8, 2.0}});
  check_all_differ<clip<sgd>>(
      {clip{sgd{}, 1.0}, clip{sgd{}, 2.0}, clip{sgd{.momentum = 0.5}, 1.0}});
}

TEST_CASE("member_values: every option of every schedule counts") {
  check_all_differ<multistep>({multistep{}, multistep{.learning_rate = 1},
                               multistep{.milestones = {30, 60}}, multistep{.milestones = {30, 61}},
                               multistep{.factor = 0.5}});
  check_all_differ<polynomial>({polynomial{}, polynomial{.peak = 7}, polynomial{.end = 0.3},
                                polynomial{.epochs = 7}, polynomial{.power = 3}});
  check_all_differ<warmup<cosine>>({warmup{5, cosine{}}, warmup{6, cosine{}},
                                    warmup{5, cosine{.peak = 7}}, warmup{5, cosine{.floor = 0.3}},
                                    warmup{5, cosine{.epochs = 7}}});
}
