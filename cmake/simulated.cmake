# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds what component simulated needs, Boost.Context: sets cordee_found_simulated. Boost::context is then a target.
if(POLICY CMP0167)  # from CMake 3.30 on, which warns of its own FindBoost: Boost's configuration is found
  cmake_policy(SET CMP0167 NEW)
endif()
find_package(Boost 1.74 QUIET COMPONENTS context)
set(cordee_found_simulated OFF)
if(TARGET Boost::context)
  set(cordee_found_simulated ON)
endif()
set(cordee_simulated_absent "Boost.Context 1.74, which was not found: install libboost-context-dev")
