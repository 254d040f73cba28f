// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer with every reducer on a model of the user's own: the weights have the bits of
// the library's model of types on the same numbers. Four ranks (one under self_comm) with unequal
// shares of two micro-batches, which call ready() in different orders.
//
// The usual run has every exact optimizer over two reducers, and four optimizers over every one
// that is exact and lossless; of these decentlam also over every topology. With CORDEE_ALL_TESTS
// it is every pair of docs/matrix.md but kfac's.
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <doctest/doctest.h>

#include "optimizers.hpp"
#include "reducers.hpp"
#include "tests/support/custom_quadratic.hpp"

using namespace matrix;
using namespace support;

namespace {

#if defined(ALL_PAIRS)
constexpr bool all_pairs = true;
#else
constexpr bool all_pairs = false;
#endif

struct rate {
  double value;
  double operator()(double) const { return value; }
};

/// The weights of a rank after some updates, or the sentence with which the trainer refuses.
struct outcome {
  std::vector<float> weights;
  std::string refusal;
};

bool has_moved(const std::vector<float>& weights) {
  for (std::size_t k = 0; k < t4_start.size(); ++k)
    for (std::size_t i = 0; i < t4_table[k].size && !weights.empty(); ++i)
      if (weights[t4_table[k].offset + i] != static_cast<float>(t4_start[k][i])) return true;
  return false;
}

/// Equal bits; over the asynchronous server, which adds what ranks send in the order of arrival, to
/// the rounding of 36 additions (nine updates of four ranks) of numbers up to four times a weight.
template <class R>
bool are_same(const std::vector<float>& x, const std::vector<float>& y) {
  if constexpr (R::offers != agreement::loose)
    return same_bits(x, y);
  else
    return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                      [](float a, float b) { return close(a, b, 36 * 4 * 0x1p-24); });
}

template <class M, class O, class R>
outcome train(M model, const O& optimizer, double learning_rate, const R& reducer,
              const auto& batch_of) {
  const int rank = reducer.comm.rank(), ranks = reducer.comm.size();
  std::optional<trainer<M, O, rate, R>> run;
  try {
    run.emplace(model, optimizer, rate{learning_rate}, reducer,
                trainer_options{.bucket_bytes = 512});
  } catch (const error& e) {  // on every rank, before anything is sent
    return {{}, e.what()};
  }
  constexpr int updates = std::is_same_v<O, any_exact> ? 3 : 9;  // 8 are local_steps' most
  for (int k = 0; k < updates; ++k) {
    std::array micro{batch_of(), batch_of()};
    micro[0].count = rank + 1;
    micro[1].count = rank;  // of rank 0 none
    for (auto& b : micro) b.global_samples = ranks * ranks, b.ranks = ranks;
    if (!run->step(micro, k).applied) return {{}, concat("skips step ", k)};
  }
  return {copy(run->weights()), {}};
}

/// Differences between the two models, in words.
template <class O, class R>
std::string difference(const O& optimizer, double learning_rate, const maker<R>& make) {
  if constexpr (!cordee::detail::train::Compatible<O, R>) {
    return {};
  } else {
    std::array<std::vector<outcome>, 2> by_model;
    for (const bool own : {false, true}) {
      auto& by_rank = by_model[own ? 1 : 0];
      by_rank.resize(std::is_same_v<typename R::communicator_type, threads> ? 4 : 1);
      const auto on_rank = [&](typename R::communicator_type comm) {
        const shift center = shift_of(comm.rank(), comm.size());
        const auto order = static_cast<calls>(comm.rank() % 4);
        by_rank[static_cast<std::size_t>(comm.rank())] =
            own ? train(quadratic_model_of<fp32>(order), optimizer, learning_rate, make(comm),
                        [&] {
                          data_batch<shift, cpu> b{};
                          b.data = &center;
                          return b;
                        })
                : train(quadratic<fp32>{.shift = center}, optimizer, learning_rate, make(comm),
                        [] { return one_each(1); });
      };
      try {
        if constexpr (std::is_same_v<typename R::communicator_type, threads>)
          threads::launch(4, on_rank);
        else
          on_rank({});
      } catch (const std::exception& e) {  // a refusal ends the world; peers may see that alone
        if (by_rank[0].refusal.empty()) return e.what();
      }
    }
    const std::string &refusal = by_model[0][0].refusal, &own_refusal = by_model[1][0].refusal;
    if (refusal != own_refusal)
      return concat("refuses with \"", own_refusal, "\", not \"", refusal, "\"");
    if (!refusal.empty()) return {};
    for (std::size_t r = 0; r < by_model[0].size(); ++r) {
      const outcome &expected = by_model[0][r], &found = by_model[1][r];
      if (!are_same<R>(found.weights, expected.weights)) return concat("other bits on rank ", r);
      if (!has_moved(found.weights)) return "the weights did not move";
    }
    return {};
  }
}

template <class O, class R>
constexpr bool is_usual_type() {
  if constexpr (!std::is_same_v<typename R::communicator_type, threads> || R::slots != 0 ||
                !R::lossless)
    return false;
  else
    return O::needs == agreement::mixing ? std::is_same_v<O, decentlam>
                                         : R::offers == agreement::exact;
}

bool is_usual(const std::string& optimizer) {
  return optimizer == "sgd" || optimizer == "lamb" || optimizer == "decentlam" ||
         optimizer == "local_steps{sgd, 8}";
}

/// How many pairs were run; a failure names the pair.
template <class O, class Named = O>
int check_with_all_reducers(const std::string& name, const O& optimizer, double learning_rate) {
  if constexpr (cordee::detail::train::HasPreconditioner<O>) {
    return 0;  // refused when it compiles: tests/compile_fail/own_model.cpp
  } else if constexpr (O::needs == agreement::exact && !std::is_same_v<O, any_exact>) {
    return check_with_all_reducers<any_exact, Named>(name, any_exact(optimizer), learning_rate);
  } else {
    int pairs = 0;
    for (const named_reducer& one : reducers) {
      if (one.name == "sharded{ring, masters}") continue;  // these models read the weights' plane
      if (!all_pairs && !is_usual(name) && one.name != "ring" && one.name != "hierarchical")
        continue;
      std::visit(
          [&]<class R>(const maker<R>& make) {
            if constexpr (cordee::detail::train::Compatible<Named, R> &&
                          (all_pairs || is_usual_type<O, R>())) {
              INFO(name << " with " << one.name);
              CHECK(difference(optimizer, learning_rate * one.learning_rate, make) == "");
              ++pairs;
            }
          },
          one.make);
    }
    return pairs;
  }
}

}  // namespace

TEST_CASE("own model: every optimizer over every reducer has the bits of a model of types") {
  int pairs = 0;
  for_each_optimizer([&](const std::string& name, const auto& optimizer, double learning_rate) {
    pairs += check_with_all_reducers(name, optimizer, learning_rate);
  });
  MESSAGE(pairs << " pairs");
  CHECK(pairs > (all_pairs ? 1300 : 100));
}
