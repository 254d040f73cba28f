// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Trains a residual network from the command line, evaluates it, or predicts the classes of image
// files. Every option has a default and a line of help; networks.hpp lists the networks.
//
//   train --data photographs --network resnet18 --epochs 30 --ranks 2 --output runs/a --log csv
//   train --config runs/a/settings.ini --resume                       goes on after an interruption
//   train --network resnet18 --load runs/a/best.safetensors --predict rose.jpg photographs/new
//   train --data other --load runs/a/best.safetensors --new-classifier
//     --freeze conv1,bn1,layer1,layer2                               (one line)
//   examples/launch/mpirun.sh 4 train --data photographs --transport mpi
//
// Exit status: 0 done; 1 the run failed; 2 wrong options; 3 stopped by a signal (Ctrl-C,
// SIGTERM, SIGUSR1), with a checkpoint, from which --resume goes on; a second signal ends at once.
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <cordee/core/concat.hpp>
#include <cordee/core/error.hpp>

#include "check.hpp"
#include "command_line.hpp"
#include "dataset.hpp"
#include "networks.hpp"
#include "settings.hpp"

namespace {

using namespace train;

#if defined(NETWORKS)  // those of train_small, in CMakeLists.txt
using compiled = std::index_sequence<NETWORKS>;
#else
using compiled = std::make_index_sequence<std::tuple_size_v<networks>>;
#endif
std::vector<network_entry> all_networks() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return std::vector<network_entry>{entry_of<I>()...};
  }(compiled());
}

std::string describe_networks() {
  std::string out;
  for (const network_entry& n : all_networks())
    out += concat("  --network ", n.name, " --precision ", n.precision, "   images of ",
                  cordee::describe(n.image), ", ", n.classes, " classes\n");
  return out;
}

std::vector<std::string> names_of_optimizers() {
  std::vector<std::string> names;
  for (const optimizer_name& o : optimizer_names) names.emplace_back(o.name);
  return names;
}

/// "0.1 with sgd, lars; 0.001 with adam"
std::string describe_learning_rates() {
  std::map<double, std::string, std::greater<>> names;
  for (const auto& [name, rate] : optimizer_names)
    names[rate] += concat(names[rate].empty() ? "" : ", ", name);
  std::string out;
  for (const auto& [rate, of] : names) out += concat(out.empty() ? "" : "; ", rate, " with ", of);
  return out;
}

/// Without --learning-rate: the optimizer's, which also a file of these settings has.
void choose_learning_rate(CLI::App& app, settings& s) {
  CLI::Option* const option = app.get_option("--learning-rate");
  if (!option->empty()) return;
  for (const auto& [name, rate] : optimizer_names)
    if (s.optimizer == name) s.learning_rate = rate;
  option->default_str(concat(s.learning_rate));
}

/// Empty, or why a file is not read: to open a pipe would block.
std::string regular_file(const std::string& path) {
  std::error_code failed;
  if (std::filesystem::is_regular_file(path, failed)) return {};
  return path + " is no regular file that can be read";
}

void add_options(CLI::App& app, settings& s) {
  using CLI::IsMember;
  const CLI::Validator positive = number_check(false), non_negative = number_check(true);
  app.option_defaults()->always_capture_default()->take_last();
  app.set_config("--config", "", "Read options from a file, such as a run's settings.ini")
      ->check(regular_file);
  app.allow_config_extras(CLI::config_extras_mode::error);

  const auto data = [&](auto name, auto& x, auto help) {
    return app.add_option(name, x, help)->group("Data");
  };
  data("--format", s.format,
       "idx (MNIST's files), cifar10 (binary files), folder (a folder of images for each class), "
       "tfrecord, webdataset, packed, or synthetic")
      ->check(
          IsMember({"idx", "cifar10", "folder", "tfrecord", "webdataset", "packed", "synthetic"}));
  data("--data", s.data, "Folder, file or pattern of shards to train on");
  data("--validation-data", s.validation_data,
       "The same for validation; without it a part of --data is held out");
  data("--held-out", s.held_out, "That part, of each class")->check(CLI::Range(0.0, 0.9));
  data("--classes", s.classes, "Number of classes, where the data do not say it")
      ->check(non_negative);
  data("--first-label", s.first_label, "Of the first class in shards; -1: 1 of tfrecord, else 0")
      ->check(CLI::Range(-1, 1 << 30));
  data("--decode-threads", s.decode_threads, "Per rank; 0: the cores divided by the ranks")
      ->check(non_negative);
  app.add_flag("--scaled-decoding", s.scaled_decoding, "Decode large JPEGs at a reduced scale")
      ->group("Data");
  app.add_flag("--skip-broken", s.skip_broken, "Leave out or replace, and count, what is broken")
      ->group("Data");

  const auto augmentation = [&](auto name, auto& x, auto help) {
    app.add_option(name, x, help)->group("Augmentation")->check(non_negative);
  };
  augmentation("--pad", s.pad, "Pixels of padding before a random crop, for small images");
  app.add_flag("--flip", s.flip, "Flip half of the images horizontally")->group("Augmentation");
  augmentation("--cutout", s.cutout, "Side of the square that is covered; 0: none");
  augmentation("--mixup", s.mixup, "Alpha of mixup; 0: none");
  augmentation("--cutmix", s.cutmix, "Alpha of cutmix; 0: none");

  const auto model = [&](auto name, auto& x, auto help) {
    return app.add_option(name, x, help)->group("Network");
  };
  model("--network", s.network, "One of those compiled in, see the end");
  model("--precision", s.precision, "Its precision");
  model("--loss", s.loss,
        "cross_entropy, binary_cross_entropy (a sigmoid for each class), or mean_squared_error of "
        "the logits, whose gradients are smaller by a factor of about the number of classes")
      ->check(IsMember({"cross_entropy", "binary_cross_entropy", "mean_squared_error"}));
  model("--label-smoothing", s.label_smoothing, "Of the cross-entropies")
      ->check(CLI::Range(0.0, 1.0));
  model("--target-threshold", s.target_threshold,
        "Of binary_cross_entropy: targets above it count as 1, as of both classes of a mixed "
        "sample; 0: none")
      ->check(CLI::Range(0.0, 0.99));
  model("--dropout", s.dropout, "Share of the classifier's inputs that are dropped")
      ->check(CLI::Range(0.0, 0.99));
  model("--load", s.load, "Begin with the weights of this safetensors file");
  app.add_flag("--new-classifier", s.new_classifier, "Load all but the last layer")
      ->group("Network");
  model("--freeze", s.freeze,
        "Tensors that keep their values, by the beginnings of their names: conv1,bn1,layer1")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);

  const auto optimization = [&](auto name, auto& x, auto help) {
    return app.add_option(name, x, help)->group("Optimization");
  };
  optimization("--epochs", s.epochs, "Passes over the training data");
  optimization("--batch", s.batch, "Samples of an update over all ranks; 256 if none is given")
      ->check(positive);
  optimization("--batch-per-rank", s.batch_per_rank,
               "Samples of a micro-batch on each rank, instead of --batch")
      ->check(positive);
  optimization("--accumulate", s.accumulate, "Micro-batches of an update on each rank")
      ->check(positive);
  optimization("--optimizer", s.optimizer,
               "sgd, lars, larc; adam, adamw, lamb, lambc, rmsprop, rmsprop_warmup; or decentlam, "
               "qg_dmsgd, with --reducer gossip")
      ->check(IsMember(names_of_optimizers()));
  optimization("--learning-rate", s.learning_rate,
               "Peak, at the reference batch; by default " + describe_learning_rates())
      ->default_str("")
      ->check(non_negative);
  optimization("--reference-batch", s.reference_batch, "The batch it was tuned for")
      ->check(positive);
  optimization(
      "--scaling", s.scaling,
      "From the reference batch to this one: none, linear, sqrt, or legw, which scales the "
      "warm-up too")
      ->check(IsMember({"none", "linear", "sqrt", "legw"}));
  optimization(
      "--warmup", s.warmup,
      "Epochs of warm-up from 0; with rmsprop_warmup the epoch around which SGD takes over")
      ->check(non_negative);
  optimization(
      "--schedule", s.schedule,
      "constant, multistep (a tenth at 1/3, 2/3 and 8/9), exponential (to a hundredth at the end), "
      "polynomial (power 2), cosine, one_cycle, mlperf_poly2, or akiba_slow_start")
      ->check(IsMember({"constant", "multistep", "exponential", "polynomial", "cosine", "one_cycle",
                        "mlperf_poly2", "akiba_slow_start"}));
  optimization("--momentum", s.momentum, "Of adam, adamw, lamb and lambc it is beta1")
      ->check(CLI::Range(0.0, 1.0));
  optimization("--beta2", s.beta2, "Of adam, adamw, lamb and lambc")->check(CLI::Range(0.0, 1.0));
  app.add_flag("--nesterov", s.nesterov, "Nesterov momentum, of sgd, lars, larc and decentlam")
      ->group("Optimization");
  optimization("--weight-decay", s.weight_decay, "")->check(non_negative);
  optimization("--clip-norm", s.clip_norm, "Largest norm of the gradient; 0: any")
      ->check(non_negative);
  optimization("--trust-coefficient", s.trust_coefficient, "Of lars and larc")->check(positive);
  optimization("--seed", s.seed, "Of weights, order and augmentation");

  const auto ranks = [&](auto name, auto& x, auto help) {
    return app.add_option(name, x, help)->group("Ranks");
  };
  ranks("--ranks", s.ranks, "Ranks, with --transport threads")->check(positive);
  ranks("--transport", s.transport, "threads of this process, or mpi: processes that mpirun starts")
      ->check(IsMember({"threads", "mpi"}));
  ranks("--reducer", s.reducer,
        "ring, tree, double_tree, butterfly, halving_doubling, or gossip on a ring")
      ->check(IsMember({"ring", "tree", "double_tree", "butterfly", "halving_doubling", "gossip"}));
  ranks("--deadline", s.deadline, "Seconds that a rank waits for another")->check(positive);
  ranks("--batch-norm-over", s.batch_norm_over,
        "Consecutive ranks that share batch norm's statistics; 0: all of them")
      ->check(non_negative);

  const auto output = [&](auto name, auto& x, auto help) {
    return app.add_option(name, x, help)->group("Output");
  };
  output("--output", s.output,
         "The run's folder: checkpoints, weights (best, final), logs and settings.ini");
  output("--log", s.logs,
         "Logs to write there: csv, jsonl (JSON lines), tensorboard, mllog (MLPerf's), trace (a "
         "timeline of 100 updates for ui.perfetto.dev)")
      ->delimiter(',')
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(IsMember({"csv", "jsonl", "tensorboard", "mllog", "trace"}));
  output("--checkpoint-epochs", s.checkpoint_epochs, "Epochs between checkpoints")
      ->check(non_negative);
  output("--checkpoint-minutes", s.checkpoint_minutes, "Minutes between checkpoints; 0: by epochs")
      ->check(non_negative);
  output("--patience", s.patience, "End after so many epochs without a better validation; 0: never")
      ->check(non_negative);
  output("--target-accuracy", s.target_accuracy,
         "End where the validation reaches it, and print the time that it took; 0: none")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--resume", s.resume, "Go on from --output's newest checkpoint, if it has one")
      ->group("Output")
      ->configurable(false);

  output("--validation-batch", s.validation_batch, "Samples of a rank's batch in evaluation")
      ->check(positive);
  const auto instead = [&](auto name, auto& x, auto help) {
    app.add_flag(name, x, help)->group("Instead of training")->configurable(false);
  };
  instead("--dry-run", s.dry_run, "Print what would be done, and the time and memory it takes");
  instead("--evaluate", s.evaluate, "Evaluate the weights of --load");
  app.add_option("--predict", s.predict,
                 "Print the classes of these image files and folders of images, by --load; with "
                 "weights of this program without --data")
      ->group("Instead of training")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->configurable(false);
}

network_entry find_network(const settings& s) {
  const int classes = count_classes(s);
  for (network_entry& n : all_networks())
    if (n.name == s.network && n.precision == s.precision && n.classes == classes) return n;
  throw wrong_option(concat("--network ", s.network, " --precision ", s.precision, " for ", classes,
                            " classes is not compiled in. There are\n", describe_networks(),
                            "Another one is a line of examples/train/networks.hpp."));
}

int run(int argc, char** argv) {
  CLI::App app("Trains, evaluates and applies residual networks.", "train");
  settings s;
  add_options(app, s);
  app.footer(
      "Networks that are compiled in (examples/train/networks.hpp):\n" + describe_networks() +
      "Exit status: 0 done; 1 the run failed; 2 wrong options; 3 stopped by a signal "
      "(Ctrl-C, SIGTERM, SIGUSR1), with a checkpoint, from which --resume goes on; a second signal "
      "ends it at once");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return report(app, e) == 0 ? done : wrong_options;
  }
  choose_learning_rate(app, s);
  check_together(s);
  const network_entry network = find_network(s);
  s.text = settings_of(app);
  if (!s.output.empty() && !s.dry_run && !s.evaluate && s.predict.empty()) make_output_folder(s);
  return network.run(s);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const wrong_option& e) {
    std::fprintf(stderr, "train: %s\n", e.what());
    return train::wrong_options;
  } catch (const cordee::aborted&) {  // another process prints the cause
    return train::failed;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "train: %s\n", e.what());
    return train::failed;
  }
}
