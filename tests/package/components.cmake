# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cases of case.cmake: each component, and the errors where what it needs is not found.

# Ends the case with the message that ctest counts as skipped, where this build has not found what the component needs.
macro(skip_without component)
  if(NOT ${component} IN_LIST FOUND)
    message("skipped: needs ${cordee_${component}_ABSENT}")
    return()
  endif()
endmacro()
# expect_needs(COMPONENT WORDS DEFINITION): with the definition, which hides what the component needs, a consumer of the
# installed library and, where it has an option, the library's own configuration end with errors that say what it is.
function(expect_needs component words definition)
  install_to(${prefix})
  expect_error("component ${component} needs ${words}"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build_${component} -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=${component}
    -D ${definition})
  string(TOUPPER ${component} upper)
  if(NOT cordee_${component}_OPTION STREQUAL "")
    expect_error("CORDEE_${upper}=ON needs ${words}"
      ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/source_${component} -D CORDEE_${upper}=ON -D ${definition})
  endif()
endfunction()

include(${SOURCE}/cmake/components.cmake)
if(CASE MATCHES "^component_([a-z]+)$" AND CMAKE_MATCH_1 IN_LIST cordee_components)
  set(component ${CMAKE_MATCH_1})
  skip_without(${component})
  install_to(${prefix})
  configure(-D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=${component} -Werror=dev)  # newer versions of CMake warn of old modules
  if(component STREQUAL "testing")
    build_and_run(laws)
  elseif(component STREQUAL "cuda")
    build_for_gpu(on_gpu)
    build_for_gpu(integers_on_gpu)
  elseif(component STREQUAL "nccl")
    build_for_gpu(over_nccl_gpu)
    if(ALL)
      build_for_gpu(over_nccl)
    endif()
  else()
    build_and_run(consumer)  # over MPI and ZeroMQ one rank, without a launcher
  endif()
elseif(CASE STREQUAL "testing_from_source")
  configure(-D METHOD=add_subdirectory -D CORDEE_SOURCE=${SOURCE} -D COMPONENTS=testing)
elseif(CASE STREQUAL "component_from_source")  # one that a project in C++ does not get without asking
  skip_without(zeromq)
  configure(-D METHOD=add_subdirectory -D CORDEE_SOURCE=${SOURCE} -D CORDEE_ZEROMQ=ON -D COMPONENTS=zeromq)
  build_and_run(consumer)
elseif(CASE STREQUAL "torch_from_source")  # whose targets are found in this project's folder; without a compilation
  skip_without(libtorch)
  configure(-D METHOD=fetch_content -D CORDEE_SOURCE=${SOURCE} -D CORDEE_LIBTORCH=ON -D COMPONENTS=libtorch)
elseif(CASE MATCHES "^without_(.+)$")
  set(component ${CMAKE_MATCH_1})
  foreach(needed IN LISTS cordee_${component}_NEEDS)
    skip_without(${needed})
  endforeach()
  if(cordee_${component}_FILES)
    string(REGEX REPLACE " .*" "=OFF" hidden "${cordee_${component}_FILES}")
  elseif(cordee_${component}_PACKAGES)
    list(GET cordee_${component}_PACKAGES -1 package)
    string(REGEX REPLACE "^([^ ]+).*" "CMAKE_DISABLE_FIND_PACKAGE_\\1=ON" hidden ${package})
  else()
    set(hidden CMAKE_CUDA_COMPILER=NOTFOUND)
  endif()
  expect_needs(${component} "${cordee_${component}_ABSENT}" ${hidden})
  foreach(dependent IN LISTS cordee_components)
    if(component IN_LIST cordee_${dependent}_NEEDS)
      expect_needs(${dependent} "the component ${component}, which needs ${cordee_${component}_ABSENT}" ${hidden})
    endif()
  endforeach()
  if(component STREQUAL "testing")
    expect_error("cordee::testing" ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/added -D METHOD=add_subdirectory
      -D CORDEE_SOURCE=${SOURCE} -D COMPONENTS=testing -D ${hidden})
  endif()
elseif(CASE STREQUAL "cuda_without_cudnn")
  expect_error("CORDEE_CUDNN=ON, but cuDNN 9.8 was not found beside a CUDA toolkit"
    ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/source -D CORDEE_CUDNN=ON -D CMAKE_DISABLE_FIND_PACKAGE_CUDNN=ON)
  if(NOT CUDNN)
    message("skipped: cuDNN or CUDA compiler not found")
    return()
  endif()
  install_to(${prefix})
  expect_error("cordee was installed with cuDNN, which is not found here: install cuDNN 9.8, or install cordee"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=cuda
    -D CMAKE_DISABLE_FIND_PACKAGE_CUDNN=ON)
else()
  set(has_case OFF)
endif()
