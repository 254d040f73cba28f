// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// The numbers of one rank at one step, and their two files.
//
//   common.safetensors   conv1.weight, …, slot0/conv1.weight, …: weights and optimizer slots,
//                        written by rank 0, if all ranks hold the same
//   rank-R.safetensors   the others: running statistics, reducer slots, reducer_state,
//                        preconditioner, model, optimizer; weights and optimizer slots where
//                        ranks differ; in the metadata, "state" is the run_state
//
// Slots of frozen tensors, which the run does not hold (train/step/planes.hpp), are zeros in the
// files.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/checkpoint/snapshot_memory.hpp>
#include <cordee/checkpoint/staged_io.hpp>
#include <cordee/checkpoint/state_json.hpp>
#include <cordee/core/error.hpp>
#include <cordee/device/arena.hpp>
#include <cordee/device/cpu.hpp>
#include <cordee/io/save_tensors.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/train/weights.hpp>

namespace cordee::inline CORDEE_ABI::detail::checkpoints {

inline constexpr std::string_view common_file = "common.safetensors";
inline std::string rank_file(int rank) { return concat("rank-", rank, ".safetensors"); }

/// Some segments of a plane, under their names behind `prefix`.
template <class Real, class D>
struct saved_plane {
  std::string prefix;
  device::plane_part<Real, D> plane;
  std::span<const segment> segments;
  bool common;    // alike on all ranks
  int slot = -1;  // of the optimizer, of which a sharded update holds pieces

  /// Consecutive segments, of which the run has the numbers.
  [[nodiscard]] std::span<const segment> held() const {
    std::size_t first = 0, last = segments.size();
    while (first < last && !plane.has(segments[first])) ++first;
    while (first < last && !plane.has(segments[last - 1])) --last;
    return segments.subspan(first, last - first);
  }
  [[nodiscard]] span_on<Real, D> numbers_of(std::span<const segment> some) const {
    if (some.empty()) return {};
    return plane.of(some.front().offset, some.back().end() - some.front().offset);
  }
};

/// All that a checkpoint holds of a run's planes, in the order of the files.
template <class Run>
auto saved_planes(Run& run) {
  using O = std::remove_cvref_t<decltype(run.optimizer())>;
  using R = std::remove_cvref_t<decltype(run.reducer())>;
  const std::span<const segment> table = run.segments();
  const std::size_t trainable = core::count_trainable(table);
  const auto trainables = table.first(trainable), statistics = table.subspan(trainable);
  constexpr bool alike = !Run::weights_differ;
  std::vector<saved_plane<typename Run::Real, typename Run::device>> planes;
  planes.push_back({"", {run.weights()}, trainables, alike});
  for (int k = 0; k < O::slots; ++k)
    if constexpr (comm::ShardsUpdate<R>)
      planes.push_back({concat("slot", k, "/"), {nullptr, 0}, trainables, alike, k});
    else
      planes.push_back({concat("slot", k, "/"), run.held_slot(k), trainables, alike});
  planes.push_back({"", {run.weights()}, statistics, false});
  for (int k = 0; k < R::slots; ++k)
    planes.push_back(
        {concat("reducer_slot", k, "/"), run.held_slot(O::slots + k), trainables, false});
  return planes;
}

/// Bytes of the planes that this rank copies for a checkpoint that is written beside training.
template <class Run>
std::size_t snapshot_bytes(Run& run) {
  std::size_t bytes = 0;
  for (const auto& p : saved_planes(run))
    if (!p.common || run.comm().rank() == 0)
      bytes += (p.slot >= 0 ? p.segments.back().end() - p.segments.front().offset
                            : p.numbers_of(p.held()).size) *
               sizeof(typename Run::Real);
  return bytes;
}

/// Makes `memory` large enough for a snapshot of `run`. Throws error if there is none left.
template <class Run>
void reserve_copies(Run& run, snapshot_memory& memory) {
  cpu::stream workers;
  if constexpr (Run::device::host_memory) workers = run.compute();
  memory.reserve(snapshot_bytes(run), run.model().get_device(), workers);
}

/// f(name, numbers) for what is a tensor of its own in a rank's file.
template <class State, class F>
void visit_numbers(State& state, const F& f) {
  f("reducer_state", state.reducer.numbers);
  f("preconditioner", state.preconditioner);
  f("model", state.model);
  f("optimizer", state.optimizer);
}
inline std::size_t count_numbers(const io::tensor_file& file) {
  std::size_t count = 0;
  const train::run_state names;
  visit_numbers(names, [&](const char* name, const auto&) { count += file.contains(name); });
  return count;
}

/// What a checkpoint holds of one rank: copies of the planes in the host's memory, which another
/// thread may write while the run continues, or the planes themselves, which must not change before
/// they are written.
template <class Run>
class snapshot {
  using Real = typename Run::Real;
  using D = typename Run::device;

 public:
  /// Refers to the planes, or, with `memory`, copies them there, by all of the device's workers.
  /// Blocks the host until they are copied. `memory` must outlive it and have no other snapshot.
  explicit snapshot(Run& run, snapshot_memory* memory = nullptr)
      : rank_(run.comm().rank()),
        state_(run.state()),
        run_(describe_run(run)),
        device_(run.model().get_device()),
        stream_(run.compute()),
        copies_(memory != nullptr) {
    if (copies_) reserve_copies(run, *memory);
    std::size_t used = 0;
    for (auto& p : saved_planes(run)) {
      if constexpr (requires { run.shard(); })
        if (p.slot >= 0) p.plane = gather_slot(run, p.slot);
      if (p.common && rank_ != 0) continue;
      const auto numbers = p.numbers_of(p.held());
      planes_.push_back({p.prefix, p.segments, p.held(), p.common, numbers.data});
      for (const segment& s : p.segments)
        if (!p.plane.has(s)) zeros_.resize(std::max(zeros_.size(), s.size));
      if (!copies_ || numbers.size == 0) continue;
      auto* const copy = reinterpret_cast<Real*>(memory->data() + used);
      copy_plane(copy, numbers.data, numbers.size);
      planes_.back().numbers = copy;
      used += numbers.size * sizeof(Real);
    }
    if (copies_) device_.finish(stream_);
    if (copies_ || rank_ != 0) gathered_.clear();
  }

  [[nodiscard]] const nlohmann::json& run() const { return run_; }

  /// Writes this rank's files to `folder`, flushed to the disk. Throws error.
  void write(const std::string& folder) const {
    if (rank_ == 0 && !Run::weights_differ)
      save(folder + "/" + std::string(common_file), tensors(true),
           {{"format", "pt"}, {"cordee", std::string(version)}});
    auto own = tensors(false);
    visit_numbers(state_, [&](const char* name, const std::vector<double>& x) {
      if (!x.empty()) own.push_back({name, {x.size()}, x});
    });
    save(folder + "/" + rank_file(rank_), own,
         {{"format", "pt"}, {"state", to_json(state_).dump()}});
  }

 private:
  void copy_plane(Real* out, const Real* in, std::size_t n) const {
    if constexpr (D::host_memory)
      device::parallel_chunks(stream_, n, snapshot_memory::grain / sizeof(Real),
                              [&](std::size_t first, std::size_t last) {
                                std::copy(in + first, in + last, out + first);
                              });
    else
      device_.copy(out, in, n * sizeof(Real), stream_);
  }
  // The whole slot of a sharded update, zeros for frozen layers: on rank 0 until it is copied or
  // written.
  span_on<Real, D> gather_slot(Run& run, int k) {
    if (copies_ || rank_ != 0) gathered_.clear();
    gathered_.push_back(buffer<Real, D>(device_, run.weights().size));
    run.gather_slot(k, gathered_.back().span());
    return gathered_.back().span();
  }

  struct plane_source {
    std::string prefix;
    std::span<const segment> segments, held;
    bool common;
    const Real* numbers;  // from the first segment held to the end of the last one

    /// Null: they are zeros.
    [[nodiscard]] const Real* of(const segment& s) const {
      if (held.empty() || s.offset < held.front().offset || s.offset > held.back().offset)
        return nullptr;
      return numbers + (s.offset - held.front().offset);
    }
  };

  [[nodiscard]] std::vector<io::tensor_view> tensors(bool common) const {
    std::vector<io::tensor_view> all;
    for (const plane_source& p : planes_)
      for (const segment& s : p.segments)
        if (p.common == common)
          all.push_back({p.prefix + std::string(s.name), train::shape_of(s),
                         std::span(p.of(s) != nullptr ? p.of(s) : zeros_.data(), s.size)});
    return all;
  }
  void save(const std::string& path, std::span<const io::tensor_view> all,
            const io::tensor_metadata& metadata) const {
    staged_io<D> staging(device_, stream_);
    io::save_tensors(path, all, metadata, [&](auto& file, std::span<const std::byte> bytes) {
      bool of_host = bytes.data() == std::as_bytes(std::span(zeros_)).data();
      visit_numbers(state_, [&](const char*, const std::vector<double>& x) {
        of_host |= bytes.data() == std::as_bytes(std::span(x)).data();
      });
      if (copies_ || of_host)
        file.write(bytes);
      else
        staging.write(bytes, [&](std::span<const std::byte> piece) { file.write(piece); });
    });
  }

  int rank_;
  train::run_state state_;
  nlohmann::json run_;
  D device_;
  typename D::stream stream_;
  bool copies_;
  std::vector<plane_source> planes_;
  std::vector<buffer<Real, D>> gathered_;
  std::vector<Real> zeros_;  // as many as a segment has that is not held
};

/// Throws error, with the first difference, unless `file` has the tensor with the shape of `s` and
/// the type Real.
template <class Real>
void expect_tensor(const io::tensor_file& file, const std::string& name, const segment& s) {
  constexpr std::string_view dtype = sizeof(Real) == 4 ? "F32" : "F64";
  const io::tensor_entry* const e = file.find(name);
  const std::string remedy = ": continue with the network that was saved";
  if (e == nullptr)
    throw error(concat("resume: ", file.path(), " has no tensor \"", name, "\"", remedy));
  if (e->shape != train::shape_of(s) || e->dtype != dtype)
    throw error(concat("resume: in ", file.path(), " \"", name, "\" is ", e->dtype, " ",
                       train::describe_shape(e->shape), ", this network's is ", dtype, " ",
                       train::describe_shape(train::shape_of(s)), remedy));
}

/// Whether the tensor has a number that is not zero.
template <class Real>
bool has_numbers(const io::tensor_file& file, const std::string& name, std::size_t size) {
  std::vector<Real> numbers(size);
  file.read(name, std::span(numbers));
  return std::any_of(numbers.begin(), numbers.end(), [](Real x) { return !(x == 0); });
}

/// A line for slots of frozen tensors that a file has and the run does not hold.
inline std::string describe_left_out(std::size_t tensors) {
  if (tensors == 0) return {};
  return concat("resume: slots of frozen tensors (", tensors,
                ") are left out, which are not zero in the checkpoint: when these tensors are "
                "trained again they begin at zero\n");
}

/// Reads one file's part into the planes, without copies of them. Throws error, with the first
/// difference, if it was written by another network. Returns the number of slots that are left out
/// because their tensors are frozen, but for zeros.
template <class Run>
std::size_t read_planes(Run& run, const io::tensor_file& file, bool common) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  std::size_t tensors = 0;
  for (const auto& p : saved_planes(run))
    for (const segment& s : p.segments) {
      if (p.common != common) continue;
      const std::string name = p.prefix + std::string(s.name);
      expect_tensor<Real>(file, name, s);
      ++tensors;
    }
  if (tensors + count_numbers(file) != file.entries().size())
    throw error(concat(
        "resume: ", file.path(), " has ", file.entries().size(), " tensors, this run ", tensors,
        ": continue with the network, the optimizer and the reducer that were saved"));
  const io::input_file bytes(file.path());
  staged_io<D> staging(run.model().get_device(), run.compute());
  std::size_t left_out = 0;
  for (const auto& p : saved_planes(run))
    for (const segment& s : p.segments) {
      if (p.common != common) continue;
      const std::string name = p.prefix + std::string(s.name);
      if constexpr (requires { run.shard(); })
        if (p.slot >= 0 && run.shard().has(s)) {
          const auto piece = run.shard().piece_of(p.slot, s);
          staging.read(bytes, file.at(name).offset + piece.begin * sizeof(Real),
                       std::as_writable_bytes(std::span(piece.numbers.data, piece.numbers.size)));
          continue;
        }
      if (!p.plane.has(s)) {
        if (has_numbers<Real>(file, name, s.size)) ++left_out;
        continue;
      }
      const auto to = p.plane.of(s.offset, s.size);
      staging.read(bytes, file.at(name).offset,
                   std::as_writable_bytes(std::span(to.data, to.size)));
    }
  return left_out;
}

/// This rank's state. Throws a std::exception for a file without one.
inline train::run_state read_state(const io::tensor_file& file) {
  for (const auto& [key, value] : file.metadata())
    if (key == "state") {
      train::run_state state = to_run_state(nlohmann::json::parse(value));
      visit_numbers(state, [&](const char* name, std::vector<double>& x) {
        const io::tensor_entry* const e = file.find(name);
        if (e == nullptr) return;
        x.resize(e->size / sizeof(double));
        file.read(name, std::span(x));
      });
      return state;
    }
  throw error(concat(file.path(), " has no state among its metadata"));
}

}  // namespace cordee::inline CORDEE_ABI::detail::checkpoints
