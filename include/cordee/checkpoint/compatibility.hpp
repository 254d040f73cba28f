// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Which runs may continue a checkpoint, and what differs between them.
//
//   refused                             another network, precision or type of optimizer; another
//                                       number of ranks, where there is no mean (rank_mean.hpp)
//   accepted, with a line of text each  other options of the optimizer and the trainer, another
//                                       learning rate, loss, dropout rate, epoch that freezes batch
//                                       norms, schedule, reducer, device or version
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <cordee/checkpoint/rank_mean.hpp>
#include <cordee/checkpoint/state_json.hpp>
#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>
#include <cordee/core/version.hpp>
#include <cordee/schedule/schedule.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// A phrase of a description: "weight decay 0.0001" is {"weight decay", "0.0001"}, one without a
/// number {phrase, ""}.
using phrase = std::pair<std::string, std::string>;

/// The phrases of "sgd, momentum 0.9, weight decay 0; decays weight, bias", between semicolons, and
/// in what precedes the first one between commas.
inline std::vector<phrase> phrases_of(std::string_view description) {
  std::vector<phrase> all;
  bool first_clause = true;
  while (!description.empty()) {
    const std::size_t end = description.find_first_of(first_clause ? ",;" : ";");
    std::string_view text = description.substr(0, end);
    if (end != std::string_view::npos && description[end] == ';') first_clause = false;
    description.remove_prefix(end == std::string_view::npos ? description.size() : end + 1);
    text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
    std::size_t value = text.find_first_of("0123456789");
    while (value != std::string_view::npos && value > 0 && text[value - 1] != ' ')
      value = text.find_first_of("0123456789", value + 1);  // a digit of a name
    if (value == std::string_view::npos)
      all.emplace_back(text, "");
    else
      all.emplace_back(text.substr(0, value == 0 ? 0 : value - 1), text.substr(value));
  }
  return all;
}

/// "weight decay 0.0001 -> 5e-05, decays weight -> decays weight, bias": what differs between two
/// descriptions of one type; empty if nothing does.
inline std::string describe_changes(std::string_view before, std::string_view now) {
  std::vector<phrase> removed = phrases_of(before), added = phrases_of(now);
  std::string changes;
  const auto add = [&](const std::string& text) {
    changes += concat(changes.empty() ? "" : ", ", text);
  };
  const auto erase_first = [](std::vector<phrase>& all, const auto& matches) {
    const auto at = std::find_if(all.begin(), all.end(), matches);
    if (at == all.end()) return false;
    all.erase(at);
    return true;
  };
  const auto erase_if_matched = [&](const auto& same, const auto& report) {
    for (std::size_t k = 0; k < removed.size();) {
      const phrase p = removed[k];
      phrase other;
      const bool found = erase_first(added, [&](const phrase& q) {
        other = q;
        return same(p, q);
      });
      if (!found) {
        ++k;
        continue;
      }
      report(p, other);
      removed.erase(removed.begin() + static_cast<std::ptrdiff_t>(k));
    }
  };
  erase_if_matched([](const phrase& p, const phrase& q) { return p == q; },
                   [](const phrase&, const phrase&) {});
  erase_if_matched(
      [](const phrase& p, const phrase& q) {
        return p.first == q.first && !p.second.empty() && !q.second.empty();
      },
      [&](const phrase& p, const phrase& q) {
        add(concat(p.first, " ", p.second, " -> ", q.second));
      });
  const auto text_of = [](const std::vector<phrase>& all) {
    std::string text;
    for (const phrase& p : all)
      text += concat(text.empty() ? "" : ", ", p.first, p.second.empty() ? "" : " ", p.second);
    return text.empty() ? "nothing" : text;
  };
  if (!removed.empty() || !added.empty()) add(concat(text_of(removed), " -> ", text_of(added)));
  return changes;
}

inline std::string describe(const nlohmann::json& j) {
  if (!j.is_string()) return j.dump();
  const auto text = j.get<std::string>();
  return text.empty() ? "none" : text;
}

/// A schedule that does not follow the loss gives the last step the learning rate that it had.
template <class Run>
std::string learning_rate_change(const train::run_state& saved, Run& run) {
  using S = std::remove_cvref_t<decltype(run.schedule())>;
  const auto& last = saved.progress;
  if constexpr (!schedule::AdaptiveSchedule<S>)
    if (last.applied > 0 && last.nonfinite_steps == 0)  // the last step was applied
      if (const double now = schedule::learning_rate_of(run.schedule(), last.epoch);
          now != last.previous_learning_rate) {
        const std::string epoch = concat(last.epoch);
        const core::exact_numbers all_digits;
        return concat("resume: learning rate at epoch ", epoch, " ", last.previous_learning_rate,
                      " -> ", now, "\n");
      }
  return {};
}

/// Whether a checkpoint's precision is this run's. Version 0.1.0 gave weights of 3, 5, 6, 7 and 8
/// bits one name, so that its checkpoints continue in each of them.
inline bool same_precision(const std::string& saved, const std::string& own) {
  constexpr std::string_view low_bits = "int8, weights of ";
  return saved == own || (saved == "int8, weights of fewer bits" && own.starts_with(low_bits) &&
                          own[low_bits.size()] != '2' && own[low_bits.size()] != '4');
}

/// Throws error, with the first difference, unless the described run can continue as `run`. Returns
/// a line for each difference that changes bits but not what the numbers mean.
template <class Run>
std::string expect_compatible(const nlohmann::json& saved, const train::run_state& state, Run& run,
                              const std::string& path) {
  // Texts of an older version are compared with this run's in its form.
  const auto own = describe_run(run, saved.value("exact_numbers", false));
  if (saved.at("format").template get<int>() > format)
    throw error(concat("resume: ", path, " was written by cordee ", describe(saved.at("cordee")),
                       ", in a format that this version, ", version,
                       ", does not know: use that version or a later one"));
  for (const std::string name : {"precision", "optimizer_type", "weights_differ"}) {
    if (saved.at(name) == own.at(name)) continue;
    if (name == "precision" && same_precision(describe(saved.at(name)), describe(own.at(name))))
      continue;
    // The description has more than the type, unless there is none.
    const char* const shown =
        name == "optimizer_type" && saved.at("optimizer") != own.at("optimizer") ? "optimizer"
                                                                                 : name.c_str();
    throw error(concat("resume: ", path, " does not fit this run: its ", shown, " is ",
                       describe(saved.at(shown)), ", this run's is ", describe(own.at(shown)),
                       ": go on with what was saved"));
  }
  std::string changed = rank_change(saved.at("ranks").template get<int>(), run);
  if (const std::string options =
          describe_changes(describe(saved.at("optimizer")), describe(own.at("optimizer")));
      !options.empty())
    changed += concat("resume: options of the optimizer: ", options, "\n");
  changed += learning_rate_change(state, run);
  const nlohmann::json& options = saved.at("options");  // an older version has fewer
  for (const auto& [name, value] : own.at("options").items())
    if (const auto before = options.find(name); before != options.end() && *before != value)
      changed += concat("resume: trainer_options::", name, " ", describe(*before), " -> ",
                        describe(value), "\n");
  if (const auto model = saved.find("model"); model != saved.end())  // not of older versions
    for (const auto& [name, value] : own.at("model").items())
      if (const auto before = model->find(name); before != model->end() && *before != value)
        changed += concat("resume: network::", name, " ", describe(*before), " -> ",
                          describe(value), "\n");
  for (const char* name : {"reducer", "schedule", "device", "cordee"})
    if (saved.at(name) != own.at(name))
      changed += concat("resume: the ", name, " was ", describe(saved.at(name)), ", now it is ",
                        describe(own.at(name)), ": the run goes on, maybe with other bits\n");
  return changed;
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
