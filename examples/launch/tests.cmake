# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The command that a script gives to the launcher, by programs of the launchers' names that print it.

set(fake_launchers "PATH=${PROJECT_SOURCE_DIR}/tests/support:$ENV{PATH}")
# cordee_launch(NAME VARIABLES ARGUMENTS...): with VARIABLES in the environment; by default of mpirun.sh.
function(cordee_launch name variables)
  if(NOT "RUN" IN_LIST ARGN)
    list(APPEND ARGN RUN ${launch}/mpirun.sh 4 train --epochs 2)
  endif()
  cordee_example(launch.${name} ${ARGN})
  set_tests_properties(example.launch.${name} PROPERTIES TIMEOUT 60 ENVIRONMENT "${fake_launchers};${variables}")
endfunction()
cordee_launch(mpirun ""
  MATCH "mpirun -x TERM --bind-to none --map-by :OVERSUBSCRIBE -x MASTER_ADDR -x MASTER_PORT -x CORDEE_SECRET_KEY -n 4 train --epochs 2")
cordee_launch(mpirun_as_root "ID_IS=0;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=" STATUS 1
  MATCH "unless you set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
cordee_launch(mpirun_as_root_allowed "ID_IS=0;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
  MATCH "mpirun -x TERM .*-n 4 train")
cordee_launch(mpirun_on_hosts HOSTS=all MATCH "mpirun -x TERM --bind-to none --hostfile all -n 4 train --epochs 2")
cordee_launch(mpirun_of_mpich "HOSTS=all;MPIRUN_IS=HYDRA build details" MATCH "mpirun -f all -n 4 train --epochs 2")
cordee_launch(mpirun_killed MPIRUN_STATUS=137 STATUS 137 MATCH "mpirun.sh: a rank was killed by signal 9")
cordee_launch(mpirun_failed MPIRUN_STATUS=3 STATUS 3 MATCH "-n 4 train --epochs 2\n$")
cordee_launch(mpirun_stopped MPIRUN_WAITS=TERM STATUS 5 MATCH "mpirun has SIGUSR1\nmpirun has SIGTERM")
cordee_launch(sbatch SLURM_CPUS_PER_TASK=8
  MATCH "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=8 train --epochs 2"
  RUN bash ${launch}/slurm.sbatch train --epochs 2)
cordee_launch(sbatch_without_pmix "SRUN_HAS=none pmi2" MATCH "srun --mpi=pmi2 --kill-on-bad-exit=1 train"
  RUN bash ${launch}/slurm.sbatch train)
cordee_launch(sbatch_over_nccl "SLURM_JOB_NODELIST=node[3-4];SLURM_JOB_ID=41234" MATCH "srun .*train at node3:21234"
  RUN bash ${launch}/slurm.sbatch train)
cordee_launch(torchrun "" MATCH "torchrun --standalone --nproc-per-node=4 --no-python train --epochs 2"
  RUN ${launch}/torchrun.sh 4 train --epochs 2)
cordee_launch(torchrun_on_two "NODES=2;NODE=1;MASTER_ADDR=node3"
  MATCH "torchrun --nnodes=2 --node-rank=1 --nproc-per-node=4 --master-addr=node3 --master-port=29500 --no-python train"
  RUN ${launch}/torchrun.sh 4 train)
cordee_launch(torchrun_without_node NODES=2 STATUS nonzero MATCH "NODE is not set: 0 on the first of the 2 machines"
  RUN ${launch}/torchrun.sh 4 train)
foreach(script mpirun.sh slurm.sbatch torchrun.sh)
  cordee_launch(${script}.usage "" STATUS 2 MATCH "[Uu]sage: .*PROGRAM" RUN bash ${launch}/${script})
endforeach()
