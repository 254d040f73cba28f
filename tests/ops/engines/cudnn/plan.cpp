// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Plans for an H200 that is described to cuDNN: nothing in this file needs a GPU.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/engines/cudnn/plan.hpp>

#include "tests/support/described_gpus.hpp"

using namespace cordee;
using detail::ops::convolution_pass;
using detail::ops::cudnn_plan_key;

namespace {

constexpr convolution_pass passes[] = {convolution_pass::fprop, convolution_pass::dgrad,
                                       convolution_pass::wgrad};

/// The convolutions of a stage of basic blocks (ResNet-18, -20, -34): the first block's, its
/// projection's, the others'.
void add_plain_stage(std::vector<convolution_problem>& to, int channels, int side) {
  to.push_back({{channels / 2, 2 * side, 2 * side}, channels, 3, 2, 1});
  to.push_back({{channels / 2, 2 * side, 2 * side}, channels, 1, 2, 0});
  to.push_back({{channels, side, side}, channels, 3, 1, 1});
}
/// Those of a stage of bottleneck blocks (ResNet-50), whose first has `in` channels and `stride`.
void add_imagenet_stage(std::vector<convolution_problem>& to, int width, int in, int side,
                        int stride) {
  const int before = side * stride;
  to.push_back({{in, before, before}, width, 1, 1, 0});
  to.push_back({{width, before, before}, width, 3, stride, 1});
  to.push_back({{in, before, before}, 4 * width, 1, stride, 0});
  to.push_back({{width, side, side}, 4 * width, 1, 1, 0});
  to.push_back({{4 * width, side, side}, width, 1, 1, 0});
  to.push_back({{width, side, side}, width, 3, 1, 1});
}
/// The fully connected layers.
std::vector<convolution_problem> classifiers() {
  std::vector<convolution_problem> all;
  for (const int classes : {10, 100, 1000})
    for (const int features : {64, 512, 2048}) all.push_back({{features, 1, 1}, classes, 1, 1, 0});
  return all;
}
std::vector<convolution_problem> layers() {
  std::vector<convolution_problem> all{
      {{3, 32, 32}, 16, 3, 1, 1}, {{16, 32, 32}, 16, 3, 1, 1}, {{3, 224, 224}, 64, 7, 2, 3}};
  add_plain_stage(all, 32, 16);
  add_plain_stage(all, 64, 8);
  add_imagenet_stage(all, 64, 64, 56, 1);
  add_imagenet_stage(all, 128, 256, 28, 2);
  add_imagenet_stage(all, 256, 512, 14, 2);
  add_imagenet_stage(all, 512, 1024, 7, 2);
  for (const int n : {1, 2, 4}) add_plain_stage(all, 128 * n, 28 / n);
  const auto linear = classifiers();
  all.insert(all.end(), linear.begin(), linear.end());
  return all;
}

/// The keys that an engine of these settings uses for a layer.
template <class N>
std::vector<cudnn_plan_key> keys_of(const convolution_problem& p, cudnn_settings settings,
                                    int samples = 32) {
  std::vector<cudnn_plan_key> keys;
  for (const convolution_pass pass : passes)
    keys.push_back({detail::ops::padded_problem<N>(p), samples, pass,
                    detail::ops::cudnn_data_type<N>, false, settings});
  keys.push_back({detail::ops::padded_problem<N>(p), samples, convolution_pass::dgrad,
                  detail::ops::cudnn_data_type<N>, true, settings});
  return keys;
}

}  // namespace

TEST_CASE_TEMPLATE(
    "plan: an H200 supports every pass of every layer of ResNet-18, -20, -34 and -50", N, float,
    half, bfloat) {
  const auto device = support::h200();
  for (const bool deterministic : {false, true})
    for (const convolution_problem& p : layers())
      for (const cudnn_plan_key& key : keys_of<N>(p, {deterministic, false})) {
        CAPTURE(describe(key));
        CHECK(detail::ops::cudnn_plans(key, device, 1).size() == 1);
      }
}

TEST_CASE("plan: an H100 and a B200 support every pass of those layers in fp16") {
  for (const auto& device : {support::h100(), support::b200()})
    for (const convolution_problem& p : layers())
      for (const cudnn_plan_key& key : keys_of<half>(p, {false, false})) {
        CAPTURE(describe(key));
        CHECK(detail::ops::cudnn_plans(key, device, 1).size() == 1);
      }
}

TEST_CASE_TEMPLATE("plan: images and filters of four channels, where batch norms are fused", N,
                   half, bfloat) {
  for (const auto& device : {support::h200(), support::h100(), support::b200()})
    for (const convolution_problem& p : {convolution_problem{{4, 224, 224}, 64, 7, 2, 3},
                                         convolution_problem{{4, 32, 32}, 16, 3, 1, 1},
                                         convolution_problem{{16, 32, 32}, 4, 3, 1, 1},
                                         convolution_problem{{64, 1, 1}, 4, 1, 1, 0}})
      for (const auto pass :
           {convolution_pass::fprop, convolution_pass::dgrad, convolution_pass::wgrad}) {
        const cudnn_plan_key key{p, 256, pass, detail::ops::cudnn_data_type<N>, false, {}};
        CAPTURE(describe(key));
        CHECK(detail::ops::cudnn_plans(key, device, 1).size() == 1);
      }
}

TEST_CASE_TEMPLATE("plan: an H200 supports the classifier of one image, and of an odd batch", N,
                   half, bfloat) {
  const auto device = support::h200();
  for (const int samples : {1, 251})
    for (const convolution_problem& p : classifiers())
      for (const cudnn_plan_key& key : keys_of<N>(p, {false, false}, samples)) {
        CAPTURE(describe(key));
        CHECK(detail::ops::cudnn_plans(key, device, 1).size() == 1);
      }
}

namespace {

/// Of the heuristics' engine configurations for a key, those with a note, and the admissible of
/// these.
struct note_counts {
  int present = 0, admissible = 0;
};
note_counts with_note(cudnnBackendNumericalNote_t note, const cudnn_plan_key& key) {
  const auto device = support::h200();
  const detail::ops::cudnn_graph graph(key, device);
  note_counts counts;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const detail::ops::cudnn_descriptor& config :
         detail::ops::cudnn_engine_configs(graph, device, mode)) {
      const auto engine =
          config.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      const auto notes =
          engine.front().values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
      if (std::ranges::count(notes, note) == 0) continue;
      ++counts.present;
      if (detail::ops::is_admissible(config, key)) ++counts.admissible;
    }
  return counts;
}

}  // namespace

TEST_CASE(
    "plan: tensor cores compute fp32 only if the settings allow TF32, and 16-bit numbers always") {
  const convolution_problem p{{64, 28, 28}, 64, 3, 1, 1};
  cudnn_plan_key key{p, 32, convolution_pass::fprop, CUDNN_DATA_FLOAT};
  const note_counts plain = with_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, key);
  CHECK(plain.present > 0);
  CHECK(plain.admissible == 0);
  key.settings.tf32 = true;
  const note_counts tf32 = with_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, key);
  CHECK(tf32.admissible == tf32.present);
  key = {p, 32, convolution_pass::fprop, CUDNN_DATA_HALF};
  const note_counts fp16 = with_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, key);
  CHECK(fp16.present > 0);
  CHECK(fp16.admissible == fp16.present);
}

TEST_CASE("plan: nondeterministic engines are excluded if the settings say deterministic") {
  cudnn_plan_key key{{{64, 28, 28}, 64, 3, 1, 1}, 32, convolution_pass::wgrad, CUDNN_DATA_FLOAT};
  const note_counts free = with_note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, key);
  CHECK(free.present > 0);
  CHECK(free.admissible > 0);
  key.settings.deterministic = true;
  CHECK(with_note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, key).admissible == 0);
}

TEST_CASE("plan: 16-bit numbers are accumulated in float") {
  const cudnn_plan_key key{
      {{64, 28, 28}, 64, 3, 1, 1}, 32, convolution_pass::wgrad, CUDNN_DATA_HALF};
  const note_counts fp16 = with_note(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, key);
  CHECK(fp16.present > 0);
  CHECK(fp16.admissible == 0);
}

TEST_CASE(
    "plan: no engine that converts its inputs or uses FFT or large Winograd tiles is admissible") {
  for (const auto type : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16})
    for (const auto note :
         {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_FFT,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}) {
      const cudnn_plan_key key{{}, 1, convolution_pass::fprop, type, false, {false, true}};
      CHECK_FALSE(detail::ops::is_admissible(note, key));
    }
}

TEST_CASE("plan: at most max_plans plans, each with the size of its workspace") {
  const auto device = support::h200();
  const cudnn_plan_key key{
      {{64, 28, 28}, 64, 3, 1, 1}, 32, convolution_pass::wgrad, CUDNN_DATA_HALF};
  std::set<std::size_t> workspaces;
  const auto plans = detail::ops::cudnn_plans(key, device, 5);
  CHECK(plans.size() == 5);
  for (const detail::ops::cudnn_plan& plan : plans) workspaces.insert(plan.workspace_bytes());
  CHECK(workspaces.size() > 1);
}
