# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Lists with designators name their type where they are assigned. Usage: cmake -D ROOT=<folder> -P assigned_lists.cmake
#
# In a template nvcc 13.0 passes x = {.b = 1} on as x = {1} and says nothing: the value lands in x's first member.
# x = type{.b = 1} keeps its designators, and so do the lists of declarations, arguments and return statements.
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE files RELATIVE ${ROOT} ${ROOT}/*.hpp ${ROOT}/*.cuh ${ROOT}/*.cpp ${ROOT}/*.cu)
list(FILTER files EXCLUDE REGEX "^(build|tests/support/[a-z]+_violations)/")
if(NOT files)
  message(FATAL_ERROR "no sources below ${ROOT}")
endif()
# What is assigned to begins a statement or an operand, as a declaration's name does not: its type precedes it.
set(subscript "@[^@=;]*@|\\([^()=;]*\\)")
set(assigned "([{};(),:?]|else[ \n])[ \n]*[*]*[A-Za-z_][A-Za-z_0-9]*(([.]|->|::)[A-Za-z_0-9]+|${subscript})*[ \n]*=[ \n]*")
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} text)
  if(NOT text MATCHES "=[ \n]*{[^;]*[.]")
    continue()
  endif()
  string(REGEX REPLACE "//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "[][]" "@" text "${text}")
  # A list of lists in which any has designators counts.
  while(text MATCHES "${assigned}{([ \n{]*|[^;]*[{,][ \n]*{[ \n]*)[.][a-z_0-9]+ *=")
    string(FIND "${text}" "${CMAKE_MATCH_0}" start)
    string(LENGTH "${CMAKE_MATCH_0}" length)
    math(EXPR start "${start} + ${length}")
    string(SUBSTRING "${text}" 0 ${start} before)
    string(SUBSTRING "${text}" ${start} -1 text)
    string(REGEX REPLACE "[^\n]" "" newlines "${lines_before}${before}")
    set(lines_before ${newlines})
    string(LENGTH "${newlines}" number)
    math(EXPR number "${number} + 1")
    message(SEND_ERROR "${file}:${number}: nvcc drops designators of a list that is assigned: name its type")
  endwhile()
  unset(lines_before)
endforeach()
