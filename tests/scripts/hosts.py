#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/hosts: names, addresses and rates of hosts, how a run of ranks ends, and that nothing is left behind."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "hosts"
REFUSALS = ("needs root", "needs iproute2", "may not make namespaces", "cannot limit a rate")


def left():
    """What a run could leave on the machine."""
    return [sorted(subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines())
            for command in (["ip", "-o", "link"], ["ip", "netns"], ["mount"])]


class Hosts(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.environment = {**os.environ, "TMPDIR": self.temporary.name}

    def start(self, *arguments):
        process = subprocess.Popen([str(SCRIPT), *arguments], env=self.environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        return process

    def run_script(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=30)
        return process.returncode, out, err

    def test_refused(self):
        for arguments, said in (((), "Usage"), (("2",), "Usage"), (("2", "--none", "--", "true"), "Usage"),
                                (("2", "--rate", "fast", "--", "true"), "--rate fast is not a whole number"),
                                (("2", "--delay", "1", "--", "true"), "--delay 1 is not a number and us, ms or s"),
                                (("2", "--cut", "host1", "--", "true"), "--cut host1 is not a host and seconds"),
                                (("2", "--cut", "host2@1", "--", "true"), "--cut: there is no host2, only host0 to"),
                                (("2", "--power-off", "host1@1+1", "--", "true"), "--power-off host1@1+1 is not")):
            status, _, err = self.run_script(*arguments)
            self.assertEqual(status, 2, arguments)
            self.assertIn(said, err)
        self.assertIn("--ranks-per-host", self.run_script("--help")[1])

    def test_hosts(self):
        status, out, err = self.run_script(
            "2", "--rate", "100mbit", "--ranks-per-host", "2", "--", "bash", "-c",
            'echo "$RANK of $WORLD_SIZE: $LOCAL_RANK of $LOCAL_WORLD_SIZE on $(hostname),"'
            ' $(ip -4 -o address show dev eth0 | grep -o "inet [^ ]*") $(getent ahostsv4 host0 host1 | grep -c STREAM)'
            ' $(tc -s qdisc show dev eth0 | grep -o "rate [^ ]*") at "$MASTER_ADDR:$MASTER_PORT"')
        self.assertEqual((status, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()), [
            f"{r} of 4: {r % 2} of 2 on host{r // 2}, inet 10.0.0.{r // 2 + 1}/24 2 rate 100Mbit at host0:29500"
            for r in range(4)])

    def test_hosts_reach_each_other(self):
        program = ("import os, socket, sys, time; r = int(os.environ['RANK']); n = 2000000\n"
                   "if r == 0:\n"
                   "  s = socket.create_server(('', 29500), family=socket.AF_INET6, dualstack_ipv6=True)\n"
                   "  for k in range(2):\n"
                   "    c, peer = s.accept(); t = time.monotonic(); c.sendall(b'!'); got = 0\n"
                   "    while part := c.recv(65536): got += len(part)\n"
                   "    print(peer[0], got == n, 1 < 100e6 / 8 * (time.monotonic() - t) / n)\n"
                   "else:\n"
                   "  for address in ('10.0.0.1', 'fd00::1'):\n"
                   "    while True:\n"
                   "      try: c = socket.create_connection((address, 29500)); break\n"
                   "      except OSError: time.sleep(0.05)\n"
                   "    c.recv(1); c.sendall(bytes(n)); c.close()\n")
        status, out, err = self.run_script("2", "--rate", "100mbit", "--", sys.executable, "-c", program)
        self.assertEqual((status, out, err), (0, "::ffff:10.0.0.2 True True\nfd00::2 True True\n", ""))

    def test_delay(self):
        """Packets of both families, and long segments, come after the delay, in order and whole, also after a cut."""
        program = ("import hashlib, os, socket, time; data = bytes(range(256)) * 40000\n"
                   "if os.environ['RANK'] == '0':\n"
                   "  s = socket.create_server(('', 29500), family=socket.AF_INET6, dualstack_ipv6=True)\n"
                   "  for k in range(2):\n"
                   "    c, _ = s.accept(); c.sendall(c.recv(1)); got = b''\n"
                   "    while part := c.recv(65536): got += part\n"
                   "    print(got == data)\n"
                   "else:\n"
                   "  for address in ('10.0.0.1', 'fd00::1'):\n"
                   "    while True:\n"
                   "      try: c = socket.create_connection((address, 29500)); break\n"
                   "      except OSError: time.sleep(0.05)\n"
                   "    t = time.monotonic(); c.sendall(b'!'); c.recv(1); t = time.monotonic() - t\n"
                   "    print(2 * 0.03 <= t); c.sendall(data); c.close()\n"
                   "    if '.' in address: time.sleep(1)\n")
        before = left()
        status, out, err = self.run_script("2", "--delay", "30ms", "--cut", "host1@0.6+0.3", "--", sys.executable, "-c", program)
        self.assertEqual((status, out.split(), err), (0, ["True"] * 4, ""))
        self.assertEqual(left(), before)

    def test_first_failure(self):
        before = left()
        status, _, err = self.run_script("2", "--grace", "0.2", "--", "sh", "-c", "test $RANK = 0 || exit 3; sleep 60")
        self.assertEqual((status, err), (3, "hosts: rank 1 on host1 failed first, with status 3\n"
                                            "hosts: not ended after 0.2 s, and killed: rank 0 on host0;\n"))
        self.assertEqual((left(), os.listdir(self.temporary.name)), (before, []))

    def test_cut(self):
        status, out, err = self.run_script(
            "2", "--cut", "host1@0.5+0.3", "--", "bash", "-c",
            'seen=; until [[ $seen == *101 || $SECONDS -gt 2 ]]; do sleep 0.02; carrier=$(< /sys/class/net/eth0/carrier);'
            ' [[ $seen == *$carrier ]] || seen+=$carrier; done; echo "$RANK $seen"')
        self.assertEqual((status, sorted(out.splitlines()), err), (0, ["0 1", "1 101"], ""))

    def test_power_off(self):
        """The peer of a host without power sees no end of the connection, and its ranks' end is no failure."""
        program = ("import os, socket, time\n"
                   "if os.environ['RANK'] == '0':\n"
                   "  c, _ = socket.create_server(('', 29500)).accept(); print(c.recv(1)); c.settimeout(2.5)\n"
                   "  try: print(c.recv(1))\n"
                   "  except TimeoutError: print('silent')\n"
                   "while os.environ['RANK'] == '1':\n"
                   "  try: c = socket.create_connection(('10.0.0.1', 29500)); c.sendall(b'!'); time.sleep(60)\n"
                   "  except OSError: time.sleep(0.05)\n")
        status, out, err = self.run_script("2", "--power-off", "host1@1.5", "--", sys.executable, "-c", program)
        self.assertEqual((status, out, err), (0, "b'!'\nsilent\n", ""))

    def test_signals(self):
        before = left()
        for number, command, expected in ((signal.SIGINT, "trap 'echo saved; exit 0' INT", 0),
                                          (signal.SIGTERM, "trap '' TERM", 137), (signal.SIGKILL, ":", -9)):
            process = self.start("2", "--grace", "0.2", "--", "bash", "-c",
                                 f"{command}; echo began; while :; do sleep 0.05; done")
            self.assertEqual([process.stdout.readline() for _ in range(2)], ["began\n"] * 2)
            process.send_signal(number)
            out, _ = process.communicate(timeout=30)
            self.assertEqual((process.returncode, out), (expected, "saved\n" * 2 if expected == 0 else ""))
            limit = time.monotonic() + 10
            while left() != before and time.monotonic() < limit:
                time.sleep(0.05)
            self.assertEqual(left(), before)

    def test_two_runs(self):
        """Two runs at once have hosts of the same names."""
        runs = [self.start("2", "--", "sh", "-c", "sleep 0.3; hostname") for _ in range(2)]
        for run in runs:
            self.assertEqual(sorted(run.communicate(timeout=30)[0].split()), ["host0", "host1"])


if __name__ == "__main__":
    trial = subprocess.run([str(SCRIPT), "1", "--rate", "1gbit", "--", "true"], capture_output=True, text=True, check=False)
    if trial.returncode == 2 and any(refusal in trial.stderr for refusal in REFUSALS):
        print(f"skipped: {trial.stderr.strip()}")
        sys.exit(0)
    unittest.main()
