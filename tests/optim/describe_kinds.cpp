// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
//
// Ranks compare the descriptions of their optimizers, so every option must change one.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <cordee/optim/adamp.hpp>
#include <cordee/optim/adamw.hpp>
#include <cordee/optim/adan.hpp>
#include <cordee/optim/clip.hpp>
#include <cordee/optim/decentlam.hpp>
#include <cordee/optim/describe_kinds.hpp>
#include <cordee/optim/lamb.hpp>
#include <cordee/optim/lans.hpp>
#include <cordee/optim/lars.hpp>
#include <cordee/optim/lion.hpp>
#include <cordee/optim/local_steps.hpp>
#include <cordee/optim/one_bit_adam.hpp>
#include <cordee/optim/one_bit_lamb.hpp>
#include <cordee/optim/outer_momentum.hpp>
#include <cordee/optim/overlapped.hpp>
#include <cordee/optim/schedule_free.hpp>
#include <cordee/optim/sgd.hpp>
#include <cordee/optim/zero_one_adam.hpp>
#include <cordee/train/muon/muon.hpp>

using namespace cordee;

namespace {

template <class O>
void all_described(const O& usual, const std::vector<O>& others) {
  std::vector<std::string> texts{usual.describe()};
  for (const O& other : others) {
    const std::string text = other.describe();
    CAPTURE(text);
    for (const std::string& before : texts) CHECK(text != before);
    texts.push_back(text);
  }
}

constexpr kinds weight_and_bias = kind::weight | kind::bias;

}  // namespace

TEST_CASE("describe_kinds: nothing for weights alone, a list for other sets") {
  using detail::optim::describe_kinds;
  CHECK(describe_kinds("decays", kind::weight).empty());
  CHECK(describe_kinds("decays", {}) == "; decays nothing");
  CHECK(describe_kinds("adapts", weight_and_bias) == "; adapts weight, bias");
  CHECK(describe_kinds("decays", kind::scale | kind::shift) == "; decays scale, shift");
}

TEST_CASE("describe: every option of an optimizer changes its description") {
  all_described<sgd>({}, {{.momentum = 0.5},
                          {.weight_decay = 0.5},
                          {.dampening = 0.5},
                          {.nesterov = true},
                          {.decay_on = weight_and_bias}});
  all_described<velocity_sgd>({}, {{.momentum = 0.5},
                                   {.weight_decay = 0.5},
                                   {.nesterov = true},
                                   {.momentum_correction = false},
                                   {.decay_on = weight_and_bias}});
  all_described<lars>({}, {{.momentum = 0.5},
                           {.weight_decay = 0.5},
                           {.trust_coefficient = 0.5},
                           {.epsilon = 0.5},
                           {.nesterov = true},
                           {.decay_on = weight_and_bias},
                           {.adapt_on = weight_and_bias},
                           {.always_adapt = false}});
  all_described<lars_unscaled>({}, {{.limits = {.ratio = 3}}, {.limits = {.element = 3}}});
  all_described<lamb>({}, {{.beta1 = 0.5},
                           {.beta2 = 0.5},
                           {.epsilon = 0.5},
                           {.weight_decay = 0.5},
                           {.decay_on = weight_and_bias},
                           {.adapt_on = weight_and_bias},
                           {.always_adapt = false}});
  all_described<lambc>({}, {{.limits = {.least = 0.5}}, {.limits = {.most = 0.5}}});
  all_described<larc>({}, {{.limits = {.clip = false}}});
  CHECK(lars{}.describe() != lars_norm_of_sum{}.describe());
  CHECK(lamb{}.describe() != lambc{}.describe());
  CHECK(nvlamb{}.describe() != deepspeed_lamb{}.describe());
  all_described<nvlamb>({}, {{.beta1 = 0.5},
                             {.beta2 = 0.5},
                             {.epsilon = 0.5},
                             {.weight_decay = 0.5},
                             {.decay_on = weight_and_bias}});
  all_described<adamw>({}, {{.beta1 = 0.5},
                            {.beta2 = 0.5},
                            {.epsilon = 0.5},
                            {.weight_decay = 0.5},
                            {.decay_on = weight_and_bias}});
  all_described<adamp>({}, {{.beta1 = 0.5},
                            {.beta2 = 0.5},
                            {.epsilon = 0.5},
                            {.weight_decay = 0.5},
                            {.delta = 0.5},
                            {.decay_ratio = 0.5},
                            {.nesterov = true},
                            {.decay_on = weight_and_bias}});
  all_described<lion>(
      {}, {{.beta1 = 0.5}, {.beta2 = 0.5}, {.weight_decay = 0.5}, {.decay_on = weight_and_bias}});
  all_described<adan>({}, {{.beta1 = 0.5},
                           {.beta2 = 0.5},
                           {.beta3 = 0.5},
                           {.epsilon = 0.5},
                           {.weight_decay = 0.5},
                           {.decay_on = weight_and_bias}});
  all_described<lans>({}, {{.beta1 = 0.5},
                           {.beta2 = 0.5},
                           {.epsilon = 0.5},
                           {.weight_decay = 0.5},
                           {.decay_on = weight_and_bias},
                           {.adapt_on = weight_and_bias}});
  all_described<schedule_free_sgd>({}, {{.momentum = 0.5},
                                        {.weight_decay = 0.5},
                                        {.warmup_steps = 5},
                                        {.decay_on = weight_and_bias}});
  all_described<schedule_free_adamw>({}, {{.beta1 = 0.5},
                                          {.beta2 = 0.5},
                                          {.epsilon = 0.5},
                                          {.weight_decay = 0.5},
                                          {.warmup_steps = 5},
                                          {.decay_on = weight_and_bias}});
  all_described<muon<sgd>>({sgd{}}, {{sgd{.momentum = 0.5}},
                                     {sgd{}, {.momentum = 0.5}},
                                     {sgd{}, {.weight_decay = 0.5}},
                                     {sgd{}, {.nesterov = false}},
                                     {sgd{}, {.steps = 4}},
                                     {sgd{}, {.epsilon = 0.5}},
                                     {sgd{}, {.scale_by = muon_scale::match_rms_adamw}},
                                     {sgd{}, {.learning_rate_factor = 0.5}},
                                     {sgd{}, {.first_layer = "stem."}},
                                     {sgd{}, {.classifier = "head."}}});
  all_described<decentlam>({}, {{.momentum = 0.5},
                                {.weight_decay = 0.5},
                                {.nesterov = true},
                                {.momentum_correction = false},
                                {.decay_on = weight_and_bias}});
  all_described<decentlam_over<lars>>(
      {}, {{.optimizer = {.momentum = 0.5}}, {.momentum_correction = false}});
  all_described<clip<sgd>>({}, {{.optimizer = {.momentum = 0.5}}, {.max_norm = 3}, {.epsilon = 0}});
  all_described<one_bit_adam>({}, {{.beta1 = 0.5},
                                   {.beta2 = 0.5},
                                   {.epsilon = 1},
                                   {.weight_decay = 1},
                                   {.weight_decay = 0.5, .decay_on = kind::bias},
                                   {.start_epoch = 2}});
  all_described<one_bit_lamb>({}, {{.beta1 = 0.5},
                                   {.beta2 = 0.5},
                                   {.epsilon = 1},
                                   {.weight_decay = 1},
                                   {.weight_decay = 0.5, .decay_on = kind::bias},
                                   {.start_epoch = 2},
                                   {.max_coeff = 2},
                                   {.min_coeff = 0.5},
                                   {.coeff_beta = 0.5},
                                   {.factor_max = 2},
                                   {.factor_min = 0.25},
                                   {.factor_threshold = 0.5}});
  all_described<zero_one_adam>({}, {{.beta1 = 0.5},
                                    {.beta2 = 0.5},
                                    {.epsilon = 1},
                                    {.weight_decay = 1},
                                    {.weight_decay = 0.5, .decay_on = kind::bias},
                                    {.var_freeze_step = 2},
                                    {.var_update_scaler = 2},
                                    {.local_step_scaler = 2},
                                    {.local_step_clipper = 2}});
  all_described<outer_momentum<local_steps<sgd>>>(
      {}, {{.optimizer = {.period = 3}},
           {.outer = {.momentum = 0.5}},
           {.outer = {.learning_rate = 0.5}},
           {.outer = {.nesterov = false}},
           {.outer = {.per_learning_rate = true}},
           {.outer = {.fragments = 2}},
           {.outer = {.mixing = 0.5}},
           {.outer = {.fragments = 2, .fragment_numbers = 7}}});
  all_described<overlapped<outer_momentum<local_steps<sgd>>>>(
      {.optimizer = {.optimizer = {.period = 8}}},
      {{.optimizer = {.optimizer = {.period = 8}, .outer = {.momentum = 0.5}}},
       {.optimizer = {.optimizer = {.period = 8}}, .steps = 2}});
  all_described<local_steps<sgd>>(
      {}, {{.optimizer = {.momentum = 0.5}}, {.period = 3}, {.start_epoch = 2.5}});
}
