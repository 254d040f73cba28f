// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights that are loaded into another network: other classes, other element types.
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/ring.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"
#include "tests/train/weights.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

namespace {

template <int Classes, class P = fp32, int Channels = 1>
using net8 = resnet<8, P, cpu, resnet_options{.image = {Channels, 8, 8}, .classes = Classes}>;

/// What a run of another seed holds after loading, and the names that load returned, of each rank.
struct loaded {
  std::vector<double> before, after;
  std::vector<std::string> unread;
};
template <class Net>
auto load_on(int ranks, const std::string& path, detail::train::load_options options) {
  return on_ranks(ranks, [&](threads comm) {
    Net net;
    trainer run{net, sgd{}, slow_rate, ring{comm}, {.seed = 8}};
    loaded l{all_weights(run), {}, {}};
    l.unread = run.load(path, options);
    l.after = all_weights(run);
    return l;
  });
}

/// Writes the tensors of `path` to `to` in 16 bits, with a counter of batches as PyTorch has.
template <class Number>
void narrow_file(const std::string& path, const std::string& to, const char* dtype) {
  const tensor_file from = tensor_file::open(path);
  std::vector<std::vector<Number>> numbers;
  std::vector<tensor_view> tensors;
  numbers.reserve(from.entries().size());
  for (const tensor_entry& e : from.entries()) {
    std::vector<float> x(e.size / sizeof(float));
    from.read(e.name, std::span(x));
    std::vector<Number>& narrow = numbers.emplace_back();
    for (const float v : x) narrow.push_back(Number::nearest(v));
    tensor_view& t = tensors.emplace_back(e.name, e.shape, std::span<const float>());
    t.dtype = dtype;
    t.bytes = std::as_bytes(std::span(narrow));
  }
  const double counter = 0;  // of eight bytes
  tensors.emplace_back("bn1.num_batches_tracked", std::vector<std::size_t>{},
                       std::span(&counter, 1));
  tensors.back().dtype = "I64";
  save_tensors(to, tensors);
}

}  // namespace

TEST_CASE("weights: all but the classifier are loaded into a network of other classes") {
  const file f("classes.safetensors");
  std::vector<double> saved;
  {
    net8<7> net;
    trainer run{net, sgd{}, slow_rate, solo{}, {.seed = 7}};
    run.save(f.path);
    saved = all_weights(run);
  }
  CHECK(contains(error_message([&] { load_on<net8<10>>(1, f.path, {}); }),
                 "or all but the classifier with load(path, {.classifier = false})"));
  constexpr std::size_t statistics = 2 * (16 + 2 * 16 + 2 * 32 + 2 * 64);
  for (const int ranks : {1, 3})
    for (const auto& l : load_on<net8<10>>(ranks, f.path, {.classifier = false})) {
      CHECK(l.unread == std::vector<std::string>{"fc.weight", "fc.bias"});
      const std::size_t features = l.after.size() - statistics - 10 * 64 - 10;
      REQUIRE(features == saved.size() - statistics - 7 * 64 - 7);
      const auto part = [](const std::vector<double>& x, std::size_t first, std::size_t n) {
        return std::vector(x.begin() + static_cast<std::ptrdiff_t>(first),
                           x.begin() + static_cast<std::ptrdiff_t>(first + n));
      };
      CHECK(part(l.after, 0, features) == part(saved, 0, features));
      CHECK(part(l.after, features, 650) == part(l.before, features, 650));
      CHECK(part(l.after, 0, features) != part(l.before, 0, features));
    }
  // another shape elsewhere is an error still, and so is a tensor that is not there
  const std::string message =
      error_message([&] { load_on<net8<10, fp32, 3>>(1, f.path, {.classifier = false}); });
  CHECK(contains(message,
                 "\"conv1.weight\" has shape [16, 1, 3, 3], the network's has [16, 3, 3, 3]"));
  CHECK_FALSE(contains(message, "fc."));
  CHECK_FALSE(contains(message, ".classifier"));
  const float one = 1;
  save_tensors(f.path, std::vector<tensor_view>{{"W1", {1}, std::span(&one, 1)}});
  CHECK(contains(error_message([&] { load_on<net8<10>>(1, f.path, {.classifier = false}); }),
                 "\"conv1.weight\" is missing"));
}

TEST_CASE("weights: without a dot in its name the last trainable tensor is the classifier") {
  const file f("toy.safetensors");
  const float one = 1;
  const std::vector<float> four(4, 2.0f), two(2, 3.0f);
  save_tensors(f.path, std::vector<tensor_view>{{"W1", {4}, four},
                                                {"b1", {2}, two},
                                                {"W2", {2}, two},
                                                {"seen", {1}, std::span(&one, 1)}});
  quadratic<fp32> model;
  trainer run{model, sgd{}, slow_rate, solo{}};
  CHECK(run.load(f.path, {.classifier = false}) == std::vector<std::string>{"b2"});
  CHECK(run.weights()[0] == 2);
  CHECK(run.weights()[192] == 0.05f);
}

TEST_CASE("weights: files of F16 and BF16 are read into the masters of every precision") {
  const file f("wide.safetensors"), g("narrow.safetensors");
  net8<4> net;
  trainer run{net, sgd{}, slow_rate, solo{}, {.seed = 7}};
  run.save(f.path);
  const std::vector<double> saved = all_weights(run);
  const auto check = [&]<class Number, class P>(const char* dtype, Number, P) {
    narrow_file<Number>(f.path, g.path, dtype);
    for (const auto& l : load_on<net8<4, P>>(1, g.path, {})) {
      CHECK(l.unread.empty());
      REQUIRE(l.after.size() == saved.size());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < saved.size(); ++i)
        wrong +=
            l.after[i] == static_cast<double>(Number::nearest(static_cast<float>(saved[i])).exact())
                ? 0
                : 1;
      CHECK(wrong == 0);
    }
  };
  check("F16", half{}, fp32{});
  check("BF16", bfloat{}, fp32{});
  check("F16", half{}, fp16{});
  check("BF16", bfloat{}, bf16{});
}
