// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// cordee-plan: what a training run will take on a machine that is not there. The reducers that
// train are simulated on it, beside layers' times that are modelled from operations and bytes.
//
//   cordee-plan --network resnet50 --processor v100 --batch 8192 --precision fp16 --ranks 256
//   cordee-plan ... --machine cluster.txt --to 4096 --csv scaling.csv --svg scaling.svg
//   cordee-plan ... --noise-scale 20000       which batch is worth its cost
//   cordee-plan --parameters net.safetensors --images-per-second 300 --images 1000000 ...
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <span>
#include <sstream>
#include <string>

#include <CLI/CLI.hpp>

#include <cordee/comm/simulated/failures.hpp>
#include <cordee/comm/simulated/step_times.hpp>
#include <cordee/core/decimal.hpp>
#include <cordee/io/file.hpp>

#include "networks.hpp"
#include "parameter_file.hpp"
#include "prediction.hpp"
#include "processors.hpp"
#include "report.hpp"

using namespace plan;

namespace {

struct options {
  std::string network = "resnet50", processor = "v100", precision = "fp16", wire = "fp32", machine,
              layers, csv, svg, parameters;
  int ranks = 8, batch = 256, to = 0, local_steps = 1;
  double epochs = 90, images = 0, images_per_second = 0, loader = 0, watts = -1, noise = 0,
         least_steps = 0, least_images = 0, mtbf = 0, checkpoint_seconds = 30,
         restart_seconds = 300, memory_gb = 0;
  plan::efficiency efficiency;
};

/// What is not known of the CPU on which --layers was measured does not limit a plan.
constexpr double unlimited = std::numeric_limits<double>::infinity();
constexpr processor measured_cpu{"cpu", unlimited, unlimited, unlimited, unlimited, 0};

/// InfiniBand of 100 Gbit/s for each of 8 GPUs a node with NVLink.
constexpr fat_tree default_machine{.gpu = {1e-6, 120e9},
                                   .node = {1.5e-6, 100e9},
                                   .rack = {0.5e-6, 1'600e9},
                                   .gpus_per_node = 8,
                                   .nodes_per_rack = 16};

template <class All>
const auto& find_by_name(const char* option, const All& all, const std::string& name) {
  std::string names;
  for (const auto& x : all) {
    if (x.name == name) return x;
    names += concat(names.empty() ? "" : ", ", x.name);
  }
  throw error(concat(option, ": \"", name, "\" is none of ", names));
}
machine machine_of(const options& o) {
  if (o.machine.empty()) return default_machine;
  try {
    std::istringstream in(cordee::detail::io::read_text(o.machine));
    return read_machine(in);
  } catch (const error& e) {
    throw error(concat("--machine: ", o.machine, ": ", e.what()));
  }
}

parameter_list parameters_of(const options& o) {
  if (o.images_per_second <= 0 && o.layers.empty())
    throw error(
        "--parameters: how long layers take does not follow from their tensors: give "
        "--images-per-second, measured on one processor, or --layers");
  if (o.images <= 0) throw error("--parameters: give --images, the samples of an epoch");
  try {
    return parameter_file::read(o.parameters);
  } catch (const std::exception& e) {
    throw error(concat("--parameters: ", o.parameters, ": ", e.what()));
  }
}
/// A multiply-add for each weight, by which the measured time is divided among tensors.
std::vector<layer> layers_of(const parameter_list& list) {
  std::vector<layer> all;
  for (const segment& s : list.segments()) {
    if (s.kind == kind::statistic) break;
    all.push_back({s, s.kind == kind::weight ? static_cast<double>(s.size) : 0, 0});
  }
  return all;
}

double numbers_of(std::span<const layer> layers) {
  double numbers = 0;
  for (const layer& l : layers) numbers += static_cast<double>(l.tensor.size);
  return numbers;
}

/// Modelled, or from the file of --layers.
step_profile step_of(const options& o, const processor& p, std::span<const layer> layers,
                     int images, int bytes_a_number) {
  step_profile modelled = estimate_step(p, o.efficiency, layers, images, bytes_a_number);
  if (o.layers.empty()) return modelled;
  try {
    std::istringstream in(cordee::detail::io::read_text(o.layers));
    return read_step_times(in, modelled.table, images);
  } catch (const error& e) {
    throw error(concat("--layers: ", o.layers, ": ", e.what()));
  }
}

std::string time_of(double seconds) {
  const auto in = [&](double unit, const char* name) {
    return concat(decimal::fixed(seconds / unit, 1), name);
  };
  return seconds < 120 ? in(1, " s") : seconds < 7'200 ? in(60, " min") : in(3'600, " h");
}

/// Where a doubling of the ranks brings less than half of what it should, and what would help more:
/// links without latency, or links ten times as wide.
void print_end(const curve& c, const step_profile& step, const machine& m,
               const wire_format& wire) {
  for (std::size_t k = 1; k < c.points.size(); ++k) {
    const prediction &p = c.points[k], &before = c.points[k - 1];
    if (c.rate(p) / c.rate(before) >= 1.5) continue;
    const double no_latency =
                     best_prediction(p.ranks, step, changed(m, 1e-6, 1), wire).step.seconds,
                 wide = best_prediction(p.ranks, step, changed(m, 1, 10), wire).step.seconds;
    std::printf(
        "scaling ends         at %d ranks: twice the ranks of %d give %s times the images; %s "
        "(step %s s; without latencies %s s, with ten times the bandwidth %s s)\n",
        p.ranks, before.ranks, decimal::fixed(c.rate(p) / c.rate(before), 2).c_str(),
        no_latency < wide ? "messages are many: latency" : "messages are long: bandwidth",
        decimal::fixed(p.step.seconds, 4).c_str(), decimal::fixed(no_latency, 4).c_str(),
        decimal::fixed(wide, 4).c_str());
    return;
  }
  std::printf(
      "scaling ends         beyond %d ranks: the last doubling gives %s times the images\n",
      c.points.back().ranks,
      decimal::fixed(
          c.points.size() < 2 ? 1.0 : c.rate(c.points.back()) / c.rate(c.points.rbegin()[1]), 2)
          .c_str());
}

/// Steps S = S_min (1 + B_crit / B) and images E = E_min (1 + B / B_crit), as McCandlish et al.
void print_batches(const curve& c, const options& o, double watts) {
  const double critical = o.noise > 0 ? o.noise : o.least_images / o.least_steps;
  const double least_steps = o.least_steps > 0 ? o.least_steps : 1;
  const auto seconds = [&](const prediction& p) {
    return least_steps * (1 + critical / (p.ranks * c.images)) * p.step.seconds;
  };
  double cheapest = std::numeric_limits<double>::infinity();
  for (const prediction& p : c.points) cheapest = std::min(cheapest, p.ranks * seconds(p));
  const prediction* worth = nullptr;
  std::printf("\nbatches of %d images a rank, critical batch %s%s\n%8s %8s %12s %10s %6s\n",
              c.images, decimal::fixed(critical, 0).c_str(),
              o.least_steps > 0 ? "" : " (times in units of S_min steps)", "batch", "ranks",
              "steps", "time", "cost");
  for (const prediction& p : c.points) {
    const double cost = p.ranks * seconds(p) / cheapest;
    if (cost <= 2) worth = &p;
    std::printf("%8d %8d %12s %10s %6s", p.ranks * c.images, p.ranks,
                decimal::fixed(least_steps * (1 + critical / (p.ranks * c.images)), 1).c_str(),
                time_of(seconds(p)).c_str(), decimal::fixed(cost, 2).c_str());
    if (watts > 0 && o.least_steps > 0)
      std::printf("  %s kWh", decimal::fixed(p.ranks * seconds(p) * watts / 3.6e6, 1).c_str());
    std::printf("\n");
  }
  std::printf(
      "worth its cost       a batch of %d on %d ranks: the largest whose processor time is "
      "at most twice the least\n",
      worth->ranks * c.images, worth->ranks);
}

/// What failures of processors add to a run, and how often to write a checkpoint.
void print_failures(const options& o, double steps, double step_seconds) {
  const double mtbf = 3'600 * o.mtbf, total = steps * step_seconds;
  const auto count = static_cast<std::int64_t>(steps);
  const std::int64_t young = young_interval(step_seconds, o.checkpoint_seconds, mtbf, o.ranks);
  const checkpointing c{o.checkpoint_seconds, o.restart_seconds, std::min(count, young)};
  const double expected = expected_seconds(count, step_seconds, c, mtbf, o.ranks);
  double least = std::numeric_limits<double>::infinity(), most = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const double seconds =
        simulate_failures(count, step_seconds, c, exponential_failures{mtbf, o.ranks, seed})
            .seconds;
    least = std::min(least, seconds);
    most = std::max(most, seconds);
  }
  std::printf(
      "failures             one in %s; a checkpoint of %s every %lld steps (Young's interval is "
      "%s): %s expected, %s %%; 20 simulated runs take %s to %s\n",
      time_of(mtbf / o.ranks).c_str(), time_of(c.checkpoint_seconds).c_str(),
      static_cast<long long>(c.interval),
      time_of(static_cast<double>(young) * step_seconds).c_str(), time_of(expected).c_str(),
      decimal::with_sign(decimal::fixed(100 * (expected / total - 1), 1)).c_str(),
      time_of(least).c_str(), time_of(most).c_str());
}

void make_plan(const options& o) {
  const bool listed = !o.parameters.empty();
  const parameter_list own = listed ? parameters_of(o) : parameter_list{};
  const std::string name = listed ? o.parameters : o.network;
  const bool measured = !o.layers.empty();
  if (measured && o.images_per_second > 0)
    throw error("--layers: has the times that --images-per-second would scale; give one of them");
  const auto& gpu = measured ? measured_cpu : find_by_name("--processor", processors, o.processor);
  if (o.precision != "fp32" && o.precision != "fp16" && o.precision != "bf16")
    throw error(concat("--precision: \"", o.precision, "\" is none of fp32, fp16, bf16"));
  if (o.batch % o.ranks != 0)
    throw error(concat("--batch: ", o.batch, " images are not divided by --ranks ", o.ranks));
  if (o.noise > 0 && o.least_steps > 0)
    throw error("--noise-scale: give this or --least-steps and --least-images, not both");
  if ((o.least_steps > 0) != (o.least_images > 0))
    throw error("--least-steps: goes with --least-images");
  const machine m = machine_of(o);
  const wire_format wire = wire_of(o.wire, o.local_steps);
  const int width = o.precision == "fp32" ? 4 : 2, images = o.batch / o.ranks;
  const plan::network* const net =
      listed ? nullptr : &find_by_name("--network", networks(), o.network);
  const std::vector<layer> layers = listed ? layers_of(own) : net->table();
  const double memory = o.memory_gb > 0 ? 1e9 * o.memory_gb : gpu.memory_bytes;
  const auto memory_of_rank = [&](bool prints) {
    if (listed)
      print_planes(numbers_of(layers), width, images, slots_of(wire), memory, gpu.name, prints);
    else
      print_memory(*net, width, images, o.ranks, slots_of(wire), memory, gpu.name, prints);
  };
  memory_of_rank(false);  // or an error
  step_profile step = step_of(o, gpu, layers, images, width);
  if (o.images_per_second > 0) {  // measured: the model gives the layers' shares of it
    // If layers' times are not listed, the optimizer's part is still known from its bytes.
    const double seconds = images / o.images_per_second,
                 known = listed && step.optimizer < seconds ? step.optimizer : 0,
                 factor = (seconds - known) / (step.total() - known);
    step.forward *= factor;
    if (known == 0) step.optimizer *= factor;
    for (double& seconds : step.backward) seconds *= factor;
  }
  if (o.loader > 0) step.loader = images / o.loader;

  const prediction at = best_prediction(o.ranks, step, m, wire);
  const double one_rank = std::max(step.total(), step.loader);
  const double epoch = o.images > 0 ? o.images : net->images;
  const double steps = std::ceil(o.epochs * epoch / o.batch), total = steps * at.step.seconds;
  const double watts = o.watts >= 0 ? o.watts : gpu.watts;
  std::printf("%s, batch %d on %d x %s, %s, gradients in %s%s, times %s\n\n", name.c_str(), o.batch,
              o.ranks, std::string(gpu.name).c_str(), o.precision.c_str(), o.wire.c_str(),
              o.local_steps > 1 ? concat(", every ", o.local_steps, " steps").c_str() : "",
              measured                  ? "of layers measured on a CPU"
              : o.images_per_second > 0 ? "measured on one processor"
                                        : "modelled from operations and bytes");
  std::printf("step                 %s s, of which %s s are computation\n",
              decimal::fixed(at.step.seconds, 4).c_str(), decimal::fixed(step.total(), 4).c_str());
  std::printf("images a second      %s; linear scaling (K x one rank's) %s: efficiency %s %%\n",
              decimal::fixed(o.batch / at.step.seconds, 0).c_str(),
              decimal::fixed(o.batch / one_rank, 0).c_str(),
              decimal::fixed(100 * one_rank / at.step.seconds, 1).c_str());
  std::printf("exposed exchange     %s s, %s %% of a step\n",
              decimal::fixed(at.step.exposed, 4).c_str(),
              decimal::fixed(100 * at.step.exposed_share(), 1).c_str());
  std::printf("reducer              %s, buckets of %s MiB\n", at.reducer.c_str(),
              decimal::fixed(static_cast<double>(at.bucket_bytes) / (1 << 20), 1).c_str());
  if (o.ranks > 1)
    std::printf(
        "exchange             %s MB sent by a rank and step, %s rounds\n",
        decimal::fixed(
            1e-6 * static_cast<double>(at.step.totals.bytes) / (1.0 * o.ranks * wire.period), 3)
            .c_str(),
        decimal::fixed(static_cast<double>(at.step.totals.rounds) / wire.period, 2).c_str());
  memory_of_rank(true);
  std::printf("%-20s %s steps, %s\n", concat(o.epochs, " epochs").c_str(),
              decimal::fixed(steps, 0).c_str(), time_of(total).c_str());
  if (watts > 0)
    std::printf("energy               %s kWh at %s W a processor\n",
                decimal::fixed(total * watts * o.ranks / 3.6e6, 1).c_str(),
                decimal::fixed(watts, 0).c_str());
  if (o.mtbf > 0) print_failures(o, steps, at.step.seconds);
  std::fflush(stdout);

  curve c{images, {}};
  for (int ranks = 1; ranks <= std::max(o.to, o.ranks); ranks *= 2)
    c.points.push_back(ranks == o.ranks ? at : best_prediction(ranks, step, m, wire));
  print_end(c, step, m, wire);
  if (o.noise > 0 || o.least_steps > 0) print_batches(c, o, watts);
  if (!o.csv.empty()) write_csv(c, o.csv);
  if (!o.svg.empty()) write_svg(c, concat(name, ", ", images, " images a rank, ", gpu.name), o.svg);
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  CLI::App app("What a training run takes on a machine, by simulation of its messages.",
               "cordee-plan");
  app.option_defaults()->always_capture_default();
  app.add_option("--network", o.network, "resnet20, 56 (CIFAR), 18, 34, 50, 101, 152 (ImageNet)");
  app.add_option("--parameters", o.parameters,
                 "file of a model's tensors in place of --network: .safetensors, or a text");
  app.add_option("--processor", o.processor, "k20, knl, p40, p100, v100, tpu_v3, a100, h100, h200");
  app.add_option("--memory-gb", o.memory_gb, "of a processor, in 1e9 bytes; 0: as its maker prints")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--precision", o.precision, "of layers: fp32, fp16, bf16");
  app.add_option("--wire", o.wire,
                 "of messages: fp32; with error feedback fp16, int8, sign, or rank4, for example, "
                 "by power_sgd; vote, by majority_vote: without the time that these compute");
  app.add_option("--local-steps", o.local_steps,
                 "steps between exchanges, of weights or, compressed, by outer_momentum")
      ->check(CLI::Range(1, 100'000));
  app.add_option("--batch", o.batch, "images of an update, over all ranks")
      ->check(CLI::Range(1, 1 << 24));
  app.add_option("--ranks", o.ranks, "processors")->check(CLI::Range(1, 16'384));
  app.add_option("--machine", o.machine, "file of links (docs/scale.md); else 8 GPUs a node");
  app.add_option("--epochs", o.epochs, "passes over the data")->check(CLI::PositiveNumber);
  app.add_option("--images", o.images, "images of an epoch; 0: of the network's data set");
  app.add_option("--images-per-second", o.images_per_second,
                 "of one processor, measured; 0: modelled");
  app.add_option("--layers", o.layers, "file of layers' times that plan_measure wrote on a CPU");
  app.add_option("--loader", o.loader, "images a second that a rank's loader gives; 0: enough");
  app.add_option("--flops-efficiency", o.efficiency.flops, "of the peak")
      ->check(CLI::Range(0.01, 1.0));
  app.add_option("--bandwidth-efficiency", o.efficiency.bandwidth, "of the memory's")
      ->check(CLI::Range(0.01, 1.0));
  app.add_option("--overhead", o.efficiency.overhead, "seconds of a pass over a layer beside those")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--watts", o.watts, "of a processor; -1: as its maker prints");
  app.add_option("--mtbf", o.mtbf, "hours between failures of one processor; 0: none fails");
  app.add_option("--checkpoint-seconds", o.checkpoint_seconds, "for which a checkpoint stops all")
      ->check(CLI::PositiveNumber);
  app.add_option("--restart-seconds", o.restart_seconds, "from a failure to the next step")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--to", o.to, "scaling is followed to so many ranks")
      ->check(CLI::Range(0, 16'384));
  app.add_option("--csv", o.csv, "file for the scaling table");
  app.add_option("--svg", o.svg, "file for its plot");
  app.add_option("--noise-scale", o.noise, "critical batch: which batch is worth its cost");
  app.add_option("--least-steps", o.least_steps, "S_min, steps with a batch without end");
  app.add_option("--least-images", o.least_images, "E_min, images with a batch of few");
  CLI11_PARSE(app, argc, argv);
  try {
    make_plan(o);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
