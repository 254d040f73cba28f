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
#include <cordee/ops/gpu/batch_norm_kernels.hpp>
#include <cordee/ops/gpu/batch_norm_merge.hpp>
#include <cordee/ops/gpu/batch_norm_ranks.hpp>
#include <cordee/ops/gpu/batch_norm_tiles.hpp>
#include <cordee/ops/gpu/moments_message.hpp>
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

template <int size, Number N, class Real, GpuStream S>
double take_statistics(const batch_norm_problem& at, int V, int samples,
                       const batch_norm_tensors<N, Real>& t, Real* running_mean,
                       Real* running_variance, const statistics_allreduce& combine, S s) {
  expect_one_group(at, samples, combine);
  if (samples == 0 && !combine) return 0;
  const batch_statistics<Real> to{static_cast<std::size_t>(at.in.channels), t.gamma, t.saved,
                                  running_mean, running_variance};
  if (samples == 0) {  // other ranks wait for this rank's part
    share_no_moments(to, at.padded_channels(V), combine, s);
    return 0;
  }
  expect_vec_aligned<size>(t.x);
  const batch_norm_tiles tiling(at, samples, V, size);
  const std::size_t lanes = tiling.in.lanes(), table = tiling.groups * lanes;
  chunk_merge chunks = tiling.merge();
  const bool shares = static_cast<bool>(combine);
  moments_message<Real> message{to.channels, nullptr};
  const device::stream_buffer<double, S> memory(s, chunks.numbers()), statistics(s, 2 * table),
      message_memory(s, shares ? message.size() : 0);
  if (shares) message.numbers = message_memory.data();
  chunks.use_memory(memory.data(), s);
  double *mean = statistics.data(), *variance = mean + table;
  const running_statistics_op<Real> running{tiling.groups, lanes,        mean,
                                            variance,      running_mean, running_variance};
  // The pass ends with moved running statistics, or with a message.
  const bool is_final = tiling.groups == 1;
  s.launch_kernel(tiling.blocks(),
                  chunk_moments_kernel<N, size, Real>{tiling,
                                                      t.x,
                                                      {chunks, t.gamma, t.saved, mean, variance,
                                                       running, is_final ? to.channels : 0},
                                                      message.numbers});
  const auto count = static_cast<double>(tiling.rows_of(tiling.groups - 1));
  if (shares) share_moments(to, lanes, count, message, mean, variance, combine, s);
  if (!is_final) for_each(s, tiling.in.channels, running);
  return count;
}

/// Training: the coefficients of the batch's statistics; moves the running statistics towards them
/// (towards their mean over the groups). Returns the number of this rank's values per channel, of
/// the last group.
template <Number N, int V, class Real, GpuStream S>
double batch_norm_statistics(const batch_norm_problem& at, int samples,
                             const batch_norm_tensors<N, Real>& t, Real* running_mean,
                             Real* running_variance, const statistics_allreduce& combine, S s) {
  return take_statistics<vec_16b_size<N, V>>(at, V, samples, t, running_mean, running_variance,
                                             combine, s);
}
/// The coefficients of the running statistics.
template <Number N, int V, class Real, GpuStream S>
void batch_norm_recall(const batch_norm_problem& at, const batch_norm_tensors<N, Real>& t,
                       const Real* running_mean, const Real* running_variance, S s) {
  const std::size_t lanes = at.padded_channels(V);
  for_each(s, lanes,
           evaluation_coefficients_op<Real>{static_cast<std::size_t>(at.in.channels), lanes,
                                            t.gamma, running_mean, running_variance, t.saved});
}
/// y, by coefficients of any origin (batch_statistics). Returns the number of values per channel of
/// the last group.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
double batch_norm_normalize(const batch_norm_problem& at, int samples,
                            const batch_norm_tensors<N, Real>& t, const N* residual, S s) {
  constexpr int size = vec_16b_size<N, V>;
  if (samples == 0) return 0;
  expect_vec_aligned<size>(t.x, t.y, residual);
  const batch_norm_tiles tiling(at, samples, V, size);
  s.launch_kernel(tiling.blocks(), normalize_kernel<Epilogue, N, size, Real>{tiling, t, residual});
  return static_cast<double>(tiling.rows_of(tiling.groups - 1));
}

/// Training: normalizes by the batch's statistics. Returns what batch_norm_statistics does.
/// Temporary memory is the stream's; `scratch` is not used.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
double batch_norm_forward(const batch_norm_problem& at, int samples,
                          const batch_norm_tensors<N, Real>& t, const N* residual,
                          Real* running_mean, Real* running_variance,
                          const statistics_allreduce& combine, S s) {
  const double count =
      batch_norm_statistics<N, V>(at, samples, t, running_mean, running_variance, combine, s);
  batch_norm_normalize<N, V, Epilogue>(at, samples, t, residual, s);
  return count;
}

/// Evaluation, and training with frozen statistics: normalizes by the running statistics.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
void batch_norm_evaluate(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, const N* residual,
                         const Real* running_mean, const Real* running_variance, S s) {
  batch_norm_recall<N, V>(at, t, running_mean, running_variance, s);
  batch_norm_normalize<N, V, Epilogue>({at.in, 0}, samples, t, residual, s);  // one group
}

/// Launches sums(tiling, merged), which merges the chunks' sums, and input_gradient(tiling) when
/// the coefficients are known.
template <int size, Number N, class Real, GpuStream S, class Sums, class InputGradient>
void differentiate_chunks(const batch_norm_problem& at, int V, int samples,
                          const batch_norm_tensors<N, Real>& t, double count, Real* dgamma,
                          Real* dbeta, write_mode mode, const statistics_allreduce& combine, S s,
                          const Sums& launch_sums, const InputGradient& input_gradient) {
  expect_one_group(at, samples, combine);
  const batch_norm_tiles tiling(at, samples, V, size);
  const std::size_t lanes = tiling.in.lanes(), table = tiling.groups * lanes;
  chunk_merge chunks = tiling.merge();
  const bool shares = static_cast<bool>(combine);
  const std::size_t channels = tiling.in.channels, message_size = 2 * channels + 1;
  const device::stream_buffer<double, S> memory(s, chunks.numbers()), sums(s, 2 * table),
      message(s, shares ? message_size : 0);
  chunks.use_memory(memory.data(), s);
  double *shift = sums.data(), *scale = shift + table;
  const parameter_gradient_op<Real> gradient{
      tiling.groups, lanes, shift, scale, dbeta, dgamma, mode == write_mode::add};
  launch_sums(
      tiling,
      sums_merge<Real>{chunks, t.gamma, t.saved, shift, scale, count == at.frozen_count, gradient,
                       tiling.groups == 1 ? channels : 0, shares ? message.data() : nullptr});
  if (tiling.groups != 1) for_each(s, channels, gradient);
  if (shares && samples == 0)
    share_no_sums(message_size, combine, s);
  else if (shares)
    share_sums(channels, lanes, t.gamma, t.saved, message.data(), shift, combine, s);
  input_gradient(tiling);
}
/// Launches input_gradient(tiling, epilogue) when the coefficients are known.
template <int size, class Epilogue, Number N, class Real, GpuStream S, class InputGradient>
void differentiate_batch(const batch_norm_problem& at, int V, int samples,
                         const batch_norm_tensors<N, Real>& t, double count, N* dy, Real* dgamma,
                         Real* dbeta, write_mode mode, const statistics_allreduce& combine, S s,
                         const InputGradient& input_gradient) {
  expect_vec_aligned<size>(t.x, t.y, dy);
  // With a residual, dy is masked already.
  using rest =
      std::conditional_t<std::same_as<Epilogue, epilogue::relu>, epilogue::relu, epilogue::store>;
  differentiate_chunks<size>(
      at, V, samples, t, count, dgamma, dbeta, mode, combine, s,
      [&](const batch_norm_tiles& tiling, const sums_merge<Real>& merged) {
        s.launch_kernel(tiling.blocks(),
                        chunk_sums_kernel<Epilogue, N, size, Real>{tiling, t, dy, merged});
      },
      [&](const batch_norm_tiles& tiling) { input_gradient(tiling, rest{}); });
}

/// dx from dy; dx and dy may be the same memory unless a residual was added, in which case dy
/// becomes the residual's gradient. Requires `saved` as forward or evaluation left it. `count`
/// is forward's result, or frozen_count as on the CPU; nothing else depends on it. A null dgamma or
/// dbeta is not written.
template <Number N, int V, class Epilogue, class Real, GpuStream S>
void batch_norm_backward(const batch_norm_problem& at, int samples,
                         const batch_norm_tensors<N, Real>& t, double count, N* dy, N* dx,
                         Real* dgamma, Real* dbeta, write_mode mode,
                         const statistics_allreduce& combine, S s) {
  constexpr int size = vec_16b_size<N, V>;
  expect_vec_aligned<size>(dx);
  differentiate_batch<size, Epilogue>(
      at, V, samples, t, count, dy, dgamma, dbeta, mode, combine, s,
      [&]<class Rest>(const batch_norm_tiles& tiling, Rest) {
        s.launch_kernel(tiling.blocks(),
                        input_gradient_kernel<Rest, N, size, Real>{tiling, t, dy, dx});
      });
}

}  // namespace cordee::inline CORDEE_ABI::detail::ops
