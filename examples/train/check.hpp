// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Options that do not go together.
#pragma once

#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include <cordee/core/concat.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/core/error.hpp>

#include "settings.hpp"

namespace train {

using namespace cordee;

/// Wrong options, in a sentence that names them.
struct wrong_option : error {
  using error::error;
};

/// Throws wrong_option for options that do not go together; warns of some on standard error.
inline void check_together(settings& s) {
  const auto refuse = [](auto... text) { throw wrong_option(concat(text...)); };
  if (s.format != "synthetic" && s.data.empty() && s.predict.empty())
    refuse("--data is needed, the folder or files of the images; try --help");
  const bool folder = s.format == "folder" || s.format == "idx" || s.format == "cifar10";
  for (const std::string& path : {s.data, s.validation_data})
    if (folder && std::filesystem::exists(path) && !std::filesystem::is_directory(path))
      refuse("--format ", s.format, " reads a folder, and ", path,
             " is a file: give the folder that has it, or another --format");
  if (s.batch > 0 && s.batch_per_rank > 0) refuse("give --batch or --batch-per-rank, not both");
  if (!s.predict.empty()) {  // of the loader that a trainer's types need
    s.batch = 0;
    s.batch_per_rank = 1;
  }
  if (s.batch == 0 && s.batch_per_rank == 0) s.batch = 256;
  const bool trains = !s.evaluate && s.predict.empty();
  if (!(s.epochs > 0) && trains)
    refuse("--epochs ", s.epochs, ": training takes a positive number of passes over the data, ",
           "such as 0.5 or 90; --evaluate and --predict need none");
  const bool gossips = s.optimizer == "decentlam" || s.optimizer == "qg_dmsgd";
  if (gossips != (s.reducer == "gossip"))
    refuse("--optimizer ", s.optimizer, " with --reducer ", s.reducer,
           ": decentlam and qg_dmsgd mix weights with neighbors, which is --reducer gossip; the "
           "other optimizers need an exact mean, such as --reducer ring");
  if (s.clip_norm > 0 && gossips)
    refuse("--clip-norm with --optimizer ", s.optimizer,
           ": only the mean of all ranks' gradients is clipped here, and gossip has none");
  const std::set<std::string> with_nesterov{"sgd", "lars", "larc", "decentlam"};
  if (s.nesterov && !with_nesterov.contains(s.optimizer))
    refuse("--nesterov with --optimizer ", s.optimizer,
           ": it is a form of the momentum of sgd, lars, larc and decentlam");
  if (s.optimizer == "rmsprop_warmup" && s.warmup == 0)
    refuse("--optimizer rmsprop_warmup needs --warmup, the epoch around which SGD takes over");
  if ((s.schedule == "one_cycle" || s.schedule == "mlperf_poly2") &&
      (s.scaling == "legw" || s.warmup >= s.epochs))
    refuse("--schedule ", s.schedule, " has its warm-up in it, ", s.warmup, " of ", s.epochs,
           " epochs: it needs fewer epochs of --warmup than --epochs, and legw would scale another "
           "warm-up");
  if (s.schedule == "akiba_slow_start" && s.warmup > 0 && s.optimizer != "rmsprop_warmup")
    refuse(
        "--schedule akiba_slow_start begins at half the learning rate in place of a warm-up: "
        "give --warmup 0, or --optimizer rmsprop_warmup, as its authors did");
  const bool ramps = trains && s.optimizer != "rmsprop_warmup";
  if (ramps && s.warmup >= s.epochs)
    refuse("--warmup ", s.warmup, " of ", s.epochs, " epochs: the learning rate would rise to the ",
           "end and never be ", s.learning_rate, "; give fewer epochs of --warmup, 0 for none");
  if (ramps && 2 * s.warmup > s.epochs)
    std::fprintf(
        stderr,
        "train: warning: --warmup %s of --epochs %s: the learning rate rises for more than "
        "half of the run; a tenth is usual, such as --warmup %s\n",
        decimal::general(s.warmup, 6).c_str(), decimal::general(s.epochs, 6).c_str(),
        decimal::general(s.epochs / 10, 6).c_str());
  if (s.target_threshold > 0 && s.loss != "binary_cross_entropy")
    refuse("--target-threshold with --loss ", s.loss, ": it belongs to binary_cross_entropy");
  if (s.mixup > 0 && s.cutmix > 0) refuse("give --mixup or --cutmix, not both");
  if (s.transport == "mpi" && s.ranks != 1)
    refuse("--ranks counts threads: with --transport mpi give the number to mpirun");
#if !defined(WITH_MPI)
  if (s.transport == "mpi")
    refuse("--transport mpi: this program was built without MPI (libopenmpi-dev)");
#endif
  if ((s.evaluate || !s.predict.empty()) && s.load.empty())
    refuse(s.evaluate ? "--evaluate" : "--predict", " needs the weights: --load FILE");
  if (s.evaluate + s.dry_run + !s.predict.empty() > 1)
    refuse("--dry-run, --evaluate and --predict exclude one another");
  if (s.new_classifier && s.load.empty()) refuse("--new-classifier needs --load FILE");
  if ((s.resume || !s.logs.empty()) && s.output.empty())
    refuse(s.resume ? "--resume" : "--log", " needs the run's folder: --output FOLDER");
}

}  // namespace train
