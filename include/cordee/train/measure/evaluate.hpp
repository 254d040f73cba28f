// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Exact evaluation over ranks: each sample is counted once, with the mean model.
//
// Rank r reads the r-th contiguous slice; sums are added in rank order and divided by the number of
// samples, so the result does not depend on how samples are distributed. Meanwhile running
// statistics, and weights if they differ between ranks, are replaced by their exact means. The next
// batch is read while the network evaluates one, by as many threads as a loader has; the metrics
// depend on neither.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/extent.hpp>
#include <cordee/core/math.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/data/dataset.hpp>
#include <cordee/data/sample_threads.hpp>
#include <cordee/data/slice_reader.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/device/pinned.hpp>
#include <cordee/nn/model.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/train/input/data_description.hpp>
#include <cordee/train/input/upload.hpp>

namespace cordee::inline CORDEE_ABI {

/// Passed to `fit` among the callbacks: evaluates a data set at the end of each epoch.
template <class S>
struct validation {
  static_assert(detail::data::has_dataset_members<S>());

  /// Data of the network's shape and the training's classes, with at least one sample, else error.
  S dataset;
  /// Samples of a batch on one rank, two of which are in memory; 0: as a micro-batch, at most 250.
  /// Unit: samples. Range: 0 or more, else usage_error. Default: evaluation needs no more
  /// activations than training.
  int batch = 0;
  /// Reader threads; 0: one, or the cores of this rank if images are decoded. Range: 0 to 1024,
  /// else usage_error.
  int decode_threads = 0;
};
template <class S>
validation(S) -> validation<S>;
template <class S>
validation(S, int) -> validation<S>;
template <class S>
validation(S, int, int) -> validation<S>;

/// Same, for a model of data of your own: a range of this rank's batches, and a function that
/// counts a batch's samples. The batches of all ranks together are evaluated.
template <class Batches, class Count>
struct batch_validation {
  Batches batches;  ///< Read from the beginning each time.
  Count count;      ///< count(batch): its samples.
};
template <class Batches, class Count>
batch_validation(Batches, Count) -> batch_validation<Batches, Count>;

namespace detail::train {

/// Samples per rank and micro-batch, rounded up.
template <class F>
std::int64_t micro_batch(F& feed) {
  const std::int64_t slices = std::int64_t{feed.ranks()} * feed.accumulate();
  return (feed.global_batch() + slices - 1) / slices;
}

/// Samples per rank of a batch of fit's validation, unless `validation` has their number.
template <class F>
int validation_batch(F& feed) {
  return static_cast<int>(std::min<std::int64_t>(micro_batch(feed), 250));
}

/// Throws error for data of another shape than the network's.
template <class M, class Data>
[[gnu::cold]] void expect_shapes_match(const Data& data, const char* name = "data set") {
  static_assert(nn::ImageModel<M>,
                "this is for models of images: a model of other data is given batches of its own "
                "type (batch_source, evaluate_batches)");
  if (data.image() != M::input || data.classes() != M::classes)
    throw error(concat("the ", name, " has images of ", describe(data.image()), " in ",
                       data.classes(), " classes, the network takes ", describe(M::input), " in ",
                       M::classes, ": give the network the data's image and number of classes"));
}

/// Throws error for images that are normalized otherwise than those that the weights were trained
/// on, and for data of other classes. Collective.
template <class Run>
[[gnu::cold]] void expect_data_of(Run& run, const normalization& norm, const name_list& class_names,
                                  const char* owner) {
  run.abort_peers_on_throw([&] {
    const data_description& known = run.fit_state().data;
    compare_normalization(known, norm, Run::model_type::input.channels, owner, true);
    expect_same_classes(known, class_names, owner, "give it those classes, in that order");
  });
}

/// Checks all of a fit's validation that is known before the first step; ignores other callbacks.
template <class Run, class L>
void expect_validation_fits(Run&, const L&) {}
template <class Run, class S>
[[gnu::cold]] void expect_validation_fits(Run& run, const validation<S>& v) {
  expects(v.batch >= 0, "validation: .batch is the number of samples of a batch, or 0");
  expects(v.decode_threads >= 0 && v.decode_threads <= data::most_sample_threads,
          "validation: .decode_threads is within 0 .. 1024");
  if (v.dataset.size() == 0)
    throw error("fit: the validation has no samples: give it some, or leave it out");
  expect_shapes_match<typename Run::model_type>(v.dataset, "validation");
  expect_same_classes(run.fit_state().data, class_name_list(v.dataset), "fit: the validation",
                      "give it those classes, in that order");
}

/// f() with the exact mean of what differs between ranks, of the weights' average where the
/// optimizer keeps one; both are restored afterwards, too if f throws.
template <class Run, class F>
auto with_mean_model(Run& run, const F& f) {
  using real = typename Run::Real;
  using D = typename Run::device;
  const auto s = run.compute();
  const D& device = run.model().get_device();
  using optimizer = std::remove_cvref_t<decltype(run.optimizer())>;
  constexpr bool averages = optim::AveragesWeights<optimizer>,
                 replaces = Run::weights_differ || averages;
  // Asked for anew behind f, in which the planes may have left the device (swapped_trainer).
  const auto replaced = [&]() -> span_on<real, D> {
    return replaces ? run.weights() : run.statistics();
  };
  const span_on<real, D> range = replaced();
  const auto pack = [&] {
    if constexpr (replaces) nn::pack_anew(run.model(), run.weights(), run.packed_parameters(), s);
  };
  device::placed_memory<real, D, requires { run.host(); }> before(device, range.size);
  device.copy(before.span().data, range.data, range.size * sizeof(real), s);
  if constexpr (averages && requires { run.shard(); })
    run.gather_slot(optimizer::average_slot, range);
  else if constexpr (averages)
    device.copy(range.data, run.slot(optimizer::average_slot).data,
                (range.size - run.statistics().size) * sizeof(real), s);
  comm::allreduce_mean(run.comm(), device, Run::weights_differ ? range : run.statistics(), s);
  pack();
  const auto restore = [&] {
    device.copy(replaced().data, before.span().data, range.size * sizeof(real), s);
    pack();
  };
  const auto or_restore = [&] {
    try {
      return f();
    } catch (...) {
      restore();
      throw;
    }
  };
  if constexpr (std::is_void_v<decltype(f())>) {
    or_restore();
    restore();
  } else {
    auto result = or_restore();  // not const: it may be a type that only moves
    restore();
    return result;
  }
}

/// Forward passes of the mean model over this rank's slice of the data; f(batch) after each.
/// Returns what result() returns while the mean model is in place. Collective.
template <class Run, class Data, class F, class Result>
auto over_slice(Run& run, const Data& dataset, const normalization& norm, int batch_size,
                int decode_threads, const F& f, const Result& result) {
  expects(batch_size > 0, "evaluate: a batch has at least one sample");
  expects(decode_threads >= 0 && decode_threads <= data::most_sample_threads,
          "evaluate: .decode_threads is within 0 .. 1024");
  expect_shapes_match<typename Run::model_type>(dataset);
  expect_data_of(run, norm, class_name_list(dataset), "evaluate: the data set");
  return run.with_mean_model([&] {
    const auto ranks = static_cast<std::size_t>(run.comm().size());
    const auto rank = static_cast<std::size_t>(run.comm().rank());
    const std::size_t first = dataset.size() * rank / ranks;
    const std::size_t last = dataset.size() * (rank + 1) / ranks;
    upload<typename Run::device> uploaded(run.model().get_device());
    data::slice_reader reader(dataset, first, last, batch_size, norm, decode_threads);
    for (auto read = reader.next(); !read.empty(); read = reader.next()) {
      const auto b = uploaded.to(read, run.compute()).front();
      run.model().forward(run.packed_parameters(), run.weights(), b, phase::evaluate,
                          run.compute());
      f(read.front());
    }
    return result();
  });
}

/// The sums of all ranks, added in their order. Collective.
template <class Run>
[[gnu::cold, gnu::noinline]] metrics allreduce_metrics(Run& run, const metrics& own) {
  std::array sums{own.loss, static_cast<double>(own.top1), static_cast<double>(own.top5),
                  static_cast<double>(own.count)};
  allreduce_host(run.comm(), sums, reduce_op::sum);
  return {sums[0], core::llround(sums[1]), core::llround(sums[2]), core::llround(sums[3])};
}

/// Metrics of the mean model on the whole data set, the same on every rank. Collective.
template <class Run, Dataset S>
metrics evaluate(Run& run, const S& dataset, const normalization& norm, int batch_size = 250,
                 int decode_threads = 0) {
  metrics own;
  const auto add = [&](const batch<cpu>&) { own += run.model().read_metrics(run.compute()); };
  return over_slice(run, dataset, norm, batch_size, decode_threads, add,
                    [&] { return allreduce_metrics(run, own); });
}

/// The same over batches of one's own, of which each rank has its part: count(batch) samples.
template <class Run, class Batches, class Count>
metrics evaluate_batches(Run& run, Batches&& batches, const Count& count) {
  return run.with_mean_model([&] {
    metrics own;
    for (const auto& data : batches) {
      typename Run::batch_type b{};
      b.data = &data;
      b.count = static_cast<int>(count(data));
      run.model().forward(run.packed_parameters(), run.weights(), b, phase::evaluate,
                          run.compute());
      own += run.model().read_metrics(run.compute());
    }
    return allreduce_metrics(run, own);
  });
}

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
