// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
#include <filesystem>

#include <doctest/doctest.h>

#include <cordee/comm/ring.hpp>
#include <cordee/comm/solo.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/bf16.hpp>
#include <cordee/precision/fp16.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

#include "tests/support/feeds.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/quadratic.hpp"
#include "tests/support/ranks.hpp"

using namespace cordee;
using namespace cordee::detail::io;
using namespace support;

namespace {

constexpr auto steady = [](double) { return 0.05; };

struct file {
  std::string path;
  explicit file(const char* name)
      : path((std::filesystem::temp_directory_path() / concat("cordee-", getpid(), "-", name))
                 .string()) {
    std::filesystem::remove(path);
  }
  ~file() { std::filesystem::remove(path); }
};

template <class Run>
std::vector<double> all_weights(Run& run) {
  std::vector<double> out;
  for (const segment& s : run.segments())
    for (std::size_t i = 0; i < s.size; ++i)
      out.push_back(static_cast<double>(run.weights()[s.offset + i]));
  return out;
}

}  // namespace

TEST_CASE("weights: every rank loads the bits that were saved") {
  const file f("weights.safetensors");
  for (const int ranks : {1, 3}) {
    std::vector<double> saved;
    on_ranks(ranks, [&](threads comm) {
      resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}> net;
      trainer run{net, sgd{}, steady, ring{comm}, {.seed = 7}};
      run.save(f.path);
      if (comm.rank() == 0) saved = all_weights(run);
      return 0;
    });
    for (const auto& loaded : on_ranks(ranks, [&](threads comm) {
           resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}}> net;
           trainer run{net, sgd{}, steady, ring{comm}, {.seed = 8}};
           CHECK(all_weights(run) != saved);
           run.load(f.path);
           return all_weights(run);
         }))
      CHECK(loaded == saved);
  }
}

TEST_CASE("weights: names and shapes in files are torchvision's") {
  const file f("names.safetensors");
  resnet<8, fp32, cpu, resnet_options{.image = {3, 8, 8}, .shortcut = shortcut::b}> net;
  trainer run{net, sgd{}, steady, solo{}};
  run.save(f.path);
  const tensor_file t = tensor_file::open(f.path);
  using dims = std::vector<std::size_t>;
  CHECK(t.at("conv1.weight").shape == dims{16, 3, 3, 3});
  CHECK(t.at("layer2.0.downsample.0.weight").shape == dims{32, 16, 1, 1});
  CHECK(t.at("layer3.0.bn2.running_var").shape == dims{64});
  CHECK(t.at("fc.weight").shape == dims{10, 64});
  CHECK(t.at("fc.bias").dtype == "F32");
  CHECK(t.entries().size() == run.segments().size());
  CHECK(t.metadata() == tensor_metadata{{"format", "pt"}, {"cordee", std::string(version)}});
  run.save(f.path, {{"classes", "daisy\nroses"}});
  CHECK(tensor_file::open(f.path).metadata() == tensor_metadata{{"classes", "daisy\nroses"},
                                                                {"format", "pt"},
                                                                {"cordee", std::string(version)}});
}

TEST_CASE("weights: with local_steps the mean of the ranks' weights is saved") {
  const file f("mean.safetensors");
  on_ranks(2, [&](threads comm) {
    quadratic<fp64> model{.shift = comm.rank() - 0.5};
    trainer run{model, local_steps{sgd{.momentum = 0}, 8}, steady, ring{comm}};
    run.step(std::array{one_each(2)}, 0);
    run.save(f.path);
    return 0;
  });
  std::array<double, 4> w1{};
  tensor_file::open(f.path).read("W1", std::span<double>(w1));
  for (std::size_t i = 0; i < 4; ++i)
    CHECK(close(w1[i],
                t4_start[0][i] - 0.05 * t4_curvature[0][i] * (t4_start[0][i] - t4_center[0][i]),
                1e-15));
}

TEST_CASE("weights: a file of another network is an error with tensor names, and changes nothing") {
  const file f("other.safetensors");
  {
    resnet<8, fp32, cpu, resnet_options{.image = {1, 8, 8}, .classes = 7, .shortcut = shortcut::b}>
        net;
    trainer run{net, sgd{}, steady, solo{}};
    run.save(f.path);
  }
  for (const int ranks : {1, 2}) {
    const std::string message = error_message([&] {
      threads::launch(
          ranks,
          [&](threads comm) {
            resnet<8, fp32, cpu, resnet_options{.image = {3, 8, 8}}> net;
            trainer run{net, sgd{}, steady, ring{comm}};
            const auto before = all_weights(run);
            try {
              run.load(f.path);
            } catch (const error&) {
              CHECK(all_weights(run) == before);
              throw;
            }
          },
          long_deadline);
    });
    CHECK(contains(message,
                   "\"conv1.weight\" has shape [16, 1, 3, 3], the network's has [16, 3, 3, 3]"));
    CHECK(contains(message, "\"fc.weight\" has shape [7, 64], the network's has [10, 64]"));
    CHECK(contains(message, "\"layer2.0.downsample.0.weight\" is not a tensor of this network"));
  }
}

TEST_CASE("weights: a missing tensor is named; PyTorch's batch counters are ignored") {
  const file f("partial.safetensors");
  const float one = 1;
  save_tensors(f.path,
               std::vector<tensor_view>{{"W1", {1}, std::span(&one, 1)},
                                        {"bn1.num_batches_tracked", {1}, std::span(&one, 1)}});
  quadratic<fp32> model;
  trainer run{model, sgd{}, steady, solo{}};
  const std::string message = error_message([&] { run.load(f.path); });
  CHECK(contains(message, "\"W1\" has shape [1], the network's has [4]"));
  CHECK(contains(message, "\"b1\" is missing"));
  CHECK_FALSE(contains(message, "num_batches_tracked"));
}

namespace {

template <int Classes, class P = fp32, int Channels = 1>
using net8 = resnet<8, P, cpu, resnet_options{.image = {Channels, 8, 8}, .classes = Classes}>;

/// What a run of another seed holds after loading, and the names that load returned, of each rank.
struct loaded {
  std::vector<double> before, after;
  std::vector<std::string> unread;
};
template <class Net>
auto load_on(int ranks, const std::string& path, load_options options) {
  return on_ranks(ranks, [&](threads comm) {
    Net net;
    trainer run{net, sgd{}, steady, ring{comm}, {.seed = 8}};
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
    trainer run{net, sgd{}, steady, solo{}, {.seed = 7}};
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
  trainer run{model, sgd{}, steady, solo{}};
  CHECK(run.load(f.path, {.classifier = false}) == std::vector<std::string>{"b2"});
  CHECK(run.weights()[0] == 2);
  CHECK(run.weights()[192] == 0.05f);
}

TEST_CASE("weights: files of F16 and BF16 are read into the masters of every precision") {
  const file f("wide.safetensors"), g("narrow.safetensors");
  net8<4> net;
  trainer run{net, sgd{}, steady, solo{}, {.seed = 7}};
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

TEST_CASE(
    "weights: a file that cannot be read or written is an error on every rank, with its path") {
  const folder files;
  const std::string path = files.put("no folder", {}) + "/all.safetensors";
  for (const bool saves : {true, false}) {
    const std::string message = error_message([&] {
      threads::launch(
          3,
          [&](threads comm) {
            quadratic<fp32> model;
            trainer run{model, sgd{}, steady, ring{comm}};
            if (saves)
              run.save(path);
            else
              run.load(path);
          },
          long_deadline);
    });
    CHECK(contains(message, "rank 0: "));
    CHECK(contains(message, path.c_str()));
  }
}

TEST_CASE("weights: save makes the folders that are missing, as the run has been paid for") {
  const folder files;
  quadratic<fp32> model;
  trainer run{model, sgd{}, steady, solo{}};
  run.save(files.file("runs/first/weights.safetensors"));
  run.save(files.file("runs/first/weights.safetensors"));
  CHECK(run.load(files.file("runs/first/weights.safetensors")).empty());
}
