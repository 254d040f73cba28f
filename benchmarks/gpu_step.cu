// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The stages of ResNet-50's training step in fp16 on one GPU, by events of the compute stream, a
// line of JSON each: forward; backward with the unscaling of gradients; the rest, which is the
// step's beginning, norms, optimizer and packing. Minima over steps, stage by stage.
//
// With --profile K the last K steps are enclosed by cudaProfilerStart and -Stop, for
// `ncu --profile-from-start off`, and no events are recorded.
#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <cuda_profiler_api.h>

#include <cordee/cordee.hpp>

#include "examples/options.hpp"

using namespace cordee;
using detail::device::cuda_check;

// Named: of an unnamed one nvcc reports functions that only a concept has instantiated.
namespace stages {

enum mark { step_begin, forward_begin, forward_end, backward_begin, backward_end, step_end, marks };

/// Events of one step.
class timeline {
 public:
  timeline() {
    for (cudaEvent_t& e : events_) cuda_check(cudaEventCreate(&e), "cudaEventCreate");
  }
  timeline(const timeline&) = delete;
  timeline& operator=(const timeline&) = delete;
  ~timeline() {
    for (cudaEvent_t e : events_) cudaEventDestroy(e);
  }
  void record(mark m, gpu::stream s) {
    if (enabled) cuda_check(cudaEventRecord(events_[m], s.handle), "cudaEventRecord");
  }
  [[nodiscard]] double milliseconds(mark from, mark to) const {
    float time = 0;
    cuda_check(cudaEventSynchronize(events_[to]), "cudaEventSynchronize");
    cuda_check(cudaEventElapsedTime(&time, events_[from], events_[to]), "cudaEventElapsedTime");
    return static_cast<double>(time);
  }
  bool enabled = true;

 private:
  std::array<cudaEvent_t, marks> events_{};
};

/// The network, whose passes record events: the trainer's, which writes packed gradients.
struct timed_network : resnet<50, fp16, gpu> {
  using base = resnet<50, fp16, gpu>;
  using base::base;
  std::unique_ptr<timeline> times = std::make_unique<timeline>();  // a model is movable

  void forward(const packed_parameters& packed, span_on<float, gpu> plane, const batch<gpu>& b,
               phase p, gpu::stream s) {
    times->record(forward_begin, s);
    base::forward(packed, plane, b, p, s);
    times->record(forward_end, s);
  }
  template <class Ready>
  void backward_packed(const packed_parameters& packed, span_on<float, gpu> gradients,
                       write_mode mode, Ready&& ready, gpu::stream s) {
    times->record(backward_begin, s);
    base::backward_packed(packed, gradients, mode, ready, s);
    times->record(backward_end, s);
  }
};

/// Random images and labels.
struct noise {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  explicit noise(int samples)
      : pixels(static_cast<std::size_t>(samples) * timed_network::input.size()),
        labels(static_cast<std::size_t>(samples)) {
    random_sequence random(1, purpose::synthetic, 0, 0);
    for (std::uint8_t& p : pixels) p = static_cast<std::uint8_t>(random.below(256));
    for (std::int32_t& l : labels)
      l = static_cast<std::int32_t>(random.below(timed_network::classes));
  }
  [[nodiscard]] batch<cpu> all() const {
    const int n = static_cast<int>(labels.size());
    return {{pixels.data(), pixels.size()}, {labels.data(), labels.size()}, n, n, 1, {}};
  }
};

void print(const char* stage, double milliseconds) {
  std::printf("{\"stage\": \"%s\", \"milliseconds\": %.4f}\n", stage, milliseconds);
}

void measure(int samples, int warmup_steps, int steps, int profiled) {
  timed_network net;
  trainer run{net, lars{}, constant{.learning_rate = 0.1}, solo{}};
  const noise images(samples);
  const batch<cpu> on_host = images.all();
  upload<gpu> transfer(net.get_device());
  const auto batches = transfer.to({&on_host, 1}, run.compute());
  timeline& t = *net.times;
  t.enabled = profiled == 0;
  std::array<double, 4> least{1e9, 1e9, 1e9, 1e9};
  for (int k = 0; k < warmup_steps + steps; ++k) {
    if (profiled > 0 && k == warmup_steps + steps - profiled) {
      run.compute().finish();
      cuda_check(cudaProfilerStart(), "cudaProfilerStart");
    }
    t.record(step_begin, run.compute());
    (void)run.step(batches, 0);
    t.record(step_end, run.compute());
    if (!t.enabled || k < warmup_steps) continue;
    const double forward = t.milliseconds(forward_begin, forward_end),
                 backward = t.milliseconds(backward_begin, backward_end),
                 step = t.milliseconds(step_begin, step_end);
    const std::array found{forward, backward, step - forward - backward, step};
    for (std::size_t i = 0; i < found.size(); ++i) least[i] = std::min(least[i], found[i]);
  }
  if (profiled > 0) {
    run.compute().finish();
    cuda_check(cudaProfilerStop(), "cudaProfilerStop");
    return;
  }
  print("forward", least[0]);
  print("backward", least[1]);
  print("the rest", least[2]);
  print("step", least[3]);
}

}  // namespace stages

int main(int argc, char** argv) {
  return examples::run([&] {
    examples::options o(argc, argv, "gpu_step: stages of ResNet-50's training step");
    const int samples = o.whole("batch", 256, "images of a step");
    const int warmup_steps = o.whole("warmup", 4, "steps before the measured ones");
    const int steps = o.whole("steps", 10, "measured steps");
    const int profiled = o.whole("profile", 0, "steps to profile: the last ones");
    o.done();
    expects(samples > 0 && steps > 0 && profiled <= steps, "gpu_step: nothing to measure");
    stages::measure(samples, warmup_steps, steps, profiled);
  });
}
