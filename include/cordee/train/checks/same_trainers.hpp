// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A check before the first step that the trainers of all ranks have the same parameters in the same
// buckets, and the same settings. Ranks with different parameters would wait for messages that are
// never sent; ranks with another learning rate would end with other weights after the same mean,
// and so would, in the last bits, ranks whose programs are compiled for another instruction set.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/min_max.hpp>
#include <cordee/core/segment.hpp>
#include <cordee/ops/cpu/simd.hpp>
#include <cordee/schedule/schedule.hpp>
#include <cordee/train/checks/settings.hpp>
#include <cordee/train/step/step.hpp>

namespace cordee::inline CORDEE_ABI::detail::train {

/// "\"layer1.0.conv1.weight\" (16, 16, 3, 3), weight at 4096"
[[gnu::cold, gnu::noinline]] std::string describe(const std::same_as<segment> auto& s) {
  std::string sides;
  for (const int side : s.shape)
    if (side > 0) sides += concat(sides.empty() ? "" : ", ", side);
  if (sides.empty()) sides = concat(s.size);
  const int bit = std::countr_zero(static_cast<unsigned>(s.kind));
  return concat("\"", s.name, "\" (", sides, "), ", core::kind_names[static_cast<std::size_t>(bit)],
                " at ", s.offset);
}

/// A table as settings, to name what differs.
[[gnu::cold, gnu::noinline]] settings table_settings(
    const std::same_as<std::span<const segment>> auto& table) {
  settings all;
  for (std::size_t k = 0; k < table.size(); ++k)
    all.add(concat("tensor ", k, " of the network"), describe(table[k]));
  return all;
}
[[gnu::cold, gnu::noinline]] void add_buckets(
    settings& all, const std::same_as<std::span<const bucket>> auto& buckets) {
  std::string sizes;
  for (const bucket& b : buckets) sizes += concat(sizes.empty() ? "" : ", ", b.size);
  all.add("trainer_options::bucket_bytes, hence the buckets,", sizes);
}

/// A number for all edges of a topology, of at most 64 rounds.
template <class T>
[[gnu::cold]] std::string describe_edges(const T& topology, int ranks) {
  settings edges;
  for (int round = 0; round < std::min(64, std::max(1, topology.period(ranks))); ++round)
    for (int rank = 0; rank < ranks; ++rank)
      for (const auto& e : topology.in_edges(rank, ranks, round))
        edges.add(concat(e.peer), e.weight);
  return concat("edges ", edges.fingerprint());
}

/// A reducer's description, or the edges of its topology, whose description takes long where ranks
/// are many.
template <class R>
[[gnu::cold]] std::string describe_reducer(const R& reducer) {
  if constexpr (requires { reducer.topology.in_edges(0, 1, 0); })
    return describe_edges(reducer.topology, reducer.comm.size());
  else
    return core::describe_policy(reducer);
}

/// What decides the order of sums and which products are fused with them: "AVX2 (simd32i_fma)".
[[gnu::cold]] inline std::string instruction_set_abi() {
  return concat(ops::isa, " (",
                std::string_view(CORDEE_ABI_TEXT(CORDEE_ABI_SIMD, CORDEE_ABI_ARITHMETIC)).substr(1),
                ")");
}
/// Whether each rank computes the same weights by itself, on the CPU, from the same mean gradient:
/// then another instruction set moves a rank's weights away from the others', step by step.
/// Optimizers that average weights, and a GPU's kernels, do not depend on it.
template <class M, class O>
inline constexpr bool replicas_need_one_isa =
    std::same_as<typename M::device, cpu> && O::needs == agreement::exact;

template <class M, class O>
[[gnu::cold]] void add_instruction_set(settings& all,
                                       const std::string& own = instruction_set_abi()) {
  if constexpr (replicas_need_one_isa<M, O>)
    all.add("the instruction set that the program is compiled for (-march; CORDEE_ISA chooses it)",
            own);
}

/// Policies are compared by describe() with exact numbers, schedules also by their values.
[[gnu::cold, gnu::noinline]] settings policy_settings(const std::string& optimizer,
                                                      const std::string& schedule,
                                                      double first_learning_rate,
                                                      const std::string& reducer,
                                                      const std::same_as<trainer_options> auto& o) {
  settings all;
  all.add("the optimizer", optimizer);
  all.add("the schedule", schedule);
  all.add("the learning rate at epoch 0", first_learning_rate);
  all.add("the reducer", reducer);
  // Without bucket_bytes, which the buckets show, and what changes no number: `overlap`,
  // `capture_graphs` and `check_stability`.
  all.add("trainer_options::seed", concat(o.seed));
  all.add("trainer_options::check_finite", o.check_finite);
  all.add("trainer_options::max_nonfinite_steps", o.max_nonfinite_steps);
  all.add("trainer_options::max_nonfinite_share", o.max_nonfinite_share);
  all.add("trainer_options::batch_norm_over", o.batch_norm_over);
  all.add("trainer_options::measure_gradient_noise", o.measure_gradient_noise);
  if (!o.freeze.empty()) all.add("trainer_options::freeze", o.freeze.describe());
  all.add("loss_scaling::initial", o.loss_scaling.initial);
  all.add("loss_scaling::growth", o.loss_scaling.growth);
  all.add("loss_scaling::backoff", o.loss_scaling.backoff);
  all.add("loss_scaling::interval", o.loss_scaling.interval);
  all.add("loss_scaling::smallest", o.loss_scaling.smallest);
  return all;
}
template <class M, class O, class S, class R>
[[gnu::cold]] settings trainer_settings(const M& model, const O& optimizer, const S& schedule,
                                        const R& reducer, const trainer_options& options) {
  const core::exact_numbers all_digits;
  settings all = policy_settings(core::describe_policy(optimizer), core::describe_policy(schedule),
                                 detail::schedule::learning_rate_of(schedule, 0.0),
                                 describe_reducer(reducer), options);
  add_instruction_set<M, O>(all);
  if constexpr (requires { model.loss; }) all.add("the loss", core::describe_policy(model.loss));
  if constexpr (requires { model.dropout_rate; }) all.add("dropout_rate", model.dropout_rate);
  if constexpr (requires { model.freeze_batch_norm_at; })
    all.add("freeze_batch_norm_at", model.freeze_batch_norm_at);
  if constexpr (requires { model.batch_norm_moving_average; })
    all.add("batch_norm_moving_average", model.batch_norm_moving_average);
  return all;
}

/// An error that every rank throws.
class shared_error : public error {
 public:
  // Not `using error::error`: nvcc 13.0 does not compile the inherited default argument.
  explicit shared_error(const std::string& message) : error(message) {}
};
/// Aborts the peers of a rank that ends by `failure`, unless they throw it too.
template <class Communicator>
[[gnu::cold]] void abort_unless_shared(const Communicator& comm, const std::exception& failure) {
  if constexpr (!comm::single_rank<Communicator>)
    if (comm.size() > 1 && dynamic_cast<const shared_error*>(&failure) == nullptr)
      detail::comm::abort(comm, failure.what());
}

/// Throws on every rank, with the first tensor or setting that differs, unless all ranks have the
/// same table, the same buckets and the same settings. Collective.
template <class Communicator>
[[gnu::cold]] void expect_same_trainers(const Communicator& comm, std::span<const segment> table,
                                        std::span<const bucket> buckets, settings own = {}) {
  add_buckets(own, buckets);
  const auto [table_high, table_low] = halves_of(detail::core::fingerprint(table));
  const auto [high, low] = halves_of(own.fingerprint());
  const double hashes[]{table_high, table_low, high, low};
  const std::vector<double> rows = gather(comm, hashes);  // (ranks, 4)
  const std::size_t other = first_other_row(rows, std::size_t{4});
  if (other == 0) return;
  const bool same_table = rows[4 * other] == rows[0] && rows[4 * other + 1] == rows[1];
  if (!same_table) own = table_settings(table);
  throw shared_error(concat("trainer: ", describe_other_setting(comm, own, other)));
}

/// As above, of a trainer's parts. Throws also, of a single rank too, for a schedule that is
/// invalid at epoch 0.
template <class M, class O, class S, class R>
[[gnu::cold]] void expect_same_trainers(const M& model, const O& optimizer, const S& schedule,
                                        const R& reducer, const trainer_options& options,
                                        std::span<const segment> table,
                                        std::span<const bucket> buckets) {
  if constexpr (!comm::single_rank<typename R::communicator_type>)
    expect_same_trainers(reducer.comm, table, buckets,
                         trainer_settings(model, optimizer, schedule, reducer, options));
  else
    detail::schedule::learning_rate_of(schedule, 0.0);
}

}  // namespace cordee::inline CORDEE_ABI::detail::train
