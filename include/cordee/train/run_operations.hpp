// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What a trainer does beside its step: the training loop, evaluation, files of weights.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <cordee/core/limits.hpp>
#include <cordee/core/training_step.hpp>
#include <cordee/train/checks/stability_check.hpp>
#include <cordee/train/fit.hpp>
#include <cordee/train/measure/evaluate.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

/// What `load` reads of a file.
struct load_options {
  /// False: all but the last layer, which keeps its weights of before, whatever the file has under
  /// its names. For fine-tuning on other classes.
  bool classifier = true;
};

/// Base of the trainer `Run`, whose members these are. All are collective, and throw on every rank
/// when one fails.
template <class Run>
class run_operations {
 public:
  /// Trains until the loader's position is `epochs`, and calls the callbacks (see
  /// train/callbacks/record.hpp). A `validation{data set}` among them is evaluated at the end of
  /// each epoch.
  template <Feed F, class... Callbacks>
  run_summary fit(F& feed, double epochs, Callbacks&&... callbacks) {
    return run().abort_peers_on_throw(
        [&] { return train::fit(run(), feed, epochs, callbacks...); });
  }

  /// One update from `data`, with `samples` samples on this rank, for a model of data of your own.
  /// `epoch` is the position in the schedule. `global_samples` counts all ranks' samples; 0: ranks
  /// sum them in a small message, so that the mean is exact for unequal shares. Collective. @throws
  /// usage_error for a negative number of samples, and what trainer::step throws.
  template <class Data, class R = Run>  // R, since nvcc looks into Run before it is complete
    requires std::same_as<typename R::batch_type, data_batch<Data, typename R::device>>
  step_outcome step(const Data& data, std::int64_t samples, double epoch,
                    std::int64_t global_samples = 0) {
    return run().abort_peers_on_throw([&] {
      expects(samples >= 0 && samples <= core::limits<int>::max() && global_samples >= 0,
              "step: the number of samples is negative, or above 2^31 - 1");
      if (global_samples == 0) global_samples = sum_samples(run(), samples);
      typename Run::batch_type b{};
      b.data = &data;
      b.count = static_cast<int>(samples);
      b.global_samples = global_samples;
      b.ranks = run().comm().size();
      // Ranges apart for each rank, since ranks do not know each other's counts: dropout depends on
      // it.
      b.first_sample = std::int64_t{run().comm().rank()} << 31;
      return run().step(std::span<const typename Run::batch_type>(&b, samples > 0 ? 1 : 0), epoch);
    });
  }

  /// Before a step, passes the next step's micro-batches to a model that prepares them in parallel
  /// with the step (nn/adversarial.hpp), which changes no result. `fit` calls it.
  template <class Batches>
  void look_ahead(const Batches& next) {
    run().model().look_ahead(run().packed_parameters(), next, run().options().seed,
                             run().steps_taken() + 1);
  }

  /// Metrics of the mean model on a data set, with each sample counted once, in batches of
  /// `batch_size` samples per rank, read by `decode_threads` (as validation::decode_threads).
  /// @throws usage_error if batch_size is not positive or threads are not within 0 to 1024; error
  /// for data whose shape, classes or normalization differ from the training's.
  template <Dataset Data>
  metrics evaluate(const Data& dataset, const normalization& norm, int batch_size = 250,
                   int decode_threads = 0) {
    return run().abort_peers_on_throw(
        [&] { return train::evaluate(run(), dataset, norm, batch_size, decode_threads); });
  }

  /// Metrics of the mean model over the batches of all ranks, for a model of data of your own:
  /// `batches` is a range of this rank's, count(batch) the number of samples in one. Ranks may have
  /// different numbers of batches.
  template <class Batches, class Count>
    requires requires(Batches& batches, const Count& count) { count(*std::begin(batches)); }
  metrics evaluate(Batches&& batches, const Count& count) {
    return run().abort_peers_on_throw(
        [&] { return train::evaluate_batches(run(), batches, count); });
  }

  /// Writes the mean model's weights to a safetensors file under the names of its segments, with
  /// `metadata` in addition to the library's. After `fit` or `load` the latter are "mean",
  /// "deviation" and "classes" of the data (train/input/data_description.hpp), unless `metadata`
  /// has them. Rank 0 writes the file, and creates missing folders of its path.
  void save(const std::string& path,
            const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    // save_weights and load_weights are found by argument-dependent lookup, once declared.
    static_assert(
        requires(Run& r) { save_weights(r, path, metadata); },
        "save: include <cordee/train/weights.hpp>, as the umbrella does");
    run().abort_peers_on_throw([&] { save_weights(run(), path, metadata); });
  }

  /// As `save`, but only the network that evaluation uses, for a model that trains more than that
  /// (nn/adversarial.hpp): a trainer of that network can `load` it, and so can PyTorch.
  void save_evaluated(const std::string& path,
                      const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    static_assert(
        requires(Run& r) { save_evaluated_weights(r, path, metadata); },
        "save_evaluated: include <cordee/train/weights.hpp>, as the umbrella does; `save` is that "
        "of a model which is evaluated as a whole");
    run().abort_peers_on_throw([&] { save_evaluated_weights(run(), path, metadata); });
  }

  /// Writes rank 0's gradient to a safetensors file under the names of its segments. After a step
  /// of an exact optimizer it is the mean over ranks, unless the optimizer stored its direction
  /// there, as `lamb` does, or a clipped one, as `clip` does; after one of a mixing optimizer, it
  /// is what was exchanged.
  void save_gradients(const std::string& path) {
    static_assert(
        requires(Run& r) { write_gradients(r, path); },
        "save_gradients: include <cordee/train/weights.hpp>, as the umbrella does");
    run().abort_peers_on_throw([&] { write_gradients(run(), path); });
  }

  /// Rank 0 reads weights of F32, F64, F16 or BF16 and broadcasts them; throws, naming the tensors,
  /// if the file does not fit the network. Returns the names of the network's tensors that were not
  /// read. Class names and normalization in the file are compared with those of data passed later
  /// to `fit`, `evaluate` and `predict`.
  std::vector<std::string> load(const std::string& path, load_options options = {}) {
    static_assert(
        requires(Run& r) { load_weights(r, path, options); },
        "load: include <cordee/train/weights.hpp>, as the umbrella does");
    return run().abort_peers_on_throw([&] { return load_weights(run(), path, options); });
  }

  /// Resumes from the newest complete checkpoint in `folder`; call it before fit. Returns false if
  /// there is none. What must be unchanged, and what may change: checkpoint/compatibility.hpp.
  /// Component checkpoint (checkpoint/resume.hpp).
  bool resume(const std::string& folder) {
    static_assert(
        requires(Run& r) { resume_run(r, folder); },
        "resume: include <cordee/checkpoint/checkpoint.hpp> and link cordee::checkpoint");
    return run().abort_peers_on_throw([&] { return resume_run(run(), folder); });
  }

  /// Calls f() while every rank holds the mean model: running statistics, and weights if they
  /// differ between ranks, are replaced by their exact means and restored afterwards.
  template <class F>
  auto with_mean_model(const F& f) {
    return run().abort_peers_on_throw([&] { return train::with_mean_model(run(), f); });
  }

  /// Root mean square over ranks of the distance of their weights from the mean.
  double consensus_distance() { return cordee::detail::train::consensus_distance(run()); }

 private:
  [[nodiscard]] Run& run() { return static_cast<Run&>(*this); }
};

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
