#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cordee against PyTorch: runs the programs in short turns, so that a change of clock frequency or of
# the machine's load affects all of them, then prints each configuration's minimal time and the ratio
# of Cordee's to it. The machine must be idle: a thread that is preempted delays OpenMP's barriers, one
# per tensor, and PyTorch's optimizers then take many times as long.
# Usage: benchmarks/compare_torch.sh resnet|optimizer [BUILD [ROUNDS [REPS [OPTIONS...]]]]
#        BUILD contains bench_resnet and bench_optimizer; by default build/release/benchmarks.
#        OPTIONS are passed to torch_resnet.py or torch_optimizer.py: --net 20 --format nchw --precision bf16.
#        `--batch N` goes with one --net.
# PYTHON: the interpreters, separated by spaces, each with its PyTorch; by default python3. The published
# figures use: pip install -r benchmarks/requirements.txt, and Debian's python3-torch.
# THREADS: of every program; by default 2.
set -eu
suite=${1:-} build=${2:-build/release/benchmarks} rounds=${3:-6} reps=${4:-5}
if [ "$#" -gt 4 ]; then shift 4; else set --; fi
python=${PYTHON:-python3} threads=${THREADS:-2}
directory=$(dirname "$0")
case $suite in
resnet)
  # Omits the networks that OPTIONS omit for PyTorch.
  omit=
  batch=$(printf ' %s ' "$*" | sed -n 's/.* --batch \([0-9]*\) .*/\1/p')
  case " $* " in
  *" --net 20 "*" --net 50 "* | *" --net 50 "*" --net 20 "*) ;;
  *" --net 50 "*) omit="--small 0 ${batch:+--batch $batch}" ;;
  *" --net 20 "*) omit="--batch 0 ${batch:+--small $batch}" ;;
  esac
  case " $* " in *" --precision bf16 "*) omit="$omit --precisions" ;; esac
  cordee="bench_resnet --lines $omit"
  ;;
optimizer) cordee="bench_optimizer --lines 1" ;;
*)
  sed -n 's/^# \(Usage.*\)/\1/p' "$0" >&2
  exit 2
  ;;
esac

# Not a pipe, which would hide the failure of a program.
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
round=0
while [ "$round" -lt "$rounds" ]; do
  # shellcheck disable=SC2086  # split into words
  "$build"/$cordee --threads "$threads" --reps "$reps" >>"$lines"
  for interpreter in $python; do
    "$interpreter" "$directory/torch_$suite.py" --threads "$threads" --reps "$reps" "$@" >>"$lines"
  done
  round=$((round + 1))
done

printf '%s, %s threads, minima of %s rounds of %s repetitions\n' \
  "$suite" "$threads" "$rounds" "$reps"
awk '
  NF != 2 || $2 + 0 <= 0 { print "not a line of `name seconds`: " $0 > "/dev/stderr"; bad = 1; exit }
  { if (!($1 in least)) { names[++n] = $1; least[$1] = $2 }
    if ($2 + 0 < least[$1] + 0) least[$1] = $2 }
  END {
    if (bad) exit 1
    for (i = 1; i <= n; ++i) {
      quantity = names[i]
      sub(".*/", "", quantity)
      if (!(quantity in seen)) { seen[quantity]; quantities[++m] = quantity }
    }
    printf "%-64s %11s %14s\n", "", "ms", "cordee / this"
    for (k = 1; k <= m; ++k)
      for (i = 1; i <= n; ++i) {
        quantity = names[i]
        sub(".*/", "", quantity)
        if (quantity != quantities[k]) continue
        cordee = least["cordee/" quantity]
        if (cordee > 0) ratio = sprintf("%.3f", cordee / least[names[i]]); else ratio = "-"
        printf "%-64s %11.2f %14s\n", names[i], 1e3 * least[names[i]], ratio
      }
  }' "$lines"
