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

#include "cell.hpp"

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

const std::vector<reducer> reducers{
    {"ring", over([](threads l) { return ring{l}; })},
    {"tree", over([](threads l) { return tree{l}; })},
    {"butterfly", over([](threads l) { return butterfly{l}; })},
    {"halving", over([](threads l) { return halving{l}; })},
    {"all_to_all", over([](threads l) { return all_to_all{l}; })},
    {"native", over([](threads l) { return native{l}; })},
    {"hierarchical", over([](threads l) {
       return hierarchical{l, nodes{2}};
     })},
    {"torus_ring", over([](threads l) { return torus_ring{l}; })},
    {"double_tree", over([](threads l) { return double_tree{l}; })},
    {"hybrid{tree, ring}", over([](threads l) {
       return hybrid{tree{l}, ring{l}, 128};
     })},
    {"server, synchronous", over([](threads l) { return server{l}; })},
    {"server, asynchronous{1, 1}", over([](threads l) {
       return server{l, asynchronous{1, 1}};
     })},
    {"narrow{ring, fp16}", over([](threads l) {
       return narrow{ring{l}, fp16{}};
     })},
    {"narrow{ring, bf16}", over([](threads l) {
       return narrow{ring{l}, bf16{}};
     })},
    {"narrow{ring, int8}", over([](threads l) {
       return narrow{ring{l}, int8{}};
     })},
    {"gossip, cycle", over([](threads l) {
       return gossip{l, cycle{}};
     })},
    {"gossip, symmetric_exponential", over([](threads l) {
       return gossip{l, symmetric_exponential{}};
     })},
    {"gossip, exponential", over([](threads l) {
       return gossip{l, exponential{}};
     })},
    {"solo", over<alone>([](alone) { return solo{}; })}};

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
      tried("lars_unscaled", lars_unscaled{.trust = 0.02}, 0.5),
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
    all.push_back(text("- (", k + 1, ") when the trainer is made: \"", t.said[k], "\""));
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
