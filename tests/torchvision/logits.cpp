// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Logits of a ResNet for logits.py, which compares them with torchvision's.
//
//   torchvision_logits DEPTH WEIGHTS IMAGES LOGITS [OTHER_WEIGHTS OTHER_LOGITS]
//
// Loads WEIGHTS and writes the logits of IMAGES, bytes of (samples, 3, 224, 224), to LOGITS, floats
// of (samples, 1000). Then changes every weight and statistic, saves them as OTHER_WEIGHTS and
// writes their logits to OTHER_LOGITS.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <cordee/comm/reducers/solo.hpp>
#include <cordee/core/random.hpp>
#include <cordee/data/normalize.hpp>
#include <cordee/nn/resnet.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/precision/fp32.hpp>
#include <cordee/train/trainer.hpp>
#include <cordee/train/weights.hpp>

using namespace cordee;

namespace {

std::vector<std::uint8_t> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

template <class Run>
void write_logits(Run& run, const std::vector<std::uint8_t>& pixels, const std::string& path) {
  constexpr normalize imagenet{.mean = {0.485, 0.456, 0.406}, .deviation = {0.229, 0.224, 0.225}};
  const std::size_t samples = pixels.size() / Run::model_type::input.size();
  const std::vector<std::int32_t> labels(samples);
  const batch<cpu> all{{pixels.data(), pixels.size()},
                       {labels.data(), samples},
                       static_cast<int>(samples),
                       static_cast<std::int64_t>(samples),
                       1,
                       imagenet};
  run.model().forward(run.packed_parameters(), run.weights(), all, phase::evaluate, run.compute());
  const auto logits = run.model().logits();
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data),
            static_cast<std::streamsize>(logits.size * sizeof(float)));
  if (!out) throw error("cannot write " + path);
}

template <int Depth>
int run_depth(const std::vector<std::string>& paths) {
  resnet<Depth, fp32, cpu> net;
  trainer run{net, sgd{}, [](double) { return 0.1; }, solo{}};
  const std::vector<std::uint8_t> pixels = read_bytes(paths[1]);
  for (const std::string& name : run.load(paths[0]))
    throw error("not in " + paths[0] + ": " + name);
  write_logits(run, pixels, paths[2]);
  if (paths.size() < 5) return 0;

  random_sequence random(1, purpose::test, 0, 0);
  for (const segment& s : run.segments())
    for (std::size_t i = 0; i < s.size; ++i)  // variances stay positive
      run.weights()[s.offset + i] *= static_cast<float>(1 + 0.2 * (random.uniform() - 0.5));
  run.adopt_weights();
  run.save(paths[3]);
  write_logits(run, pixels, paths[4]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 4 && arguments.size() != 6)
    throw usage_error("DEPTH WEIGHTS IMAGES LOGITS [OTHER_WEIGHTS OTHER_LOGITS]");
  const std::vector<std::string> paths(arguments.begin() + 1, arguments.end());
  return arguments[0] == "18" ? run_depth<18>(paths) : run_depth<50>(paths);
} catch (const std::exception& e) {
  std::fprintf(stderr, "torchvision_logits: %s\n", e.what());
  return 1;
}
