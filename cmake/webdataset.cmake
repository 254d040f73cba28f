# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds what component webdataset needs besides images, libarchive: sets cordee_found_webdataset. LibArchive::LibArchive
# is then a target.
find_package(LibArchive 3.3 QUIET)
set(cordee_found_webdataset OFF)
if(TARGET LibArchive::LibArchive)
  set(cordee_found_webdataset ON)
endif()
set(cordee_webdataset_absent "libarchive 3.3, which was not found: install libarchive-dev")
