// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A published run at a small scale: its precision, optimizer, schedule, reducer, batch norm and end
// of an epoch, on Fashion-MNIST or CIFAR-10 with ranks that are threads. What deviates is printed
// first.
//
//   recipes_run --run Goyal --ranks 4 --scale 64 --epochs 6
//   recipes_run --run Goyal --ranks 4 --scale 64 --epochs 6 --data FOLDER   data_batch_1.bin, ...
#include <cmath>
#include <concepts>
#include <cstdio>
#include <filesystem>
#include <string>

#include <cordee/cordee.hpp>

#include "examples/data.hpp"
#include "examples/options.hpp"
#include "recipes.hpp"

namespace {

using namespace recipes;

struct plan {
  std::string run, data;
  int ranks, scale;
  double epochs;
  std::uint64_t seed;
};

/// Layer-wise rates do not follow the batch linearly: their learning rate is divided by the root of
/// the scale.
template <class Recipe>
double rate_factor(const plan& p) {
  constexpr bool layer_wise = requires { Recipe::optimizer().trust_coefficient; };
  return layer_wise ? 1 / std::sqrt(p.scale) : 1.0 / p.scale;
}
template <class Recipe>
constexpr batch_schedule growth_of(double stretch) {
  batch_schedule growth{};
  if constexpr (requires { Recipe::growth; })
    for (std::size_t k = 0; k < batch_schedule::most_stages; ++k)
      growth.stages[k] = {Recipe::growth.stages[k].epoch / stretch,
                          Recipe::growth.stages[k].factor};
  return growth;
}

/// `crop` pixels of padding, as is usual for the data set.
template <class Recipe, class Training, class HeldOut>
void train(const plan& p, const char* data, int crop, const Training& training,
           const HeldOut& held_out) {
  constexpr published f = Recipe::figures;
  const double stretch = static_cast<double>(f.epochs) / p.epochs;
  const std::int64_t batch = f.batch / p.scale / p.ranks * p.ranks;
  expects(batch > 0, "--scale: no image is left for a rank");
  int over = 1;
  if constexpr (requires { Recipe::batch_norm_over; }) over = Recipe::batch_norm_over;
  std::printf(
      "%s (%s) at 1/%d: %s\n"
      "deviations: ResNet-8 on %s, not ResNet-50 on ImageNet; batch %lld, not %lld; "
      "%d threads, not %lld processors; the schedule's %lld epochs in %s; learning rate times "
      "%s\n",
      std::string(f.authors).c_str(), std::string(f.source).c_str(), p.scale,
      std::string(Recipe::precision::name).c_str(), data, static_cast<long long>(batch),
      static_cast<long long>(f.batch), p.ranks, static_cast<long long>(f.processors),
      static_cast<long long>(f.epochs), decimal::general(p.epochs, 6).c_str(),
      decimal::fixed(rate_factor<Recipe>(p), 4).c_str());
  std::fflush(stdout);
  threads::launch(p.ranks, [&](threads comm) {
    constexpr extent image =
        std::same_as<Training, cifar10> ? extent{3, 32, 32} : extent{1, 28, 28};
    resnet<8, typename Recipe::precision, cpu, resnet_options{.image = image}> net;
    loader feed{training,
                comm,
                {.global_batch = batch,
                 .seed = p.seed,
                 .last_batch = f.tail,
                 .batch_schedule = growth_of<Recipe>(stretch)},
                pad_crop_flip{.pad = crop, .flip = true},
                normalize::measured(training)};
    const auto schedule = [inner = Recipe::schedule(), stretch, factor = rate_factor<Recipe>(p)](
                              double epoch) { return factor * inner(stretch * epoch); };
    trainer run{net,
                Recipe::optimizer(),
                schedule,
                Recipe::reducer(comm),
                {.batch_norm_over = over, .seed = p.seed}};
    const auto done = run.fit(feed, p.epochs, validation{held_out});
    if (comm.rank() == 0)
      std::printf("%s: %lld updates, validation accuracy %s %%\n", std::string(f.authors).c_str(),
                  static_cast<long long>(done.steps),
                  decimal::fixed(100 * done.last.validation->accuracy(), 2).c_str());
  });
}

/// On what --data has.
template <class Recipe>
void train_on(const plan& p) {
  if (std::filesystem::exists(std::filesystem::path(p.data) / "data_batch_1.bin")) {
    const cifar10 training(p.data, cifar10::train), held_out(p.data, cifar10::test);
    return train<Recipe>(p, "CIFAR-10", 4, training, held_out);
  }
  examples::with_fashion_mnist(p.data, [&](const auto& training, const auto& held_out) {
    train<Recipe>(p, "Fashion-MNIST", 2, training, held_out);
  });
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "recipes_run: published large-batch runs at a small scale, on threads");
    plan p;
    p.run = o.string("run", "Goyal",
                     "He, Goyal, Smith, You, Akiba, Jia, Ying, Mikami, Yamazaki, or all");
    p.data = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                      "folder of Fashion-MNIST's idx files, or of CIFAR-10's binary ones");
    p.ranks = o.positive("ranks", 4, "threads");
    p.scale = o.positive("scale", 64, "the batch is divided by this");
    p.epochs = o.number("epochs", 6, "epochs, into which the schedule is compressed");
    p.seed = o.seed();
    o.done();
    if (!(p.epochs > 0)) throw error("--epochs takes a number above 0");
    bool found = false;
    const auto each = [&](auto recipe) {
      if (p.run != "all" && p.run != recipe.figures.authors) return;
      found = true;
      train_on<decltype(recipe)>(p);
    };
    for_each_recipe(each);
    each(smith{});
    if (!found) throw error(concat("--run: there is no run \"", p.run, "\"; try --help"));
  });
}
