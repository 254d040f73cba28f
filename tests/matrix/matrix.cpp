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

#include "optimizers.hpp"
#include "pair.hpp"
#include "reducers.hpp"
#include "table.hpp"

using namespace matrix;

namespace {

// An optimizer with every reducer.
struct column {
  std::string name;
  std::vector<cell> cells;
};
template <class O, class Named = O>
column try_with_all_reducers(const std::string& name, const O& optimizer, double learning_rate) {
  if constexpr (O::needs == agreement::exact && !std::is_same_v<O, any_exact> &&
                !cordee::detail::train::HasPreconditioner<O> &&
                !cordee::detail::optim::compresses_momentum<O>())
    return try_with_all_reducers<any_exact, Named>(name, any_exact(optimizer), learning_rate);
  else {
    column all{name, {}};
    for (const named_reducer& one : reducers)
      all.cells.push_back(std::visit(
          [&](const auto& make) {
            return pair<Named>(optimizer, learning_rate * one.learning_rate, make);
          },
          one.make));
    return all;
  }
}

table make() {
  std::vector<column> columns;
  for_each_optimizer([&](const std::string& name, const auto& optimizer, double learning_rate) {
    columns.push_back(try_with_all_reducers(name, optimizer, learning_rate));
  });
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
