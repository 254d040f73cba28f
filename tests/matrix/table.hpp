// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// A table of docs/matrix.md. What has the same outcome with everything is one row, or one column.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <cordee/core/concat.hpp>

#include "cell.hpp"

namespace matrix {

using cordee::concat;

struct table {
  std::vector<std::string> lines;
  std::vector<std::string> groups;      // what the table's names stand for
  std::vector<std::string> exceptions;  // at construction, in order of appearance
  std::vector<std::string> broken;      // legal combinations that failed
  int legal = 0, illegal = 0;

  std::string text_of(const std::string& optimizer, const std::string& reducer, const cell& c) {
    ++(c.result == cell::outcome::runs || c.result == cell::outcome::broken ? legal : illegal);
    switch (c.result) {
      case cell::outcome::runs:
        return "yes";
      case cell::outcome::not_compiled:
        return concat("no (", c.assertion, ")");
      case cell::outcome::not_constructed:
        return concat("no (", number_of(c.reason), ")");
      default:
        broken.push_back(concat(optimizer, " with ", reducer, ": ", c.reason));
        return "BROKEN";
    }
  }
  void head(const std::vector<std::string>& columns) {
    std::string names = "| |", alignment = "|---|";
    for (const std::string& column : columns) {
      names += " " + column + " |";
      alignment += ":-:|";
    }
    lines = {names, alignment};
  }
  void row(const std::string& name, const std::vector<std::string>& texts) {
    std::string line = concat("| ", name, " |");
    for (const std::string& text : texts) line += " " + text + " |";
    lines.push_back(line);
  }
  int number_of(const std::string& exception) {
    for (std::size_t k = 0; k < exceptions.size(); ++k)
      if (exceptions[k] == exception) return static_cast<int>(k) + 1;
    exceptions.push_back(exception);
    return static_cast<int>(exceptions.size());
  }
};

// Optimizers, or reducers, that have the same outcome with every one of the others.
struct group {
  std::vector<std::string> members;
  std::vector<std::string> texts;
  std::size_t first = 0;  // of all

  [[nodiscard]] std::string title() const {
    const std::string name = concat("`", members[0], "`");
    return members.size() == 1 ? name : concat(name, " and ", members.size() - 1, " more");
  }
  // "- title: members", in lines of at most 100 columns; nothing of a single member.
  void list(std::vector<std::string>& lines) const {
    if (members.size() == 1) return;
    std::string line = concat("- ", title(), ":");
    for (std::size_t k = 1; k < members.size(); ++k) {
      const std::string word = concat(" `", members[k], k + 1 < members.size() ? "`," : "`");
      if (line.size() + word.size() > 100) {
        lines.push_back(line);
        line = " ";
      }
      line += word;
    }
    lines.push_back(line);
  }
};
inline void add_to(std::vector<group>& groups, const std::string& name,
                   const std::vector<std::string>& texts) {
  std::size_t number = 0;
  for (group& one : groups) {
    if (one.texts == texts) return one.members.push_back(name);
    number += one.members.size();
  }
  groups.push_back({{name}, texts, number});
}

}  // namespace matrix
