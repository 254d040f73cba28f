// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/nn/model_pass.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/train/trainer.hpp>

#include "tests/support/bits.hpp"
#include "tests/support/custom_quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace support;

TEST_CASE("model_pass: what a pass leaves out or repeats is an error by name") {
  const auto message_of = [](auto&& f) {
    return error_message([&] {
      threads::launch(1, [&](threads comm) {
        custom_model<shift, fp64> model{t4_list(), [&](shift, model_pass<double, cpu>& pass) {
                                          f(pass);
                                          return metrics{.count = 1};
                                        }};
        trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
        run.step(shift{0}, 1, 0);
      });
    });
  };
  const auto contains = [](const std::string& text, const char* part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
  };
  contains(message_of([](auto& pass) { pass.ready("W2"); }),
           "the pass ended without ready(\"W1\"): call it for every trainable tensor, or for none");
  contains(message_of([](auto& pass) { pass.ready("W2"), pass.ready("W2"); }),
           "ready(\"W2\") was called twice in one pass");
  contains(message_of([](auto& pass) { pass.ready("seen"); }),
           "ready(\"seen\") is of a statistic, which has no gradient");
  contains(message_of([](auto& pass) { (void)pass.gradient("seen"); }), "of trainable tensors");
  contains(message_of([](auto& pass) { (void)pass.weights("w1"); }),
           "no tensor is named \"w1\"; there are W1, b1, W2, b2, seen");
  contains(error_message([] { custom_model<shift>({}, [](shift, auto&) { return metrics{}; }); }),
           "the list of parameters is empty");
}

TEST_CASE("model_pass: sums in the device's memory count beside what the function returns") {
  threads::launch(2, [](threads comm) {
    custom_model<shift, fp64> model{t4_list(), [](shift own, model_pass<double, cpu>& pass) {
                                      pass.sums()[0] += {.loss = own, .top1 = 1};
                                      return metrics{.loss = 1, .count = 3};
                                    }};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    const metrics own = run.step(shift{2}, 3, 0).train;
    CHECK((own.loss == 3 && own.top1 == 1 && own.count == 3));
    const metrics all = run.evaluate(std::vector<shift>{2}, [](shift) { return 3; });
    CHECK((all.loss == 6 && all.top1 == 2 && all.count == 6));
  });
}

TEST_CASE("model_pass: frozen tensors keep their bits, and the pass can know it") {
  threads::launch(2, [](threads comm) {
    const quadratic_pass<fp64> pass_of;
    custom_model<shift, fp64> model{t4_list(), [&](shift own, model_pass<double, cpu>& pass) {
                                      CHECK(pass.is_frozen(0));
                                      CHECK(!pass.is_frozen(1));
                                      return pass_of(own, pass);
                                    }};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.freeze = "W1"}};
    const auto before = copy(run.weights("W1"));
    const double moved = run.weights("b1")[0];
    run.step(shift{0}, 1, 0);
    CHECK(same_bits(copy(run.weights("W1")), before));
    CHECK(run.weights("b1")[0] != moved);
  });
}

TEST_CASE("model_pass: evaluation calls the function without gradients, of all ranks' batches") {
  threads::launch(3, [](threads comm) {
    auto model = quadratic_model_of<fp64>();
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    const std::vector<shift> own(static_cast<std::size_t>(comm.rank()), 0.0);
    const metrics found = run.evaluate(own, [](shift) { return 2; });
    CHECK(found.count == 6);
    CHECK(found.loss == 3 * 0.5);
  });
}
