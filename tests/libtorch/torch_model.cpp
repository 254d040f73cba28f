// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/libtorch/torch_model.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/precision/fp64.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/folder.hpp"
#include "tests/support/ranks.hpp"
#include "tests/support/torch_fixture.hpp"

using namespace cordee;
using namespace support;

static_assert(Model<torch_model<>> && Model<torch_model<std::vector<float>, fp64>>);

TEST_CASE("torch_model: kinds follow from modules and can be overridden") {
  auto net = std::make_shared<two_layers>();
  const torch_model model{net, loss_of, {.kinds = {{"second.weight", kind::scale}}}};
  const auto table = model.segments();
  REQUIRE(table.size() == 6);
  const std::pair<const char*, kind> expected[]{
      {"first.weight", kind::weight}, {"first.bias", kind::bias},     {"norm.weight", kind::scale},
      {"norm.bias", kind::shift},     {"second.weight", kind::scale}, {"second.bias", kind::bias}};
  for (std::size_t k = 0; k < 6; ++k) {
    CHECK(table[k].name == expected[k].first);
    CHECK(table[k].kind == expected[k].second);
  }
  CHECK(table[0].shape == tensor_shape{8, 6});
  CHECK(model.describe_parameters() ==
        "6 tensors: weight 48 in 1, bias 11 in 2, scale 32 in 2, shift 8 in 1; parameters of the "
        "module are views of the arena, gradients once they are complete");
  check_contains(error_message([&] {
                   torch_model{net, loss_of, {.kinds = {{"second.wieght", kind::scale}}}};
                 }),
                 "no tensor is named \"second.wieght\"");
  net->register_parameter("elsewhere", torch::empty({2}, torch::kMeta));
  check_contains(
      error_message([&] {
        torch_model{net, loss_of};
      }),
      "\"elsewhere\" is on device meta, the model's is cpu: call to(torch::Device(\"cpu\")) "
      "before the model is made");
}

TEST_CASE("torch_model: parameters that the loss does not depend on") {
  const auto first_only = [](two_layers& net, const example& b) {
    return net.first->forward(b.data).square().mean();
  };
  const auto train = [&](threads comm, torch_model_options options) {
    auto net = std::make_shared<two_layers>();
    torch_model model{net, first_only, options};
    trainer run{model, sgd{.momentum = 0, .weight_decay = 0}, fixed_rate{}, ring{comm}};
    const torch::Tensor first = net->first->weight.detach().clone();
    const torch::Tensor second = net->second->weight.detach().clone();
    run.step(samples(torch::kFloat), 24, 0);
    CHECK(!net->first->weight.equal(first));
    CHECK(net->second->weight.equal(second));
  };
  check_contains(
      refusal([&](threads comm) { train(comm, {}); }),
      "the loss does not depend on norm.weight, norm.bias, second.weight, second.bias: remove");
  CHECK(refusal([&](threads comm) { train(comm, {.unused = unused_parameters::zero}); }).empty());
}

TEST_CASE("torch_model: shared tensors count once, those without gradient are not trained") {
  struct tied : torch::nn::Module {
    torch::nn::Linear a{nullptr}, b{nullptr};
    torch::Tensor frozen, counter;
    tied() {
      torch::manual_seed(1);
      a = register_module("a", torch::nn::Linear(torch::nn::LinearOptions(6, 6).bias(false)));
      b = register_module("b", torch::nn::Linear(torch::nn::LinearOptions(6, 6).bias(false)));
      b->weight = a->weight;
      b->register_parameter("weight2", a->weight);
      frozen = register_parameter("frozen", torch::full({2}, 0.5f), false);
      counter = register_buffer("counter", torch::full({}, 7, torch::kLong));
    }
  };
  const folder files;
  const std::string path = files.file("tied.safetensors");
  threads::launch(3, [&](threads comm) {
    auto net = std::make_shared<tied>();
    {
      const torch::NoGradGuard no_grad;
      net->frozen.fill_(static_cast<float>(comm.rank()) + 0.1f);
      net->counter.fill_(comm.rank() + 40);
    }
    torch_model model{net,
                      [](tied& n, const example& b) {
                        return (n.a->forward(b.data) * n.frozen[0]).square().mean();
                      },
                      torch_model_options{.unused = unused_parameters::zero}};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
    CHECK(run.segments()[0].name == "a.weight");
    CHECK(net->frozen[1].item<float>() == 0.1f);
    CHECK(net->counter.item<std::int64_t>() == 40);
    run.step(samples(torch::kFloat), 24, 0);
    CHECK(net->frozen[1].item<float>() == 0.1f);
    run.save(path);
    const torch::Tensor saved = net->a->weight.detach().clone();
    run.step(samples(torch::kFloat), 24, 1);
    CHECK(!net->a->weight.equal(saved));
    {
      const torch::NoGradGuard no_grad;
      net->frozen.fill_(9);
      net->counter.fill_(9);
    }
    run.load(path);
    CHECK(net->a->weight.equal(saved));
    CHECK(net->frozen[0].item<float>() == 0.1f);
    CHECK(net->counter.item<std::int64_t>() == 40);
  });
  const auto file = cordee::detail::io::tensor_file::open(path);
  for (const char* name : {"a.weight", "b.weight2", "frozen", "counter"}) {
    CAPTURE(name);
    CHECK(file.contains(name));
  }
  CHECK(file.find("counter")->dtype == "I64");
}

TEST_CASE("torch_model: one number without a side, and counters that to() has converted") {
  struct scaled : torch::nn::Module {
    torch::Tensor scale = register_parameter("scale", torch::full({}, 2.f));
    torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(6));
  };
  const folder files;
  const std::string path = files.file("scaled.safetensors");
  const float numbers[6] = {3, 3, 3, 3, 3, 3};
  const std::int64_t seen = 5000;
  cordee::detail::io::save_tensors(  // as Python writes it
      path, std::vector<cordee::detail::io::tensor_view>{
                {"scale", {}, std::span(numbers, 1)},
                {"norm.weight", {6}, std::span(numbers)},
                {"norm.bias", {6}, std::span(numbers)},
                {"norm.running_mean", {6}, std::span(numbers)},
                {"norm.running_var", {6}, std::span(numbers)},
                {"norm.num_batches_tracked", {}, std::span(&seen, 1)}});
  threads::launch(1, [&](threads comm) {
    auto net = std::make_shared<scaled>();
    net->to(torch::kBFloat16);
    torch_model<example, bf16> model{net, [](scaled& n, const example& b) {
                                       return (n.norm->forward(b.data) * n.scale).square().mean();
                                     }};
    trainer run{model, sgd{}, fixed_rate{0}, ring{comm}};
    run.load(path);
    CHECK(net->scale.item<float>() == 3);
    run.step(samples(torch::kBFloat16), 24, 0);
    CHECK(net->norm->num_batches_tracked.item<std::int64_t>() == 5001);
  });
}

TEST_CASE("torch_model: a module that is moved while a trainer has it is refused") {
  check_contains(refusal([](threads comm) {
                   auto net = std::make_shared<two_layers>();
                   torch_model model{net, loss_of};
                   trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
                   run.step(samples(torch::kFloat), 24, 0);
                   net->to(torch::kDouble);
                   run.step(samples(torch::kDouble), 24, 1);
                 }),
                 "the numbers of \"first.weight\" were moved or replaced while a trainer has them");
  check_contains(refusal([](threads comm) {
                   auto net = std::make_shared<two_layers>();
                   torch_model model{net, [](two_layers& n, const example& b) {
                                       return n.forward(b.data).sum(1);
                                     }};
                   trainer run{model, sgd{}, fixed_rate{}, ring{comm}};
                   run.step(samples(torch::kFloat), 24, 0);
                 }),
                 "the mean loss of the batch, one number; it returned 24 numbers");
}

TEST_CASE("torch_model: a module of TorchScript") {
  const auto make = [] {
    auto m = std::make_shared<torch::jit::Module>("scaled");
    m->register_parameter("weight", torch::full({6}, 0.5f, torch::requires_grad()), false);
    m->register_buffer("seen", torch::zeros({1}));
    m->define("def forward(self, x):\n  return (x * self.weight).sum(1)\n");
    return m;
  };
  threads::launch(2, [&](threads comm) {
    auto net = make();
    torch_model model{net, [](torch::jit::Module& n, const example& b) {
                        return n.forward({b.data}).toTensor().square().mean();
                      }};
    CHECK(model.segments()[0].name == "weight");
    CHECK(model.segments()[1].kind == kind::statistic);
    trainer run{model, lamb{}, fixed_rate{0.01}, ring{comm}};
    const example own = samples(torch::kFloat, comm.rank(), 2);
    const double before = run.step(own, 12, 0).train.mean_loss();
    double after = before;
    for (int k = 1; k < 10; ++k) after = run.step(own, 12, k).train.mean_loss();
    CHECK(after < before);
    CHECK(net->attr("weight").toTensor()[0].item<float>() == run.weights("weight")[0]);
  });
}

TEST_CASE("torch_model: an infinity in a copied statistic skips that step, not the next") {
  threads::launch(2, [](threads comm) {
    auto net = std::make_shared<two_layers>();
    const torch::Tensor total = net->register_buffer("total", torch::zeros({1}, torch::kDouble));
    torch_model model{net, [&](two_layers& n, const example& b) {
                        const torch::NoGradGuard no_grad;
                        total.add_(b.target.size(0) == 12 ? 1 : HUGE_VAL);
                        const torch::AutoGradMode grad(true);
                        return loss_of(n, b);
                      }};
    trainer run{model, sgd{}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    for (int k = 0; k < 3; ++k) {
      const bool infinite = k == 1 && comm.rank() == 1;
      const example own =
          infinite ? samples(torch::kFloat) : samples(torch::kFloat, comm.rank(), 2);
      CHECK(run.step(own, infinite ? 24 : 12, k).applied == (k != 1));
      CHECK(total[0].item<double>() == (k < 1 ? 1 : k));
    }
  });
}

TEST_CASE("torch_model: accuracy where the function counts right predictions, else none") {
  auto net = std::make_shared<two_layers>();
  const example own = samples(torch::kFloat);
  torch_model uncounted{net, [](two_layers& n, const example& b) { return loss_of(n, b); }};
  trainer without{uncounted, sgd{}, fixed_rate{}, solo{}};
  CHECK(std::isnan(without.step(own, 24, 0).train.accuracy()));
  auto other = std::make_shared<two_layers>();
  torch_model counted{other, [](two_layers& n, const example& b) {
                        return std::pair{loss_of(n, b), std::int64_t{18}};
                      }};
  trainer with{counted, sgd{}, fixed_rate{}, solo{}};
  CHECK(with.step(own, 24, 0).train.accuracy() == 0.75);
}
