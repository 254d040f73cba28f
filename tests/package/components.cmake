# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Cases of case.cmake: each component, and the errors where what it needs is not found.
set(no_images "libjpeg-turbo or libpng not found: packages libjpeg-dev and libpng-dev")
set(no_cuda "CUDA compiler not found")

# Ends the case with the message that ctest counts as skipped, where the variable is false.
macro(skip_without variable message)
  if(NOT ${variable})
    message("skipped: ${message}")
    return()
  endif()
endmacro()
# Configures the consumer with one component of the installed library.
macro(configure_component component)
  install_to(${prefix})
  configure(-D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=${component} ${ARGN})
endmacro()
# expect_needs(COMPONENT WORDS DEFINITION): with the definition, which hides what the component needs, a consumer of the
# installed library and the library's own configuration end with errors that say what it is.
function(expect_needs component words definition)
  install_to(${prefix})
  expect_error("component ${component} needs ${words}"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=${component}
    -D ${definition})
  string(TOUPPER ${component} upper)
  expect_error("CORDEE_${upper}=ON needs ${words}"
    ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/source -D CORDEE_${upper}=ON -D ${definition})
endfunction()

if(CASE STREQUAL "component_testing")
  configure_component(testing)
  build_and_run(laws)
elseif(CASE STREQUAL "testing_from_source")
  configure(-D METHOD=add_subdirectory -D CORDEE_SOURCE=${SOURCE} -D COMPONENTS=testing)
elseif(CASE STREQUAL "testing_without_doctest")
  install_to(${prefix})
  expect_error("component testing needs doctest, which was not found: install doctest-dev"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=testing
    -D CMAKE_DISABLE_FIND_PACKAGE_doctest=ON)
  expect_error("cordee::testing"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/source -D METHOD=add_subdirectory -D CORDEE_SOURCE=${SOURCE}
    -D COMPONENTS=testing -D CMAKE_DISABLE_FIND_PACKAGE_doctest=ON)
elseif(CASE MATCHES "^(component_onednn|onednn_from_source)$")
  skip_without(ONEDNN "oneDNN not found: package libdnnl-dev")
  if(CASE STREQUAL "component_onednn")
    configure_component(onednn)
  else()
    configure(-D METHOD=add_subdirectory -D CORDEE_SOURCE=${SOURCE} -D CORDEE_ONEDNN=ON
      -D COMPONENTS=onednn)
  endif()
  build_and_run(consumer)
elseif(CASE STREQUAL "onednn_without_onednn")
  expect_needs(onednn "oneDNN 2, which was not found: install libdnnl-dev" CORDEE_ONEDNN_LIBRARY=OFF)
elseif(CASE STREQUAL "component_mpi")
  skip_without(MPI "MPI not found: package libopenmpi-dev or libmpich-dev")
  configure_component(mpi)
  build_and_run(consumer)  # one rank, without a launcher
elseif(CASE STREQUAL "mpi_without_mpi")
  expect_needs(mpi "an MPI, version 3 or later, which was not found" CMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
elseif(CASE STREQUAL "component_checkpoint")
  skip_without(CHECKPOINT "nlohmann-json or xxHash not found: packages nlohmann-json3-dev and libxxhash-dev")
  configure_component(checkpoint)
  build_and_run(consumer)
elseif(CASE STREQUAL "checkpoint_without_xxhash")
  expect_needs(checkpoint "nlohmann-json 3.2 and xxHash 0.8" CORDEE_XXHASH_LIBRARY=OFF)
elseif(CASE STREQUAL "component_images")
  skip_without(IMAGES "${no_images}")
  configure_component(images)
  build_and_run(consumer)
elseif(CASE STREQUAL "images_without_png")
  expect_needs(images "libjpeg-turbo 1.5 and libpng 1.6" CMAKE_DISABLE_FIND_PACKAGE_PNG=ON)
elseif(CASE STREQUAL "webdataset_without_libarchive")
  skip_without(IMAGES "${no_images}")
  expect_needs(webdataset "libarchive" CMAKE_DISABLE_FIND_PACKAGE_LibArchive=ON)
elseif(CASE STREQUAL "component_simulated")
  skip_without(SIMULATED "Boost.Context not found: package libboost-context-dev")
  configure_component(simulated -Werror=dev)  # without warnings of newer versions of CMake
  build_and_run(consumer)
elseif(CASE STREQUAL "simulated_without_boost")
  expect_needs(simulated "Boost.Context 1.74" CMAKE_DISABLE_FIND_PACKAGE_Boost=ON)
elseif(CASE STREQUAL "component_zeromq")
  skip_without(ZEROMQ "libzmq not found: package libzmq3-dev")
  configure_component(zeromq)
  build_and_run(consumer)
elseif(CASE STREQUAL "zeromq_without_libzmq")
  expect_needs(zeromq "libzmq, version 4.2 or later" CORDEE_ZEROMQ_LIBRARY=OFF)
elseif(CASE STREQUAL "component_cuda")
  skip_without(CUDA "${no_cuda}")
  configure_component(cuda)
  build_for_gpu(on_gpu)
  build_for_gpu(integers_on_gpu)
elseif(CASE STREQUAL "cuda_without_cuda")
  expect_needs(cuda "a CUDA compiler and the CUDA runtime" CMAKE_CUDA_COMPILER=NOTFOUND)
elseif(CASE STREQUAL "cuda_without_cudnn")
  expect_error("CORDEE_CUDNN=ON, but cuDNN 9.8 was not found beside a CUDA toolkit"
    ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/source -D CORDEE_CUDNN=ON -D CMAKE_DISABLE_FIND_PACKAGE_CUDNN=ON)
  skip_without(CUDNN "cuDNN or CUDA compiler not found")
  install_to(${prefix})
  expect_error("cordee was installed with cuDNN, which is not found here: install cuDNN 9.8, or install cordee"
    ${CMAKE_COMMAND} -S ${consumer} -B ${WORK}/build -D CMAKE_PREFIX_PATH=${prefix} -D COMPONENTS=cuda
    -D CMAKE_DISABLE_FIND_PACKAGE_CUDNN=ON)
elseif(CASE STREQUAL "component_nccl")
  skip_without(NCCL "NCCL or CUDA compiler not found")
  configure_component(nccl)
  build_for_gpu(over_nccl_gpu)
  if(ALL)
    build_for_gpu(over_nccl)
  endif()
elseif(CASE STREQUAL "nccl_without_nccl")
  skip_without(CUDA "${no_cuda}")
  expect_needs(nccl "NCCL 2.14 or later, which was not found" CMAKE_DISABLE_FIND_PACKAGE_NCCL=ON)
else()
  set(has_case OFF)
endif()
