#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs on hosts: reducers over ZeroMQ and MPI beside threads, a folder that only rank 0 sees, a host's clock.

    training.py zeromq PROGRAM HOUR_OFF_LIBRARY
    training.py mpi PROGRAM MPIRUN
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "hosts"
REFUSALS = ("needs root", "needs iproute2", "may not make namespaces", "cannot limit a rate")
TRANSPORT, PROGRAM, OTHER = sys.argv[1:]


def weights(*command, **variables):
    """The exit status, the lines of the ranks, and what else was printed."""
    run = subprocess.run([str(part) for part in command], env={**os.environ, **variables}, capture_output=True, text=True,
                         timeout=60, check=False)
    lines = sorted(line for line in run.stdout.splitlines() if line.startswith("rank "))
    return run.returncode, lines, run.stderr


class Run(unittest.TestCase):
    def expect_threads(self, ranks, reducer, run):
        expected = weights(PROGRAM, f"threads:{ranks}", reducer)[1]
        self.assertEqual(len(expected), ranks)
        self.assertEqual(run[:2], (0, expected), run[2])


class ZeroMQ(Run):
    def test_reducers(self):
        """Two and three ranks a host have the bits of as many threads."""
        for reducer, hosts, ranks in (("ring", 2, 3), ("torus_ring", 3, 2), ("hierarchical", 3, 2), ("hierarchical", 2, 3),
                                      ("gossip", 2, 3), ("gossip", 4, 1)):
            with self.subTest(reducer=reducer, hosts=hosts):
                self.expect_threads(hosts * ranks, reducer, weights(
                    SCRIPT, hosts, "--delay", "0.2ms", "--ranks-per-host", ranks, "--", PROGRAM, "zeromq", reducer))

    def test_folder_of_one_host(self):
        """Of a folder that only rank 0's host has, the rank that misses it says what it needs."""
        with tempfile.TemporaryDirectory() as folder:
            hide = f'[ $RANK = 0 ] || mount -t tmpfs tmpfs {folder}; exec "$@"'
            run = (PROGRAM, "zeromq", "ring", f"{folder}/run")
            status, _, err = weights(SCRIPT, 3, "--", "sh", "-c", hide, "sh", *run)
            self.assertEqual(status, 1)
            self.assertRegex(err, "rank [12] on host[12] does not see .*, which rank 0 has made: .folder must be one that "
                                  "all ranks see")
            self.expect_threads(3, "ring", weights(SCRIPT, 3, "--", *run))
            status, _, err = weights(SCRIPT, 3, "--", "sh", "-c", hide, "sh", *run)
            self.assertEqual(status, 1)
            self.assertRegex(err, "rank [12] on host[12] cannot read .*Nothing is renamed: start again where every rank can "
                                  "read that folder")

    def test_clock(self):
        """A host whose wall clock is an hour off trains, saves and continues as the others do."""
        for host in ("host0", "host1"):
            for seconds in (3600, -3600):
                with tempfile.TemporaryDirectory() as folder, self.subTest(host=host, seconds=seconds):
                    turn = (f'[ $(hostname) != {host} ] || export LD_PRELOAD={OTHER} HOUR_OFF={seconds}; '
                            'echo "$(hostname) $(date +%s)" >&2; exec "$@"')
                    for _ in range(2):
                        run = weights(SCRIPT, 2, "--", "sh", "-c", turn, "sh", PROGRAM, "zeromq", "ring", f"{folder}/run")
                        self.expect_threads(2, "ring", run)
                        times = dict(line.split() for line in run[2].splitlines() if line.startswith("host"))
                        other = "host1" if host == "host0" else "host0"
                        self.assertLess(abs(int(times[host]) - int(times[other]) - seconds), 30)
                    self.assertEqual(os.path.basename(os.readlink(f"{folder}/run/latest")), "step-00000008")


class MPI(Run):
    def test_reducers(self):
        for reducer, hosts, ranks in (("ring", 2, 3), ("torus_ring", 3, 2), ("hierarchical", 3, 2), ("gossip", 3, 1)):
            with self.subTest(reducer=reducer):
                self.expect_threads(hosts * ranks, reducer, weights(
                    SCRIPT, hosts, "--mpirun", "--ranks-per-host", ranks, "--", PROGRAM, "mpi", reducer, MPIRUN=OTHER))


if __name__ == "__main__":
    trial = subprocess.run([str(SCRIPT), "1", "--rate", "1gbit", "--", "true"], capture_output=True, text=True, check=False)
    if trial.returncode == 2 and any(refusal in trial.stderr for refusal in REFUSALS):
        print(f"skipped: {trial.stderr.strip()}")
        sys.exit(0)
    unittest.main(argv=[sys.argv[0], "ZeroMQ" if TRANSPORT == "zeromq" else "MPI"])
