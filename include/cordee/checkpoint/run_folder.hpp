// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The folder of a run's checkpoints: their names, the step from a temporary folder to a final name,
// and the removal of old ones.
//
//   write and flush step-N.partial/ -> rename to step-N/ -> flush the folder -> move `latest`
//     -> remove the oldest
//
// At every moment the folder has each checkpoint whole or under a temporary name, so a killed
// process loses none that had its final name.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <cordee/core/error.hpp>
#include <cordee/core/host_name.hpp>
#include <cordee/io/atomic_file.hpp>
#include <cordee/io/file.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

/// A checkpoint's final name in the run's folder.
inline std::string name_of(std::int64_t step) {
  char name[40];
  std::snprintf(name, sizeof name, "step-%08lld", static_cast<long long>(step));
  return name;
}

class run_folder {
 public:
  explicit run_folder(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string final_path(std::int64_t step) const {
    return path_ + "/" + name_of(step);
  }
  [[nodiscard]] std::string partial_path(std::int64_t step) const {
    return final_path(step) + ".partial";
  }

  /// The steps of the checkpoints under final names, newest first. Empty if there is no folder;
  /// throws io::read_error if it cannot be listed.
  [[nodiscard]] std::vector<std::int64_t> steps() const {
    std::vector<std::int64_t> found;
    for (const std::string& name : names()) {
      if (name.size() > prefix.size() + 18) continue;
      const std::string digits = name.substr(prefix.size());
      if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) continue;
      if (const std::int64_t step = std::stoll(digits); name == name_of(step))
        found.push_back(step);
    }
    std::sort(found.rbegin(), found.rend());
    return found;
  }
  /// How many checkpoints are set aside as damaged. Throws io::read_error.
  [[nodiscard]] std::size_t damaged() const {
    const std::vector<std::string> all = names();
    return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const auto& name) {
      return name.find(damage_ending) != std::string::npos;
    }));
  }

  /// Effects: the folder exists, and its name is durable. Throws error.
  void create() const {
    std::error_code failed;
    std::vector<std::filesystem::path> parents;  // of the folders that are made
    for (auto p = std::filesystem::absolute(path_); !std::filesystem::exists(p, failed);
         p = p.parent_path())
      parents.push_back(p.parent_path());
    std::filesystem::create_directories(path_, failed);
    if (failed) refuse("create", path_, failed);
    for (const auto& parent : parents) flush(parent.string());
  }
  /// Effects: removes what killed processes left. Requires that no other process saves here.
  void remove_strays() const {
    std::error_code failed;
    std::vector<std::filesystem::path> strays;
    for (const auto& entry : std::filesystem::directory_iterator(path_, failed))
      if (const std::string name = entry.path().filename().string();
          name.starts_with(prefix) && (name.ends_with(".partial") || name.ends_with(".removed")))
        strays.push_back(entry.path());
    if (failed) refuse("read", path_, failed);
    for (const auto& stray : strays) std::filesystem::remove_all(stray, failed);
  }

  /// Effects: makes an empty temporary folder for this step. Throws error.
  void begin(std::int64_t step) const {
    std::error_code failed;
    std::filesystem::remove_all(partial_path(step), failed);
    if (!failed) std::filesystem::create_directory(partial_path(step), failed);
    if (failed) refuse("create", partial_path(step), failed);
  }

  /// Throws error on a rank that does not see the folder that begin() has made on rank 0.
  void expect_begun(std::int64_t step, int rank) const {
    std::error_code failed;
    if (std::filesystem::is_directory(partial_path(step), failed)) return;
    throw error(concat("checkpoint: rank ", rank, " on ", core::host_name(), " does not see ",
                       partial_path(step),
                       ", which rank 0 has made: .folder must be one that all ranks see under that "
                       "name, on a file system that their hosts share"));
  }

  /// Requires that the temporary folder has all files, which are flushed, as is the folder itself.
  /// Effects: it gets its final name, `latest` refers to it, and of the checkpoints up to this step
  /// the newest `keep` remain. Throws error.
  void finalize(std::int64_t step, int keep) const {
    std::error_code failed;
    if (std::filesystem::exists(final_path(step), failed)) retire(final_path(step));
    std::filesystem::rename(partial_path(step), final_path(step), failed);
    if (failed) refuse("rename", partial_path(step), failed);
    flush(path_);

    const std::string link = path_ + "/latest", next = path_ + "/latest.partial";
    std::filesystem::remove(next, failed);
    std::filesystem::create_directory_symlink(name_of(step), next, failed);
    if (!failed) std::filesystem::rename(next, link, failed);
    if (failed) refuse("move", link, failed);
    flush(path_);

    int newest = 0;
    for (const std::int64_t old : steps())
      if (old <= step && ++newest > keep) retire(final_path(old));
  }

  /// Effects: a damaged checkpoint loses its final name. None that was set aside before is lost.
  /// Returns the name that it has now, or "" if it cannot be renamed.
  std::string set_damaged_aside(std::int64_t step) const {
    std::error_code failed;
    std::string aside = final_path(step) + std::string(damage_ending);
    for (int number = 2; std::filesystem::exists(std::filesystem::symlink_status(aside, failed));
         ++number)
      aside = concat(final_path(step), damage_ending, ".", number);
    std::filesystem::rename(final_path(step), aside, failed);
    return failed ? std::string() : aside;
  }

 private:
  static constexpr std::string_view prefix = "step-", damage_ending = ".damaged";
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }

  // Names of all entries that begin with the prefix.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> found;
    std::error_code failed;
    for (std::filesystem::directory_iterator entry(path_, failed), end; !failed && entry != end;
         entry.increment(failed))
      if (std::string name = entry->path().filename().string(); name.starts_with(prefix))
        found.push_back(std::move(name));
    if (failed && failed != std::errc::no_such_file_or_directory)
      throw io::read_error(concat("cannot list ", path_, ": ", failed.message(),
                                  "; check the path and the permissions"));
    return found;
  }

  static void flush(const std::string& folder) {
    if (const int failed = io::flush_folder(folder); failed != 0)
      refuse("flush", folder, {failed, std::generic_category()});
  }
  // Renamed first: a checkpoint that is removed in part must not have its final name.
  static void retire(const std::string& path) {
    std::error_code failed;
    std::filesystem::remove_all(path + ".removed", failed);
    std::filesystem::rename(path, path + ".removed", failed);
    if (!failed) std::filesystem::remove_all(path + ".removed", failed);
    if (failed) refuse("remove", path, failed);
  }
  [[noreturn]] static void refuse(std::string_view verb, const std::string& path,
                                  const std::error_code& reason) {
    throw error(concat("checkpoint: cannot ", verb, " ", path, ": ", reason.message(),
                       "; name a folder that all ranks can write, with room for the run"));
  }

  std::string path_;
};

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
