# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cross-compiles for 64-bit Arm with Debian's g++-aarch64-linux-gnu, and runs the programs in qemu-user. The emulated
# processor has every extension that QEMU knows; CORDEE_QEMU_CPU names another, as "max,sve512=off" does.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)  # notes on pairs, which g++ 10.1 passes in other registers than g++ 9
set(CORDEE_QEMU_CPU max CACHE STRING "The processor that qemu-aarch64 emulates, as its option -cpu takes it")
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu ${CORDEE_QEMU_CPU} -L /usr/aarch64-linux-gnu)
# Libraries of the processor that compiles are not linked; headers and CMake's files are the same for both.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
