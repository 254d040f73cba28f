#!/bin/sh
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Runs a program as RANKS processes, by Open MPI's or MPICH's mpirun. It must be that of the MPI that the
# program was built with; started by the other one, the program stops with an error.
# Usage: examples/launch/mpirun.sh RANKS PROGRAM [OPTION...]
#        HOSTS=file     machines, one per line; this machine by default
#        MPIRUN=...     the launcher, mpirun by default
#        MASTER_ADDR, MASTER_PORT   rendezvous of ranks over NCCL or ZeroMQ: rank 0's machine, a free port of it;
#                       chosen by this script for one machine
#        CORDEE_SECRET_KEY          keeps other users' processes out of that rendezvous; random by default
set -eu
if [ $# -lt 2 ]; then sed -n '5,12s/^# \{0,1\}//p' "$0"; exit 2; fi
mpirun=${MPIRUN:-mpirun} ranks=$1
shift
if [ -z "${HOSTS:-}" ]; then
  export MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}" MASTER_PORT="${MASTER_PORT:-$((20000 + $$ % 20000))}"
fi
export CORDEE_SECRET_KEY="${CORDEE_SECRET_KEY:-$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')}"
[ -t 1 ] || export TERM=dumb  # ranks write to terminals of the launcher's: no progress bar in a file
case $("$mpirun" --version 2>&1) in
  *"Open MPI"* | *OpenRTE*)
    if [ "$(id -u)" = 0 ] && [ "${OMPI_ALLOW_RUN_AS_ROOT:-0}${OMPI_ALLOW_RUN_AS_ROOT_CONFIRM:-0}" != 11 ]; then
      echo "mpirun.sh: Open MPI starts nothing as root unless you set OMPI_ALLOW_RUN_AS_ROOT=1 and" \
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, as in a container; or run this as another user" >&2
      exit 1
    fi
    # Each rank has several threads: by default Open MPI binds all of them to one core.
    if [ -n "${MASTER_ADDR:-}" ]; then set -- -x MASTER_ADDR -x MASTER_PORT -x CORDEE_SECRET_KEY -n "$ranks" "$@"
    else set -- -n "$ranks" "$@"; fi
    # One machine may have more ranks than cores, as under MPICH.
    if [ -n "${HOSTS:-}" ]; then set -- --hostfile "$HOSTS" "$@"; else set -- --map-by :OVERSUBSCRIBE "$@"; fi
    set -- ${TERM:+-x TERM} --bind-to none "$@" ;;
  *) set -- ${HOSTS:+-f "$HOSTS"} -n "$ranks" "$@" ;;
esac
# The launcher names a rank that was killed in terms of its own; signals for this script are for the launcher. The first
# SIGINT (Ctrl-C) or SIGTERM is a request to save and stop: it becomes SIGUSR1, which both launchers pass on, while Open
# MPI's kills the ranks within seconds after the others. So that Ctrl-C reaches this script alone, the launcher has a
# process group of its own, which must not read the terminal.
if [ -t 0 ]; then set -m; exec </dev/null; fi
"$mpirun" "$@" <&0 &
launcher=$!
set +m
pass() { kill -"$1" $launcher 2>/dev/null || :; }
stop() { if [ -n "${asked:-}" ]; then pass "$1"; else asked=1; pass USR1; fi; }
for signal in HUP USR1; do trap "pass $signal" $signal; done
for signal in INT TERM; do trap "stop $signal" $signal; done
while :; do
  status=0
  wait $launcher || status=$?
  kill -0 $launcher 2>/dev/null || break  # else a signal has come
done
case $status in 137 | 9)  # Open MPI's, MPICH's
  echo "mpirun.sh: a rank was killed by signal 9: by kill -9, or by the kernel where memory ran out (dmesg says so). The" \
    "launcher names it above, and has ended the others. A run with checkpoints goes on from the last one." >&2 ;;
esac
exit $status
