// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights in safetensors files, under torchvision's names and shapes, which Python reads.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include <cordee/comm/collectives.hpp>
#include <cordee/core/version.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/io/safetensors.hpp>

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
  std::string out;
  for (const std::size_t side : shape) out += concat(out.empty() ? "[" : ", ", side);
  return out + "]";
}

/// Activation ranges belong to quantised layers: files and networks of other precisions have none.
inline bool is_input_range(std::string_view name) {
  return name.ends_with(".input_min") || name.ends_with(".input_max");
}

/// The differences between the file and the table, one line each; empty if there are none.
std::string mismatches(const auto& file, std::span<const segment> table) {
  constexpr int most_lines = 8;
  int lines = 0;
  std::string out;
  const auto add = [&](const std::string& line) {
    if (++lines <= most_lines) out += "\n  " + line;
  };
  for (const segment& s : table) {
    const io::tensor_entry* e = file.find(s.name);
    if (e == nullptr) {
      if (!is_input_range(s.name)) add(concat("\"", s.name, "\" is missing"));
    } else if (e->shape != shape_of(s))
      add(concat("\"", s.name, "\" has shape ", describe_shape(e->shape), ", the network's has ",
                 describe_shape(shape_of(s))));
    else if (e->dtype != "F32" && e->dtype != "F64")
      add(concat("\"", s.name, "\" holds ", e->dtype, "; only F32 and F64 are read"));
  }
  for (const io::tensor_entry& e : file.entries()) {
    const auto same = [&](const segment& s) { return s.name == e.name; };
    // PyTorch's counter of batches in each batch norm is ignored.
    if (!std::any_of(table.begin(), table.end(), same) && !is_input_range(e.name) &&
        !e.name.ends_with("num_batches_tracked"))
      add(concat("\"", e.name, "\" is not a tensor of this network"));
  }
  if (lines > most_lines) out += concat("\n  and ", lines - most_lines, " more");
  return out;
}

}  // namespace detail::train

/// Rank 0 writes the mean model. The file is complete or absent. Collective.
template <class Run>
void save_weights(Run& run, const std::string& path) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  run.with_mean_model([&] {
    if (run.comm().rank() == 0) {
      const auto weights = copy_to_host<Real, D>(run.model().where(), run.weights(), run.compute());
      std::vector<detail::io::tensor_view> tensors;
      for (const segment& s : run.segments())
        tensors.push_back({std::string(s.name), detail::train::shape_of(s),
                           std::span(weights).subspan(s.offset, s.size)});
      detail::io::save_tensors(path, tensors, {{"format", "pt"}, {"cordee", std::string(version)}});
    }
    std::array<double, 1> barrier{};  // no rank returns before the file exists
    allreduce_host(run.comm(), barrier, reduce_op::sum);
    return 0;
  });
}

/// Rank 0 reads and broadcasts the weights. Optimizer state stays as it is. Collective.
template <class Run>
void load_weights(Run& run, const std::string& path) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  if (run.comm().rank() == 0) {
    const detail::io::tensor_file file = detail::io::tensor_file::open(path);
    if (const std::string differences = detail::train::mismatches(file, run.segments());
        !differences.empty())
      throw error(
          concat("the weights in \"", path, "\" do not fit this network:", differences,
                 "\nload them into the network (depth, shortcut, classes) that saved them"));
    const D& device = run.model().where();
    auto weights = copy_to_host<Real, D>(device, run.weights(), run.compute());
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    for (const segment& s : run.segments())
      if (file.find(s.name) != nullptr)
        file.read(s.name, std::span(weights).subspan(s.offset, s.size));
      else  // no range in the file: an empty one, for the old range belongs to other weights
        weights[s.offset] = s.name.ends_with("min") ? infinity : -infinity;
    device.copy(run.weights().data, weights.data(), weights.size() * sizeof(Real), run.compute());
    device.finish(run.compute());
  }
  run.adopt_weights();
}

}  // namespace cordee::inline CORDEE_ABI
