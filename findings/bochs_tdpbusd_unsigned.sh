#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Bochs 3 multiplies the signed bytes of AMX's TDPBUSD as if they were unsigned.
#
# Expected: TDPBUSD multiplies unsigned bytes of one tile with signed bytes of another, so 1 times the byte 0xff adds -1
# (0xffffffff), as Intel's manual defines it.
# What happens: it adds 255. By the source, TDPBSUD and TDPBSSD have the same fault: all four products of bytes are
# TDPBUUD's. Sums with bytes up to 127 are right. A boot sector shows it; no operating system is needed.
#
# Seen on 2026-11-28 with Debian 13's package bochs 3.0+dfsg-1 (3.1+dfsg-1 of unstable prints the same):
#   TDPBUSD of 1 and 0xff, added to 0: 000000ff
#
# Exits with 0 while Bochs behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >boot.s <<'A'
# 64-bit mode, AMX's registers, one TDPBUSD of 1 and -1; the sum goes to COM1 in hexadecimal.
  .code16
  .globl _start
_start:
  cli
  xor %ax, %ax
  mov %ax, %ds
  mov %ax, %es
  mov %ax, %ss
  mov $0x7c00, %sp
  mov $0x1000, %di             # page tables at 0x1000, 0x2000, 0x3000: the first 2 MiB
  mov $0x1800, %cx
  rep stosw
  movw $0x2003, 0x1000
  movw $0x3003, 0x2000
  movw $0x83, 0x3000
  mov $0x40620, %eax           # PAE, OSFXSR, OSXMMEXCPT, OSXSAVE
  mov %eax, %cr4
  mov $0x1000, %eax
  mov %eax, %cr3
  mov $0xc0000080, %ecx        # EFER.LME
  rdmsr
  or $0x100, %eax
  wrmsr
  mov $0x80000013, %eax        # PG, ET, MP, PE
  mov %eax, %cr0
  lgdt gdtr
  ljmp $8, $long
  .code64
long:
  xor %ecx, %ecx
  xor %edx, %edx
  mov $0x60007, %eax           # x87, SSE, AVX, TILECFG, TILEDATA
  xsetbv
  ldtilecfg configuration
  mov $4, %ecx
  mov $unsigned_bytes, %esi
  tileloadd (%rsi,%rcx,1), %tmm1
  mov $signed_bytes, %esi
  tileloadd (%rsi,%rcx,1), %tmm2
  tilezero %tmm0
  tdpbusd %tmm2, %tmm1, %tmm0
  mov $sum, %esi
  tilestored %tmm0, (%rsi,%rcx,1)
  mov $0x3fb, %dx              # COM1: 8 bits
  mov $3, %al
  out %al, %dx
  mov sum, %ebx
  mov $8, %ecx
digit:
  rol $4, %ebx
  mov %ebx, %eax
  and $15, %eax
  mov digits(%rax), %al
  call send
  loop digit
  mov $10, %al
  call send
  call idle
  mov $shutdown, %esi          # ends Bochs
  mov $8, %ecx
  mov $0x8900, %dx
  rep outsb
halt:
  jmp halt
send:                          # %al, after what is being sent
  mov %eax, %edi
  call idle
  mov %edi, %eax
  mov $0x3f8, %dx
  out %al, %dx
  ret
idle:
  mov $0x3fd, %dx
  in %dx, %al
  test $0x40, %al
  jz idle
  ret
  .balign 8
gdt: .quad 0, 0x00209a0000000000
gdtr: .word 15
  .long gdt
shutdown: .ascii "Shutdown"
digits: .ascii "0123456789abcdef"
unsigned_bytes: .byte 1, 0, 0, 0
signed_bytes: .byte -1, 0, 0, 0
configuration:                 # palette 1; tiles 0, 1 and 2 of one row of 4 bytes
  .byte 1
  .zero 15
  .word 4, 4, 4
  .zero 26
  .byte 1, 1, 1
  .zero 13
sum: .long 0
  .org 510
  .word 0xaa55
A
as boot.s -o boot.o
ld -Ttext 0x7c00 --oformat binary boot.o -o floppy
truncate -s 1474560 floppy

# Debian 13's packages, unpacked here by a private configuration of apt-get.
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -n 1)
mkdir -p lists/partial cache/archives/partial root
touch status
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri trixie main" >sources
cat >apt.conf <<CONF
Dir::State "$work"; Dir::State::status "$work/status"; Dir::Cache "$work/cache"; APT::Architecture "amd64";
Dir::Etc::sourcelist "$work/sources"; Dir::Etc::sourceparts "-"; APT::Sandbox::User "";
CONF
export APT_CONFIG=$work/apt.conf
apt-get -qq update
apt-get -qq install --yes --download-only --no-install-recommends bochs=3.0+dfsg-1 bochs-term=3.0+dfsg-1 >/dev/null
for package in cache/archives/*.deb; do dpkg -x "$package" root; done

share=$work/root/usr/share/bochs library=$work/root/usr/lib/x86_64-linux-gnu
cat >bochsrc <<RC
megs: 32
cpu: model=sapphire_rapids
romimage: file=$share/BIOS-bochs-latest
vgaromimage: file=$share/VGABIOS-lgpl-latest
floppya: 1_44=floppy, status=inserted
boot: floppy
com1: enabled=1, mode=file, dev=serial
display_library: term
log: log
RC
export LTDL_LIBRARY_PATH=$library/bochs/plugins BXSHARE=$share
# It ends at the guest's wish, with status 1; its debugger waits for "c" before it begins.
echo c | TERM=vt100 timeout -s KILL 60 "$library/ld-linux-x86-64.so.2" --library-path "$library:$library/pulseaudio" \
  root/usr/bin/bochs-bin -q -f bochsrc >out 2>&1 || true
grep -a -m 1 -o 'Bochs x86 Emulator [0-9.]*' log out | head -n 1 | sed 's/.*://'
sum=$(head -n 1 serial)
echo "TDPBUSD of 1 and 0xff, added to 0: $sum"
[[ $sum == 000000ff ]]
