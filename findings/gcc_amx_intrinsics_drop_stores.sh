#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# GCC 12's intrinsics for AMX drop the stores to the memory that they read.
#
# Expected: what a program has written to an array is in memory when _tile_loadconfig or _tile_loadd reads the array, as
# for every other load that <immintrin.h> declares.
# What happens: both are assembly that does not say so. _tile_loadconfig names the first 8 of the 64 bytes as its operand,
# and _tile_loadd names only the address. If nothing else reads the array, -O2 deletes the stores as dead, without a
# warning: tiles are configured with what lies on the stack, and load it. Elsewhere a store may move behind the load.
# _tile_stored alone has "memory" among its clobbers. No processor with AMX is needed to see it: the constants 77 and 7777
# are not in the assembly. clang keeps them. Assembly of one's own with a "memory" clobber helps.
#
# Seen on 2026-11-28 with gcc 12.2.0 (Debian 12) and clang 20.1.2 of ziglang 0.15.1 from PyPI:
#   gcc_O0: rows of the configuration are stored; number of the tile is stored
#   gcc_O2: rows of the configuration are DROPPED; number of the tile is DROPPED
#   clang_O2: rows of the configuration are stored; number of the tile is stored
#
# Exits with 0 while gcc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >tiles.c <<'C'
#include <immintrin.h>
struct configuration {
  unsigned char palette, start_row, reserved[14];
  unsigned short row_bytes[16];
  unsigned char rows[16];
};
void configure(void) {
  struct configuration c = {.palette = 1, .row_bytes = {64}, .rows = {77}};
  _tile_loadconfig(&c);
}
void load(void) {
  int tile[16][16] = {{7777}};
  _tile_loadd(0, tile, 64);
}
C
python3 -m venv venv
venv/bin/pip -q install ziglang==0.15.1
export ZIG_GLOBAL_CACHE_DIR=$work/cache
gcc=$(type -P gcc-12 || type -P gcc)
"$gcc" --version | head -n 1
"$gcc" -O0 -mamx-tile -S tiles.c -o gcc_O0.s
"$gcc" -O2 -mamx-tile -Wall -Wextra -S tiles.c -o gcc_O2.s
venv/bin/python -m ziglang cc --version | head -n 1
venv/bin/python -m ziglang cc -target x86_64-linux-gnu -O2 -fno-sanitize=undefined -mcpu=sapphirerapids -S tiles.c -o clang_O2.s
state() { grep -q "\$$1[,[:space:]]" "$2" && echo "$3 stored" || echo "$3 DROPPED"; }
for one in gcc_O0 gcc_O2 clang_O2; do
  echo "$one: rows of the configuration $(state 77 $one.s are); number of the tile $(state 7777 $one.s is)"
done | tee seen
[[ $(grep -c DROPPED seen) == 1 && $(grep -c 'gcc_O2.*DROPPED.*DROPPED' seen) == 1 ]]
