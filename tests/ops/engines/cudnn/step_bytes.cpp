// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The bytes that forward and backward of ResNet-50 move at batch 256 on images of 224 x 224: those
// of the tensors that executions of cuDNN name, and of each launch by the formula of its kernel,
// every tensor once for each pass that reads or writes it. Nothing is computed: launches are
// counted, and memory is an address.
#include <cstdlib>
#include <type_traits>

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cordee/cordee.hpp>
#include <cordee/ops/engines/cudnn/engine.hpp>
#include <cordee/ops/gpu/batch_norm.hpp>
#include <cordee/ops/gpu/elementwise.hpp>
#include <cordee/ops/gpu/filter_layout.hpp>
#include <cordee/ops/gpu/linear.hpp>
#include <cordee/ops/gpu/loss.hpp>
#include <cordee/ops/gpu/normalized_average_pool.hpp>
#include <cordee/ops/gpu/normalized_max_pool.hpp>
#include <cordee/ops/gpu/packed_table.hpp>
#include <cordee/ops/gpu/pooling.hpp>

#include "tests/support/cudnn_on_host.hpp"

using namespace cordee;
using namespace cordee::detail::ops;
using namespace support;

namespace {

struct moved_bytes {
  std::size_t norms = 0, others = 0, launches = 0;
};
moved_bytes moved;

std::size_t numbers_of(const batch_norm_tiles& t) { return t.samples * t.in.pixels * t.in.lanes(); }
constexpr std::size_t signs_bytes = 8 + 4;  // pooled_signs
template <class E>
constexpr std::size_t adds = std::is_same_v<E, epilogue::add_relu> ? 1 : 0;

// Tensors of activations that a kernel reads and writes; what has a number for each channel alone
// is not counted.
template <class E, class N, int Size, class Real>
void count(const normalize_kernel<E, N, Size, Real>& k) {
  moved.norms += (2 + adds<E>)*numbers_of(k.tiling) * sizeof(N);
}
template <class N, int Size, class Real>
void count(const chunk_moments_kernel<N, Size, Real>& k) {
  moved.norms += numbers_of(k.tiling) * sizeof(N);
}
template <class E, class N, int Size, class Real>
void count(const chunk_sums_kernel<E, N, Size, Real>& k) {
  moved.norms += (2 + 2 * adds<E>)*numbers_of(k.tiling) * sizeof(N);
}
template <class E, class N, int Size, class Real, class Out>
void count(const input_gradient_kernel<E, N, Size, Real, Out>& k) {
  moved.norms += numbers_of(k.tiling) * (2 * sizeof(N) + sizeof(Out));
}
template <class N, int Size, class Real>
void count(const summed_gradient_kernel<N, Size, Real>& k) {
  moved.norms += 3 * numbers_of(k.tiling) * sizeof(N);
}
template <class N, int Size, class Real>
void count(const dual_summed_gradient_kernel<N, Size, Real>& k) {
  moved.norms += 5 * numbers_of(k.tiling) * sizeof(N);
}
template <class N, int Size, class Real>
void count(const normalized_average_pool_kernel<N, Size, Real>& k) {
  moved.norms += k.of.vectors * Size * (2 * k.of.in.pixels * sizeof(N) + signs_bytes + sizeof(N));
}
template <class N, int Size, class Real>
void count(const pooled_sums_kernel<N, Size, Real>& k) {
  moved.norms += numbers_of(k.tiling) * (signs_bytes + sizeof(N));
}
template <class N, int Size, class Real>
void count(const pooled_input_gradient_kernel<N, Size, Real>& k) {
  moved.norms += k.of.vectors * Size * (3 * k.of.in.pixels * sizeof(N) + 8 + sizeof(N));
}
template <class N, int Size>
void count(const average_pool_kernel<N, Size>& k) {
  moved.others += k.vectors * Size * (1 + k.in.pixels) * sizeof(N);
}
template <class N, int Size>
void count(const average_pool_backward_kernel<N, Size>& k) {
  moved.others += k.vectors * Size * (1 + k.in.pixels) * sizeof(N);
}
template <class N, int Size>
void count(const detail::device::for_each_kernel<normalize_bytes_op<N, Size>>& k) {
  moved.others += k.n * static_cast<std::size_t>(k.f.width) * sizeof(N) + k.n * k.f.channels;
}
template <class N>
void count(const detail::device::for_each_kernel<normalize_pairs_op<N>>& k) {
  const auto pairs = static_cast<std::size_t>(k.f.by_pairs.divisor);
  moved.others += k.n * 8 * sizeof(N) + k.n / pairs * k.f.width * k.f.channels;
}
template <class N, int Size>
void count(const detail::device::for_each_kernel<max_pool_op<N, Size>>& k) {
  const std::size_t out = k.n * Size;
  moved.others += out * (sizeof(N) + 1) + out * sizeof(N) * 4;  // stride 2
}
template <class N, int Size>
void count(const detail::device::for_each_kernel<max_pool_backward_op<N, Size>>& k) {
  const std::size_t in = k.n * Size;
  moved.others += in * sizeof(N) + in / 4 * (sizeof(N) + 1);
}
template <class N, int Size, class Real>
void count(const detail::device::for_each_kernel<normalized_max_pool_op<N, Size, Real>>& k) {
  const std::size_t out = k.n * Size;
  moved.norms += out * (2 * sizeof(N) + 1) + out * sizeof(N) * 4;  // stride 2
}
template <class N, int Size, class Real>
void count(
    const detail::device::for_each_kernel<normalized_max_pool_backward_op<N, Size, Real>>& k) {
  const std::size_t in = k.n * Size;
  moved.norms += 2 * in * sizeof(N) + in / 4 * (sizeof(N) + 1);
}
template <class N, class F>
void count(const detail::device::for_each_kernel<vectorized_op<N, F>>& k) {
  moved.others += 3 * k.f.n * sizeof(N);
}
/// Of channels, logits and labels: less than a thousandth.
template <class Kernel>
void count(const Kernel&) {}

/// A GPU that counts what is launched.
class counting_cuda : public host_cuda {
 public:
  struct stream : host_cuda::stream {
    stream() = default;
    explicit stream(const host_cuda::stream& s) : host_cuda::stream(s) {}
    template <class Kernel>
    void launch_kernel(std::size_t, const Kernel& kernel) const {
      ++moved.launches;
      count(kernel);
    }
    [[nodiscard]] void* allocate(std::size_t size) const { return counting_cuda::reserve(size); }
    void release(void*) const noexcept {}
  };
  [[nodiscard]] stream make_stream() const { return stream(host_cuda::make_stream()); }
  [[nodiscard]] void* allocate(std::size_t size) const { return reserve(size); }
  void release(void*) const noexcept {}
  /// Memory is zero; written, a pass's 17 GB would be in use.
  void clear(void*, std::size_t, stream) const {}

  /// Addresses without memory, until they are written; never given back.
  static void* reserve(std::size_t size) {
    if (size == 0) return nullptr;
    void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) throw error("no addresses are left");
    return at;
  }
};

constexpr resnet_options imagenet{.image = {3, 224, 224}, .classes = 1000};

struct step {
  double convolutions, norms, others;  // 1e9 bytes
  double skipped;                      // of those, pixels that no window covers
  std::size_t launches, executions, fused;
  [[nodiscard]] double all() const { return convolutions + norms + others; }
};

/// A second forward and backward pass: the first one decides the places.
template <class P>
step passes(bool fuses) {
  host_cudnn state;
  state.computes = false;
  state.engines[0].fuses = fuses;
  host_state() = state;
  cudnn_fused_places::current().clear();
  constexpr int batch = 256;
  const counting_cuda device;
  using engine = cudnn_with<cudnn_settings{.fuse_batch_norm = true}>;
  resnet<50, P, counting_cuda, imagenet, engine> net{device};
  using net_type = decltype(net);
  auto packed = net.make_packed_parameters();
  arena<float, counting_cuda> planes(device, net_type::segments(), 2);
  const auto s = device.make_stream();
  buffer<std::uint8_t, counting_cuda> pixels(device, batch * imagenet.image.size());
  buffer<std::int32_t, counting_cuda> labels(device, batch);
  typename detail::nn::batch_of<net_type> b{};
  b.pixels = pixels.span();
  b.labels = labels.span();
  b.count = batch;
  b.global_samples = batch;
  for (int k = 0; k < 2; ++k) {
    moved = {};
    host_state().bytes = host_state().skipped_bytes = 0;
    host_state().fused = 0;
    host_state().executed.clear();
    net.forward(packed, planes.plane(0), b, phase::train, s);
    net.backward_packed(
        packed, planes.plane(1), write_mode::overwrite, [](std::size_t) {}, s);
  }
  return {static_cast<double>(host_state().bytes) / 1e9,
          static_cast<double>(moved.norms) / 1e9,
          static_cast<double>(moved.others) / 1e9,
          static_cast<double>(host_state().skipped_bytes) / 1e9,
          moved.launches,
          host_state().executed.size(),
          static_cast<std::size_t>(host_state().fused)};
}

}  // namespace

// By hand, in bytes of one pass over all outputs of batch norms inside of blocks (a), at the ends
// of blocks (e), in projections (p) and of the stem (s), at batch 256 in 16 bits:
//
//   a 1.683e9, e 2.826e9, p 0.771e9, s 0.411e9
//   stem    with its max pool, but the sums of forward: x read, a quarter of it and of y written,
//           and an eighth of taps; the two quarters read for sums; x, a quarter and an eighth read
//           for dx, which is written
//   plain   8 a + 11 e + 8 p + s, and the stem; of the last block's end, with its average pool, 5
//           less, and its signs
//   fused   3 a + 3 e + 2 p of dx, the stem without its sums, and of the last block's end 2
//           forward: the sums of backward are of its signs
//
// and a convolution's graph reads or writes more: z at the end of a block, x for the sums.
TEST_CASE("cudnn: bytes and launches of ResNet-50's passes at batch 256, all plain and all fused") {
  const step plain = passes<fp16>(false), fused = passes<fp16>(true);
  CHECK(cudnn_with<cudnn_settings{.fuse_batch_norm = true}>::describe() ==
        "batch norm fused at 79 of 79 places; 79 fused by time; with the max pool behind it; with "
        "the average pool behind it");
  const auto billions = [](double numbers) { return 2 * 256 * numbers / 1e9; };
  const double pixels = 56 * 56;
  const double a = billions(pixels * (64 * 6 + 128 + 32 * 7 + 64 + 16 * 11 + 32 + 8 * 5)),
               e = billions(pixels * (256 * 3 + 128 * 4 + 64 * 6 + 32 * 3)),
               p = billions(pixels * (256 + 128 + 64 + 32)), s = billions(112 * 112 * 64),
               stem = (1 + 2.0 / 4 + 1.0 / 8 + 2.0 / 4 + 2 + 1.0 / 4 + 1.0 / 8) * s,
               last = billions(49 * 2048), signs = billions(2048) / 2 * (12 + 12 + 8 + 3 * 2);
  CHECK(plain.norms ==
        doctest::Approx(8 * a + 11 * e + 8 * p + s + stem - 5 * last + signs).epsilon(1e-6));
  CHECK(fused.norms ==
        doctest::Approx(3 * (a + e) + 2 * p + stem - s / 2 + 2 * last + signs).epsilon(1e-6));
  CHECK(plain.all() <= 88.93);
  CHECK(fused.all() <= 65.92);  // the aim is 66
  // Windows of 1x1 with stride 2 read a quarter of the pixels.
  CHECK(fused.all() - fused.skipped <= 64.84);
  CHECK(plain.launches <= 217);
  CHECK(fused.launches <= 111);
  CHECK(plain.executions == 161);
  CHECK(fused.executions == 161);
  // Forward 53: each convolution; backward 32 weight gradients of what is not stored, 32 input
  // gradients within blocks, 15 at the ends of blocks, and that of the max pool's output.
  CHECK(fused.fused == 133);
  CHECK(plain.fused == 0);
}
