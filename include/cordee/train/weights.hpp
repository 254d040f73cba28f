// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights in safetensors files, under torchvision's names and shapes, which Python reads.
#pragma once

#include <array>
#include <cstdio>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <cordee/comm/reducers/collectives.hpp>
#include <cordee/core/algorithm.hpp>
#include <cordee/core/version.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/io/save_tensors.hpp>
#include <cordee/io/tensor_file.hpp>
#include <cordee/train/run_operations.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail::train {

// Templates throughout, so that programs that save no weights do not compile this code.

/// A segment's shape as in files; a segment without one is a vector.
std::vector<std::size_t> shape_of(const auto& s) {
  std::vector<std::size_t> shape;
  for (const int side : s.shape)
    if (side > 0) shape.push_back(static_cast<std::size_t>(side));
  if (shape.empty()) shape.push_back(s.size);
  return shape;
}

std::string describe_shape(const auto& shape) {
  std::string out = "[";
  for (const std::size_t side : shape) out += concat(out.size() == 1 ? "" : ", ", side);
  return out + "]";
}

/// Activation ranges belong to quantised layers: files and networks of other precisions have none.
inline bool is_input_range(std::string_view name) {
  return name.ends_with(".input_min") || name.ends_with(".input_max");
}

/// The tensors of the last layer: those that share the name of the last trainable one up to its
/// last dot, such as fc.weight and fc.bias.
std::span<const segment> classifier_of(const auto& table) {
  const std::size_t end = core::count_trainable(table);
  if (end == 0) return {};
  const std::string_view last = table[end - 1].name;
  const std::string_view layer = last.substr(0, last.rfind('.') + 1);
  std::size_t first = end - 1;
  while (!layer.empty() && first > 0 && table[first - 1].name.starts_with(layer)) --first;
  return table.subspan(first, end - first);
}

bool contains(std::span<const segment> some, const auto& s) {
  return std::any_of(some.begin(), some.end(), [&](const segment& t) { return t.name == s.name; });
}

/// The differences between the file and the table but for the segments `without`, one line each;
/// empty if there are none.
std::string mismatches(const auto& file, std::span<const segment> table,
                       std::span<const segment> without = {},
                       std::span<const io::tensor_view> others = {}) {
  constexpr int most_lines = 8;
  const std::vector<std::size_t> one_number{1};  // in files of other programs also []
  int lines = 0;
  std::string out;
  const auto add = [&](const std::string& line) {
    if (++lines <= most_lines) out += "\n  " + line;
  };
  for (const segment& s : table) {
    if (contains(without, s)) continue;
    const io::tensor_entry* e = file.find(s.name);
    if (e == nullptr) {
      if (!is_input_range(s.name)) add(concat("\"", s.name, "\" is missing"));
    } else if (e->shape != shape_of(s) && !(e->shape.empty() && shape_of(s) == one_number))
      add(concat("\"", s.name, "\" has shape ", describe_shape(e->shape), ", the network's has ",
                 describe_shape(shape_of(s))));
    else if (!io::is_floating_dtype(e->dtype))
      add(concat("\"", s.name, "\" holds ", e->dtype, "; F32, F64, F16 and BF16 are read"));
  }
  for (const io::tensor_entry& e : file.entries()) {
    // PyTorch's counter of batches in each batch norm is ignored.
    const bool known = std::any_of(others.begin(), others.end(),
                                   [&](const io::tensor_view& t) { return t.name == e.name; });
    if (!known && !contains(table, e) && !is_input_range(e.name) &&
        !e.name.ends_with("num_batches_tracked"))
      add(concat("\"", e.name, "\" is not a tensor of this network"));
  }
  if (lines > most_lines) out += concat("\n  and ", lines - most_lines, " more");
  return out;
}

/// Throws error, with the tensors' names, unless the file has all of the table but `without`.
void expect_fits(const auto& file, std::span<const segment> table, std::span<const segment> without,
                 std::span<const io::tensor_view> others = {}) {
  const std::string differences = mismatches(file, table, without, others);
  if (differences.empty()) return;
  const auto classifier = classifier_of(table);
  throw error(concat("the weights in \"", file.path(), "\" do not fit this network:", differences,
                     "\nload them into the network (depth, shortcut, classes) that saved them",
                     without.empty() && mismatches(file, table, classifier, others).empty()
                         ? ", or all but the classifier with load(path, {.classifier = false})"
                         : ""));
}

[[gnu::cold]] void report_without(const std::convertible_to<std::string> auto& path,
                                  std::span<const segment> without) {
  std::string names;
  for (const segment& s : without) names += concat(names.empty() ? "" : ", ", "\"", s.name, "\"");
  std::fprintf(stderr, "load: %s is read without its classifier: %s keep the weights of before\n",
               path.c_str(), names.c_str());
}

/// Rank 0 writes these segments of a plane, and makes folders of the path that are missing; every
/// rank calls it. The file is complete or absent.
template <class Run>
void write_segments(Run& run, const std::string& path,
                    device::plane_part<typename Run::Real, typename Run::device> plane,
                    std::span<const segment> table, io::tensor_metadata metadata,
                    std::vector<io::tensor_view> tensors = {}) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  if (run.comm().rank() == 0) {
    const auto held = copy_to_host<Real, D>(run.model().get_device(), plane.numbers, run.compute());
    std::vector<Real> zeros;  // of segments of which the run has no numbers
    for (const segment& s : table)
      if (!plane.has(s)) zeros.resize(std::max(zeros.size(), s.size));
    for (const segment& s : table)
      tensors.push_back({std::string(s.name), shape_of(s),
                         plane.has(s) ? std::span(held).subspan(s.offset - plane.offset, s.size)
                                      : std::span(zeros).first(s.size)});
    metadata.insert(metadata.end(), {{"format", "pt"}, {"cordee", std::string(version)}});
    io::make_folders(path);
    io::save_tensors(path, tensors, metadata);
  }
  std::array<double, 1> barrier{};  // no rank returns before the file exists
  allreduce_host(run.comm(), barrier, reduce_op::sum);
}

/// A model with tensors that are neither trained nor statistics: files of weights have them, too.
/// constants() are views of them all, set_constants(file) reads those that a file has.
template <class M>
concept HasConstants = requires(M& m, const io::tensor_file& file) {
  { m.constants() } -> std::same_as<std::vector<io::tensor_view>>;
  m.set_constants(file);
};

/// Rank 0 writes the mean model, and beside `metadata` the library's and what the run knows of its
/// data (train/input/data_description.hpp). Collective.
template <class Run>
void save_weights(Run& run, const std::string& path, io::tensor_metadata metadata = {}) {
  if constexpr (nn::ImageModel<typename Run::model_type>)
    metadata = with_description(std::move(metadata), run.fit_state().data,
                                Run::model_type::input.channels);
  run.with_mean_model([&] {
    std::vector<io::tensor_view> others;  // that are in no plane
    if constexpr (HasConstants<typename Run::model_type>) others = run.model().constants();
    write_segments(run, path, run.weights(), run.segments(), std::move(metadata),
                   std::move(others));
    return 0;
  });
}

/// Rank 0 writes what evaluation uses of the mean model. Collective.
template <class Run>
  requires requires(const segment& s) { Run::model_type::is_evaluated(s); }
void save_evaluated_weights(Run& run, const std::string& path, io::tensor_metadata metadata) {
  std::vector<segment> table;
  for (const segment& s : run.segments())
    if (Run::model_type::is_evaluated(s)) table.push_back(s);
  metadata =
      with_description(std::move(metadata), run.fit_state().data, Run::model_type::input.channels);
  run.with_mean_model([&] {
    write_segments(run, path, run.weights(), table, std::move(metadata));
    return 0;
  });
}

/// Rank 0 writes its gradients as the last step left them, zeros of those that are not held.
/// Collective.
template <class Run>
void write_gradients(Run& run, const std::string& path) {
  static_assert(
      !requires { run.shard(); },
      "save_gradients: with sharded no rank has the whole gradient: name the reducer inside");
  write_segments(run, path, run.held_grads(),
                 run.segments().first(core::count_trainable(run.segments())), {});
}

/// Rank 0 reads and broadcasts the weights. Optimizer state stays as it is. Returns the names of
/// the segments that were not in the file or not read, on every rank. Collective.
template <class Run>
std::vector<std::string> load_weights(Run& run, const std::string& path, load_options options) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  const std::span<const segment> table = run.segments(), classifier = classifier_of(table),
                                 without = options.classifier ? table.first(0) : classifier;
  std::vector<double> unread(table.size());  // 1 if so; on rank 0, then on every rank
  if (run.comm().rank() == 0) {
    const io::tensor_file file = io::tensor_file::open(path);
    std::vector<io::tensor_view> others;
    if constexpr (HasConstants<typename Run::model_type>) others = run.model().constants();
    expect_fits(file, table, without, others);
    if constexpr (HasConstants<typename Run::model_type>) run.model().set_constants(file);
    const D& device = run.model().get_device();
    auto weights = copy_to_host<Real, D>(device, run.weights(), run.compute());
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    for (std::size_t k = 0; k < table.size(); ++k) {
      const segment& s = table[k];
      unread[k] = contains(without, s) || !file.contains(s.name) ? 1 : 0;
      if (unread[k] == 0)
        file.read(s.name, std::span(weights).subspan(s.offset, s.size));
      else if (is_input_range(s.name))
        // no range in the file: an empty one, for the old range belongs to other weights
        weights[s.offset] = s.name.ends_with("min") ? infinity : -infinity;
    }
    device.copy(run.weights().data, weights.data(), weights.size() * sizeof(Real), run.compute());
    device.finish(run.compute());
    if constexpr (nn::ImageModel<typename Run::model_type>)
      run.fit_state().data = read_description(file.metadata(), Run::model_type::input.channels,
                                              Run::model_type::classes, options.classifier, path);
  }
  run.adopt_weights();
  allreduce_host(run.comm(), unread, reduce_op::max);
  std::vector<std::string> names;
  for (std::size_t k = 0; k < table.size(); ++k)
    if (unread[k] > 0) names.emplace_back(table[k].name);
  if (!without.empty() && run.comm().rank() == 0) report_without(path, without);
  return names;
}

}  // namespace detail::train

}  // namespace cordee::inline CORDEE_ABI
