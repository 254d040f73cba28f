# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds what component checkpoint needs, nlohmann-json and xxHash: sets cordee_found_checkpoint, and then
# CORDEE_XXHASH_LIBRARY and CORDEE_XXHASH_INCLUDE.
find_package(nlohmann_json 3.2 QUIET)
find_library(CORDEE_XXHASH_LIBRARY xxhash)
find_path(CORDEE_XXHASH_INCLUDE xxhash.h)
mark_as_advanced(CORDEE_XXHASH_LIBRARY CORDEE_XXHASH_INCLUDE)
set(cordee_found_checkpoint OFF)
if(nlohmann_json_FOUND AND CORDEE_XXHASH_LIBRARY AND CORDEE_XXHASH_INCLUDE)
  set(cordee_found_checkpoint ON)
endif()
set(cordee_checkpoint_absent "nlohmann-json 3.2 and xxHash 0.8, of which one was not found: install nlohmann-json3-dev and libxxhash-dev")
