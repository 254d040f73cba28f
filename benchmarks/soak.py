#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Trains for MINUTES with random kills and restarts; each run must end with the bits of an undisturbed one.

  python3 benchmarks/soak.py --program build/release/benchmarks/bench_soak
  python3 benchmarks/soak.py --program build/release/benchmarks/bench_soak_mpi --launcher mpirun

One run follows another, each in a new folder, kept running by scripts/keep-running. At random times, 0.5 to 60 s
apart (uniform logarithm), a random process of the run, keep-running included, gets SIGKILL, SIGTERM, SIGUSR1 or two
SIGTERM at once; sometimes all get SIGKILL. Printed once a minute: restarts, kills, and of the processes that have
run for 5 s the largest resident memory, descriptors and threads; the folder's size, files in /dev/shm, processes
that are left over. Exit status 0 if all bits are the same and none of these grows.
"""
import argparse
import collections
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
COLUMNS = ["minute", "runs", "starts", "kills", "step", "MB of memory", "descriptors", "threads", "MB on disk",
           "in /dev/shm", "left over"]


def processes_of(program):
    """Ids of the processes whose executable is `program`."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.readlink(f"/proc/{entry}/exe") == program:
                found.append(int(entry))
        except OSError:
            pass
    return found


def look_at(pid):
    """(age in seconds, resident bytes, descriptors, threads), or None if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        with open("/proc/uptime", encoding="ascii") as file:
            uptime = float(file.read().split()[0])
        age = uptime - int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return age, int(fields[21]) * os.sysconf("SC_PAGE_SIZE"), len(os.listdir(f"/proc/{pid}/fd")), int(fields[17])
    except OSError:
        return None


def size_of(folder):
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_size
            except OSError:
                pass
    return total


class Soak:
    def __init__(self, options):
        self.options = options
        self.program = os.path.realpath(options.program)
        self.random = random.Random(options.seed)
        self.work = pathlib.Path(tempfile.mkdtemp(prefix="soak-", dir=options.work))
        self.log = open(self.work / "log", "ab")
        self.kills = collections.Counter()
        self.runs = self.different = 0
        self.left_over, self.killer_at, self.minute_at = 0, 0, 0
        self.rows, self.peaks = [], [0, 0, 0]
        self.environment = dict(os.environ)
        if os.geteuid() == 0:  # in a container
            self.environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def start(self, folder):
        options = self.options
        arguments = [self.program, "--folder", str(folder), "--steps", str(options.steps),
                     "--every", str(options.every)]
        if options.launcher == "threads":
            arguments += ["--ranks", "{ranks}"]
        return subprocess.Popen(
            [sys.executable, ROOT / "scripts" / "keep-running", "--folder", folder, "--launcher", options.launcher,
             "--delay", "0.2", "--longest-delay", "1", "--failures", "50", "--grace", "30", "--deadline", "240",
             str(options.ranks), *arguments], stdout=subprocess.PIPE, stderr=self.log, env=self.environment)

    def starts(self):
        """Of the program, by keep-running's messages."""
        return (self.work / "log").read_bytes().count(b"keep-running: start ")

    def wait_for_end(self):
        """Until no process of the program is left; what is left after 30 s is counted and ended."""
        limit = time.monotonic() + 30
        while (left := processes_of(self.program)) and time.monotonic() < limit:
            time.sleep(0.1)
        self.left_over += len(left)
        for pid in left:
            self.send(pid, signal.SIGKILL)

    @staticmethod
    def send(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def disturb(self, keeper):
        if time.monotonic() < self.killer_at:
            return
        self.killer_at = time.monotonic() + 0.5 * 120 ** self.random.random()
        ranks = processes_of(self.program)
        if not ranks:
            return
        kind = self.random.choices(["KILL", "KILL all", "TERM", "USR1", "TERM twice", "TERM keep-running"],
                                   [4, 1, 2, 1, 1, 1])[0]
        self.kills[kind] += 1
        pid = self.random.choice(ranks)
        if kind == "KILL all":
            for pid in ranks:
                self.send(pid, signal.SIGKILL)
        elif kind == "TERM keep-running":
            self.send(keeper.pid, signal.SIGTERM)
        elif kind == "TERM twice":
            self.send(pid, signal.SIGTERM)
            time.sleep(0.01)
            self.send(pid, signal.SIGTERM)
        else:
            self.send(pid, getattr(signal, "SIG" + kind))

    def sample(self, folder):
        for pid in processes_of(self.program):
            seen = look_at(pid)
            if seen and seen[0] > 5:
                self.peaks = [max(a, b) for a, b in zip(self.peaks, seen[1:])]
        minutes = (time.monotonic() - self.began) / 60
        if minutes < self.minute_at + 1:
            return
        self.minute_at += 1
        try:
            step = int(os.readlink(folder / "latest").rsplit("-", 1)[1])
        except OSError:
            step = 0
        memory, descriptors, threads = self.peaks
        row = [self.minute_at, self.runs, self.starts(), sum(self.kills.values()), step, round(memory / 1e6, 1),
               descriptors, threads, round(size_of(self.work) / 1e6, 1), len(os.listdir("/dev/shm")), self.left_over]
        self.rows.append(row)
        print(" | ".join(f"{x:>{len(name)}}" for x, name in zip(row, COLUMNS)), flush=True)
        self.peaks = [0, 0, 0]

    def run(self, disturbed):
        """Returns the line with which a run ends."""
        folder = self.work / f"run-{self.runs}-{int(disturbed)}"
        while True:
            keeper = self.start(folder)
            while keeper.poll() is None:
                if disturbed:
                    self.disturb(keeper)
                    self.sample(folder)
                time.sleep(0.1)
            text = keeper.stdout.read().decode(errors="replace")
            self.wait_for_end()
            if end := re.search(r"finished after .*", text):
                shutil.rmtree(folder)
                return end[0]
            if disturbed and time.monotonic() > self.began + 60 * self.options.minutes + 600:
                return "no end within ten minutes more"

    def soak(self):
        options = self.options
        began = time.monotonic()
        expected = self.run(False)
        print(f"{options.ranks} ranks, {options.launcher}, seed {options.seed}; undisturbed in "
              f"{time.monotonic() - began:.0f} s: {expected}\n\n" + " | ".join(COLUMNS), flush=True)
        self.began = time.monotonic()
        self.killer_at = self.began + 5
        while time.monotonic() < self.began + 60 * options.minutes:
            ended = self.run(True)
            self.runs += 1
            if ended != expected:
                self.different += 1
                print(f"run {self.runs}: {ended}", flush=True)
        kills = ", ".join(f"{n} {kind}" for kind, n in sorted(self.kills.items()))
        print(f"\n{self.runs} runs with {self.starts()} starts and {sum(self.kills.values())} kills "
              f"({kills}): {self.different} ended with other bits")
        return self.different == 0 and self.is_flat()

    def is_flat(self):
        """Whether nothing grows: the last third against the first. A tenth more memory, and the four descriptors that
        a save has open, may have been seen by chance."""
        rows = [row for row in self.rows if row[5] > 0]
        third = len(rows) // 3
        if third == 0:
            print("memory, descriptors, threads: not measured, the time is too short")
        flat = True
        for column, factor, more in ((5, 1.1, 0), (6, 1, 4), (7, 1, 0), (9, 1, 0)):
            first = max((row[column] for row in rows[:third]), default=0)
            last = max((row[column] for row in rows[len(rows) - third:]), default=0)
            grows = last > factor * first + more
            flat = flat and not grows
            print(f"{COLUMNS[column]}: {first} in the first third, {last} in the last" + (": grows" if grows else ""))
        print(f"left over: {self.left_over} processes")
        return flat and self.left_over == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="bench_soak, or bench_soak_mpi")
    parser.add_argument("--launcher", default="threads", help="of scripts/keep-running: threads or mpirun")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1500, help="of each run")
    parser.add_argument("--every", type=int, default=10, help="steps between checkpoints")
    parser.add_argument("--seed", type=int, default=1, help="of the kills")
    parser.add_argument("--work", help="where the folder of the runs is made; it holds their log, too")
    options = parser.parse_args()
    soak = Soak(options)
    print(f"log: {soak.work}/log")
    return 0 if soak.soak() else 1


if __name__ == "__main__":
    sys.exit(main())
