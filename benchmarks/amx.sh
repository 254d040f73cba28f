#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# All comparisons on a processor with AMX, in one call: networks in fp32 and bf16 beside PyTorch, eager and compiled,
# networks on integers beside OpenVINO and onnxruntime, convolutions beside PyTorch's oneDNN as shares of the processor's
# peak, the convolutions' share of a training step, and gradients in bf16 beside PyTorch's and fp64. Programs run in turn,
# figures are minima, `cordee / this` below 1 means that Cordee is faster. Each table has its target above it. Where the
# processor, the build, the system or Python lacks something, it says which rows are missing and measures the others.
# Usage: benchmarks/amx.sh [BUILD [ROUNDS [REPS]]]
#        BUILD contains bench_resnet, bench_infer, bench_convolution, bench_shares and bench_gradients, compiled with
#        -march=native; by default build/release/benchmarks. ROUNDS (4) of REPS (5) repetitions.
# PYTHON: an interpreter with the packages of benchmarks/requirements_amx.txt; by default python3.
# PARTS: of "networks integers convolutions shares gradients", those that are measured. THREADS: 1 and 2, or others.
# SMALL=1: batches of 2 and the smallest networks, to see that it runs.
set -eu
case ${1:-} in -*) sed -n 's/^# \(Usage.*\)/\1/p' "$0" >&2; exit 2 ;; esac
build=${1:-build/release/benchmarks} rounds=${2:-4} reps=${3:-5}
python=${PYTHON:-python3} parts=${PARTS:-networks integers convolutions shares gradients} small=${SMALL:-}
directory=$(dirname "$0")
threads=${THREADS:-1 2}
most=$(printf '%s\n' $threads | sort -n | tail -n 1)

for part in $parts; do
  case $part in
  networks) program=bench_resnet ;;
  integers) program=bench_infer ;;
  convolutions) program=bench_convolution ;;
  shares | gradients) program=bench_$part ;;
  *) echo "PARTS: there is no part $part" >&2; exit 2 ;;
  esac
  [ -x "$build/$program" ] || { echo "$build/$program is missing: build the target $program" >&2; exit 2; }
done
grep -m 1 '^model name' /proc/cpuinfo || true
uname -sr
if ! grep -qw amx_tile /proc/cpuinfo; then
  echo "NO AMX: this processor has none, or its hypervisor or kernel hides it. Missing: engine amx, integers by AMX, the
peak of its tiles. bf16 and integers below are by AVX-512 or AVX2: they neither meet nor miss a target set for AMX."
elif [ -x "$build/bench_convolution" ] &&
  ! "$build/bench_convolution" --depth 20 --batch 1 --reps 1 --lines 1 | grep '^amx bf16/' >/dev/null; then
  echo "NO ENGINE amx: $build is compiled for a processor without it: its rows are missing."
fi
for package in torch onnxruntime openvino; do
  "$python" -c "import $package, sys; print(f'{sys.argv[1]} {$package.__version__}')" $package 2>/dev/null ||
    echo "NO $package for $python: its rows are missing (pip install -r $directory/requirements_amx.txt)"
done
title() { printf '\n== %s\n   target: %s\n' "$1" "$2"; }
torch() {
  THREADS=$most PYTHON=$python "$directory/compare_torch.sh" resnet "$build" "$rounds" "$reps" "$@" ||
    echo "   not measured"
}

few=128 batches="8 32" many="8 128" depths="20 50" bench_depth=50 convolved=8 compared=8 seeds=5
[ -z "$small" ] || few=2 batches=1 many=2 depths=20 bench_depth=20 convolved=2 compared=2 seeds=1

case " $parts " in *" networks "*)
  title "a step of ResNet-20, fp32, $most threads" "at most 0.60 of the faster of PyTorch's two"
  torch --net 20 --batch $few --format channels_last --format compile_channels_last
  title "a step of ResNet-20, bf16, $most threads" "at most 0.70 of the faster of PyTorch's two"
  torch --net 20 --batch $few --format channels_last --format compile_channels_last --precision bf16
  for batch in $batches; do
    title "both passes of ResNet-50, batch $batch, fp32, $most threads" "at most 0.60 of PyTorch's channels_last"
    torch --net 50 --batch "$batch" --format channels_last --format compile_channels_last
    title "both passes of ResNet-50, batch $batch, bf16, $most threads" "at most 0.80 of the faster of PyTorch's two"
    torch --net 50 --batch "$batch" --format channels_last --format compile_channels_last --precision bf16
  done ;;
esac
case " $parts " in *" integers "*)
  for count in $threads; do
    for depth in $depths; do
      for batch in $many; do
        if [ "$depth" = 20 ]; then target=0.80; else target=0.90; fi
        title "integers, ResNet-$depth, $count thread(s)" "at most $target of OpenVINO; onnxruntime at least 1.2x"
        "$python" "$directory/onnxruntime_infer.py" "$build/bench_infer" "$depth" "$batch" "$rounds" "$reps" "$count" ||
          echo "   not measured"
      done
    done
  done ;;
esac
case " $parts " in *" convolutions "*)
  for count in $threads; do
    title "3x3 convolutions of ResNet-$bench_depth, $count thread(s)" \
      "amx bf16: fprop at least 50 % of AMX's peak, dgrad 45 %, wgrad 30 %; each engine against the others"
    "$python" "$directory/torch_convolution.py" "$build/bench_convolution" $bench_depth "$convolved" \
      "$rounds" "$reps" "$count" || echo "   not measured"
  done ;;
esac
case " $parts " in *" shares "*)
  for batch in $batches; do
    for count in $threads; do
      title "a step of ResNet-50, batch $batch, $count thread(s)" "bf16: convolutions at least 67 % of it"
      "$build/bench_shares" --batch "$batch" --threads "$count" --reps "$reps" || echo "   not measured"
    done
  done ;;
esac
case " $parts " in *" gradients "*)
  for depth in $depths; do
    title "gradients of ResNet-$depth in bf16, errors beside fp64" "no worse than PyTorch's (autocast): a median of about 1.00"
    "$python" "$directory/torch_gradients.py" "$build/bench_gradients" "$depth" "$compared" "$seeds" ||
      echo "   not measured"
  done ;;
esac
