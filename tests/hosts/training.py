#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Runs on hosts: reducers over ZeroMQ and MPI beside threads, a folder that only rank 0 sees, a host's clock; hosts with
other names and addresses; hosts that come and go; NCCL's startup over its test double.

    training.py zeromq PROGRAM HOUR_OFF_LIBRARY
    training.py mpi PROGRAM MPIRUN
    training.py elastic PROGRAM
    training.py nccl PROGRAM
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "hosts"
REFUSALS = ("needs root", "needs iproute2", "may not make namespaces", "cannot limit a rate")
TRANSPORT, PROGRAM = sys.argv[1:3]
OTHER = sys.argv[3] if len(sys.argv) > 3 else ""

# What a host does before its ranks start: its name is the loopback's, as Debian writes it; it has a second address, as
# Docker's, that is alike on all hosts and joins none; it has no address of IPv4, and
# knows the other hosts' names or not.
OWN_NAME_IS_LOOPBACK = """flock /etc/hosts sh -c 'own=$(hostname)
  text=$(sed "/^[^1].* $own\\$/d; s/^10[.].* $own\\$/127.0.1.1 $own/" /etc/hosts); echo "$text" > /etc/hosts'; """
SECOND_ADDRESS = """flock /etc/hosts sh -c '[ -e /sys/class/net/docker0 ] || { ip link add docker0 type bridge
  ip address add 172.17.0.1/16 dev docker0; ip link set docker0 up; }'; """
IPV6_ALONE = "ip -4 address flush dev eth0; "
IPV6_WITHOUT_NAMES = IPV6_ALONE + "echo ::1 localhost > /etc/hosts; export MASTER_ADDR=fd00::1; "
SETTINGS = {"as made": "", "own name is the loopback": OWN_NAME_IS_LOOPBACK, "second address": SECOND_ADDRESS,
            "IPv6 alone": IPV6_ALONE, "IPv6 without names": IPV6_WITHOUT_NAMES}


def weights(*command, **variables):
    """The exit status, the lines of the ranks, and what else was printed."""
    run = subprocess.run([str(part) for part in command], env={**os.environ, **variables}, capture_output=True, text=True,
                         timeout=60, check=False)
    lines = sorted(line for line in run.stdout.splitlines() if line.startswith(("rank ", "weights:")))
    return run.returncode, lines, run.stderr


def with_setting(setting, *command):
    return ("sh", "-c", setting + 'exec "$@"', "sh", *command)


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

    def test_settings(self):
        """Of hosts' names and addresses, with the address of the environment and with a file."""
        for name, setting in SETTINGS.items():
            with self.subTest(setting=name):
                self.expect_threads(4, "hierarchical", weights(
                    SCRIPT, 2, "--ranks-per-host", 2, "--", *with_setting(setting, PROGRAM, "zeromq", "hierarchical")))

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

    def test_settings(self):
        """Of hosts' names and addresses, made before mpirun starts; by the remedy that docs/policies/transports.md names."""
        remedies = {"second address": "export OMPI_MCA_btl_tcp_if_include=10.0.0.0/24; "}
        launcher = SCRIPT.parents[1] / "examples" / "launch" / "mpirun.sh"
        for name, setting in SETTINGS.items():
            with tempfile.TemporaryDirectory() as folder, self.subTest(setting=name):
                pathlib.Path(folder, "hosts").write_text("host0 slots=2\nhost1 slots=2\n", encoding="ascii")
                # The first host's rank starts all others; the second's waits until they have ended.
                script = (f'{setting}cd {folder}; touch set.$RANK\n'
                          'until [ -e set.0 ] && [ -e set.1 ]; do sleep 0.05; done\n'
                          'if [ $RANK = 1 ]; then until [ -e ended ]; do sleep 0.05; done; exit; fi\n'
                          f'{remedies.get(name, "")}export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1\n'
                          'unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK MASTER_ADDR MASTER_PORT\n'
                          f'status=0; HOSTS={folder}/hosts MPIRUN={OTHER} timeout 40 {launcher} 4 "$@" || status=$?\n'
                          'touch ended; exit $status')
                self.expect_threads(4, "hierarchical", weights(
                    SCRIPT, 2, "--", "sh", "-c", script, "sh", PROGRAM, "mpi", "hierarchical"))


class Elastic(Run):
    """A host loses power and another one's rank joins, in both orders: all have the bits of a run of one rank."""
    STEPS, PAUSE_MS, OFF_AT = 1600, 10, 6  # the ranks train for 10 s behind the loss at least

    def run_hosts(self, setting, off, joins_after_loss):
        with tempfile.TemporaryDirectory() as folder:
            file = f"{folder}/run"
            run = (file, self.STEPS, self.PAUSE_MS)
            # A world writes the file anew where it has another rank 0, or another generation.
            loss = f'inode=$(stat -c %i {file}); while [ $(stat -c %i {file}) = $inode ]; do sleep 0.05; done; '
            joiner = f'while [ ! -e {file} ]; do sleep 0.05; done; {loss if joins_after_loss else ""}'
            script = (f'{setting}if [ $RANK = 3 ]; then {joiner}exec {PROGRAM} joins "$@"; fi\n'
                      f'WORLD_SIZE=3 exec {PROGRAM} launched "$@"')
            return weights(SCRIPT, 4, "--power-off", f"{off}@{self.OFF_AT}", "--", "sh", "-c", script, "sh", *run)

    def test_hosts(self):
        expected = subprocess.run([PROGRAM, "alone", "-", str(self.STEPS), "0"], capture_output=True, text=True,
                                  check=True).stdout
        cases = [("as made", "host1", True, "10.0.0.2"), ("IPv6 alone", "host0", False, "fd00::1"),
                 ("IPv6 alone", "host1", True, "fd00::2"), ("own name is the loopback", "host0", True, "10.0.0.1"),
                 ("own name is the loopback", "host0", False, "10.0.0.1"), ("second address", "host0", False, "10.0.0.1")]
        with concurrent.futures.ThreadPoolExecutor() as pool:
            runs = [pool.submit(self.run_hosts, SETTINGS[name], off, after) for name, off, after, _ in cases]
        for (name, off, after, address), run in zip(cases, runs):
            with self.subTest(setting=name, off=off, joins_after_loss=after):
                status, lines, err = run.result()
                self.assertEqual((status, lines), (0, [expected.strip()] * 3), err)
                generations = re.findall("generation.*", err)
                lost = f"lost rank {off[-1]} at {address}"
                self.assertEqual(generations, [f"generation 2 has 2 ranks: {lost}", "generation 3 has 3 ranks: 1 new rank"]
                                 if after else
                                 ["generation 2 has 4 ranks: 1 new rank", f"generation 3 has 3 ranks: {lost}"])

    def test_ranks_beside_the_first(self):
        """Where rank 0's process dies, then another host's, the first host's other rank has an address for the others."""
        expected = subprocess.run([PROGRAM, "alone", "-", str(self.STEPS), "0"], capture_output=True, text=True,
                                  check=True).stdout
        with tempfile.TemporaryDirectory() as folder:
            script = (f'{OWN_NAME_IS_LOOPBACK}case $RANK in 0) after=3 ;; 3) after=8 ;;\n'
                      f'*) exec {PROGRAM} launched "$@" ;; esac\n'
                      f'{PROGRAM} launched "$@" & sleep $after; kill -KILL $!; wait $! || true')
            status, lines, err = weights(SCRIPT, 2, "--ranks-per-host", 2, "--", "sh", "-c", script, "sh", f"{folder}/run",
                                         self.STEPS, self.PAUSE_MS)
        self.assertEqual((status, lines), (0, [expected.strip()] * 2), err)
        # Rank 1 names its own host's rank 0 by the loopback.
        self.assertRegex(err, r"(?s)generation 2 has 3 ranks: lost rank 0 at (127[.]\S+|10[.]0[.]0[.]1)\n.*"
                              r"generation 3 has 2 ranks: lost rank 2 at 10[.]0[.]0[.]2\n")


class NCCL(unittest.TestCase):
    def test_startup(self):
        """All ranks have rank 0's ids, by the environment and by a file, and the GPU of their local rank."""
        for name, setting in SETTINGS.items():
            for hosts, ranks in ((2, 1), (3, 1), (2, 2)):
                with tempfile.TemporaryDirectory() as folder, self.subTest(setting=name, hosts=hosts, ranks=ranks):
                    for file in ((), (f"{folder}/run",)):
                        status, lines, err = weights(SCRIPT, hosts, "--ranks-per-host", ranks, "--",
                                                     *with_setting(setting, PROGRAM, "starts", *file))
                        self.assertEqual((status, err), (0, ""))
                        self.assertEqual(lines, [f"rank {r} of {hosts * ranks}: GPU {r % ranks} of host{r // ranks}, "
                                                 "communicators 7 8" for r in range(hosts * ranks)])

    def test_failures(self):
        """One rank prints the cause, whichever rank's process is lost, rank 0's with the server among them."""
        died = "its process ended without leaving the run: killed, or crashed"
        for name, setting in SETTINGS.items():
            for fault, cause in (("throws:1", "rank 1: the disk is full"), ("dies:0", f"rank 0: {died}"),
                                 ("dies:2", f"rank 2: {died}")):
                with tempfile.TemporaryDirectory() as folder, self.subTest(setting=name, fault=fault):
                    status, _, err = weights(SCRIPT, 2, "--ranks-per-host", 2, "--",
                                             *with_setting(setting, PROGRAM, fault, folder))
                    self.assertNotEqual(status, 0)
                    said = [line for line in err.splitlines() if line.startswith("hosts_nccl:")]
                    self.assertEqual(len(said), 1, err)
                    self.assertIn(cause, said[0])


if __name__ == "__main__":
    trial = subprocess.run([str(SCRIPT), "1", "--rate", "1gbit", "--", "true"], capture_output=True, text=True, check=False)
    if trial.returncode == 2 and any(refusal in trial.stderr for refusal in REFUSALS):
        print(f"skipped: {trial.stderr.strip()}")
        sys.exit(0)
    unittest.main(argv=[sys.argv[0], {"zeromq": "ZeroMQ", "mpi": "MPI", "elastic": "Elastic", "nccl": "NCCL"}[TRANSPORT]])
