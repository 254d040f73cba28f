// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Of a GPU that is not here cuDNN says what it could compute there: nothing in this file needs one.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/ops/grid/cudnn/plan.hpp>

#include "tests/support/described.hpp"

using namespace cordee;
using detail::convolution_pass;
using detail::cudnn_question;

namespace {

constexpr convolution_pass passes[] = {convolution_pass::fprop, convolution_pass::dgrad,
                                       convolution_pass::wgrad};

/// The convolutions of a stage of plain blocks, as ResNet-18's, -20's and -34's: the first block's,
/// its projection's, the others'.
void add_plain_stage(std::vector<convolution_problem>& to, int channels, int side) {
  to.push_back({{channels / 2, 2 * side, 2 * side}, channels, 3, 2, 1});
  to.push_back({{channels / 2, 2 * side, 2 * side}, channels, 1, 2, 0});
  to.push_back({{channels, side, side}, channels, 3, 1, 1});
}
/// Of a stage of ResNet-50, whose first block takes `in` channels by steps of `stride`.
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
  return all;
}

/// Every question that an engine of these settings asks of a layer.
template <class N>
std::vector<cudnn_question> questions(const convolution_problem& p, cudnn_settings how) {
  std::vector<cudnn_question> all;
  for (const convolution_pass pass : passes)
    all.push_back({detail::in_memory<N>(p), 32, pass, detail::cudnn_number<N>, false, how});
  all.push_back(
      {detail::in_memory<N>(p), 32, convolution_pass::dgrad, detail::cudnn_number<N>, true, how});
  return all;
}

}  // namespace

TEST_CASE_TEMPLATE("plan: an H200 bears every pass of every layer of ResNet-18, -20, -34 and -50",
                   N, float, half, bfloat) {
  const auto device = support::h200();
  for (const bool deterministic : {false, true})
    for (const convolution_problem& p : layers())
      for (const cudnn_question& q : questions<N>(p, {deterministic, false})) {
        CAPTURE(to_text(q));
        CHECK(detail::cudnn_plans(q, device, 1).size() == 1);
      }
}

namespace {

/// Of what the heuristics propose for a question, how many carry a note; how many of these may
/// answer.
struct noted {
  int there = 0, admitted = 0;
};
noted with_note(cudnnBackendNumericalNote_t note, const cudnn_question& q) {
  const auto device = support::h200();
  const detail::cudnn_graph graph(q, device);
  noted found;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK})
    for (const detail::cudnn_descriptor& config : detail::cudnn_configs(graph, device, mode)) {
      const auto engine =
          config.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      const auto notes =
          engine.front().values<cudnnBackendNumericalNote_t>(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE);
      if (std::ranges::count(notes, note) == 0) continue;
      ++found.there;
      if (detail::admitted(config, q)) ++found.admitted;
    }
  return found;
}

}  // namespace

TEST_CASE(
    "plan: tensor cores compute fp32 only where TF32 is asked for, and narrow numbers always") {
  const convolution_problem p{{64, 28, 28}, 64, 3, 1, 1};
  cudnn_question q{p, 32, convolution_pass::fprop, CUDNN_DATA_FLOAT};
  const noted plain = with_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, q);
  CHECK(plain.there > 0);
  CHECK(plain.admitted == 0);
  q.how.tf32 = true;
  const noted tf32 = with_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, q);
  CHECK(tf32.admitted == tf32.there);
  q = {p, 32, convolution_pass::fprop, CUDNN_DATA_HALF};
  const noted narrow = with_note(CUDNN_NUMERICAL_NOTE_TENSOR_CORE, q);
  CHECK(narrow.there > 0);
  CHECK(narrow.admitted == narrow.there);
}

TEST_CASE("plan: asked to be deterministic it leaves out what is not") {
  cudnn_question q{{{64, 28, 28}, 64, 3, 1, 1}, 32, convolution_pass::wgrad, CUDNN_DATA_FLOAT};
  const noted free = with_note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, q);
  CHECK(free.there > 0);
  CHECK(free.admitted > 0);
  q.how.deterministic = true;
  CHECK(with_note(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, q).admitted == 0);
}

TEST_CASE("plan: narrow numbers are summed in float") {
  const cudnn_question q{{{64, 28, 28}, 64, 3, 1, 1}, 32, convolution_pass::wgrad, CUDNN_DATA_HALF};
  const noted narrow = with_note(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, q);
  CHECK(narrow.there > 0);
  CHECK(narrow.admitted == 0);
}

TEST_CASE("plan: whatever is asked, no engine converts its input or transforms it at a loss") {
  for (const auto number : {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16})
    for (const auto note :
         {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_FFT,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6,
          CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13}) {
      const cudnn_question q{{}, 1, convolution_pass::fprop, number, false, {false, true}};
      CHECK_FALSE(detail::admitted(note, q));
    }
}

TEST_CASE("plan: no more than were asked for, and each knows its workspace") {
  const auto device = support::h200();
  const cudnn_question q{{{64, 28, 28}, 64, 3, 1, 1}, 32, convolution_pass::wgrad, CUDNN_DATA_HALF};
  std::set<std::size_t> workspaces;
  const auto plans = detail::cudnn_plans(q, device, 5);
  CHECK(plans.size() == 5);
  for (const detail::cudnn_plan& plan : plans) workspaces.insert(plan.workspace());
  CHECK(workspaces.size() > 1);
}
