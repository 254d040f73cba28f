#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Reducers over threads and over the transports mpi and zeromq against an installed MPI (and Gloo): runs the
# programs in turn, then prints the ratio of MPI's minimal time to each method's.
# Usage: benchmarks/all_reduce.sh [BUILD [RANKS [ROUNDS [REPS [SIZES [METHODS]]]]]]
#        BUILD contains bench_all_reduce and bench_mpi_all_reduce (and those of zeromq and Gloo); by default build/release/benchmarks.
#        METHODS: such as ring,ring/mpi,ring/zeromq; all by default.
# In parts, if the machine is idle only for short times:
#        benchmarks/all_reduce.sh --lines BUILD 4 1 10 1000000 >> lines      (any number of times)
#        benchmarks/all_reduce.sh --table < lines
set -eu
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # for containers; Open MPI requires both variables

# Several of Gloo's methods in one process may deadlock on long messages (1 MB): one process per repetition.
gloo() {
  [ -x "$build/bench_gloo_all_reduce" ] || return 0
  if [ "$1" -lt 1000000 ]; then "$build/bench_gloo_all_reduce" "$ranks" "$1" "$reps"; return; fi
  rep=0
  while [ "$rep" -lt "$reps" ]; do
    "$build/bench_gloo_all_reduce" "$ranks" "$1" 1
    rep=$((rep + 1))
  done
}
lines() {
  build=${1:-build/release/benchmarks} ranks=${2:-4} rounds=${3:-3} reps=${4:-30} methods=${6:-}
  for size in ${5:-1000 4000 16000 64000 250000 1000000 4000000 16000000 100000000}; do
    round=0
    while [ "$round" -lt "$rounds" ]; do
      "$build/bench_all_reduce" --ranks "$ranks" --reps "$reps" --size "$size" --methods "$methods"
      mpirun --oversubscribe -n "$ranks" "$build/bench_mpi_all_reduce" "$size" "$reps" "$methods"
      if [ -x "$build/bench_zeromq_all_reduce" ]; then "$build/bench_zeromq_all_reduce" "$ranks" "$size" "$reps" "$methods"; fi
      gloo "$size"
      round=$((round + 1))
    done
  done
}
table() {
awk '
  { key = $1 " " $5; if (!(key in least) || $7 < least[key]) least[key] = $7
    if (!($1 in listed)) { listed[$1]; methods[++m] = $1 }
    if (!($5 in known)) { known[$5]; bytes[++n] = $5 } }
  END {
    printf "%11s %12s", "bytes", "mpi us"
    for (k = 1; k <= m; ++k) if (methods[k] != "mpi") printf " %31s", methods[k] " us (mpi / us)"
    print ""
    for (i = 1; i <= n; ++i) {
      mpi = least["mpi " bytes[i]]
      printf "%11d %12.2f", bytes[i], mpi
      for (k = 1; k <= m; ++k)
        if (methods[k] != "mpi") {
          time = least[methods[k] " " bytes[i]]
          printf " %23.2f (%5.2f)", time, mpi / time
        }
      print ""
    }
  }'
}

case ${1:-} in
  --lines) shift; lines "$@" ;;
  --table) table ;;
  *) lines "$@" | table ;;
esac
