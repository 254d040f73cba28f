# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Prints what this build provides, and for the rest how to get it.
set(cordee_found_zlib ${cordee_with_zlib})
set(cordee_missing_zlib "zlib, which was not found: install zlib1g-dev")
message(STATUS "cordee ${PROJECT_VERSION}: training on the CPU, ranks as threads; and")
foreach(part zlib ${cordee_components})
  string(TOUPPER ${part} upper)
  string(SUBSTRING "${part}          " 0 10 name)
  if(cordee_found_${part})
    message(STATUS "  ${name}  yes")
  elseif(CORDEE_${upper} STREQUAL "OFF")
    message(STATUS "  ${name}  off; -D CORDEE_${upper}=ON turns it on")
  else()
    message(STATUS "  ${name}  no: needs ${cordee_missing_${part}}")
  endif()
endforeach()
