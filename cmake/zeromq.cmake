# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds what component zeromq needs: sets cordee_found_zeromq, CORDEE_ZEROMQ_INCLUDE and CORDEE_ZEROMQ_LIBRARY.
find_path(CORDEE_ZEROMQ_INCLUDE zmq.h)
find_library(CORDEE_ZEROMQ_LIBRARY zmq)
mark_as_advanced(CORDEE_ZEROMQ_INCLUDE CORDEE_ZEROMQ_LIBRARY)
set(cordee_found_zeromq OFF)
if(CORDEE_ZEROMQ_INCLUDE AND CORDEE_ZEROMQ_LIBRARY)
  file(STRINGS ${CORDEE_ZEROMQ_INCLUDE}/zmq.h lines REGEX "^#define ZMQ_VERSION_(MAJOR|MINOR) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*" "\\1.\\2" version "${lines}")
  if(version VERSION_GREATER_EQUAL 4.2)
    set(cordee_found_zeromq ON)
  endif()
endif()
set(cordee_zeromq_absent "libzmq, version 4.2 or later, which was not found: install libzmq3-dev")
