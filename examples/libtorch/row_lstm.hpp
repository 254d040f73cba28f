// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// An image's rows as a sequence of vectors, read by an LSTM; its last output decides the class.
#pragma once

#include <cstdint>
#include <tuple>

#include <torch/torch.h>

namespace examples {

struct row_lstm : torch::nn::Module {
  torch::nn::LSTM rows{nullptr};
  torch::nn::Linear classifier{nullptr};

  explicit row_lstm(std::int64_t columns = 28, std::int64_t hidden = 128,
                    std::int64_t classes = 10) {
    rows = register_module(
        "rows", torch::nn::LSTM(torch::nn::LSTMOptions(columns, hidden).batch_first(true)));
    classifier = register_module("classifier", torch::nn::Linear(hidden, classes));
  }
  torch::Tensor forward(const torch::Tensor& images) {                  // (N, rows, columns)
    const auto outputs = std::get<0>(rows->forward(images));            // (N, rows, hidden)
    return classifier->forward(outputs.select(1, images.size(1) - 1));  // (N, classes)
  }
};

}  // namespace examples
