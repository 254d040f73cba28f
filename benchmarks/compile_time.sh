#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Compile times of programs in seconds (user time, minimum of N runs): the umbrella by itself, a minimal
# trainer (one dense layer, sgd, solo) that includes only the headers it uses, the same with the umbrella,
# residual networks over a ring, the large ones also without the umbrella, and, if nvcc is installed, in
# fp16 for a GPU (about 90 s).
#   benchmarks/compile_time.sh [N]          uses CXX, CXXFLAGS and NVCC; -O2 by default
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
runs=${1:-3} cxx=${CXX:-g++} flags=${CXXFLAGS:--O2 -march=native}
nvcc=$(command -v "${NVCC:-nvcc}" || true)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

program() {  # NETWORK LAUNCH REDUCER [IMAGE]
  cat <<CPP
#include <cordee/cordee.hpp>
using namespace cordee;
int main() {
  const synthetic data{.extent = ${4:-{1, 28, 28\}}, .classes = 10, .samples = 1024, .seed = 1};
  const auto train = [&](auto comm) {
    $1 net;
    loader feed{data, comm, {.global_batch = 64, .seed = 1}};
    trainer run{net, sgd{}, constant{.learning_rate = 0.1}, $3};
    run.fit(feed, 1);
  };
  $2
}
CPP
}
echo '#include <cordee/cordee.hpp>
int main() {}' >"$work/umbrella.cpp"
program 'network<sequential<global_average_pool, linear<10>>, fp32, cpu, reference, extent{1, 28, 28}, 10>' \
  'train(self_comm{});' 'solo{}' >"$work/minimal_umbrella.cpp"
without_umbrella() {  # FROM TO HEADER...
  local from=$1 to=$2
  shift 2
  { printf '#include <cordee/%s.hpp>\n' "$@" && sed 1d "$work/$from.cpp"; } >"$work/$to.cpp"
}
shared=(data/loader data/synthetic optim/sgd precision/fp32 schedule/constant train/trainer)
without_umbrella minimal_umbrella minimal "${shared[@]}" comm/reducers/solo nn/linear nn/network nn/pooling nn/sequential ops/engines/reference/engine
program 'resnet<8, fp32, cpu, resnet_options{.image = {1, 28, 28}}>' 'threads::launch(4, train);' 'ring{comm}' >"$work/resnet8.cpp"
program 'resnet<110, fp32, cpu, resnet_options{.image = {1, 28, 28}}>' 'threads::launch(4, train);' 'ring{comm}' >"$work/resnet110.cpp"
program 'resnet<50, fp32, cpu, resnet_options{.image = {1, 64, 64}, .classes = 10}>' 'threads::launch(4, train);' 'ring{comm}' \
  '{1, 64, 64}' >"$work/resnet50.cpp"
for name in resnet110 resnet50; do
  without_umbrella $name ${name}_own "${shared[@]}" comm/reducers/ring comm/transports/threads nn/resnet ops/engines/direct/engine
done
program 'resnet<50, fp16, gpu, resnet_options{.image = {1, 64, 64}, .classes = 10}>' 'train(self_comm{});' 'solo{}' \
  '{1, 64, 64}' >"$work/resnet50_gpu.cu"

seconds_of() {  # NAME COMMAND...
  local name=$1 k seconds least=
  shift
  for ((k = 0; k < runs; ++k)); do
    seconds=$( { TIMEFORMAT=%U; time "$@"; } 2>&1)
    least=$(printf '%s\n' ${least:+"$least"} "$seconds" | sort -g | head -n 1)
  done
  printf '%-16s %s s\n' "$name" "$least"
}
echo "$("$cxx" --version | head -n 1), $flags"
for name in umbrella minimal minimal_umbrella resnet8 resnet110 resnet110_own resnet50 resnet50_own; do
  # shellcheck disable=SC2086
  seconds_of "$name" "$cxx" -std=c++20 $flags -I"$root/include" -c "$work/$name.cpp" -o "$work/$name.o"
done
if [[ -n $nvcc ]]; then
  seconds_of resnet50_gpu "$nvcc" -std=c++20 -O2 -arch=sm_90 --extended-lambda --expt-relaxed-constexpr \
    -DCORDEE_HAS_CUDA=1 -I"$root/include" -c "$work/resnet50_gpu.cu" -o "$work/resnet50_gpu.o"
fi
