// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of your own on a GPU, with kernels of your own: softmax regression on Fashion-MNIST. The
// function runs on the host and submits its kernels to the step's stream; weights and gradients are
// spans of the GPU's memory. With several GPUs: nccl::launch, native{comm} in place of solo{}, comm
// in place of self_comm{}, and in batch_validation only this rank's part of the images.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cordee/cordee.cuh>
#include <cordee/cordee.hpp>

using namespace cordee;

namespace {

constexpr std::size_t pixels = 784, classes = 10;

struct images {
  std::vector<float> x;  // (N, pixels)
  std::vector<int> label;
};

// z = W x + b,  loss = log(sum_k exp(z_k)) - z_y,  dz = weight (softmax(z) - [k = y])
struct sample_op {
  const float *w, *b, *x;
  const int* label;
  float *dz, *loss, *right, weight;

  CORDEE_HOST_DEVICE void operator()(std::size_t n) const {
    float* const z = dz + n * classes;  // the logits, then their gradients
    float largest = -1e30F, total = 0;
    for (std::size_t k = 0; k < classes; ++k) {
      z[k] = b[k];
      for (std::size_t i = 0; i < pixels; ++i) z[k] += w[k * pixels + i] * x[n * pixels + i];
      largest = z[k] > largest ? z[k] : largest;
    }
    for (std::size_t k = 0; k < classes; ++k) total += expf(z[k] - largest);
    const auto y = static_cast<std::size_t>(label[n]);
    loss[n] = largest + logf(total) - z[y];
    right[n] = z[y] == largest ? 1.0F : 0.0F;
    for (std::size_t k = 0; k < classes; ++k)
      z[k] = weight * (expf(z[k] - largest) / total - (k == y ? 1.0F : 0.0F));
  }
};
// dW += dz^T x;  with `row` 1 and x of ones: db
struct gradient_op {
  const float *dz, *x;
  float* g;
  std::size_t row, samples;

  CORDEE_HOST_DEVICE void operator()(std::size_t j) const {
    for (std::size_t n = 0; n < samples; ++n)
      g[j] += dz[n * classes + j / row] * (x == nullptr ? 1.0F : x[n * row + j % row]);
  }
};
struct sum_op {
  const float *loss, *right;
  std::size_t samples;
  metrics* sums;

  CORDEE_HOST_DEVICE void operator()(std::size_t) const {
    for (std::size_t n = 0; n < samples; ++n) {
      sums->loss += static_cast<double>(loss[n]);
      sums->top1 += right[n] > 0 ? 1 : 0;
    }
  }
};

class softmax_regression {
 public:
  explicit softmax_regression(const gpu& device)
      : device_(device),
        x_(device, most * pixels),
        values_(device, most * (classes + 2)),
        label_(device, most) {}

  metrics operator()(const images& batch, model_pass<float, gpu>& pass) {
    const std::size_t n = batch.label.size();
    const auto s = pass.stream();
    device_.copy(x_.span().data, batch.x.data(), batch.x.size() * sizeof(float), s);
    device_.copy(label_.span().data, batch.label.data(), n * sizeof(int), s);
    float *const dz = values_.span().data, *const loss = dz + n * classes, *const right = loss + n;
    for_each(
        s, n,
        sample_op{pass.weights("fc.weight").data, pass.weights("fc.bias").data, x_.span().data,
                  label_.span().data, dz, loss, right, static_cast<float>(pass.loss_weight())});
    for_each(s, 1, sum_op{loss, right, n, pass.sums().data});  // read behind the step
    if (pass.trains()) {
      for_each(s, classes, gradient_op{dz, nullptr, pass.gradient("fc.bias").data, 1, n});
      pass.ready("fc.bias");  // submitted: its bucket travels behind it
      const auto g = pass.gradient("fc.weight");
      for_each(s, g.size, gradient_op{dz, x_.span().data, g.data, pixels, n});
      pass.ready("fc.weight");
    }
    return {.count = static_cast<std::int64_t>(n)};
  }

 private:
  static constexpr std::size_t most = 256;  // samples of a batch
  gpu device_;
  buffer<float, gpu> x_, values_;
  buffer<int, gpu> label_;
};

images read(const auto& data, const auto& indices) {
  images out{std::vector<float>(indices.size() * pixels), {}};
  std::vector<std::uint8_t> bytes(pixels);
  for (std::size_t n = 0; n < indices.size(); ++n) {
    out.label.push_back(data.read(indices[n], bytes));
    for (std::size_t i = 0; i < pixels; ++i)
      out.x[n * pixels + i] = static_cast<float>(bytes[i]) / 255 - 0.3F;
  }
  return out;
}

void train() {
  const std::string at = CORDEE_EXAMPLE_DATA "/fashion-mnist";
  const idx all{at + "/t10k-images-idx3-ubyte", at + "/t10k-labels-idx1-ubyte"};
  const auto parts = split(all, 0.1, 1);
  const gpu device;
  parameter_list parameters;
  parameters.add("fc.weight", {classes, pixels}).add("fc.bias", {classes}, kind::bias);
  const auto kernels = std::make_shared<softmax_regression>(device);
  custom_model<images, fp32, gpu> model{
      parameters, [kernels](const images& b, auto& pass) { return (*kernels)(b, pass); }, device};
  batch_source feed{parts.training.size(),
                    self_comm{},
                    {.global_batch = 256, .seed = 1},
                    [&](const sample_indices& s) { return read(parts.training, s.samples); }};
  std::vector<images> held_out;
  for (std::uint32_t i = 0; i < parts.validation.size(); ++i)
    held_out.push_back(read(parts.validation, std::vector{i}));
  batch_validation check{std::move(held_out), [](const images& b) { return b.label.size(); }};
  trainer run{model, lamb{}, cosine{.peak = 0.02, .epochs = 5}, solo{}};
  const auto done = run.fit(feed, 5, check, console{});
  std::printf("validation accuracy %s %% of %lld images\n",
              decimal::fixed(100 * done.last.validation->accuracy(), 1).c_str(),
              static_cast<long long>(done.last.validation->count));
}

}  // namespace

int main() {
  try {
    train();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
