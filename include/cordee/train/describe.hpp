// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A text about a run before it starts: what `fit` would do, and every default that applies.
#pragma once

#include <string>

#include <cordee/comm/reducers/reducer.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/optim/optimizer.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/checks/plan_warnings.hpp>
#include <cordee/train/describe_memory.hpp>
#include <cordee/train/fit.hpp>
#include <cordee/train/step/run_state.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

constexpr std::string_view describe(agreement a) {
  return a == agreement::exact ? "exact" : a == agreement::mixing ? "mixing" : "loose";
}

/// What the first batch allocates; models of a user's own need not say it.
template <class M>
std::string describe_activations(const M& model, std::int64_t samples, int evaluated) {
  if constexpr (requires { model.bytes_per_sample(); })
    return concat("activations and their gradients at least ",
                  core::grouped(model.bytes_per_sample()), " bytes per sample, ",
                  core::grouped(model.bytes_per_sample() * static_cast<std::size_t>(samples)),
                  " for a micro-batch; evaluation by fit takes no more, in batches of ", evaluated);
  else
    return "activations are allocated with the first batch";
}

/// Samples per rank and micro-batch, where they are most.
template <class F>
std::int64_t largest_micro_batch(F& feed) {
  if constexpr (requires { feed.largest_micro_batch(); })
    return feed.largest_micro_batch();
  else
    return micro_batch(feed);
}

/// The precision of the backward pass of an int8 network, where its engine chooses one.
template <class M>
constexpr std::string_view byte_gradients() {
  if constexpr (requires { typename M::engine::byte_gradient; })
    return "backward in bf16, accumulated in fp32; other ";
  else
    return "";
}

/// Whether the engine writes weight gradients in the storage precision before they are widened.
template <class M>
constexpr bool rounds_weight_gradients() {
  if constexpr (requires { M::engine::rounds_weight_gradients; })
    return M::engine::rounds_weight_gradients;
  else
    return false;
}

/// The loss of the network, and its scale.
template <class Run>
std::string describe_loss(Run& run) {
  std::string text;
  if constexpr (requires { run.model().loss; }) text = core::describe_policy(run.model().loss);
  if constexpr (Run::precision::scales_loss) {
    const loss_scaling& options = run.options().loss_scaling;
    text += concat(text.empty() ? "" : "; ", "scaled by ", options.initial, " at first, times ",
                   options.growth, " after ", options.interval, " finite steps in a row, times ",
                   options.backoff, " after one that is not, ", options.smallest, " at least");
  }
  return text.empty() ? "the model's own" : text;
}

/// ", of at most 1,048,576 by the device's default" of a bucket's bytes.
template <class M, class R>
std::string describe_bucket_limit(const trainer_options& options, bool on_host) {
  if (comm::SingleMessage<R>) return {};
  const auto limit =
      bucket_limit_of<typename M::device, typename R::communicator_type>(options, on_host);
  return concat(", of at most ", core::grouped(limit.bytes), " by ", limit.decided_by);
}

/// The engine's name, and what it found out about the processor where it asks.
template <class Engine>
std::string describe_engine() {
  const auto name = concat("engine ", Engine::name);
  if constexpr (requires { Engine::describe(); })
    return concat(name, ", ", Engine::describe());
  else
    return name;
}

/// The instruction set that this build uses.
inline std::string instruction_set() {
  return concat(ops::isa, " (", ops::register_bytes, "-byte vectors)");
}

}  // namespace detail::train

/// One line per property, "name  value", and the callbacks that use memory. Not collective.
template <class Run, detail::train::Feed F, class... Callbacks>
std::string describe(Run& run, F& feed, double epochs, const Callbacks&... callbacks) {
  using M = typename Run::model_type;
  using O = std::remove_cvref_t<decltype(run.optimizer())>;
  using Real = typename Run::Real;
  const auto learning_rate = [&](double epoch) { return run.schedule()(epoch); };
  const int ranks = feed.ranks(), micro = feed.accumulate();
  const std::int64_t steps = feed.steps(epochs);

  std::size_t parameters = 0, largest = 0;
  for (const segment& s : run.segments())
    if (s.kind != kind::statistic) parameters += s.size;
  for (const bucket& b : run.buckets()) largest = std::max(largest, b.size);
  std::size_t exchanged = 0, trained = 0;
  for (const bucket& b : run.buckets())
    for (const segment& s : b.segments) trained += s.size;
  for (const bucket& b : run.buckets()) exchanged += b.size * sizeof(Real);

  std::string out;
  const auto add_line = [&out](std::string_view name, const std::string& value) {
    out += concat(name, std::string(std::max<std::size_t>(name.size(), 14) - name.size() + 2, ' '),
                  value, "\n");
  };
  std::string images;
  if constexpr (detail::nn::ImageModel<M>)
    images = concat(", image ", describe(M::input), ", ", M::classes, " classes");
  add_line("network", concat(detail::core::grouped(parameters), " parameters in ",
                             detail::core::count_trainable(run.segments()), " tensors", images));
  if constexpr (requires { run.model().describe_parameters(); })
    add_line("parameters", run.model().describe_parameters());
  if (const auto& frozen = run.options().freeze; !frozen.empty())
    add_line("frozen", concat(frozen.describe(), ": ", detail::core::grouped(parameters - trained),
                              " parameters"));
  if constexpr (requires { run.model().dropout_rate; })
    if (run.model().dropout_rate > 0) add_line("dropout", concat(run.model().dropout_rate));
  if constexpr (requires { run.model().describe(); })
    add_line("adversarial", run.model().describe());
  if constexpr (requires { run.model().describe_sharpness(); })
    add_line("sharpness", run.model().describe_sharpness());
  add_line("precision",
           concat(Run::precision::name, " on ", Run::device::name,
                  Run::device::host_memory ? ", " + detail::train::instruction_set() : ""));
  if constexpr (requires { run.model().get_device().describe(); })
    add_line("device", run.model().get_device().describe());
  if constexpr (Quantized<typename Run::precision>)
    add_line("types", concat("operands of convolutions in ", Run::precision::name,
                             ", accumulated in 32 bits; ", detail::train::byte_gradients<M>(),
                             "gradients, batch norm, the classifier and everything else in fp32"));
  else if constexpr (!std::same_as<typename Run::precision::storage, Real>)
    add_line("types",
             concat("activations and their gradients in ", Run::precision::name,
                    ", packed weights rounded to it, accumulated in single precision; master "
                    "weights, gradients of "
                    "parameters, batch norm's statistics, loss, messages and the optimizer in ",
                    sizeof(Real) == 4 ? "fp32" : "fp64",
                    detail::train::rounds_weight_gradients<M>()
                        ? concat("; weight gradients of convolutions are rounded to ",
                                 Run::precision::name, " in between")
                        : ""));
  else
    add_line("types",
             concat("activations, weights, gradients, statistics, loss and the optimizer in ",
                    Run::precision::name));
  add_line("loss", detail::train::describe_loss(run));
  if constexpr (!Run::device::host_memory)
    add_line("launches", std::string(run.describe_launches()));
  if constexpr (requires { M::engine::name; })
    add_line("convolutions", detail::train::describe_engine<typename M::engine>());
  add_line(
      "batch",
      concat(detail::core::grouped(feed.global_batch()),
             " samples per update = ", detail::core::grouped(detail::train::micro_batch(feed)),
             " per micro-batch x ", ranks, " ranks x ", micro, " accumulated micro-batches",
             feed.global_batch() % (ranks * micro) == 0 ? "" : " (some have one sample fewer)"));
  add_line("length", concat(detail::core::grouped(steps), " updates, ", epochs, " epochs of ",
                            detail::core::grouped(feed.samples()), " samples"));
  if constexpr (requires { feed.describe_input(); }) add_line("input", feed.describe_input());
  add_line("optimizer", detail::core::describe_policy(run.optimizer()));
  add_line("schedule", describe(run.schedule()));
  std::string curve;
  for (const double fraction : {0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0}) {
    const double e = feed.epoch(static_cast<std::int64_t>(
        fraction * static_cast<double>(std::max<std::int64_t>(steps - 1, 0))));
    curve += concat(curve.empty() ? "" : ", ", learning_rate(e), " at epoch ", e);
  }
  add_line("learning rate", curve);
  add_line("reducer",
           concat(detail::core::describe_policy(run.reducer()), "; the optimizer needs ",
                  detail::train::describe(std::remove_cvref_t<decltype(run.optimizer())>::needs),
                  ", the reducer offers ",
                  detail::train::describe(std::remove_cvref_t<decltype(run.reducer())>::offers)));
  if constexpr (detail::optim::HasMomentumForm<std::remove_cvref_t<decltype(run.optimizer())>> &&
                detail::comm::HasSpectralRadius<std::remove_cvref_t<decltype(run.reducer())>>)
    add_line("consensus", detail::train::describe_radius(
                              detail::train::disagreement_radius(run.optimizer(), run.reducer())));
  add_line(
      "exchange",
      concat(
          detail::core::grouped(exchanged), " bytes in ", run.buckets().size(),
          " buckets, the largest of ", detail::core::grouped(largest * sizeof(Real)), " bytes",
          detail::train::describe_bucket_limit<M, std::remove_cvref_t<decltype(run.reducer())>>(
              run.options(), requires { run.host(); }),
          run.options().overlap && detail::optim::is_eager<O> ? ", during backward"
                                                              : ", after backward",
          requires(const O& o) { o.averages(step_info{}); } ? ", in the steps that average weights"
                                                            : ""));
  if (run.options().measure_gradient_noise)
    add_line("noise", describe(run.fit_state().noise, static_cast<double>(feed.global_batch())));
  if constexpr (requires { run.schedule().gain(); })
    add_line("gain", concat(run.schedule().gain(), " steps of the small batch an update; ",
                            run.schedule().progress(run.fit_state().epochs),
                            " scale-invariant epochs so far"));
  if constexpr (requires { run.shard(); }) add_line("sharded", run.shard().describe());
  if constexpr (requires { run.model().describe_offload(); })
    add_line("offloaded", run.model().describe_offload());
  if constexpr (requires { run.model().describe_activations(); })
    add_line("offloaded", run.model().describe_activations());
  if constexpr (requires { run.host(); }) add_line("on the host", run.host().describe());
  add_line("memory", concat(detail::core::grouped(run.arena_bytes()),
                            " bytes per rank for weights, gradients and optimizer state; ",
                            detail::train::describe_activations(
                                run.model(), detail::train::largest_micro_batch(feed),
                                detail::train::validation_batch(feed))));
  detail::train::describe_memory(run, static_cast<int>(detail::train::largest_micro_batch(feed)),
                                 micro, ranks, add_line);
  [[maybe_unused]] const auto add_callback = [&](const auto& callback) {
    if constexpr (requires { callback.describe(run); })
      add_line("checkpoints", callback.describe(run));
  };
  (add_callback(callbacks), ...);
  add_line("not finite",
           run.checks_gradient()
               ? concat("a step with a NaN or an infinity is skipped; ",
                        run.options().max_nonfinite_steps, " in a row, or more than ",
                        run.options().max_nonfinite_share * detail::train::progress::window, " of ",
                        detail::train::progress::window, ", end the run")
               : std::string("not tested (check_finite = false)"));
  for (const std::string& text : detail::train::plan_warnings(run, feed, epochs))
    add_line("warning", text);
  return out;
}

}  // namespace cordee::inline CORDEE_ABI
