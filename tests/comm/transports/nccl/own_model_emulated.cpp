// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A model of the user's own on a GPU, with reducers over the test double of NCCL. Streams are
// threads, so that nothing but an event orders one behind another.
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/comm/reducers/native.hpp>
#include <cordee/comm/reducers/ring.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/support/device_quadratic.hpp"
#include "tests/support/nccl_double_gpu.hpp"

using namespace cordee;
using namespace support;

namespace {

/// The GPU of the double with asynchronous kernels. Its last copy closes the streams.
class threaded_gpu : public emulated {
 public:
  struct stream : emulated::stream {
    cudaStream_t handle = nullptr;
    stream() : emulated::stream(1) {}
    template <class Work>
    void submit(const Work& work) const {
      handle == nullptr ? work() : handle->enqueue(work);
    }
    template <class Kernel>
    void launch_kernel(std::size_t blocks, const Kernel& kernel) const {
      submit([blocks, kernel] { emulated::stream(1).launch_kernel(blocks, kernel); });
    }
    void copy(void* out, const void* in, std::size_t size) const {
      cudaMemcpyAsync(out, in, size, cudaMemcpyDefault, handle);
    }
    [[nodiscard]] void* allocate(std::size_t size) const {
      void* memory = nullptr;
      if (size != 0) cudaMallocAsync(&memory, size, handle);
      return memory;
    }
    void release(void* memory) const noexcept {
      if (memory != nullptr) cudaFreeAsync(memory, handle);
    }
    void finish() const { cudaStreamSynchronize(handle); }
  };
  using event = std::shared_ptr<std::atomic<bool>>;

  [[nodiscard]] stream make_stream() const {
    stream s;
    cudaStreamCreateWithFlags(&s.handle, cudaStreamNonBlocking);
    const std::scoped_lock lock(streams_->mutex);
    streams_->all.push_back(s.handle);
    return s;
  }
  void copy(void* out, const void* in, std::size_t size, stream s) const { s.copy(out, in, size); }
  void clear(void* out, std::size_t size, stream s) const {
    if (size != 0) s.submit([=] { std::memset(out, 0, size); });
  }
  [[nodiscard]] event record(stream s) const {
    auto passed = std::make_shared<std::atomic<bool>>(false);
    s.submit([passed] { *passed = true; });
    return passed;
  }
  void await(stream s, const event& e) const {
    if (e != nullptr) s.submit([this_event = e] { spin(this_event); });
  }
  [[nodiscard]] static bool is_complete(const event& e) { return e == nullptr || *e; }
  static void wait(const event& e) { spin(e); }
  void finish(stream s) const { s.finish(); }

 private:
  static void spin(const event& e) {
    while (!is_complete(e)) std::this_thread::yield();
  }
  struct stream_list {
    std::mutex mutex;
    std::vector<cudaStream_t> all;
    ~stream_list() {
      for (cudaStream_t s : all) cudaStreamDestroy(s);
    }
  };
  std::shared_ptr<stream_list> streams_ = std::make_shared<stream_list>();
};
static_assert(Device<threaded_gpu> && GpuStream<threaded_gpu::stream>);
static_assert(
    detail::train::ExchangesOnStream<custom_model<shift, fp64, threaded_gpu>, native<nccl>>);

/// Each rank's weights after four steps with buckets of one tensor.
template <class Make>
std::vector<std::vector<double>> weights_over(const Make& make, int ranks, calls order,
                                              kernels_on where) {
  std::vector<std::vector<double>> all(static_cast<std::size_t>(ranks));
  launch_nccl(
      ranks,
      [&](nccl comm) {
        const threaded_gpu device;
        auto model = quadratic_model_on<fp64>(device, order, where);
        trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, make(comm), {.bucket_bytes = 8}};
        CHECK(run.buckets().size() == 4);
        for (int k = 0; k < 4; ++k) {
          const auto out = run.step(
              k == 2 && comm.rank() == 0 ? std::nan("") : shift_of(comm.rank(), ranks), 1, k);
          CHECK(out.applied == (k != 2));
          CHECK(out.train.loss == 1);
        }
        all[static_cast<std::size_t>(comm.rank())] =
            copy_to_host<double, threaded_gpu>(device, run.weights(), run.compute());
      },
      std::chrono::seconds(30));
  return all;
}
std::vector<double> weights_on_cpu(int ranks) {
  return on_ranks(ranks, [&](threads comm) {
    auto model = quadratic_model_of<fp64>();
    trainer run{model, sgd{.momentum = 0.9}, fixed_rate{}, ring{comm}, {.bucket_bytes = 8}};
    for (int k = 0; k < 4; ++k)
      run.step(k == 2 && comm.rank() == 0 ? std::nan("") : shift_of(comm.rank(), ranks), 1, k);
    return copy(run.weights());
  })[0];
}

}  // namespace

TEST_CASE("nccl: a model of the user's own on a GPU has the CPU's weights, on any stream") {
  for (const int ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    const auto on_cpu = weights_on_cpu(ranks);
    const auto check = [&](const auto& make, calls order) {
      const auto expected = weights_over(make, ranks, order, kernels_on::step)[0];
      CHECK(same_but_for_rounding(expected, on_cpu));
      for (const kernels_on where : {kernels_on::step, kernels_on::own})
        for (const auto& weights : weights_over(make, ranks, order, where))
          CHECK(same_bits(weights, expected));
    };
    check([](nccl comm) { return ring{comm}; }, calls::mixed);
    check([](nccl comm) { return native{comm}; }, calls::descending);
  }
}
