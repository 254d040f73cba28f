// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every optimizer with every reducer, and every precision: prints the tables of docs/matrix.md, or
// (matrix FILE) fails unless that file has their lines. A legal combination that misbehaves is a
// failure either way.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <variant>
#include <vector>

#include <cordee/cordee.hpp>

#include "pair.hpp"
#include "table.hpp"

using namespace matrix;

namespace {

struct named_reducer {
  std::string name;
  std::variant<maker<any_reducer<threads, agreement::exact, true, 0>>,
               maker<any_reducer<threads, agreement::exact, false, 0>>,
               maker<any_reducer<threads, agreement::exact, false, 1>>,
               maker<any_reducer<threads, agreement::mixing, true, 0>>,
               maker<any_reducer<self_comm, agreement::exact, true, 0>>,
               maker<server<threads, asynchronous>>>
      make;
  double learning_rate = 1;  // times the optimizer's
};

// Every exact reducer, and compressed{...} of each that is CompressibleOn.
std::vector<named_reducer> exact_reducers() {
  std::vector<named_reducer> all, compressed_ones;
  const auto add = [&](const std::string& name, auto make) {
    using R = decltype(make(std::declval<threads>()));
    all.push_back({name, over(make)});
    if constexpr (cordee::detail::comm::CompressibleOn<R, fp16, float, cpu>)
      compressed_ones.push_back({concat("compressed{", name, ", fp16}"), over([make](threads comm) {
                                   return compressed{make(comm), fp16{}};
                                 })});
  };
  add("ring", [](threads comm) { return ring{comm}; });
  add("tree", [](threads comm) { return tree{comm}; });
  add("butterfly", [](threads comm) { return butterfly{comm}; });
  add("halving_doubling", [](threads comm) { return halving_doubling{comm}; });
  add("one_shot", [](threads comm) { return one_shot{comm}; });
  add("two_shot", [](threads comm) { return two_shot{comm}; });
  add("native", [](threads comm) { return native{comm}; });
  add("hierarchical", [](threads comm) { return hierarchical{comm, nodes{2}}; });
  add("torus_ring", [](threads comm) { return torus_ring{comm}; });
  add("double_tree", [](threads comm) { return double_tree{comm}; });
  add("hybrid{tree, ring}", [](threads comm) { return hybrid{tree{comm}, ring{comm}, 128}; });
  add("server, synchronous", [](threads comm) { return server{comm}; });
  all.insert(all.end(), compressed_ones.begin(), compressed_ones.end());
  all.push_back({"compressed{ring, bf16}", over([](threads comm) {
                   return compressed{ring{comm}, bf16{}};
                 })});
  all.push_back({"compressed{ring, int8}", over([](threads comm) {
                   return compressed{ring{comm}, int8{}};
                 })});
  all.push_back({"gathered, top_k{0.1}", over([](threads comm) {
                   return gathered{comm, top_k{0.1}};
                 })});
  all.push_back({"gathered, scaled_sign", over([](threads comm) {
                   return gathered{comm, scaled_sign{}};
                 })});
  // From the mean to four times that (orthogonal gradients), at half the learning rate.
  all.push_back({"adasum", over([](threads comm) { return adasum{comm}; }), 0.5});
  return all;
}

// Gossip over every topology.
std::vector<named_reducer> gossip_reducers() {
  std::vector<named_reducer> all;
  const auto add = [&](const std::string& name, const auto& topology) {
    all.push_back({"gossip, " + name, over([topology](threads comm) {
                     return gossip{comm, topology};
                   })});
  };
  add("ring", topologies::ring{});
  add("torus2d", topologies::torus2d{});
  add("mesh2d", topologies::mesh2d{});
  add("star", topologies::star{});
  add("complete", topologies::complete{});
  add("hypercube", topologies::hypercube{});
  add("symmetric_exponential", topologies::symmetric_exponential{});
  add("exponential", topologies::exponential{});
  add("lazy{exponential, 0.09}", topologies::lazy{topologies::exponential{}, 0.09});
  add("one_peer", topologies::one_peer{});
  add("xor_matching", topologies::xor_matching{});
  add("odd_even", topologies::odd_even{});
  add("random_matching", topologies::random_matching{});
  add("lazy{random_matching, 0.5}", topologies::lazy{topologies::random_matching{}, 0.5});
  add("adjacency::metropolis, a path",
      topologies::adjacency::metropolis({{1}, {0, 2}, {1, 3}, {2}}));
  add("adjacency::weighted, a directed ring",
      topologies::adjacency::weighted(
          {{.5, 0, 0, .5}, {.5, .5, 0, 0}, {0, .5, .5, 0}, {0, 0, .5, .5}}));
  return all;
}

std::vector<named_reducer> all_reducers() {
  std::vector<named_reducer> all = exact_reducers();
  all.push_back({"server, asynchronous{1, 0}", over([](threads comm) {
                   return server{comm, asynchronous{1, 0}};
                 })});
  for (named_reducer& one : gossip_reducers()) all.push_back(std::move(one));
  all.push_back({"solo", over<self_comm>([](self_comm) { return solo{}; })});
  return all;
}
const std::vector<named_reducer> reducers = all_reducers();

// An optimizer with every reducer.
struct column {
  std::string name;
  std::vector<cell> cells;
};
template <class O>
column try_with_all_reducers(const std::string& name, const O& optimizer, double learning_rate) {
  if constexpr (O::needs == agreement::exact && !std::is_same_v<O, any_exact> &&
                !cordee::detail::train::HasPreconditioner<O>)
    return try_with_all_reducers(name, any_exact(optimizer), learning_rate);
  else {
    column all{name, {}};
    for (const named_reducer& one : reducers)
      all.cells.push_back(std::visit(
          [&](const auto& make) {
            return pair(optimizer, learning_rate * one.learning_rate, make);
          },
          one.make));
    return all;
  }
}

table make() {
  const std::vector<column> columns{
      try_with_all_reducers("sgd", sgd{}, 0.02),
      try_with_all_reducers("velocity_sgd", velocity_sgd{}, 0.02),
      try_with_all_reducers("lars", lars{.trust_coefficient = 0.02}, 0.5),
      try_with_all_reducers("lars_lr_outside", lars_lr_outside{.trust_coefficient = 0.02}, 0.5),
      try_with_all_reducers("lars_unscaled", lars_unscaled{.trust_coefficient = 0.02}, 0.05),
      try_with_all_reducers("lars_norm_of_sum", lars_norm_of_sum{.trust_coefficient = 0.02}, 0.5),
      try_with_all_reducers("larc", larc{}, 0.02),
      try_with_all_reducers("larc without clip", larc{.limits = {.clip = false}}, 0.2),
      try_with_all_reducers("lamb", lamb{}, 0.01),
      try_with_all_reducers("nvlamb", nvlamb{}, 0.01),
      try_with_all_reducers("lambc", lambc{}, 0.01),
      try_with_all_reducers("deepspeed_lamb", deepspeed_lamb{}, 0.02),
      try_with_all_reducers("adam", adam{}, 0.01),
      try_with_all_reducers("adamw", adamw{}, 0.01),
      try_with_all_reducers("adamp", adamp{}, 0.01),
      try_with_all_reducers("rmsprop", rmsprop{}, 0.001),
      try_with_all_reducers("centered_rmsprop", centered_rmsprop{}, 0.001),
      try_with_all_reducers("rmsprop_warmup", rmsprop_warmup{}, 0.1),
      try_with_all_reducers("rmsprop_warmup, slope 2", rmsprop_warmup{.slope = 2}, 0.1),
      try_with_all_reducers("clip{sgd}", clip{sgd{}}, 0.02),
      try_with_all_reducers("parameter_groups{sgd}",
                            parameter_groups{sgd{}, parameter_group{"", sgd{}, 2, kind::bias}},
                            0.02),
      try_with_all_reducers("lookahead{sgd}", lookahead{sgd{}}, 0.02),
      try_with_all_reducers("weight_average{sgd}", weight_average{sgd{}, exponential_average{0.5}},
                            0.02),
      try_with_all_reducers("kfac{velocity_sgd}", kfac{velocity_sgd{}, 0.03}, 0.01),
      try_with_all_reducers("decentlam", decentlam{}, 0.02),
      try_with_all_reducers("decentlam_over{lars}", decentlam_over{lars{.trust_coefficient = 0.02}},
                            0.5),
      try_with_all_reducers("decentlam_over{lamb}", decentlam_over{lamb{}}, 0.01),
      try_with_all_reducers("qg_dmsgd", qg_dmsgd{}, 0.02),
      try_with_all_reducers("adapt_while_combine{sgd}", adapt_while_combine{sgd{}}, 0.02),
      try_with_all_reducers("local_steps{sgd, 8}", local_steps{sgd{}, 8}, 0.02),
      try_with_all_reducers("local_steps{lars, 4}", local_steps{lars{.trust_coefficient = 0.02}, 4},
                            0.5)};
  table t;
  std::vector<group> by_reducer, by_optimizer;
  std::vector<std::vector<std::string>> texts(columns.size());  // by optimizer
  for (std::size_t k = 0; k < reducers.size(); ++k) {
    std::vector<std::string> row;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      row.push_back(t.text_of(columns[c].name, reducers[k].name, columns[c].cells[k]));
      texts[c].push_back(row.back());
    }
    add_to(by_reducer, reducers[k].name, row);
  }
  for (std::size_t c = 0; c < columns.size(); ++c) add_to(by_optimizer, columns[c].name, texts[c]);

  std::vector<std::string> names;
  for (const group& one : by_optimizer) names.push_back(one.title());
  t.head(names);
  for (const group& reducer : by_reducer) {
    std::vector<std::string> row;
    for (const group& optimizer : by_optimizer) row.push_back(reducer.texts[optimizer.first]);
    t.row(reducer.title(), row);
  }
  for (const auto* groups : {&by_optimizer, &by_reducer})
    for (const group& one : *groups) one.list(t.groups);
  return t;
}

table make_precisions() {
  table t;
  std::vector<std::string> names;
  for (const std::string& one : exchanges) names.push_back(concat("`", one, "`"));
  t.head(names);
  for (const precision_row& one : precision_rows()) {
    std::vector<std::string> row;
    for (std::size_t k = 0; k < one.cells.size(); ++k)
      row.push_back(t.text_of(one.name, exchanges[k], one.cells[k]));
    t.row(concat("`", one.name, "`"), row);
  }
  return t;
}

// The remedies at the end of an exception, as a list in Markdown.
std::string with_list(std::string text) {
  for (std::size_t at = 0; (at = text.find("\n  ", at)) != text.npos; at += 5)
    text.replace(at, 3, "\n  - ");
  return text;
}

// Lines of the table that the file lacks.
std::vector<std::string> missing(const std::vector<std::string>& lines, const char* path) {
  std::ifstream in(path);
  if (!in) return {concat("cannot read ", path)};
  std::ostringstream text;
  text << in.rdbuf();
  const std::string content = "\n" + text.str();
  std::vector<std::string> out;
  for (const std::string& line : lines)
    if (content.find("\n" + line + "\n") == std::string::npos) out.push_back(line);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const table t = make(), precisions = make_precisions();
  std::vector<std::string> errors = t.broken;
  errors.insert(errors.end(), precisions.broken.begin(), precisions.broken.end());
  std::vector<std::string> all = t.lines;
  all.push_back("");
  all.insert(all.end(), t.groups.begin(), t.groups.end());
  all.push_back("");
  for (std::size_t k = 0; k < t.exceptions.size(); ++k)
    all.push_back(concat("- (", k + 1, ") when the trainer is constructed: \"",
                         with_list(t.exceptions[k]), "\""));
  all.push_back("");
  all.insert(all.end(), precisions.lines.begin(), precisions.lines.end());
  if (argc > 1) {
    for (const std::string& line : missing(all, argv[1]))
      errors.push_back(concat(argv[1], " lacks: ", line, "; run scripts/matrix"));
    std::printf(
        "%d pairs of optimizer and reducer run, %d are rejected; by precision %d run, %d are "
        "rejected\n",
        t.legal, t.illegal, precisions.legal, precisions.illegal);
  } else {
    for (const std::string& line : all) std::printf("%s\n", line.c_str());
  }
  for (const std::string& line : errors) std::fprintf(stderr, "error: %s\n", line.c_str());
  return errors.empty() ? 0 : 1;
}
