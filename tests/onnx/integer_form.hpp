// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Integer networks as ONNX files, and their logits, for integer_form.py, which compares them with
// onnxruntime's: with folded batch norms
//
//   integers.onnx    integers, of 32 bits, (samples, classes)    step, text
//
// and, as unfolded.onnx, unfolded and unfolded_step, with batch norms of their own.
#pragma once

#include <cstdint>
#include <fstream>
#include <ios>
#include <span>
#include <string>
#include <vector>

#include <cordee/infer/onnx_integers.hpp>

template <class T>
void write(const std::string& path, std::span<const T> numbers) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(numbers.data()),
            static_cast<std::streamsize>(numbers.size_bytes()));
  if (!out) throw cordee::error("cannot write " + path);
}

/// Of network type N, whose table is `plane`.
template <class N>
void export_integers(const std::string& folder, std::span<const float> plane,
                     const cordee::normalization& pixel, std::span<const std::uint8_t> images) {
  for (const bool fold : {true, false}) {
    auto net =
        cordee::integer_network::from<N>(plane, pixel, cordee::cpu(), {.fold_batch_norm = fold});
    std::vector<std::int32_t> logits(images.size() / N::input.size() * N::classes);
    net.run(images, logits);
    const std::string name = folder + (fold ? "/integers" : "/unfolded");
    cordee::write_onnx(name + ".onnx", net);
    write(name, std::span<const std::int32_t>(logits));
    std::ofstream(folder + (fold ? "/step" : "/unfolded_step"))
        << std::hexfloat << net.logit_step();
  }
}
