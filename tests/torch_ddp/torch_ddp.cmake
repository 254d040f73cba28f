# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the PyTorch of requirements.txt in FOLDER, or takes that of the environment CORDEE_TORCH_VENV, builds the tests of
# component libtorch with it in FOLDER, and runs them, ddp.py and the program of power_sgd's goldens beside PyTorch's hook.
function(run)
  cmake_parse_arguments(PARSE_ARGV 0 of "" "ELSE" "COMMAND")
  execute_process(COMMAND ${of_COMMAND} RESULT_VARIABLE failed)
  if(failed)
    list(JOIN of_COMMAND " " command)
    message(FATAL_ERROR "${of_ELSE}failed: ${command}")
  endif()
endfunction()

set(requirements ${CMAKE_CURRENT_LIST_DIR}/requirements.txt)
set(environment $ENV{CORDEE_TORCH_VENV})
if(NOT environment)
  set(environment ${FOLDER}/venv)
  if(NOT EXISTS ${environment}/installed)
    file(REMOVE_RECURSE ${environment})
    run(COMMAND ${PYTHON} -m venv ${environment} ELSE "skipped: package python3-venv is needed; ")
    run(COMMAND ${environment}/bin/pip install --quiet -r ${requirements} ELSE "skipped: PyTorch cannot be installed; ")
    file(TOUCH ${environment}/installed)
  endif()
endif()
execute_process(COMMAND ${environment}/bin/python -c "import torch; print(torch.__path__[0])"
  OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)

# The linker would look for what the wheel's CUDA libraries need in the system's NCCL, which may be older.
set(build ${FOLDER}/build)
run(COMMAND ${CMAKE_COMMAND} -S ${ROOT} -B ${build} -G ${GENERATOR} -D CMAKE_CXX_COMPILER=${COMPILER}
  -D CMAKE_BUILD_TYPE=Release -D CMAKE_PREFIX_PATH=${torch} -D CORDEE_LIBTORCH=ON -D CORDEE_CUDA=OFF -D CORDEE_EXAMPLES=OFF
  -D CORDEE_BENCHMARKS=OFF -D CORDEE_INSTALL=OFF -D CORDEE_TEST_UNITY_BATCH=36
  -D CMAKE_EXE_LINKER_FLAGS=-Wl,--allow-shlib-undefined)
run(COMMAND ${CMAKE_COMMAND} --build ${build} --target test_libtorch torch_ddp_ranks)
file(GLOB_RECURSE programs ${build}/*/test_libtorch ${build}/*/torch_ddp_ranks)
list(SORT programs)
list(GET programs 0 tests)
list(GET programs 1 ranks)
run(COMMAND ${tests})
run(COMMAND ${environment}/bin/python ${CMAKE_CURRENT_LIST_DIR}/ddp.py ${ranks})
run(COMMAND ${environment}/bin/python ${ROOT}/tests/support/power_sgd_goldens.py --torch)
