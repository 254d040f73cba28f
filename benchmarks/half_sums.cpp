// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The error of fp16's convolutions if products were added in fp16, as AVX512-FP16 does at twice the
// rate of fp32, and the sum widened to fp32 after every n of them; beside the error of fp16's
// definition, which adds products in fp32. Results of fprop and dgrad are rounded to fp16, those of
// wgrad are fp32.
//
//   error = |a - b| / |b|   of results a, of exact ones b of the same numbers of fp16 (in fp64)
//
// The operands: of a ResNet-8 trained on Fashion-MNIST by fp32, its gradients scaled as fp16 scales
// the loss, so that their largest is half of the largest number; and normal numbers with the shapes
// of ResNet-50, inputs behind a ReLU. A sample of the results of each layer is computed, the terms
// in the order of a tile: channels inside window rows; of wgrad the pixels of one image after
// another. No instruction of AVX512-FP16 is needed: sums are rounded in integers.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <vector>

#include <cordee/cordee.hpp>

#include "examples/data.hpp"
#include "examples/options.hpp"

using namespace cordee;

namespace {

constexpr std::array steps{1, 2, 4, 8, 16, 32, 1 << 30};  // products before a sum is widened
/// x rounded to fp16, to nearest, ties to even.
double rounded(double x) {
  const double a = std::abs(x);
  if (!(a < 65520)) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (a < 0x1p-14) return std::copysign((a + 0x1.8p28) - 0x1.8p28, x);  // multiples of 2^-24
  const auto bits = std::bit_cast<std::uint64_t>(x);
  constexpr std::uint64_t unit = std::uint64_t{1} << 42;  // 10 bits of the fraction stay
  return std::bit_cast<double>((bits + unit / 2 - 1 + (bits >> 42 & 1)) & ~(unit - 1));
}

/// One sum in fp64, as defined, and with sums in fp16.
class half_sum {
 public:
  void add(float a, float b) {
    const double product = static_cast<double>(a) * static_cast<double>(b);  // exact
    exact += product;
    defined += static_cast<float>(product);  // exact, too: 22 bits
    for (std::size_t k = 0; k < steps.size(); ++k) {
      partial_[k] = rounded(product + partial_[k]);  // a double holds the sum
      if ((terms_ + 1) % steps[k] == 0) widen(k);
    }
    ++terms_;
  }
  std::array<float, steps.size()> widened() {
    for (std::size_t k = 0; k < steps.size(); ++k) widen(k);
    return sums_;
  }

  double exact = 0;
  float defined = 0;

 private:
  void widen(std::size_t k) {
    sums_[k] += static_cast<float>(partial_[k]);
    partial_[k] = 0;
  }

  std::array<double, steps.size()> partial_{};
  std::array<float, steps.size()> sums_{};
  int terms_ = 0;
};
struct errors {
  double norm = 0, defined = 0;
  std::array<double, steps.size()> half{};

  void add(half_sum sum, bool stored) {
    const auto deviation = [&](float x) {
      const auto y = static_cast<double>(x), error = (stored ? rounded(y) : y) - sum.exact;
      return error * error;
    };
    norm += sum.exact * sum.exact;
    defined += deviation(sum.defined);
    const auto widened = sum.widened();
    for (std::size_t k = 0; k < steps.size(); ++k) half[k] += deviation(widened[k]);
  }
  void add(const errors& other) {  // of relative errors the mean square
    norm += 1;
    defined += other.defined / other.norm;
    for (std::size_t k = 0; k < steps.size(); ++k) half[k] += other.half[k] / other.norm;
  }
  void print(const std::string& what) const {
    std::printf("%-34s %8.1e ", what.c_str(), std::sqrt(defined / norm));
    for (const double e : half) std::printf(" %8.2f", std::sqrt(e / defined));
    std::printf("\n");
  }
};

/// The operands of a layer in NCHW, as fp16 holds them.
struct operands {
  convolution_problem p;
  int samples = 0;
  std::vector<float> x, w, dy;
};
class layer_errors {
 public:
  layer_errors(const operands& of, int results, std::uint64_t seed)
      : at_(of), random_(seed, purpose::test, 0, 0) {
    for (int i = 0; i < results; ++i) {
      fprop_one();
      dgrad_one();
    }
    for (int i = 0; i < std::max(results / 8, 1); ++i) wgrad_one();
  }
  errors fprop, dgrad, wgrad;

 private:
  static std::size_t offset(const extent& e, int n, int c, int i, int j) {
    return static_cast<std::size_t>(((n * e.channels + c) * e.height + i) * e.width + j);
  }
  int below(int n) { return static_cast<int>(random_.below(static_cast<unsigned>(n))); }
  float weight(int k, int c, int r, int s) const {
    return at_.w[static_cast<std::size_t>(
        ((k * at_.p.in.channels + c) * at_.p.window + r) * at_.p.window + s)];
  }
  [[nodiscard]] float input(int n, int c, int i, int j) const {
    const extent& e = at_.p.in;
    return i < 0 || j < 0 || i >= e.height || j >= e.width ? 0 : at_.x[offset(e, n, c, i, j)];
  }
  [[nodiscard]] float gradient(int n, int k, int i, int j) const {
    return at_.dy[offset(at_.p.out(), n, k, i, j)];
  }
  void fprop_one() {
    const convolution_problem& p = at_.p;
    const extent out = p.out();
    const int n = below(at_.samples), k = below(out.channels), i = below(out.height),
              j = below(out.width);
    half_sum sum;
    for (int r = 0; r < p.window; ++r)
      for (int s = 0; s < p.window; ++s)
        for (int c = 0; c < p.in.channels; ++c)
          sum.add(input(n, c, i * p.stride + r - p.padding, j * p.stride + s - p.padding),
                  weight(k, c, r, s));
    fprop.add(sum, true);
  }
  void dgrad_one() {
    const convolution_problem& p = at_.p;
    const extent out = p.out();
    const int n = below(at_.samples), c = below(p.in.channels), h = below(p.in.height),
              l = below(p.in.width);
    half_sum sum;
    for (int r = 0; r < p.window; ++r)
      for (int s = 0; s < p.window; ++s) {
        const int up = h + p.padding - r, left = l + p.padding - s;
        if (up < 0 || left < 0 || up % p.stride != 0 || left % p.stride != 0) continue;
        const int i = up / p.stride, j = left / p.stride;
        if (i >= out.height || j >= out.width) continue;
        for (int k = 0; k < out.channels; ++k) sum.add(gradient(n, k, i, j), weight(k, c, r, s));
      }
    dgrad.add(sum, true);
  }
  void wgrad_one() {
    const convolution_problem& p = at_.p;
    const extent out = p.out();
    const int k = below(out.channels), c = below(p.in.channels), r = below(p.window),
              s = below(p.window);
    half_sum sum;
    for (int n = 0; n < at_.samples; ++n)
      for (int i = 0; i < out.height; ++i)
        for (int j = 0; j < out.width; ++j)
          sum.add(input(n, c, i * p.stride + r - p.padding, j * p.stride + s - p.padding),
                  gradient(n, k, i, j));
    wgrad.add(sum, false);
  }

  const operands& at_;
  random_sequence random_;
};
/// Engine `reference`, which keeps the operands of every layer.
struct recording : reference {
  static inline std::vector<operands> layers;
  static inline std::vector<std::vector<float>> masters;  // in the order of the layers

  template <class N>
  static void pack(const convolution_problem& p, const N* master, N* packed, cpu::stream s) {
    masters.emplace_back(master, master + p.weights());
    reference::pack(p, master, packed, s);
  }
  template <class N>
  static void wgrad(const convolution_problem& p, int samples, const N* x, const N* dy, N* dw,
                    write_mode mode, N* workspace, cpu::stream s) {
    const auto n = static_cast<std::size_t>(samples);
    layers.push_back({p, samples, {x, x + n * p.in.size()}, {}, {dy, dy + n * p.out().size()}});
    reference::wgrad(p, samples, x, dy, dw, mode, workspace, s);
  }
};

void print_all(const std::vector<operands>& layers, int results) {
  std::printf("%-34s %8s ", "results", "defined");
  for (const int n : steps) std::printf(n < 1 << 30 ? " %6s%2d" : "      all", "n =", n);
  std::printf("   (times the error of the definition)\n");
  std::array<errors, 3> all;
  constexpr std::array names{"y", "dx", "dw"};
  for (const operands& layer : layers) {
    const convolution_problem& p = layer.p;
    const layer_errors e(layer, results, 1);
    const std::array each{e.fprop, e.dgrad, e.wgrad};
    for (std::size_t k = 0; k < each.size(); ++k) {
      each[k].print(concat(names[k], "  ", p.window, "x", p.window, " ", p.in.channels, " to ",
                           p.filters, ", ", p.in.height, "x", p.in.width));
      all[k].add(each[k]);
    }
  }
  for (std::size_t k = 0; k < all.size(); ++k) all[k].print(concat(names[k], "  all layers"));
}

/// The operands of one batch, rounded to fp16, with the gradients scaled.
template <resnet_options Of>
std::vector<operands> trained(const std::string& folder, double epochs) {
  examples::with_fashion_mnist(folder, [&](const auto& training, const auto&) {
    const auto norm = normalize::measured(training);
    resnet<8, fp32, cpu, Of> net;
    loader feed{training, self_comm{}, {.global_batch = 128, .seed = 1}, pad_crop_flip{}, norm};
    trainer run{net, sgd{.momentum = 0.9, .weight_decay = 5e-4}, cosine{0.1, epochs}, solo{}};
    run.fit(feed, epochs, console{});
    resnet<8, fp32, cpu, Of, recording> again;
    loader sample{training, self_comm{}, {.global_batch = 16, .seed = 2}, {}, norm};
    trainer once{again, sgd{}, constant{0.0}, solo{}};
    std::copy(run.weights().begin(), run.weights().end(), once.weights().begin());
    once.adopt_weights();
    recording::layers.clear();
    recording::masters.clear();
    once.step(sample.next(), 0);
  });
  auto& layers = recording::layers;
  float largest = 0;
  for (const operands& layer : layers)
    for (const float g : layer.dy) largest = std::max(largest, std::abs(g));
  const float scale = std::exp2(std::floor(std::log2(32768 / largest)));
  std::printf("the loss is scaled by %g\n", static_cast<double>(scale));
  for (std::size_t k = 0; k < layers.size(); ++k) {  // backward reaches them in reverse
    operands& layer = layers[layers.size() - 1 - k];
    layer.w = recording::masters[k];
    expects(layer.w.size() == layer.p.weights(), "half_sums: the weights of another layer");
  }
  for (operands& layer : layers) {
    for (float& g : layer.dy) g *= scale;
    for (auto* numbers : {&layer.x, &layer.w, &layer.dy})
      for (float& v : *numbers) v = static_cast<float>(rounded(static_cast<double>(v)));
  }
  return layers;
}
std::vector<operands> normal_layers() {
  std::vector<operands> layers;
  std::uint64_t seed = 0;
  for (const convolution_problem& p : {convolution_problem{{64, 56, 56}, 64, 3, 1, 1},
                                       {{256, 56, 56}, 64, 1, 1, 0},
                                       {{128, 28, 28}, 128, 3, 1, 1},
                                       {{256, 14, 14}, 256, 3, 1, 1},
                                       {{1024, 14, 14}, 256, 1, 1, 0},
                                       {{512, 7, 7}, 512, 3, 1, 1},
                                       {{2048, 7, 7}, 512, 1, 1, 0}}) {
    constexpr int samples = 8;
    const auto normal = [&](std::size_t n, double deviation, double least) {
      random_sequence random(++seed, purpose::test, 0, 0);
      std::vector<float> x(n);
      for (float& v : x)
        v = static_cast<float>(rounded(std::max(deviation * random.normal(), least)));
      return x;
    };
    constexpr double none = -1e9;
    const double deviation = std::sqrt(2.0 / (p.in.channels * p.window * p.window));
    layers.push_back({p, samples, normal(samples * p.in.size(), 1, 0),
                      normal(p.weights(), deviation, none),
                      normal(samples * p.out().size(), 1, none)});
  }
  return layers;
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv,
                        "half_sums: errors of convolutions whose products are added in fp16");
    const std::string data = o.string("data", CORDEE_EXAMPLE_DATA "/fashion-mnist",
                                      "folder of the idx files of Fashion-MNIST");
    const double epochs = o.number("epochs", 6, "epochs of training in fp32 before");
    const int results = o.whole("results", 400, "results of each layer and direction");
    o.done();
    std::printf("ResNet-8, trained, 16 images\n");
    print_all(trained<resnet_options{.image = {1, 28, 28}}>(data, epochs), results);
    std::printf("\nshapes of ResNet-50, normal numbers, 8 images\n");
    print_all(normal_layers(), results);
  });
}
