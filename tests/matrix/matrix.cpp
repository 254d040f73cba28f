// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Every rule with every reducer, and every precision: prints the tables of docs/matrix.md, or
// (matrix FILE) fails unless their lines stand in that file. A pairing that is legal and misbehaves
// fails either way.
#include <cstdio>
#include <fstream>
#include <sstream>
#include <variant>
#include <vector>

#include <cordee/cordee.hpp>

#include "pair.hpp"

using namespace matrix;

namespace {

struct table {
  std::vector<std::string> lines;
  std::vector<std::string> said;    // at construction, in order of appearance
  std::vector<std::string> broken;  // legal, and did not do what it should
  int legal = 0, illegal = 0;

  std::string words(const std::string& rule, const std::string& reducer, const cell& c) {
    ++(c.what == cell::outcome::runs || c.what == cell::outcome::broken ? legal : illegal);
    switch (c.what) {
      case cell::outcome::runs:
        return "yes";
      case cell::outcome::not_compiled:
        return text("no (", c.kind, ")");
      case cell::outcome::not_constructed:
        return text("no (", number(c.why), ")");
      default:
        broken.push_back(text(rule, " with ", reducer, ": ", c.why));
        return "BROKEN";
    }
  }
  void head(const std::vector<std::string>& columns) {
    std::string names = "| |", rule = "|---|";
    for (const std::string& column : columns) {
      names += " `" + column + "` |";
      rule += ":-:|";
    }
    lines = {names, rule};
  }
  void row(const std::string& name, const std::vector<std::string>& columns,
           const std::vector<cell>& cells) {
    std::string line = text("| `", name, "` |");
    for (std::size_t k = 0; k < cells.size(); ++k)
      line += text(" ", words(name, columns[k], cells[k]), " |");
    lines.push_back(line);
  }
  int number(const std::string& sentence) {
    for (std::size_t k = 0; k < said.size(); ++k)
      if (said[k] == sentence) return static_cast<int>(k) + 1;
    said.push_back(sentence);
    return static_cast<int>(said.size());
  }
};

struct reducer {
  std::string name;
  std::variant<maker<some_reducer<threads, agreement::exact, true, 0>>,
               maker<some_reducer<threads, agreement::exact, false, 1>>,
               maker<some_reducer<threads, agreement::mixing, true, 0>>,
               maker<some_reducer<alone, agreement::exact, true, 0>>,
               maker<server<threads, asynchronous>>>
      make;
};

// Every exact reducer as it is, and those that encode their hops with 16 bits a number as well.
std::vector<reducer> exact_ones() {
  std::vector<reducer> all, in_fp16;
  const auto add = [&](const std::string& name, auto make) {
    using R = decltype(make(std::declval<threads>()));
    all.push_back({name, over(make)});
    if constexpr (NarrowsOn<R, fp16, float, cpu>)
      in_fp16.push_back({text("narrow{", name, ", fp16}"), over([make](threads l) {
                           return narrow{make(l), fp16{}};
                         })});
  };
  add("ring", [](threads l) { return ring{l}; });
  add("tree", [](threads l) { return tree{l}; });
  add("butterfly", [](threads l) { return butterfly{l}; });
  add("halving", [](threads l) { return halving{l}; });
  add("all_to_all", [](threads l) { return all_to_all{l}; });
  add("native", [](threads l) { return native{l}; });
  add("hierarchical", [](threads l) { return hierarchical{l, nodes{2}}; });
  add("torus_ring", [](threads l) { return torus_ring{l}; });
  add("double_tree", [](threads l) { return double_tree{l}; });
  add("hybrid{tree, ring}", [](threads l) { return hybrid{tree{l}, ring{l}, 128}; });
  add("server, synchronous", [](threads l) { return server{l}; });
  all.insert(all.end(), in_fp16.begin(), in_fp16.end());
  all.push_back({"narrow{ring, bf16}", over([](threads l) { return narrow{ring{l}, bf16{}}; })});
  all.push_back({"narrow{ring, int8}", over([](threads l) { return narrow{ring{l}, int8{}}; })});
  return all;
}

// Gossip over every family of graphs.
std::vector<reducer> gossips() {
  std::vector<reducer> all;
  const auto add = [&](const std::string& name, const auto& graph) {
    all.push_back({"gossip, " + name, over([graph](threads l) { return gossip{l, graph}; })});
  };
  add("cycle", cycle{});
  add("torus", torus{});
  add("grid", grid{});
  add("star", star{});
  add("complete", complete{});
  add("hypercube", hypercube{});
  add("symmetric_exponential", symmetric_exponential{});
  add("exponential", exponential{});
  add("lazy{exponential, 0.09}", lazy{exponential{}, 0.09});
  add("one_peer", one_peer{});
  add("xor_matching", xor_matching{});
  add("odd_even", odd_even{});
  add("random_matching", random_matching{});
  add("lazy{random_matching, 0.5}", lazy{random_matching{}, 0.5});
  add("user_graph::metropolis, a path", user_graph::metropolis({{1}, {0, 2}, {1, 3}, {2}}));
  add("user_graph::weighted, a directed cycle",
      user_graph::weighted({{.5, 0, 0, .5}, {.5, .5, 0, 0}, {0, .5, .5, 0}, {0, 0, .5, .5}}));
  return all;
}

std::vector<reducer> every_reducer() {
  std::vector<reducer> all = exact_ones();
  all.push_back({"server, asynchronous{1, 1}", over([](threads l) {
                   return server{l, asynchronous{1, 1}};
                 })});
  for (reducer& one : gossips()) all.push_back(std::move(one));
  all.push_back({"solo", over<alone>([](alone) { return solo{}; })});
  return all;
}
const std::vector<reducer> reducers = every_reducer();

// A rule with every reducer.
struct column {
  std::string name;
  std::vector<cell> cells;
};
template <class O>
column tried(const std::string& name, const O& rule, double rate) {
  column all{name, {}};
  for (const reducer& one : reducers)
    all.cells.push_back(
        std::visit([&](const auto& make) { return pair(rule, rate, make); }, one.make));
  return all;
}

table make() {
  const std::vector<column> columns{
      tried("sgd", sgd{}, 0.02),
      tried("velocity_sgd", velocity_sgd{}, 0.02),
      tried("lars", lars{.trust = 0.02}, 0.5),
      tried("lars_rate_outside", lars_rate_outside{.trust = 0.02}, 0.5),
      tried("lars_unscaled", lars_unscaled{.trust = 0.02}, 0.05),
      tried("lamb", lamb{}, 0.01),
      tried("nvlamb", nvlamb{}, 0.01),
      tried("adamw", adamw{}, 0.01),
      tried("clip{sgd}", clip{sgd{}}, 0.02),
      tried("decentlam", decentlam{}, 0.02),
      tried("decentlam_over{lars}", decentlam_over{lars{.trust = 0.02}}, 0.5),
      tried("local{sgd, 8}", local{sgd{}, 8}, 0.02),
      tried("local{lars, 4}", local{lars{.trust = 0.02}, 4}, 0.5)};
  std::vector<std::string> rules;
  for (const column& one : columns) rules.push_back(one.name);
  table t;
  t.head(rules);
  for (std::size_t k = 0; k < reducers.size(); ++k) {
    std::vector<cell> cells;
    for (const column& one : columns) cells.push_back(one.cells[k]);
    t.row(reducers[k].name, rules, cells);
  }
  return t;
}

table make_precisions() {
  table t;
  t.head(exchanges);
  for (const precision_row& one : precision_rows()) t.row(one.name, exchanges, one.cells);
  return t;
}

// The remedies that a sentence ends in, as a list of the document.
std::string listed(std::string said) {
  for (std::size_t at = 0; (at = said.find("\n  ", at)) != said.npos; at += 5)
    said.replace(at, 3, "\n  - ");
  return said;
}

// Lines of the table that do not stand in the file.
std::vector<std::string> missing(const std::vector<std::string>& lines, const char* path) {
  std::ifstream in(path);
  if (!in) return {text("cannot read ", path)};
  std::ostringstream all;
  all << in.rdbuf();
  const std::string there = "\n" + all.str();
  std::vector<std::string> out;
  for (const std::string& line : lines)
    if (there.find("\n" + line + "\n") == std::string::npos) out.push_back(line);
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const table t = make(), precisions = make_precisions();
  std::vector<std::string> wrong = t.broken;
  wrong.insert(wrong.end(), precisions.broken.begin(), precisions.broken.end());
  std::vector<std::string> all = t.lines;
  all.push_back("");
  for (std::size_t k = 0; k < t.said.size(); ++k)
    all.push_back(text("- (", k + 1, ") when the trainer is made: \"", listed(t.said[k]), "\""));
  all.push_back("");
  all.insert(all.end(), precisions.lines.begin(), precisions.lines.end());
  if (argc > 1) {
    for (const std::string& line : missing(all, argv[1]))
      wrong.push_back(text(argv[1], " lacks: ", line, "; run scripts/matrix"));
    std::printf("%d pairings of rule and reducer run, %d are refused; in other precisions %d, %d\n",
                t.legal, t.illegal, precisions.legal, precisions.illegal);
  } else {
    for (const std::string& line : all) std::printf("%s\n", line.c_str());
  }
  for (const std::string& line : wrong) std::fprintf(stderr, "error: %s\n", line.c_str());
  return wrong.empty() ? 0 : 1;
}
