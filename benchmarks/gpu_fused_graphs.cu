// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// cuDNN's fused graphs beside the plain ones on six convolutions of ResNet-50, in fp16, a line of
// JSON each, with milliseconds:
//
//   fused         the graph, by the fastest of its plans; null if cuDNN has none for this GPU
//   convolution   the same pass alone, by the fastest of its plans
//   plain         the convolution and what the library runs beside it today: batch norm + ReLU
//                 forward (before; with an addition, and a second batch norm, where the graph has
//                 them) or backward (after, for the last graph, which leaves an affine function of
//                 dz and x to the next one)
//
// Minima over repetitions; each work runs once before it is timed. With --check 1 no times are
// measured, but the values of the first three plans are compared with those that follow from the
// graph's equations (tests/support/fused_reference.hpp): "within" says whether they are near
// enough, "error" which is not.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <cordee/device/buffer.hpp>
#include <cordee/device/cuda.cuh>
#include <cordee/device/cuda_warp.cuh>
#include <cordee/ops/engines/cudnn/fused_graphs.hpp>
#include <cordee/ops/engines/cudnn/plan.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/precision/fp16.hpp>

#include "benchmarks/fused_shapes.hpp"
#include "benchmarks/stopwatch.hpp"
#include "examples/options.hpp"
#include "tests/support/device_vectors.hpp"
#include "tests/support/fused_on_gpu.cuh"

using namespace cordee;
using namespace cordee::detail::ops;

namespace {

using number = fp16::storage;
using stream = gpu::stream;
constexpr std::size_t max_plans = 8, checked_plans = 3;
constexpr double none = std::numeric_limits<double>::infinity();

/// Memory of normal numbers of 16 bits: zeros may be multiplied faster.
class tensor {
 public:
  tensor(const gpu& device, std::size_t bytes, stream s)
      : memory_(device, bytes / sizeof(number) + 8) {
    static const std::vector<number> numbers =
        support::to_storage<number>(normal_numbers(1u << 20, 1));
    for (std::size_t i = 0; i < memory_.size(); i += numbers.size())
      s.copy(memory_.span().data + i, numbers.data(),
             std::min(numbers.size(), memory_.size() - i) * sizeof(number));
    s.finish();
  }
  [[nodiscard]] number* data() { return memory_.span().data; }

 private:
  buffer<number, gpu> memory_;
};

class bench_fused {
 public:
  bench_fused(int samples, int reps) : samples_(samples), reps_(reps) {}

  /// cuDNN's description of this GPU, with which plans can be made elsewhere.
  void print_device() const {
    const auto device = cudnn_descriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
                            .with(CUDNN_ATTR_DEVICEPROP_HANDLE, target_.handle)
                            .finalized();
    const std::vector<char> json = device.values<char>(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
    std::printf("device: %.*s\n", static_cast<int>(json.size()), json.data());
  }
  /// "within" is null where cuDNN has no plan.
  void check(fused_graph kind, const convolution_problem& p) const {
    std::string wrong, within = "null";
    try {
      support::fused_on_gpu graph(kind, p, samples_, on_);
      for (const cudnn_fused_plan& plan :
           cudnn_fused_plans(graph.graph(), on_.get(), checked_plans)) {
        wrong = graph.error_of(plan, 50);
        within = wrong.empty() ? "true" : "false";
        if (!wrong.empty()) break;
      }
    } catch (const error& e) {
      wrong = e.what();
      within = "false";
    }
    std::replace(wrong.begin(), wrong.end(), '"', '\'');
    std::printf(
        "{\"graph\": \"%s\", \"layer\": \"%s -> %d, window %d\", \"batch\": %d, \"error\": \"%s\", "
        "\"within\": %s}\n",
        std::string(describe(kind)).c_str(), cordee::describe(p.in).c_str(), p.filters, p.window,
        samples_, wrong.c_str(), within.c_str());
    std::fflush(stdout);
  }
  void measure(fused_graph kind, const convolution_problem& p) {
    const double fused = time_fused(kind, p), convolution = time_convolution(kind, p);
    double plain = convolution;
    if (kind == fused_graph::bn_relu_conv_stats) plain += time_batch_norm<epilogue::relu>(p, false);
    const bool backward = is_input_gradient(kind);
    if (adds_residual(kind)) plain += time_batch_norm<epilogue::add_relu>(p, backward);
    if (kind == fused_graph::dual_bn_relu_conv_stats || kind == fused_graph::dgrad_dual_relu_bn)
      plain += time_batch_norm<epilogue::store>(p, backward);
    if (kind == fused_graph::dgrad_relu_bn || kind == fused_graph::dgrad_add_pooled_bn)
      plain += time_batch_norm<epilogue::relu>(p, true);
    std::printf(
        "{\"graph\": \"%s\", \"layer\": \"%s -> %d, window %d\", \"batch\": %d, \"fused\": %s, "
        "\"convolution\": %s, \"plain\": %s}\n",
        std::string(describe(kind)).c_str(), cordee::describe(p.in).c_str(), p.filters, p.window,
        samples_, shown(fused).c_str(), shown(convolution).c_str(), shown(plain).c_str());
    std::fflush(stdout);
  }

 private:
  static std::string shown(double milliseconds) {
    if (milliseconds == none) return "null";
    char text[32];
    std::snprintf(text, sizeof text, "%.4f", milliseconds);
    return text;
  }

  /// Milliseconds; infinite if the work fails.
  template <class F>
  double time(const F& work) {
    double least = none;
    try {
      work();
      for (int k = 0; k < reps_; ++k) least = std::min(least, 1e3 * timer_(s_, work));
    } catch (const error& e) {
      std::fprintf(stderr, "%s\n", e.what());
      return none;
    }
    return least;
  }

  double time_fused(fused_graph kind, const convolution_problem& p) {
    double least = none;
    try {
      const cudnn_fused_graph graph(kind, p, samples_, CUDNN_DATA_HALF, target_);
      std::vector<tensor> tensors;
      std::vector<void*> data;
      for (const fused_tensor& t : graph.tensors())
        data.push_back(tensors.emplace_back(device_, t.bytes, s_).data());
      for (const cudnn_fused_plan& plan : cudnn_fused_plans(graph, target_, max_plans)) {
        tensor workspace(device_, plan.workspace_bytes(), s_);
        least = std::min(
            least, time([&] { plan.execute(target_.handle, graph, data, workspace.data()); }));
      }
    } catch (const error& e) {
      std::fprintf(stderr, "%s: %s\n", std::string(describe(kind)).c_str(), e.what());
    }
    return least;
  }

  double time_convolution(fused_graph kind, const convolution_problem& p) {
    const auto pass = kind == fused_graph::bn_relu_wgrad ? convolution_pass::wgrad
                      : is_input_gradient(kind)          ? convolution_pass::dgrad
                                                         : convolution_pass::fprop;
    const cudnn_plan_key key{p, samples_, pass, CUDNN_DATA_HALF};
    tensor x(device_, 2 * samples_ * p.in.size(), s_),
        y(device_, 2 * samples_ * p.out().size(), s_), w(device_, 2 * p.weights(), s_);
    const cudnn_pointers data{x.data(), w.data(), y.data()};
    double least = none;
    for (cudnn_plan& plan : cudnn_plans(key, target_, max_plans)) {
      tensor workspace(device_, plan.workspace_bytes(), s_);
      least = std::min(least, time([&] { plan.execute(target_.handle, data, workspace.data()); }));
    }
    return least;
  }

  /// Times batch norm of the convolution's input, NHWC, in blocks of all channels.
  template <class Epilogue>
  double time_batch_norm(const convolution_problem& p, bool backward) {
    switch (p.in.channels) {
      case 64:
        return time_batch_norm<Epilogue, 64>(p.in, backward);
      case 256:
        return time_batch_norm<Epilogue, 256>(p.in, backward);
      case 512:
        return time_batch_norm<Epilogue, 512>(p.in, backward);
      case 1024:
        return time_batch_norm<Epilogue, 1024>(p.in, backward);
      default:
        return none;
    }
  }
  template <class Epilogue, int V>
  double time_batch_norm(const extent& in, bool backward) {
    const batch_norm_problem problem{in};
    const std::size_t bytes = 2 * static_cast<std::size_t>(samples_) * in.size();
    tensor x(device_, bytes, s_), y(device_, bytes, s_), dy(device_, bytes, s_),
        dx(device_, bytes, s_);
    const std::size_t c = problem.padded_channels(V);
    buffer<float, gpu> gamma(device_, c), beta(device_, c), mean(device_, c), variance(device_, c),
        saved(device_, problem.saved_size(samples_, V));
    buffer<double, gpu> scratch(device_, problem.scratch_size(samples_, V));
    const batch_norm_tensors<number, float> t{x.data(),          y.data(),
                                              gamma.span().data, beta.span().data,
                                              saved.span().data, scratch.span().data};
    double count = 0;
    const auto forward = [&] {
      count = batch_norm_forward<number, V, Epilogue>(
          problem, samples_, t, dx.data(), mean.span().data, variance.span().data, {}, s_);
    };
    if (!backward) return time(forward);
    forward();
    return time([&] {
      batch_norm_backward<number, V, Epilogue>(problem, samples_, t, count, dy.data(), dx.data(),
                                               mean.span().data, variance.span().data,
                                               write_mode::overwrite, {}, s_);
    });
  }

  int samples_, reps_;
  support::fused_target on_;
  gpu device_ = on_.get_device();
  stream s_ = on_.stream();
  const cudnn_target& target_ = on_.get();
  bench::stopwatch timer_;
};

}  // namespace

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "gpu_fused_graphs: cuDNN's fused graphs beside plain ones");
    const int samples = o.whole("batch", 256, "samples");
    const int reps = o.whole("reps", 10, "repetitions");
    const bool check = o.whole("check", 0, "1: compare values instead of times") != 0;
    o.done();
    expects(samples > 0 && reps > 0, "gpu_fused_graphs: nothing to measure");
    bench_fused bench(samples, reps);
    bench.print_device();
    for (const fused_graph kind : fused_graphs)
      for (const convolution_problem& p : ::bench::fused_shapes) {
        if (!::bench::has_fused_graph(kind, p)) continue;
        if (check)
          bench.check(kind, p);
        else
          bench.measure(kind, p);
      }
  });
}
