#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cordee against PyTorch: the programs in short turns, so that a change of clock or a neighbour's
# load meets all of them; then each configuration's least time, and Cordee's over it. Only for a
# quiet machine: OpenMP's barriers, one a tensor, wait for whoever is not let run, and PyTorch's
# optimizers then take many times as long.
# Usage: benchmarks/compare_torch.sh resnet|optimizer [BUILD [ROUNDS [REPS [OPTIONS...]]]]
#        BUILD holds bench_resnet and bench_optimizer; build/release/benchmarks if not said.
#        OPTIONS go to torch_resnet.py or torch_optimizer.py: --net 20 --format nchw.
# PYTHON: the interpreters, each with its own PyTorch, with spaces between; python3 if not said. What the
# project is held to: pip install -r benchmarks/requirements.txt, and Debian's python3-torch.
# THREADS: of every program; 2 if not said.
set -eu
what=${1:-} build=${2:-build/release/benchmarks} rounds=${3:-6} reps=${4:-5}
if [ "$#" -gt 4 ]; then shift 4; else set --; fi
python=${PYTHON:-python3} threads=${THREADS:-2}
here=$(dirname "$0")
case $what in
resnet)
  # Networks that PyTorch is not asked for are left out here, too.
  leave=
  case " $* " in
  *" --net 50 "*) case " $* " in *" --net 20 "*) ;; *) leave="--small 0" ;; esac ;;
  *" --net 20 "*) leave="--batch 0" ;;
  esac
  ours="bench_resnet --lines $leave"
  ;;
optimizer) ours="bench_optimizer --lines 1" ;;
*)
  sed -n 's/^# \(Usage.*\)/\1/p' "$0" >&2
  exit 2
  ;;
esac

# A pipe would hide a program that fails.
lines=$(mktemp)
trap 'rm -f "$lines"' EXIT
round=0
while [ "$round" -lt "$rounds" ]; do
  # shellcheck disable=SC2086  # words on purpose
  "$build"/$ours --threads "$threads" --reps "$reps" >>"$lines"
  for interpreter in $python; do
    "$interpreter" "$here/torch_$what.py" --threads "$threads" --reps "$reps" "$@" >>"$lines"
  done
  round=$((round + 1))
done

printf '%s, %s threads, minima of %s rounds of %s repetitions\n' \
  "$what" "$threads" "$rounds" "$reps"
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
    printf "%-64s %11s %14s\n", "", "ms", "ours over it"
    for (k = 1; k <= m; ++k)
      for (i = 1; i <= n; ++i) {
        quantity = names[i]
        sub(".*/", "", quantity)
        if (quantity != quantities[k]) continue
        mine = least["cordee/" quantity]
        if (mine > 0) ratio = sprintf("%.3f", mine / least[names[i]]); else ratio = "-"
        printf "%-64s %11.2f %14s\n", names[i], 1e3 * least[names[i]], ratio
      }
  }' "$lines"
