// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// What the command line, or a file of settings, says of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace train {

struct optimizer_name {
  const char* name;
  double learning_rate;  // that papers and frameworks begin with
};
inline constexpr optimizer_name optimizer_names[] = {
    {"sgd", 0.1},       {"lars", 0.1},      {"larc", 0.1},
    {"adam", 0.001},    {"adamw", 0.001},   {"lamb", 0.001},
    {"lambc", 0.001},   {"rmsprop", 0.001}, {"rmsprop_warmup", 0.1},
    {"decentlam", 0.1}, {"qg_dmsgd", 0.1}};

struct settings {
  // data
  std::string format = "folder", data, validation_data;
  double held_out = 0.2;  // fraction of each class for validation, where the data have no such part
  int classes = 0;        // of shards, which do not say it
  int first_label = -1;   // of shards; -1: the format's
  int decode_threads = 0;
  bool scaled_decoding = false, skip_broken = false;
  // network
  std::string network = "resnet18", precision = "fp32";
  std::string loss = "cross_entropy";
  double label_smoothing = 0.1, target_threshold = 0, dropout = 0;
  std::vector<std::string> freeze;
  // batch and length
  int batch = 0, batch_per_rank = 0, accumulate = 1, validation_batch = 50;
  double epochs = 90;
  std::uint64_t seed = 1;
  // optimizer and schedule
  std::string optimizer = "sgd", schedule = "cosine", scaling = "linear";
  double learning_rate = 0.1, momentum = 0.9, beta2 = 0.999, weight_decay = 1e-4;
  double trust_coefficient = 0.001;
  bool nesterov = false;
  int reference_batch = 256;
  double warmup = 5, clip_norm = 0;  // 0: not clipped
  // ranks
  int ranks = 1;
  std::string transport = "threads", reducer = "ring";
  double deadline = 120;
  int batch_norm_over = 1;
  // augmentation
  int pad = 0, cutout = 0;
  bool flip = false;
  double mixup = 0, cutmix = 0;
  // the run's folder
  std::string output, load, text;  // text: these settings as a file
  bool resume = false, new_classifier = false;
  double checkpoint_epochs = 1, checkpoint_minutes = 0;
  std::vector<std::string> logs;
  int patience = 0;            // epochs; 0: no early stopping
  double target_accuracy = 0;  // 0: none
  // instead of training
  bool dry_run = false, evaluate = false;
  std::vector<std::string> predict;
};

/// Exit statuses of the program.
enum status : int { done = 0, failed = 1, wrong_options = 2, stopped_by_signal = 3 };

/// Makes the run's folder. Throws wrong_option.
void make_output_folder(const settings& s);

/// Writes settings.ini into the run's folder. Throws error.
void write_settings(const settings& s);

}  // namespace train
