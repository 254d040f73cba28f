# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# A file that another program may have put there is opened for reading by detail::io::input_file alone, which takes
# regular files: to open a pipe would block for ever. What the system itself offers below /proc, and folders by
# O_DIRECTORY, are opened elsewhere, too.
# Usage: cmake -D ROOT=<the repository> -P opens.cmake
cmake_minimum_required(VERSION 3.25)

file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/include/*.hpp ${ROOT}/include/*.cuh ${ROOT}/src/*.cpp
  ${ROOT}/examples/train/*.?pp ${ROOT}/examples/plan/*.?pp)
list(REMOVE_ITEM files include/cordee/io/file.hpp include/cordee/comm/transports/threads/starved_time.hpp)
foreach(file IN LISTS files)
  file(STRINGS ${ROOT}/${file} lines REGEX "std::ifstream|O_RDONLY|fopen *\\(")
  foreach(line IN LISTS lines)
    # Writing alone is by a mode that begins with w or a; what is_regular() precedes is no pipe.
    if(NOT line MATCHES "/proc/|O_DIRECTORY|is_regular\\(\\) \\?|fopen *\\(.*, [^,\"]*\"[wa][^r+]*$")
      string(STRIP "${line}" line)
      string(APPEND found "\n  ${file}: ${line}")
    endif()
  endforeach()
endforeach()
if(found)
  message(FATAL_ERROR "files are read by detail::io::input_file, which refuses pipes:${found}")
endif()
