// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Weights in and out of files that Python reads: safetensors, under torchvision's names and shapes.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include <cordee/comm/agree.hpp>
#include <cordee/core/version.hpp>
#include <cordee/device/buffer.hpp>
#include <cordee/io/safetensors.hpp>

namespace cordee::inline CORDEE_ABI {

namespace detail {

// Templates all, so that programs that save no weights do not compile what does.

/// A segment's shape as files say it; one that says none is a vector.
std::vector<std::size_t> shape_of(const auto& s) {
  std::vector<std::size_t> shape;
  for (const int side : s.shape)
    if (side > 0) shape.push_back(static_cast<std::size_t>(side));
  if (shape.empty()) shape.push_back(s.size);
  return shape;
}

std::string in_brackets(const auto& shape) {
  std::string out;
  for (const std::size_t side : shape) out += text(out.empty() ? "[" : ", ", side);
  return out + "]";
}

/// A range is of a quantised layer: a file of another precision has none, a network may want none.
inline bool is_input_range(std::string_view name) {
  return name.ends_with(".input_min") || name.ends_with(".input_max");
}

/// What keeps the file from being the table's weights, a sentence each; nothing if it fits.
std::string misfits(const auto& file, std::span<const segment> table) {
  constexpr int most = 8;
  int found = 0;
  std::string out;
  const auto say = [&](const std::string& what) {
    if (++found <= most) out += "\n  " + what;
  };
  for (const segment& s : table) {
    const tensor_entry* e = file.find(s.name);
    if (e == nullptr) {
      if (!is_input_range(s.name)) say(text("\"", s.name, "\" is missing"));
    } else if (e->shape != shape_of(s))
      say(text("\"", s.name, "\" has shape ", in_brackets(e->shape), ", the network's has ",
               in_brackets(shape_of(s))));
    else if (e->dtype != "F32" && e->dtype != "F64")
      say(text("\"", s.name, "\" holds ", e->dtype, "; only F32 and F64 are read"));
  }
  for (const tensor_entry& e : file.entries()) {
    const auto same = [&](const segment& s) { return s.name == e.name; };
    // PyTorch counts batches in each batch norm; nothing here depends on it.
    if (!std::any_of(table.begin(), table.end(), same) && !is_input_range(e.name) &&
        !e.name.ends_with("num_batches_tracked"))
      say(text("\"", e.name, "\" is not a tensor of this network"));
  }
  if (found > most) out += text("\n  and ", found - most, " more");
  return out;
}

}  // namespace detail

/// Rank 0 writes the agreed model; collective. The file appears whole or not at all.
template <class Run>
void save_weights(Run& run, const std::string& path) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  run.with_mean_model([&] {
    if (run.link().rank() == 0) {
      const auto weights = on_host<Real, D>(run.model().where(), run.weights(), run.compute());
      std::vector<tensor_view> tensors;
      for (const segment& s : run.segments())
        tensors.push_back({std::string(s.name), detail::shape_of(s),
                           std::span(weights).subspan(s.offset, s.size)});
      save_tensors(path, tensors, {{"format", "pt"}, {"cordee", std::string(version)}});
    }
    std::array<double, 1> written{};  // nobody goes on before the file is there
    agree(run.link(), written, sum{});
    return 0;
  });
}

/// Rank 0 reads, everybody gets the weights; collective. The state of the rule stays.
template <class Run>
void load_weights(Run& run, const std::string& path) {
  using Real = typename Run::Real;
  using D = typename Run::device;
  if (run.link().rank() == 0) {
    const tensor_file file = tensor_file::open(path);
    if (const std::string why = detail::misfits(file, run.segments()); !why.empty())
      throw error(text("the weights in \"", path, "\" do not fit this network:", why,
                       "\nload them into the network (depth, shortcut, classes) that saved them"));
    const D& device = run.model().where();
    auto weights = on_host<Real, D>(device, run.weights(), run.compute());
    constexpr Real infinity = std::numeric_limits<Real>::infinity();
    for (const segment& s : run.segments())
      if (file.find(s.name) != nullptr)
        file.read(s.name, std::span(weights).subspan(s.offset, s.size));
      else  // the range is not known: that of other weights says nothing of these
        weights[s.offset] = s.name.ends_with("min") ? infinity : -infinity;
    device.copy(run.weights().data, weights.data(), weights.size() * sizeof(Real), run.compute());
    device.finish(run.compute());
  }
  run.adopt_weights();
}

}  // namespace cordee::inline CORDEE_ABI
