# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The target `docs`: HTML of every public name and of the guide, in docs/ of the build folder (scripts/docs).
find_program(PYTHON NAMES python3)
find_program(DOXYGEN NAMES doxygen)
if(PROJECT_IS_TOP_LEVEL AND PYTHON AND DOXYGEN)
  add_custom_target(docs COMMAND ${PYTHON} ${PROJECT_SOURCE_DIR}/scripts/docs --out ${PROJECT_BINARY_DIR}/docs
    VERBATIM COMMENT "Reference in ${PROJECT_BINARY_DIR}/docs")
elseif(PROJECT_IS_TOP_LEVEL)
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "docs: python3 and doxygen are needed: apt-get install doxygen"
    COMMAND ${CMAKE_COMMAND} -E false)
endif()
