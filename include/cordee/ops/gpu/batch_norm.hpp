// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// GPU overloads of batch normalization (ops/cpu/batch_norm.hpp): forward and backward take two
// passes over the activations each (batch_norm_kernels.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <cordee/core/error.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/device/gpu_kernel.hpp>
#include <cordee/ops/batch_norm_problem.hpp>
#include <cordee/ops/gpu/batch_norm_enqueued.hpp>
#include <cordee/ops/gpu/batch_norm_kernels.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/batch_norm_ranks.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>
#include <cordee/ops/gpu/vec_16b.hpp>

namespace cordee::inline CORDEE_ABI::detail::ops {

inline void expect_one_group(const batch_norm_problem& at, int samples,
                             const statistics_allreduce& combine) {
  expects(
      !combine || at.ghost_batches(samples) <= 1,
      "batch_norm: statistics shared by ranks are taken over whole batches; use ghost_batch = 0");
}

// The bodies below take V, the channels of a block, at run time: a row of a GPU's layout is one
// block, and every number of channels of a network would be an instance of its own.

template <int size, class Epilogue, Number N, class Real, GpuStream S>
double normalize_batch(const batch_norm_problem& at, int V, int samples,
                       const batch_norm_tensors<N, Real>& t, const N* residual, Real* running_mean,
                       Real* running_variance, const statistics_allreduce& combine, S s) {
  expect_one_group(at, samples, combine);
  if (samples == 0 && !combine) return 0;
  if (samples == 0 && combine.enqueue != nullptr) {
    enqueue_moments<Real>(static_cast<std::size_t>(at.in.channels), at.padded_channels(V), 0,
                          t.gamma, t.saved, nullptr, combine, s);
    return 0;
  }
  if (samples == 0)  // other ranks wait for this rank's part
    return share_moments<Real>(static_cast<std::size_t>(at.in.channels), at.padded_channels(V), 0,
                               t.gamma, t.saved, nullptr, combine, s);
  expect_vec_aligned<size>(t.x, t.y, residual);
  const batch_norm_tiles tiling(at, samples, V, size);
  const std::size_t lanes = tiling.in.lanes(), table = tiling.groups * lanes;
  chunk_merge chunks = tiling.merge();
  const device::stream_buffer<double, S> memory(s, chunks.numbers()), statistics(s, 2 * table);
  chunks.use_memory(memory.data(), s);
  double *mean = statistics.data(), *variance = mean + table;
  const running_statistics_op<Real> running{tiling.groups, lanes,        mean,
                                            variance,      running_mean, running_variance};
  const bool is_final = tiling.groups == 1 && !combine;
  s.launch_kernel(tiling.blocks(), chunk_moments_kernel<N, size, Real>{
                                       tiling,
                                       t.x,
                                       {chunks, t.gamma, t.saved, mean, variance, running,
                                        is_final ? tiling.in.channels : 0}});
  auto count = static_cast<double>(tiling.rows_of(tiling.groups - 1));
  if (combine.enqueue != nullptr)
    enqueue_moments<Real>(tiling.in.channels, lanes, count, t.gamma, t.saved, mean, combine, s);
  else if (combine)
    count =
        share_moments<Real>(tiling.in.channels, lanes, count, t.gamma, t.saved, mean, combine, s);
  if (!is_final) for_each(s, tiling.in.channels, running);
  s.launch_kernel(tiling.blocks(), normalize_kernel<Epilogue, N, size, Real>{tiling, t, residual});
  return count;
}

/// Training: normalizes by the batch's statistics and moves the running statistics towards them
/// (towards their mean over the groups). Returns the number of values per channel that the
/// statistics cover; of this rank's alone where combine.enqueue leaves their sum in GPU memory. Temporary memory is the stream's; `scratch` is not used.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
double batch_norm_forward(const batch_norm_problem& at, int samples,
                          const batch_norm_tensors<N, Real>& t, const N* residual,
                          Real* running_mean, Real* running_variance,
                          const statistics_allreduce& combine, S s) {
  return normalize_batch<vec_16b_size<N, V>, Epilogue>(at, V, samples, t, residual, running_mean,
                                                       running_variance, combine, s);
}

/// The same where `saved` and the running statistics are computed already (batch_statistics).
template <Number N, int V, class Epilogue, class Real, GpuStream S>
double batch_norm_normalize(const batch_norm_problem& at, int samples,
                            const batch_norm_tensors<N, Real>& t, const N* residual, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(t.x, t.y, residual);
  const batch_norm_tiles tiling({at.in, 0}, samples, V, size);  // one group
  s.launch_kernel(tiling.blocks(), normalize_kernel<Epilogue, N, size, Real>{tiling, t, residual});
  return static_cast<double>(tiling.rows_of(0));
}

/// Evaluation, and training with frozen statistics: normalizes by the running statistics.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
void batch_norm_evaluate(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, const N* residual,
                         const Real* running_mean, const Real* running_variance, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(t.x, t.y, residual);
  const batch_norm_tiles tiling({at.in, 0}, samples, V, size);  // one group
  for_each(s, tiling.in.lanes(),
           evaluation_coefficients_op<Real>{tiling.in.channels, tiling.in.lanes(), t.gamma,
                                            running_mean, running_variance, t.saved});
  s.launch_kernel(tiling.blocks(), normalize_kernel<Epilogue, N, size, Real>{tiling, t, residual});
}

template <int size, class Epilogue, Number N, class Real, GpuStream S>
void differentiate_batch(const batch_norm_problem& at, int V, int samples,
                         const batch_norm_tensors<N, Real>& t, double count, N* dy, N* dx,
                         Real* dgamma, Real* dbeta, write_mode mode,
                         const statistics_allreduce& combine, S s) {
  expect_one_group(at, samples, combine);
  expect_vec_aligned<size>(t.x, t.y, dy, dx);
  const batch_norm_tiles tiling(at, samples, V, size);
  const std::size_t lanes = tiling.in.lanes(), table = tiling.groups * lanes;
  chunk_merge chunks = tiling.merge();
  const device::stream_buffer<double, S> memory(s, chunks.numbers()), sums(s, 2 * table);
  chunks.use_memory(memory.data(), s);
  double *shift = sums.data(), *scale = shift + table;
  const parameter_gradient_op<Real> gradient{
      tiling.groups, lanes, shift, scale, dbeta, dgamma, mode == write_mode::add};
  s.launch_kernel(tiling.blocks(),
                  chunk_sums_kernel<Epilogue, N, size, Real>{
                      tiling,
                      t,
                      dy,
                      {chunks, t.gamma, t.saved, shift, scale, count == at.frozen_count, gradient,
                       tiling.groups == 1 ? tiling.in.channels : 0}});
  if (tiling.groups != 1) for_each(s, tiling.in.channels, gradient);
  if (combine.enqueue != nullptr)
    enqueue_sums<Real>(tiling.in.channels, lanes, count, t.gamma, t.saved,
                       samples == 0 ? nullptr : shift, combine, s);
  else if (combine)
    share_sums<Real>(tiling.in.channels, lanes, count, t.gamma, t.saved,
                     samples == 0 ? nullptr : shift, combine, s);
  // With a residual, dy is masked already.
  using rest =
      std::conditional_t<std::same_as<Epilogue, epilogue::relu>, epilogue::relu, epilogue::store>;
  s.launch_kernel(tiling.blocks(), input_gradient_kernel<rest, N, size, Real>{tiling, t, dy, dx});
}

/// dx from dy; dx and dy may be the same memory unless a residual was added, in which case dy
/// becomes the residual's gradient. Requires `saved` as forward or evaluation left it. `count`
/// is forward's result, or `constant` as on the CPU; it is
/// used only if ranks share statistics.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
void batch_norm_backward(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, double count, N* dy, N* dx,
                         Real* dgamma, Real* dbeta, write_mode mode,
                         const statistics_allreduce& combine, S s) {
  differentiate_batch<vec_16b_size<N, V>, Epilogue>(at, V, samples, t, count, dy, dx, dgamma, dbeta,
                                                    mode, combine, s);
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
