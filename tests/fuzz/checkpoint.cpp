// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The input is a checkpoint of one rank: a byte of flags, the lengths of three parts (two bytes
// each, little-endian), and checkpoint.json, common.safetensors, rank-0.safetensors and checksums;
// an empty part is that of a checkpoint that a run has saved. Flags:
//
//   1  the checksums are made anew, so that the readers behind them see damage
//   2  the third part is the text of the rank's state, and its file is made of it
//   4  the first part, and the third one with flag 2, are merge patches (RFC 7386) of what was
//      saved
//
// A run resumes and takes a step, or refuses with an error; never with anything else.
#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include <cordee/checkpoint/checkpoint.hpp>
#include <cordee/comm/reducers/solo.hpp>
#include <cordee/optim/sgd.hpp>

#include "tests/checkpoint/labelled.hpp"
#include "tests/fuzz/memory_file.hpp"

using namespace cordee;
using namespace cordee::detail::checkpoints;

namespace {

const std::array<std::string, 4> names{"checkpoint.json", std::string(common_file), rank_file(0),
                                       "checksums"};

struct run_of_one_rank {
  support::labelled<fp32> model;
  trainer<support::labelled<fp32>, sgd, std::remove_const_t<decltype(support::falling)>, solo> run{
      model, sgd{}, support::falling, solo{}};
};

auto make_feed() {
  return loader{synthetic{.extent = {1, 4, 4}, .classes = 4, .samples = 22, .seed = 3},
                self_comm{},
                {.global_batch = 6, .seed = 5}};
}

class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "cordee-fuzz-XXXXXX").string();
    fuzz::require(::mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
    path_ = name;
  }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// What a run saves after three steps.
struct saved_checkpoint {
  std::array<std::string, 4> files;
  nlohmann::json description, state;

  saved_checkpoint() {
    const temporary_folder folder;
    run_of_one_rank saved;
    auto feed = make_feed();
    saved.run.fit(feed, feed.epoch(3), checkpoint{.folder = folder.path().string()});
    const std::string at = folder.path().string() + "/" + name_of(3);
    for (std::size_t k = 0; k < files.size(); ++k) files[k] = read_text(at + "/" + names[k]);
    description = nlohmann::json::parse(files[0]);
    state = to_json(read_state(detail::io::tensor_file::open(at + "/" + names[2])));
  }
};

// A run's folder with one checkpoint, whose files are in memory.
class checkpoint_in_memory {
 public:
  checkpoint_in_memory() {
    std::filesystem::create_directory(step());
    for (std::size_t k = 0; k < names.size(); ++k)
      std::filesystem::create_symlink(files_[k].path(), step() / names[k]);
  }
  [[nodiscard]] std::string folder() const { return folder_.path().string(); }
  void set(std::size_t file, std::span<const std::uint8_t> bytes) const { files_[file].set(bytes); }
  /// Lists the files as they are.
  void set_checksums() const {
    checksum_table table;
    for (std::size_t k = 0; k + 1 < names.size(); ++k)
      table[names[k]] = checksum_of(files_[k].path());
    const std::string text = checksum_text(table);
    files_[3].set({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  /// Takes back its name, which a resume that finds damage takes away.
  void take_back_name() const {
    const std::string damaged = step().string() + ".damaged";
    if (std::rename(damaged.c_str(), step().c_str()) != 0)
      fuzz::require(errno == ENOENT, "a damaged checkpoint is renamed");
  }

 private:
  [[nodiscard]] std::filesystem::path step() const { return folder_.path() / name_of(3); }
  std::array<fuzz::memory_file, 4> files_;
  temporary_folder folder_;
};

/// A rank's file whose state is this text.
std::string file_with_state(std::string_view state) {
  std::string header =
      concat(R"({"__metadata__":{"format":"pt","state":)", detail::io::json_quoted(state),
             R"(},"seen":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})");
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes + header + std::string(4, '\0');
}

/// The text patched; the text of the patch itself if that is no JSON.
std::string patched(const nlohmann::json& saved, const std::string& patch) {
  const nlohmann::json change = nlohmann::json::parse(patch, nullptr, false);
  if (change.is_discarded()) return patch;
  nlohmann::json result = saved;
  result.merge_patch(change);
  return result.dump();
}

struct stop {
  bool step_on_all_ranks(auto&, double) { return true; }
};

/// Returns false if the checkpoint was damaged, which changes nothing of the run.
bool resume_and_step(auto& run, const std::string& folder) {
  try {
    fuzz::require(run.resume(folder), "the folder has a checkpoint");
  } catch (const error& e) {
    return std::string_view(e.what()).find("are damaged") == std::string_view::npos;
  }
  const std::int64_t before = run.steps_taken(), update = run.fit_state().update;
  fuzz::require(before >= 0 && update >= 0, "steps are counted from 0");
  auto feed = make_feed();
  try {
    run.fit(feed, feed.epoch(std::min(update, std::int64_t{1} << 40) + 2), stop{});
    (void)to_json(run.state()).dump();
  } catch (const error&) {
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 7) return 0;
  static const saved_checkpoint saved;
  static const checkpoint_in_memory input;
  const bool states = (data[0] & 2) != 0, patches = (data[0] & 4) != 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 7, size - 7);
  for (std::size_t k = 0; k < 4; ++k) {
    const std::size_t length = data[1 + 2 * (k % 3)] + 256u * data[2 + 2 * (k % 3)];
    std::string part(rest.substr(0, k < 3 ? length : rest.npos));
    rest.remove_prefix(part.size());
    if (part.empty())
      part = saved.files[k];
    else if (k == 0 && patches)
      part = patched(saved.description, part);
    else if (k == 2 && states)
      part = file_with_state(patches ? patched(saved.state, part) : part);
    input.set(k, {reinterpret_cast<const std::uint8_t*>(part.data()), part.size()});
  }
  if ((data[0] & 1) != 0) input.set_checksums();
  static std::optional<run_of_one_rank> unchanged;  // making one takes longer than most refusals
  if (!unchanged) unchanged.emplace();
  if (resume_and_step(unchanged->run, input.folder())) unchanged.reset();
  input.take_back_name();
  return 0;
}
