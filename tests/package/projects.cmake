# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cases of case.cmake: the library without components, and errors of what a project asks for.
if(CASE STREQUAL "find_package")  # after moving the installed files: the package is relocatable
  install_to(${prefix})
  file(RENAME ${prefix} ${WORK}/moved)
  configure(-D CMAKE_PREFIX_PATH=${WORK}/moved -D VERSION=${version})
  build_and_run(consumer)
elseif(CASE STREQUAL "readme")  # README's project, with its own first program
  file(READ ${SOURCE}/README.md text)
  string(REGEX MATCH "\n```cmake\n([^`]+)```" block "${text}")
  string(REPLACE "/path/to/cordee" ${SOURCE} project "${CMAKE_MATCH_1}")
  file(WRITE ${WORK}/app/CMakeLists.txt "${project}")
  file(COPY_FILE ${SOURCE}/examples/quick_start.cpp ${WORK}/app/app.cpp)
  run(${CMAKE_COMMAND} -S ${WORK}/app -B ${WORK}/build -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_EXPORT_COMPILE_COMMANDS=ON)
  file(READ ${WORK}/build/compile_commands.json commands)
  if(NOT commands MATCHES "-O3.*app[.]cpp" OR NOT commands MATCHES "-march=native")
    message(FATAL_ERROR "README's project is compiled by ${commands}")
  endif()
  if(ALL)
    run(${CMAKE_COMMAND} --build ${WORK}/build)
    expect_error("error: no folder ${WORK}/nowhere: pass that of Fashion-MNIST" ${WORK}/build/app ${WORK}/nowhere)
  endif()
elseif(CASE STREQUAL "fetch_content")
  configure(-D METHOD=${CASE} -D CORDEE_SOURCE=${SOURCE})
  build_and_run(consumer)
elseif(CASE STREQUAL "only_cxx")  # a project in C++ gets no language and no MPI that it did not ask for
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_CXX_COMPILER=${COMPILER}
    -D METHOD=fetch_content -D CORDEE_SOURCE=${SOURCE} -D CORDEE_ZLIB=OFF -D CMAKE_DISABLE_FIND_PACKAGE_doctest=ON
    -D CORDEE_XXHASH_LIBRARY=OFF OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE result)
  foreach(line "cordee [0-9.]+: training on the CPU" "zlib +off; -D CORDEE_ZLIB=ON" "testing +no: needs doctest, which was not found"
      "checkpoint +no: needs nlohmann-json 3.2 and xxHash" "zeromq +off; -D CORDEE_ZEROMQ=ON" "mpi +off; -D CORDEE_MPI=ON"
      "cuda +off; -D CORDEE_CUDA=ON" "nccl +off; -D CORDEE_NCCL=ON")
    if(result OR NOT out MATCHES "-- +${line}")
      message(FATAL_ERROR "expected \"${line}\" in:\n${out}")
    endif()
  endforeach()
  file(STRINGS ${WORK}/build/CMakeCache.txt searched REGEX "^(CMAKE_CUDA_COMPILER|MPI_CXX|CORDEE_ZEROMQ_LIBRARY)")
  if(searched)
    message(FATAL_ERROR "a project in C++ has looked for ${searched}")
  endif()
elseif(CASE STREQUAL "with_cuda")  # a project compiled with CUDA gets cordee::cuda without asking
  if(NOT "cuda" IN_LIST FOUND)
    message("skipped: CUDA compiler not found")
    return()
  endif()
  configure(-D METHOD=fetch_content -D CORDEE_SOURCE=${SOURCE} -D COMPONENTS=cuda)
  foreach(architectures 75 all-major)  # 75 is the default of nvcc 13
    expect_error("on_gpu is compiled for the GPU architectures ${architectures}, but cordee::cuda needs 80 or later"
      ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D "CMAKE_CUDA_ARCHITECTURES=${architectures}")
  endforeach()
  # README's project with CUDA; its program is compiled for the GPU with --all: headers.all_headers_cuda has the headers.
  file(WRITE ${WORK}/app/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(app LANGUAGES CXX CUDA)\n"
    "include(FetchContent)\nFetchContent_Declare(cordee SOURCE_DIR ${SOURCE})\nFetchContent_MakeAvailable(cordee)\n"
    "add_library(app OBJECT app.cu)\ntarget_link_libraries(app PRIVATE cordee::cuda)\n")
  file(READ ${SOURCE}/examples/quick_start.cpp program)
  string(REGEX REPLACE "fp32, cpu" "fp16, gpu" program "${program}")
  file(WRITE ${WORK}/app/app.cu "${program}")
  run(${CMAKE_COMMAND} -S ${WORK}/app -B ${WORK}/app_build -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_CUDA_ARCHITECTURES=90)
  if(ALL)
    run(${CMAKE_COMMAND} --build ${WORK}/app_build --target app)
  endif()
  install_to(${prefix})
  expect_error("on_gpu is compiled for the GPU architectures 75, but cordee::cuda needs 80 or later"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/found -D CMAKE_CXX_COMPILER=${COMPILER} -D COMPONENTS=cuda
    -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CUDA_ARCHITECTURES=75)
elseif(CASE STREQUAL "add_subdirectory")
  configure(-D METHOD=${CASE} -D CORDEE_SOURCE=${SOURCE})
  build_and_run(consumer)
elseif(CASE STREQUAL "zlib_not_found")
  file(READ ${BUILD}/cordee-config.cmake text)
  if(NOT text MATCHES "if\\(ON\\)")
    message("skipped: built without zlib")
    return()
  endif()
  install_to(${prefix})
  expect_error("cordee was installed with zlib, which is not found here"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix}
    -D CMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON)
elseif(CASE MATCHES "^absent_(.*)$")
  install_to(${prefix})
  include(${SOURCE}/cmake/components.cmake)
  expect_error("component ${CMAKE_MATCH_1}: ${cordee_absent_${CMAKE_MATCH_1}}"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=${CMAKE_MATCH_1})
elseif(CASE STREQUAL "unknown_component")
  install_to(${prefix})
  expect_error("there is no component teapot; this version has cordee, testing, checkpoint, images, webdataset"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=teapot)
elseif(CASE STREQUAL "old_compiler")
  find_program(OLD_CLANG NAMES clang++-15 clang++-14)
  if(NOT OLD_CLANG)
    message("skipped: no clang that is older than 16")
    return()
  endif()
  install_to(${prefix})
  set(sentence "cordee needs g++ 12, clang 16 or a later one, but ${OLD_CLANG} is Clang 1")
  expect_error("${sentence}" ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/source -D CMAKE_CXX_COMPILER=${OLD_CLANG})
  expect_error("${sentence}" ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_CXX_COMPILER=${OLD_CLANG}
    -D CMAKE_PREFIX_PATH=${prefix})
elseif(CASE STREQUAL "wrong_version")
  install_to(${prefix})
  expect_error("compatible with requested version \"0.99\""
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D VERSION=0.99)
elseif(CASE STREQUAL "options")
  include(${SOURCE}/cmake/components.cmake)
  foreach(component IN LISTS cordee_absent)
    string(TOUPPER ${component} upper)
    expect_error("CORDEE_${upper}=ON: ${cordee_absent_${component}}"
      ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/${component} -D CORDEE_${upper}=ON)
  endforeach()
elseif(CASE STREQUAL "architecture")  # a package with a shared library is not for every architecture
  foreach(infer OFF ON)
    run(${few_parts} -D CORDEE_INFER=${infer} -D CORDEE_INFER_ISAS=baseline)
    file(STRINGS ${WORK}/source/CPackConfig.cmake found REGEX "CPACK_(DEBIAN|RPM)_PACKAGE_ARCHITECTURE")
    set(wanted_OFF [[set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE "all");set(CPACK_RPM_PACKAGE_ARCHITECTURE "noarch")]])
    set(wanted_ON "")  # cpack finds out
    if(NOT found STREQUAL wanted_${infer})
      message(FATAL_ERROR "with CORDEE_INFER=${infer} packages have \"${found}\"")
    endif()
  endforeach()
elseif(CASE STREQUAL "no_absolute_paths")
  install_to(${prefix})
  file(GLOB_RECURSE files ${prefix}/*.cmake)
  if(NOT files)
    message(FATAL_ERROR "nothing was exported")
  endif()
  expect_no_paths(${files} PATHS ${SOURCE} ${BUILD} ${prefix})
else()
  set(has_case OFF)
endif()
