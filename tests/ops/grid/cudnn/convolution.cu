// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The engine on a GPU with the library itself, against the definition. Where there is no GPU these
// say so and pass; convolution.cpp checks on the host what cuDNN is told.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>
#include <cordee/ops/grid/cudnn/convolution.hpp>

#include "tests/support/engines.hpp"

using namespace cordee;
using support::size;  // of halves say cordee::half: CUDA has one too

namespace {

bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// Numbers of the host on the GPU and back.
template <class T>
struct on_gpu {
  on_gpu(const gpu& on, const std::vector<T>& from, gpu::stream s)
      : device(on), n(from.size()), memory(on, n), stream(s) {
    device.copy(memory.span().data, from.data(), n * sizeof(T), stream);
  }
  [[nodiscard]] T* data() { return memory.span().data; }
  [[nodiscard]] std::vector<T> back() {
    std::vector<T> to(n);
    device.copy(to.data(), memory.span().data, n * sizeof(T), stream);
    device.finish(stream);
    return to;
  }
  gpu device;
  std::size_t n;
  buffer<T, gpu> memory;
  gpu::stream stream;
};

template <class N>
std::vector<N> narrowed(const std::vector<double>& from) {
  std::vector<N> to;
  for (const double x : from) to.push_back(rounded<N>(static_cast<wide<N>>(x)));
  return to;
}
template <class N>
std::vector<double> widened_all(const std::vector<N>& from) {
  std::vector<double> to;
  for (const N x : from) to.push_back(static_cast<double>(widened(x)));
  return to;
}

/// What is rounded once to N, after sums of `terms` products of at most 1 in float, is off by no
/// more than a unit of N's roundoff of the sum and a walk of that many steps of float's.
template <class N>
bool close(const std::vector<double>& found, const std::vector<double>& right, double terms) {
  const double unit = sizeof(N) == 4 ? 0x1p-24 : std::is_same_v<N, cordee::half> ? 0x1p-11 : 0x1p-8;
  bool all = found.size() == right.size();
  for (std::size_t i = 0; all && i < right.size(); ++i)
    all = std::abs(found[i] - right[i]) <= unit * std::abs(right[i]) + terms * 0x1p-23;
  return all;
}

template <class Engine, class N>
void check(const gpu& device, const convolution_problem& p) {
  CAPTURE(support::to_text(p));
  const auto s = device.open();
  const int samples = 3;
  const std::size_t in = size(samples) * p.in.size(), out = size(samples) * p.out().size();
  const auto numbers = [](std::size_t n, std::uint64_t which) {
    return widened_all(narrowed<N>(support::random_numbers(n, which)));
  };
  const std::vector<double> x = numbers(in, 1), w = numbers(p.weights(), 2), dy = numbers(out, 3);
  std::vector<double> y(out), dx = numbers(in, 4), dw(p.weights());
  const std::vector<double> before = dx;
  support::each_product(p, samples, [&](std::size_t at_w, std::size_t at_x, std::size_t at_y) {
    y[at_y] += w[at_w] * x[at_x];
    dx[at_x] += w[at_w] * dy[at_y];
    dw[at_w] += x[at_x] * dy[at_y];
  });
  const int v_in = Engine::template block<N>(p.in.channels);
  const int v_out = Engine::template block<N>(p.filters);
  const auto lies = [&](const std::vector<double>& v, const extent& e, int block) {
    return narrowed<N>(support::blocked<double>(v, e, samples, block));
  };
  on_gpu<N> in_x(device, lies(x, p.in, v_in), s), in_dy(device, lies(dy, p.out(), v_out), s),
      to_y(device, std::vector<N>(in_dy.n, rounded<N>(99)), s),
      to_dx(device, lies(before, p.in, v_in), s),
      packed(device, std::vector<N>(Engine::template packed_size<N>(p), rounded<N>(99)), s),
      room(device, std::vector<N>(Engine::template workspace<N>(p, samples, s)), s);
  on_gpu<float> master(device, {w.begin(), w.end()}, s), to_dw(device, {w.begin(), w.end()}, s);

  Engine::template pack<N>(p, master.data(), packed.data(), s);
  Engine::template fprop<N>(p, samples, in_x.data(), packed.data(), to_y.data(), s);
  const auto found_y = widened_all(to_y.back());
  CHECK(close<N>(support::plain(found_y, p.out(), samples, v_out), y,
                 p.in.channels * p.window * p.window));
  CHECK(support::filling(found_y, p.out(), samples, v_out) == 0);

  Engine::template dgrad<N>(p, samples, in_dy.data(), packed.data(), to_dx.data(), into::add, s);
  const auto added = widened_all(to_dx.back());
  CHECK(close<N>(support::plain(added, p.in, samples, v_in), dx, p.filters * p.window * p.window));
  CHECK(support::filling(added, p.in, samples, v_in) == 0);
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] -= before[i];
  Engine::template dgrad<N>(p, samples, in_dy.data(), packed.data(), to_dx.data(), into::overwrite,
                            s);
  CHECK(close<N>(support::plain(widened_all(to_dx.back()), p.in, samples, v_in), dx,
                 p.filters * p.window * p.window));

  Engine::template wgrad<N>(p, samples, in_x.data(), in_dy.data(), to_dw.data(), into::overwrite,
                            room.data(), s);
  const double terms = samples * double(p.out().pixels());
  CHECK(close<N>(widened_all(to_dw.back()), dw, terms));
  Engine::template wgrad<N>(p, samples, in_x.data(), in_dy.data(), to_dw.data(), into::add,
                            room.data(), s);
  for (double& v : dw) v *= 2;
  CHECK(close<N>(widened_all(to_dw.back()), dw, 2 * terms));
}

}  // namespace

TEST_CASE("cudnn: without a GPU its desk is an error that says what is missing") {
  if (has_gpu()) return;
  std::string said;
  try {
    (void)detail::cudnn_desk::here();
  } catch (const error& e) {
    said = e.what();
  }
  CAPTURE(said);
  CHECK(said.find("needs an NVIDIA GPU") != std::string::npos);
}

TEST_CASE_TEMPLATE("cudnn: on a GPU every pass of every shape is the definition", N, float,
                   cordee::half, bfloat) {
  if (!has_gpu()) return;
  const gpu device;
  for (const convolution_problem& p : support::many_shapes) {
    check<cudnn, N>(device, p);
    check<cudnn_with<cudnn_settings{.deterministic = true}>, N>(device, p);
  }
}
