# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Copies a folder of a folder for each class, which become 0, 1, ...
# Usage: cmake -D FROM=FOLDER -D TO=FOLDER -P rename_classes.cmake
file(GLOB classes LIST_DIRECTORIES TRUE ${FROM}/*)
set(label 0)
foreach(class IN LISTS classes)
  file(GLOB images ${class}/*.jpg)
  file(COPY ${images} DESTINATION ${TO}/${label})
  math(EXPR label "${label} + 1")
endforeach()
