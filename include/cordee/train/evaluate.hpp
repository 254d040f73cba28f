// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact evaluation over ranks: each sample once, on the model the ranks agree on.
//
// Rank r reads the r-th contiguous slice, sums are added over ranks in order, and the division is
// by the number of samples, so the result does not depend on how the slices fall. Weights that
// differ between ranks, and running statistics always, are averaged exactly first.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/train/upload.hpp>

namespace cordee::inline CORDEE_ABI {

/// Given to `fit` among the listeners: evaluates `dataset` at the end of each epoch, in batches of
/// `batch` samples on each rank.
template <Dataset S>
struct held_out {
  S dataset;
  int batch = 250;
};
template <class S>
held_out(S) -> held_out<S>;
template <class S>
held_out(S, int) -> held_out<S>;

/// Refuses data of another shape than the network's.
template <class M, class Data>
[[gnu::cold]] void expect_fits(const Data& data) {
  if (data.image() != M::input || data.classes() != M::classes)
    throw error(text("the data set has images of ", to_text(data.image()), " in ", data.classes(),
                     " classes, the network takes ", to_text(M::input), " in ", M::classes,
                     ": name the data's image and classes in the network's shape"));
}

namespace detail {

/// f() with the exact mean of what differs between ranks, which is put back after it.
template <class Run, class F>
auto with_mean_model(Run& run, const F& f) {
  using real = typename Run::Real;
  using device = typename Run::device;
  const auto s = run.compute();
  const device& where = run.model().where();
  const span_on<real, device> range = Run::weights_differ ? run.weights() : run.statistics();
  const auto publish = [&] {
    if constexpr (Run::weights_differ) run.model().publish(run.weights(), run.image(), s);
  };
  buffer<real, device> before(where, range.size);
  where.copy(before.span().data, range.data, range.size * sizeof(real), s);
  mean(run.link(), where, range, s);
  publish();
  const auto result = f();
  where.copy(range.data, before.span().data, range.size * sizeof(real), s);
  publish();
  return result;
}

}  // namespace detail

/// The score of the agreed model on the whole data set; collective, the same on every rank.
template <class Run, Dataset S>
score evaluate(Run& run, const S& dataset, const normalisation& norm, int batch_size = 250) {
  expects(batch_size > 0, "evaluate: a batch has at least one sample");
  expect_fits<typename Run::model_type>(dataset);
  return run.with_mean_model([&] {
    const auto ranks = static_cast<std::size_t>(run.link().size());
    const auto rank = static_cast<std::size_t>(run.link().rank());
    const std::size_t first = dataset.size() * rank / ranks;
    const std::size_t last = dataset.size() * (rank + 1) / ranks;
    const std::size_t image = dataset.image().size();
    std::vector<std::uint8_t> pixels(image * static_cast<std::size_t>(batch_size));
    std::vector<std::int32_t> labels(static_cast<std::size_t>(batch_size));
    upload<typename Run::device> there(run.model().where());

    score own;
    for (std::size_t at = first; at < last;) {
      const std::size_t n = std::min(last - at, static_cast<std::size_t>(batch_size));
      for (std::size_t i = 0; i < n; ++i, ++at)
        labels[i] = dataset.read(at, {pixels.data() + i * image, image});
      const std::array read{batch<cpu>{{pixels.data(), n * image},
                                       {labels.data(), n},
                                       static_cast<int>(n),
                                       static_cast<std::int64_t>(n),
                                       1,
                                       norm}};
      const auto b = there.to(read, run.compute()).front();
      run.model().forward(run.image(), run.weights(), b, phase::evaluate, run.compute());
      own += run.model().read_score(run.compute());
    }
    std::array sums{own.loss, static_cast<double>(own.top1), static_cast<double>(own.top5),
                    static_cast<double>(own.count)};
    agree(run.link(), sums, sum{});
    return score{sums[0], std::llround(sums[1]), std::llround(sums[2]), std::llround(sums[3])};
  });
}

}  // namespace cordee::inline CORDEE_ABI
