#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Debian's LibTorch redefines the CHECK of a test framework that is included before it.
#
# Expected: <torch/torch.h> behind <doctest/doctest.h> leaves doctest's CHECK(...), which records a failure and goes on;
# PyTorch's own packages do.
# What happens: Debian builds LibTorch with glog, whose <glog/logging.h> every torch header includes. It defines CHECK with
# one parameter, without #undef and, being a system header, without a warning. From there on a CHECK that fails ends the
# process, so the cases behind it do not run, and CHECK(shape == side{2, 3}) does not compile: a comma is too many.
# The other order is safe, since doctest defines it anew.
#
# Seen on 2026-11-28 with libtorch-dev 1.13.1+dfsg-4, libgoogle-glog-dev 0.6.0-2, doctest-dev 2.4.9~ds-1 (Debian 12), g++ 12.2.0:
#   doctest, torch: glog's, ends the process
#   torch, doctest: doctest's
#   warnings: 0
#
# Exits with 0 while it is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for package in libtorch-dev=1.13.1+dfsg-4 libgoogle-glog-dev=0.6.0-2 libgflags-dev=2.2.2-2 doctest-dev=2.4.9~ds-1; do
  apt-get -q -q download "$package" 2>/dev/null
done
for package in *.deb; do dpkg -x "$package" root; done
cxx=$(type -P g++-12 || type -P g++)
"$cxx" --version | head -n 1
includes=(-isystem root/usr/include/torch/csrc/api/include -isystem root/usr/include -isystem root/usr/include/x86_64-linux-gnu)
whose() {
  printf '#include <%s>\n' "$@" >order.cpp
  echo 'void test(int x) { CHECK(x == 1); }' >>order.cpp
  "$cxx" -std=c++17 -Wall -Wextra "${includes[@]}" -E -P order.cpp 2>>warnings | sed -n "/void test(int x)/,\$p" >expanded
  if grep -q 'google::LogMessageFatal' expanded; then echo "glog's, ends the process"
  elif grep -q 'doctest::' expanded; then echo "doctest's"
  else echo "something else"; fi
}
first=$(whose doctest/doctest.h torch/torch.h)
second=$(whose torch/torch.h doctest/doctest.h)
echo "doctest, torch: $first"
echo "torch, doctest: $second"
echo "warnings: $(grep -c warning warnings || true)"
[[ $first == "glog's, ends the process" && $second == "doctest's" ]] && ! grep -q warning warnings
