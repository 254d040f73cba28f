# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Examples are tests too: the whole program, on few images. cmake/run-example.cmake checks the exit
# status, the output, and bounds of accuracies. Bounds are those of seeds 1, 2, 3 with a margin for
# other instruction sets; the accuracies seen stand beside them. With learning rate 0 these programs
# were seen to have at most 11.3 %; a guess of ten classes has 10 %, with a standard deviation of 1.0 on
# 1,000 images and 1.3 on 500. So each lower bound is at least 17 %.

include(${PROJECT_SOURCE_DIR}/tests/order.cmake)

set(example_deadline 300)
if(CMAKE_BUILD_TYPE STREQUAL "Debug")  # without optimization these programs take 20 to 50 times as long
  set(example_deadline 1800)
endif()

# cordee_example(NAME ARGUMENTS...): the test example.NAME runs run-example.cmake with ARGUMENTS; that of an example that is
# seldom built, with CORDEE_ALL_TESTS alone.
function(cordee_example name)
  string(REGEX MATCH "^[^.]+" program ${name})
  if(program IN_LIST seldom_examples AND NOT program STREQUAL "quick_start" AND NOT CORDEE_ALL_TESTS)
    cordee_only_with_all(example.${name})
    return()
  endif()
  add_test(NAME example.${name}
    COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/cmake/run-example.cmake -- ${ARGN})
  set_tests_properties(example.${name} PROPERTIES TIMEOUT ${example_deadline} LABELS example)
endfunction()
# cordee_example_skipped(NAME REASON): the test example.NAME is skipped, with the reason.
function(cordee_example_skipped name reason)
  add_test(NAME example.${name} COMMAND ${CMAKE_COMMAND} -E echo "skipped: ${reason}")
  set_tests_properties(example.${name} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: " LABELS example)
endfunction()
# cordee_example_options(NAME REGEX): --help prints REGEX, and an unknown option is an error.
function(cordee_example_options name regex)
  cordee_example(${name}.help MATCH "${regex}" RUN $<TARGET_FILE:${name}> --help)
  cordee_example(${name}.unknown_option STATUS 1 MATCH "error: unknown option .--no-such-option"
    RUN $<TARGET_FILE:${name}> --no-such-option)
endfunction()

# README's program, on 1,000 images. It finds data/ in a folder above itself, and writes in its working directory.
add_executable(quick_start_few ${PROJECT_SOURCE_DIR}/tests/examples/quick_start.cpp)
target_link_libraries(quick_start_few PRIVATE cordee_dev)
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/quick_start_few.dir)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/data ${CMAKE_CURRENT_BINARY_DIR}/data SYMBOLIC)
cordee_example(quick_start MATCH "validation.* of 100|held out: .* of 100"
  NUMBER "epoch 12/12  loss ([0-9.]+) " 0.4 1.5  # 0.98; without a step at least ln 10 = 2.30, a guess's
  RUN $<TARGET_FILE:quick_start_few>)
set_tests_properties(example.quick_start PROPERTIES
  WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/quick_start_few.dir COST ${long_test})

cordee_example(quick_start.without_data STATUS 1 MATCH "error: no folder nowhere: pass that of Fashion-MNIST, which is data/"
  RUN $<TARGET_FILE:quick_start_few> nowhere)
cordee_example(quick_start.help MATCH "usage: quick_start .FOLDER." RUN $<TARGET_FILE:quick_start_few> --help)

cordee_example(recipes MATCH "Goyal +8192 +256 +32 +14076 +0.255 +59.8. +59.8.*Yamazaki +81920 +2048 +40 +1440 +0.050 +1.20"
  RUN $<TARGET_FILE:recipes>)

cordee_example(recipes_run MATCH "Smith .arXiv 1711.00489. at 1/64.*deviations: .*batch 128, not 8192.*updates, validation accuracy"
  NUMBER "accuracy ([0-9.]+) %" 25 100  # 52.3, 55.4, 55.3
  RUN $<TARGET_FILE:recipes_run> --run Smith --epochs 3)
cordee_example(recipes_run.unknown STATUS 1 MATCH "error: --run: there is no run .Gauss." RUN $<TARGET_FILE:recipes_run> --run Gauss)
if(TARGET recipes_simulated)
  cordee_example(recipes_simulated MATCH "Goyal +256 p100 +0.2[0-9]+ +0.00[0-9]+ +0.2550 +-[0-9.]+ %"
    RUN $<TARGET_FILE:recipes_simulated> Goyal)
  cordee_example(recipes_simulated.unknown STATUS 1 MATCH "error: no run of that name: Gauss"
    RUN $<TARGET_FILE:recipes_simulated> Gauss)
endif()
if(TARGET plan)
  cordee_example(plan
    MATCH "batch 2048 on 64 x v100.*efficiency 9[0-9].*halving-doubling.*memory of a rank +1.78 GB.*90 epochs +56302 steps.*kWh.*scaling ends.*worth its cost"
    RUN $<TARGET_FILE:plan> --batch 2048 --ranks 64 --noise-scale 2000)
  # M = 5000 h / 64 = 78.125 h, sqrt(2 * 30 s * M) = 68.5 min: the run of 23.6 min is shorter, so its result is the
  # only checkpoint.
  cordee_example(plan.failures MATCH "failures +one in 78.1 h; a checkpoint of 30.0 s .*interval is 68.5 min"
    RUN $<TARGET_FILE:plan> --batch 2048 --ranks 64 --mtbf 5000)
  cordee_example(plan.network STATUS 1 MATCH "error: --network: .vgg. is none of resnet20" RUN $<TARGET_FILE:plan> --network vgg)
  cordee_example(plan.batch STATUS 1 MATCH "error: --batch: 100 images are not divided by --ranks 8"
    RUN $<TARGET_FILE:plan> --batch 100)
  cordee_example(plan.machine STATUS 1 MATCH "error: --machine: nowhere cannot be read" RUN $<TARGET_FILE:plan> --machine nowhere)
endif()

# Each compares its weights with those of one rank, and fails where they differ.
cordee_example(model_parallel
  MATCH "filters split over 8 ranks +loss 4.3151 to 0.4263 .*pipeline, 8 micro-batches +loss 4.3151 to 0.4263 "
  RUN $<TARGET_FILE:model_parallel>)
# 2 (p-1)/p of 37.7 M numbers beside 9,216 + 4,096 for each sample: from a batch between 2,048 and 8,192 on.
if(TARGET model_parallel_simulated)
  cordee_example(model_parallel_simulated
    MATCH "fc6.* 32 .*split filters.* 2048 .*split filters.* 8192 .*divide the batch.*3x3.* 32 [^\n]*divide.* 8192 [^\n]*divide"
    NUMBER " 32 +0.091 +([0-9.]+) " 21.2 21.4  # 14/8 of 151 MB at 12.5 GB/s, 14 latencies, and the computation: 21.300
    RUN $<TARGET_FILE:model_parallel_simulated>)
endif()

if(TARGET draw_messages)
  cordee_example(draw_messages MATCH "tree +messages: 14, rounds: 6, vectors sent in all: 14.00, time: 6.00"
    RUN $<TARGET_FILE:draw_messages> --folder ${CMAKE_CURRENT_BINARY_DIR})
endif()

# Ranks as processes, by the scripts that start them.
set(launch ${CMAKE_CURRENT_SOURCE_DIR}/launch)
if(TARGET cordee::mpi)
  cordee_example(many_machines
    MATCH "one process:  validation accuracy [0-9.]+ %, the weights are the same bits"
    NUMBER "2 processes: validation accuracy ([0-9.]+) %" 20 90
    RUN ${launch}/mpirun.sh 2 $<TARGET_FILE:many_machines> --epochs 0.2 --batch 64 --warmup 0.1 --deadline 60)
  if(TEST example.many_machines)
    set_tests_properties(example.many_machines PROPERTIES PROCESSORS 2
      ENVIRONMENT "MPIRUN=${MPIEXEC_EXECUTABLE};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
  endif()
  cordee_example_options(many_machines "--deadline 120")
else()
  cordee_example_skipped(many_machines "no MPI: package libopenmpi-dev or libmpich-dev")
endif()

# Photographs that a program makes: 24 to train on and 6 held out, of noise, so no accuracy is expected.
if(TARGET flowers)
  add_executable(make_photographs ${PROJECT_SOURCE_DIR}/tests/examples/make_photographs.cpp)
  target_link_libraries(make_photographs PRIVATE cordee_dev cordee_images)
  cordee_seldom_built(make_photographs)
  set(photographs ${CMAKE_CURRENT_BINARY_DIR}/photographs)
  if(CORDEE_ALL_TESTS)
    add_test(NAME example.flowers.photographs COMMAND make_photographs ${photographs})
    set_tests_properties(example.flowers.photographs PROPERTIES FIXTURES_SETUP photographs LABELS example)
  endif()
  set(few --data ${photographs} --batch 8 --epochs 1 --warmup 0.5)
  cordee_example(flowers MATCH "input +rank 0 of 2 reads slice 0 of each update of 8 samples"
    MATCH "input: waited for data .*decode"
    NUMBER "validation accuracy [0-9.]+ % of 6 photographs, loss ([0-9.]+)" 0.1 20
    RUN $<TARGET_FILE:flowers> ${few} --ranks 2)
  if(TEST example.flowers)
    set_tests_properties(example.flowers PROPERTIES FIXTURES_REQUIRED photographs)
  endif()
  cordee_example(flowers.without_data STATUS 1 MATCH "error: .*nowhere" RUN $<TARGET_FILE:flowers> --data nowhere)
  cordee_example_options(flowers "--scaled-decoding")
  if(TARGET cordee::mpi)
    cordee_example(flowers.processes MATCH "rank 0 of 2 reads" NUMBER "photographs, loss ([0-9.]+)" 0.1 20
      RUN ${launch}/mpirun.sh 2 $<TARGET_FILE:flowers> ${few} --processes --scaled-decoding)
    if(TEST example.flowers.processes)
      set_tests_properties(example.flowers.processes PROPERTIES FIXTURES_REQUIRED photographs PROCESSORS 2
        ENVIRONMENT "MPIRUN=${MPIEXEC_EXECUTABLE};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
    endif()
  endif()
else()
  cordee_example_skipped(flowers "libjpeg-turbo or libpng not found: packages libjpeg-dev and libpng-dev")
endif()

# The program for a user's own data: training, a stop, resuming, evaluation, prediction, refusals.
if(TARGET train)
  set(train $<TARGET_FILE:train>)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/train.dir)
  set(fashion --format idx --data ${PROJECT_SOURCE_DIR}/data/fashion-mnist --network resnet8 --batch 64
    --reference-batch 64 --learning-rate 0.05 --warmup 0.2 --epochs 2)
  cordee_example(train.help MATCH "--network resnet50 --precision fp32 +images of 3x224x224, 1000 classes" RUN ${train} --help)
  cordee_example(train.dry_run MATCH "reducer +tree over 2 ranks" NUMBER "measured +([0-9.e+-]+) s an update" 1e-6 60
    RUN ${train} ${fashion} --ranks 2 --reducer tree --dry-run)
  cordee_example(train.frozen MATCH "frozen +conv1, bn1, layer1: " MATCH "gradients clipped to norm 0.5"
    RUN ${train} ${fashion} --freeze conv1,bn1,layer1 --clip-norm 0.5 --dry-run)
  cordee_example(train.frozen_name STATUS 1 MATCH "no tensor of the network begins with .layer9." RUN ${train} ${fashion} --freeze layer9)
  cordee_example(train.dropout STATUS 1 MATCH "dropout_rate needs a dropout layer" RUN ${train} ${fashion} --dropout 0.5)
  # refuse(NAME SENTENCE OPTIONS...)
  macro(refuse name sentence)
    cordee_example(train.${name} STATUS 2 MATCH "${sentence}" RUN ${train} ${fashion} ${ARGN})
  endmacro()
  refuse(clipped "--clip-norm with --optimizer decentlam: " --optimizer decentlam --reducer gossip --clip-norm 1)
  refuse(pairing "--optimizer decentlam with --reducer ring: " --optimizer decentlam)
  refuse(nesterov "--nesterov with --optimizer adam: " --optimizer adam --nesterov)
  refuse(no_batch "--batch: [^\n]*0" --batch 0)
  refuse(transition "rmsprop_warmup needs --warmup" --optimizer rmsprop_warmup --warmup 0)
  refuse(one_cycle "--schedule one_cycle has its warm-up in it, 3 of 2 epochs" --schedule one_cycle --warmup 3)
  refuse(slow_start "akiba_slow_start begins at half the learning rate" --schedule akiba_slow_start)
  refuse(threshold "--target-threshold with --loss cross_entropy: " --target-threshold 0.2)
  cordee_example(train.unknown_option STATUS 2 MATCH "--no-such-option" RUN ${train} --no-such-option)
  cordee_example(train.unknown_network STATUS 2 MATCH "resnet9 .*is not compiled in. There are" RUN ${train} ${fashion} --network resnet9)
  cordee_example(train.other_images STATUS 1 MATCH "has images of 1x28x28, resnet20 is compiled for 3x32x32"
    RUN ${train} ${fashion} --network resnet20)
  cordee_example(train.without_data STATUS 1 MATCH "train: .*nowhere" RUN ${train} --format idx --data nowhere --network resnet8)
  cordee_example(train.usual_rate MATCH "schedule +warm-up from 0 over the first 0.2 epochs of: 1 = 64/64 times: cosine from 0.001 to 0 "
    RUN ${train} --format synthetic --network resnet8 --batch 64 --reference-batch 64 --warmup 0.2 --optimizer adamw --dry-run)
  # 72.3, 64.5, 69.4; a guess has 10
  cordee_example(train.adam NUMBER "top-1 ([0-9.]+) %, top-5" 40 95
    RUN ${train} ${fashion} --epochs 0.5 --optimizer adam --learning-rate 0.002)
  cordee_example(train.binary_cross_entropy MATCH "loss +binary cross-entropy of each class, label smoothing 0.1"
    NUMBER "top-1 ([0-9.]+) %, top-5" 35 95
    RUN ${train} ${fashion} --epochs 0.5 --optimizer adam --learning-rate 0.002 --loss binary_cross_entropy)
  cordee_example(train.larc MATCH "schedule +1 = 64/64 times: one cycle" MATCH "optimizer +larc .Nesterov."
    NUMBER "top-1 ([0-9.]+) %, top-5" 35 95
    RUN ${train} ${fashion} --epochs 0.5 --optimizer larc --nesterov --schedule one_cycle)
  cordee_example(train.gossip NUMBER "top-1 ([0-9.]+) %, top-5" 40 95  # 67.5; a guess has 10
    RUN ${train} ${fashion} --epochs 1 --ranks 2 --optimizer decentlam --reducer gossip)
  if(CORDEE_ALL_TESTS)
    add_test(NAME example.train.empty_folder COMMAND ${CMAKE_COMMAND} -E rm -rf ${folder} ${folder}.photographs)
    set_tests_properties(example.train.empty_folder PROPERTIES FIXTURES_SETUP train_folder LABELS example)
  endif()
  set(patterns timeout --foreground --preserve-status -s TERM 6 ${train} --format synthetic --network resnet8 --batch 64
    --reference-batch 64 --learning-rate 0.05 --warmup 0.2 --epochs 10000 --ranks 2)
  cordee_example(train.stopped STATUS 3 MATCH "stopped by a signal after step [0-9]+, which is saved"
    RUN ${patterns} --output ${folder} --log csv,jsonl,tensorboard)
  cordee_example(train.resumed STATUS 3 MATCH "goes on after update [1-9]" MATCH "stopped by a signal"
    RUN ${patterns} --config ${folder}/settings.ini --resume)
  cordee_example(train.evaluated NUMBER "top-1 ([0-9.]+) %, top-5" 20 100 MATCH "class 9 +recall +[0-9.]+ %, precision"
    RUN ${train} --config ${folder}/settings.ini --load ${folder}/best.safetensors --evaluate)
  if(CORDEE_ALL_TESTS)
    set_tests_properties(example.train.stopped PROPERTIES FIXTURES_REQUIRED train_folder FIXTURES_SETUP train_stopped)
    set_tests_properties(example.train.resumed PROPERTIES FIXTURES_REQUIRED train_stopped FIXTURES_SETUP train_resumed)
    set_tests_properties(example.train.evaluated PROPERTIES FIXTURES_REQUIRED train_resumed)
  endif()
  set(photo_run --data ${photographs} --network resnet18 --batch 8 --epochs 1 --warmup 0.5 --validation-batch 6 --seed 1)
  cordee_example(train.photographs NUMBER "validation: loss ([0-9.]+)" 0.1 20
    RUN ${train} ${photo_run} --output ${folder}.photographs --resume)
  cordee_example(train.predicted MATCH "0.jpg: (daisy|dandelion|roses|sunflowers|tulips) [0-9.]+ %, "
    RUN ${train} ${photo_run} --load ${folder}.photographs/final.safetensors --predict ${photographs}/roses/0.jpg)
  cordee_example(train.settings_without_lists MATCH "measured " RUN ${train} --config ${folder}.photographs/settings.ini --dry-run)
  if(CORDEE_ALL_TESTS)
    set_tests_properties(example.train.settings_without_lists PROPERTIES FIXTURES_REQUIRED "photographs;train_photographs")
    set_tests_properties(example.train.photographs PROPERTIES FIXTURES_REQUIRED "photographs;train_folder"
      FIXTURES_SETUP train_photographs)
    set_tests_properties(example.train.predicted PROPERTIES FIXTURES_REQUIRED "photographs;train_photographs")
  endif()
  if(TARGET cordee::mpi)
    cordee_example(train.processes NUMBER "top-1 ([0-9.]+) %, top-5" 40 95
      RUN ${launch}/mpirun.sh 2 ${train} ${fashion} --epochs 1 --transport mpi)
    if(TEST example.train.processes)
      set_tests_properties(example.train.processes PROPERTIES PROCESSORS 2
        ENVIRONMENT "MPIRUN=${MPIEXEC_EXECUTABLE};OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
    endif()
  endif()
else()
  cordee_example_skipped(train "CLI11, the component images or checkpoint is missing: package libcli11-dev")
endif()

# The command that a script gives to the launcher, by programs of the launchers' names that print it.
set(fake_launchers "PATH=${PROJECT_SOURCE_DIR}/tests/support:$ENV{PATH}")
# cordee_launch(NAME VARIABLES ARGUMENTS...): with VARIABLES in the environment.
function(cordee_launch name variables)
  cordee_example(launch.${name} ${ARGN})
  set_tests_properties(example.launch.${name} PROPERTIES TIMEOUT 60 ENVIRONMENT "${fake_launchers};${variables}")
endfunction()
cordee_launch(mpirun ""
  MATCH "mpirun -x TERM --bind-to none --map-by :OVERSUBSCRIBE -x MASTER_ADDR -x MASTER_PORT -x CORDEE_SECRET_KEY -n 4 train --epochs 2"
  RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_as_root "ID_IS=0;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="
  STATUS 1 MATCH "unless you set OMPI_ALLOW_RUN_AS_ROOT=1 and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
  RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_as_root_allowed "ID_IS=0;OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"
  MATCH "mpirun -x TERM .*-n 4 train" RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_on_hosts HOSTS=all MATCH "mpirun -x TERM --bind-to none --hostfile all -n 4 train --epochs 2"
  RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_of_mpich "HOSTS=all;MPIRUN_IS=HYDRA build details" MATCH "mpirun -f all -n 4 train --epochs 2"
  RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_killed MPIRUN_STATUS=137 STATUS 137
  MATCH "mpirun.sh: a rank was killed by signal 9" RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_failed MPIRUN_STATUS=3 STATUS 3 MATCH "-n 4 train --epochs 2\n$" RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(mpirun_stopped MPIRUN_WAITS=1 STATUS 5 MATCH "mpirun has SIGTERM" RUN ${launch}/mpirun.sh 4 train --epochs 2)
cordee_launch(sbatch SLURM_CPUS_PER_TASK=8
  MATCH "srun --mpi=pmix --kill-on-bad-exit=1 --cpus-per-task=8 train --epochs 2"
  RUN bash ${launch}/slurm.sbatch train --epochs 2)
cordee_launch(sbatch_without_pmix "SRUN_HAS=none pmi2" MATCH "srun --mpi=pmi2 --kill-on-bad-exit=1 train"
  RUN bash ${launch}/slurm.sbatch train)
cordee_launch(sbatch_over_nccl "SLURM_JOB_NODELIST=node[3-4];SLURM_JOB_ID=41234"
  MATCH "srun .*train at node3:21234" RUN bash ${launch}/slurm.sbatch train)
cordee_launch(torchrun "" MATCH "torchrun --standalone --nproc-per-node=4 --no-python train --epochs 2"
  RUN ${launch}/torchrun.sh 4 train --epochs 2)
cordee_launch(torchrun_on_two "NODES=2;NODE=1;MASTER_ADDR=node3" MATCH
  "torchrun --nnodes=2 --node-rank=1 --nproc-per-node=4 --master-addr=node3 --master-port=29500 --no-python train"
  RUN ${launch}/torchrun.sh 4 train)
cordee_launch(torchrun_without_node NODES=2 STATUS nonzero MATCH "NODE is not set: 0 on the first of the 2 machines"
  RUN ${launch}/torchrun.sh 4 train)
foreach(script mpirun.sh slurm.sbatch torchrun.sh)
  cordee_launch(${script}.usage "" STATUS 2 MATCH "[Uu]sage: .*PROGRAM" RUN bash ${launch}/${script})
endforeach()

set(small --data ${PROJECT_SOURCE_DIR}/data/fashion-mnist --epochs 0.4 --batch 64 --ranks 3 --warmup 0.1)
cordee_example(fashion_mnist
  NUMBER "validation accuracy ([0-9.]+) % of 1000 images" 55 85  # 70.7, 70.1, 69.2
  RUN $<TARGET_FILE:fashion_mnist> ${small} --csv ${CMAKE_CURRENT_BINARY_DIR}/log.csv
    --save ${CMAKE_CURRENT_BINARY_DIR}/weights.safetensors)
cordee_example(fashion_mnist.describe MATCH "ring over 3 ranks: exact mean"
  RUN $<TARGET_FILE:fashion_mnist> ${small} --describe)
cordee_example(fashion_mnist.without_data STATUS 1 MATCH "error: .*nowhere"
  RUN $<TARGET_FILE:fashion_mnist> --data nowhere)
cordee_example_options(fashion_mnist "--ranks 4")

cordee_example(own_block NUMBER "validation accuracy ([0-9.]+) % of 1000 images" 30 70  # 50.9, 51.4, 44.8
  RUN $<TARGET_FILE:own_block> --epochs 0.5)
set_tests_properties(example.own_block PROPERTIES COST ${long_test})
cordee_example(own_block.check MATCH "the gradients of 30 tensors agree with finite differences"
  RUN $<TARGET_FILE:own_block> --check)
cordee_example_options(own_block "--check")

cordee_example(own_optimizer MATCH "lion, beta1 0.9"
  NUMBER "validation accuracy ([0-9.]+) % of 1000 images" 20 60  # 37.3, 30.6, 43.2
  RUN $<TARGET_FILE:own_optimizer> --epochs 0.5)
cordee_example(own_optimizer.beta STATUS 1 MATCH "error: .*lion: beta1 and beta2 must be in"
  RUN $<TARGET_FILE:own_optimizer> --beta1 1)
cordee_example_options(own_optimizer "--ranks 4")

cordee_example(own_reducer MATCH "5 ranks in groups of 2: exact mean"
  NUMBER "validation accuracy ([0-9.]+) % of 1000 images" 28 60  # 45.1, 43.1, 40.4
  RUN $<TARGET_FILE:own_reducer> --epochs 0.6 --ranks 5 --group 2)
foreach(group 1 2 3)
  cordee_example(own_reducer.check.${group} MATCH "in groups of ${group} obeys the laws"
    RUN $<TARGET_FILE:own_reducer> --check --group ${group})
endforeach()
cordee_example_options(own_reducer "--group 2")
cordee_example(own_reducer.no_ranks STATUS 1 MATCH "error: --ranks takes at least 1, not 0"
  RUN $<TARGET_FILE:own_reducer> --ranks 0)

cordee_example(own_schedule MATCH "warm-up over 0.05 epochs to 0.1, decay over the last 0.25 of 0.5"
  NUMBER "validation accuracy ([0-9.]+) % of 1000 images" 33 60  # 45.2, 45.6, 46.6
  RUN $<TARGET_FILE:own_schedule> --epochs 0.5)
cordee_example(own_schedule.check MATCH "obeys the laws" RUN $<TARGET_FILE:own_schedule> --check --epochs 90)
# What the laws are for: a peak below zero, and two lengths that overlap.
cordee_example(own_schedule.negative STATUS 1 MATCH "error: .*-0[.]0"
  RUN $<TARGET_FILE:own_schedule> --check --learning-rate -0.1)
cordee_example(own_schedule.overlap STATUS 1 MATCH "error: .*together at most .epochs"
  RUN $<TARGET_FILE:own_schedule> --check --epochs 2 --warmup 1.5 --decay 1)
cordee_example_options(own_schedule "--decay 1")

# Two batches, the second one accumulated; then the other optimizers and the other scaling, whose loss of
# eleven steps is below ln 10 = 2.303, the least of a guess.
cordee_example(large_batch MATCH "lars,.*legw from batch 128.* 128 +1 +36 .* 384 +3 +12 "
  NUMBER " 128 +1 +36 +[0-9.]+ +[0-9.]+ +([0-9.]+) %" 38 70  # 50.2, 56.4, 54.2
  NUMBER " 384 +3 +12 +[0-9.]+ +[0-9.]+ +([0-9.]+) %" 18 60  # 34.6, 34.6, 26.2
  RUN $<TARGET_FILE:large_batch> --batches 128,384 --epochs 0.5 --warmup 0.02 --at-once 32
    --csv ${CMAKE_CURRENT_BINARY_DIR}/large_batch.csv)
foreach(optimizer sgd lamb)
  cordee_example(large_batch.${optimizer} MATCH "${optimizer},.*linear from batch 128.* 256 +1 +11 "
    NUMBER " 256 +1 +11 +[0-9.]+ +([0-9.]+) " 1.9 2.29  # sgd 2.18, 2.14, 2.21; lamb 2.24, 2.18, 2.28
    RUN $<TARGET_FILE:large_batch> --optimizer ${optimizer} --scaling linear --batches 256 --epochs 0.3 --warmup 0.05)
endforeach()
cordee_example(large_batch.warmup STATUS 1 MATCH "error: .*6.4 epochs of warm-up do not fit the 2 epochs"
  RUN $<TARGET_FILE:large_batch> --batches 128,8192 --epochs 2)
cordee_example_options(large_batch "--batches 128,512,2048,8192")

cordee_example(imagenet_shape MATCH "25557032 parameters, fp32 on cpu.*images/s, of the fastest of 1 steps"
  NUMBER "step 0: loss ([0-9.]+)," 5.5 8  # 6.56; ln 1000 = 6.91
  RUN $<TARGET_FILE:imagenet_shape> --batch 1 --warmup 0 --steps 1)
cordee_example_options(imagenet_shape "--batch 8")
if(TARGET own_optimizer_gpu)
  cordee_example(own_optimizer_gpu.laws MATCH "signum obeys the laws" RUN $<TARGET_FILE:own_optimizer_gpu> --laws)
else()
  cordee_example_skipped(own_optimizer_gpu.laws "no CUDA compiler")
endif()
if(TARGET imagenet_shape_gpu)
  cordee_example(imagenet_shape_gpu MATCH "fp16 on cuda.*images/s"
    SKIP "error: cuda: cudaGetDeviceCount.*needs an NVIDIA GPU" "no GPU"
    RUN $<TARGET_FILE:imagenet_shape_gpu> --batch 4)
  if(TEST example.imagenet_shape_gpu)
    set_tests_properties(example.imagenet_shape_gpu PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: ")
  endif()
else()
  cordee_example_skipped(imagenet_shape_gpu "no CUDA compiler")
endif()

# On blocks of color under noise. LARS needs more steps before running statistics follow the weights.
cordee_example(cifar.sgd MATCH "optimizer +sgd,.* 32 steps"
  NUMBER "validation accuracy ([0-9.]+) % of 500 images" 19 90  # 59.6, 57.6, 30.2
  RUN $<TARGET_FILE:cifar> --data synthetic --optimizer sgd --batch 32 --epochs 0.5 --warmup 0.1
    --csv ${CMAKE_CURRENT_BINARY_DIR}/cifar.sgd.csv)
cordee_example(cifar.lars MATCH "optimizer +lars,.* 63 steps"
  NUMBER "validation accuracy ([0-9.]+) % of 500 images" 40 100  # 84.8, 76.2, 70.2
  RUN $<TARGET_FILE:cifar> --data synthetic --optimizer lars --batch 32 --epochs 1 --warmup 0.1
    --csv ${CMAKE_CURRENT_BINARY_DIR}/cifar.lars.csv)
cordee_example(cifar.precision STATUS 1 MATCH "error: on cpu --precision cannot be .fp8"
  RUN $<TARGET_FILE:cifar> --data synthetic --precision fp8)
cordee_example_options(cifar "--warmup 1")

set(row " +([0-9.]+) % +[0-9]+ +[0-9.]+ +[0-9]+")  # accuracy, bytes, how many times fewer, images a second
cordee_example(int8 MATCH "layer3.2.conv2 .*saturated.*4-bit .simulated. +[0-9]"
  NUMBER "FP32${row}" 32 75  # 48.5, 52.6, 56.8; 9.2 with learning rate 0
  NUMBER "PTQ${row}" 32 75  # 48.7, 52.9, 56.6
  NUMBER "QAT${row}" 32 75  # 53.9, 55.6, 57.3; 9.4 with learning rate 0
  NUMBER "FP32 +[0-9.]+ % +([0-9]+)" 1077736 1077736
  NUMBER "QAT +[0-9.]+ % +([0-9]+)" 278264 278264
  NUMBER "PTQ, integers .* ([0-9.]+) %\nQAT " 95 100  # as simulated
  RUN $<TARGET_FILE:int8> --epochs 0.18 --tune 0.09 --batch 24 --learning-rate 0.7 --warmup 0.06 --calibration 2 --evaluations 1 --layers
    --save ${CMAKE_CURRENT_BINARY_DIR}/int8-example)
cordee_example_options(int8 "--calibration 10")

cordee_example(parameter_server
  NUMBER "one process +([0-9.]+) %" 35 85  # 57.4, 60.2, 66.6
  NUMBER "\nsynchronous +([0-9.]+) %" 35 85  # 53.3, 60.3, 61.9
  NUMBER "\nasynchronous +([0-9.]+) %   staleness [0-9.]+, at most" 22 75  # 40.0, 46.1, 41.0; not deterministic
  NUMBER "divided by staleness +([0-9.]+) %" 22 80  # 50.6, 53.0, 42.9; not deterministic
  RUN $<TARGET_FILE:parameter_server> --epochs 0.2 --batch 48 --ranks 3 --warmup 0.05)
if(CORDEE_ALL_TESTS)
  cordee_example(parameter_server.sweep MATCH
    "delayed by 2 ms.*at most 0 steps ahead +[0-9.]+ %   staleness.*at most 4 steps ahead.*1-softsync .*2-softsync +[0-9.]+ %   staleness"
    RUN $<TARGET_FILE:parameter_server> --sweep --epochs 0.012 --batch 48 --ranks 3 --warmup 0.001 --delay 2)
else()
  cordee_only_with_all(example.parameter_server.sweep)
endif()
cordee_example_options(parameter_server "--delay 0")

# An average is 8 messages of a rank: 4 for each of two buckets. Eight others begin and end a run.
set(row " +[0-9.]+ %   23 steps, ([0-9]+) messages")
set(after "every 4 steps from epoch 0.06")
cordee_example(local_sgd MATCH "one process +[0-9.]+ %   23 steps, 0 messages"
  NUMBER "average at each step${row}" 192 192         # 23 averages
  NUMBER "\nlocal: every 4 steps${row}" 48 48         # 5
  NUMBER "post-local: ${after}${row}" 120 120         # 14
  NUMBER "one process +([0-9.]+) %" 17 75             # 36.8, 20.2, 51.0
  NUMBER "average at each step +([0-9.]+) %" 20 75    # 28.2, 30.5, 53.0
  NUMBER "\nlocal: every 4 steps +([0-9.]+) %" 22 75  # 44.3, 33.3, 50.6
  NUMBER "post-local: ${after} +([0-9.]+) %" 20 75    # 27.7, 33.8, 49.9
  RUN $<TARGET_FILE:local_sgd> --epochs 0.12 --batch 48 --ranks 3 --warmup 0.05 --from 0.06 --every 4)
cordee_example_options(local_sgd "--every 8")

# Without noise every method reaches its exact fixed point, whatever the seed.
set(exact "16 +6.326e-03 +6.326e-03\n")
cordee_example(decentralized
  MATCH "DSGD +ring +${exact}" MATCH "DecentLaM +ring +${exact}" MATCH "DmSGD +ring +16 +3.889e-01 +3.889e-01\n"
  RUN $<TARGET_FILE:decentralized> --noise 0 --steps 1200 --average 1 --largest 16
    --csv ${CMAKE_CURRENT_BINARY_DIR}/decentralized.csv)
set_tests_properties(example.decentralized PROPERTIES FIXTURES_SETUP decentralized_table)
cordee_example_options(decentralized "--momentum 0.9")

# Debian's matplotlib belongs to Debian's python3, which need not be the first one in PATH.
function(cordee_has_matplotlib result python)
  execute_process(COMMAND ${python} -c "import matplotlib" RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()
find_program(PYTHON_WITH_MATPLOTLIB NAMES python3 VALIDATOR cordee_has_matplotlib)
if(PYTHON_WITH_MATPLOTLIB)
  cordee_example(decentralized.plot MATCH "plotted to "
    RUN ${PYTHON_WITH_MATPLOTLIB} ${PROJECT_SOURCE_DIR}/scripts/plot-decentralized
      ${CMAKE_CURRENT_BINARY_DIR}/decentralized.csv ${CMAKE_CURRENT_BINARY_DIR}/decentralized.png)
  set_tests_properties(example.decentralized.plot PROPERTIES FIXTURES_REQUIRED decentralized_table)
  set(plot ${PYTHON_WITH_MATPLOTLIB} ${PROJECT_SOURCE_DIR}/scripts/plot --output ${CMAKE_CURRENT_BINARY_DIR}/plot.png)
  cordee_example(plot.no_log STATUS 1 MATCH "cannot plot .*: it is not a log of csv" RUN ${plot} ${PROJECT_SOURCE_DIR}/README.md)
  cordee_example(plot.no_folder STATUS 1 MATCH "has neither log.csv nor log.jsonl" RUN ${plot} ${PROJECT_SOURCE_DIR}/docs)
  cordee_example(train.plot MATCH "plotted to " RUN ${plot} table=${folder} lines=${folder}/log.jsonl)
  if(TEST example.train.plot)
    set_tests_properties(example.train.plot PROPERTIES FIXTURES_REQUIRED train_resumed)
  endif()
else()
  cordee_example_skipped(decentralized.plot "no python3 with matplotlib: package python3-matplotlib")
endif()

# The examples that the usual run does not build, each in a namespace of one translation unit: their syntax and types.
if(NOT CORDEE_ALL_TESTS AND NOT CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
  set(sources ${seldom_examples})
  list(FILTER sources EXCLUDE REGEX "^quick_start$|^train$|^plan$|^recipes_(simulated|run)$|_gpu$")  # train, plan: their CMakeLists.txt
  if(NOT TARGET cordee::images)
    list(REMOVE_ITEM sources flowers)
  endif()
  if(NOT TARGET cordee::simulated)
    list(REMOVE_ITEM sources draw_messages)
  endif()
  if(TARGET cordee::mpi)
    set(separator "$<SEMICOLON>")
    set(mpi_options -DWITH_MPI "-D$<JOIN:$<TARGET_PROPERTY:MPI::MPI_CXX,INTERFACE_COMPILE_DEFINITIONS>,${separator}-D>"
      "-isystem$<JOIN:$<TARGET_PROPERTY:MPI::MPI_CXX,INTERFACE_INCLUDE_DIRECTORIES>,${separator}-isystem>")
  else()
    list(REMOVE_ITEM sources many_machines)
  endif()
  list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_CURRENT_SOURCE_DIR}/\\1.cpp")
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/seldom_built.cpp)
  set(script ${PROJECT_SOURCE_DIR}/cmake/unity.cmake)
  set(options -std=c++20 -pthread -Wall -Wextra -Wconversion
    -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_SOURCE_DIR} -I${CMAKE_CURRENT_SOURCE_DIR} -DCORDEE_EXAMPLE_DATA="${PROJECT_SOURCE_DIR}/data")
  if(CORDEE_WERROR)
    list(APPEND options -Werror)
  endif()
  add_custom_command(OUTPUT ${unit} DEPENDS ${sources} ${script} VERBATIM COMMENT "Combining examples"
    COMMAND ${CMAKE_COMMAND} -D "SOURCES=${sources}" -D ROOT=${PROJECT_SOURCE_DIR} -D UNITY=${unit} -P ${script})
  add_custom_command(OUTPUT ${unit}.checked DEPENDS ${unit} DEPFILE ${unit}.d VERBATIM
    COMMENT "Checking the syntax and the types of seldom built examples"
    COMMAND_EXPAND_LISTS COMMAND ${CMAKE_CXX_COMPILER} ${options} ${mpi_options} -fsyntax-only ${unit} -MD -MT ${unit}.checked -MF ${unit}.d
    COMMAND ${CMAKE_COMMAND} -E touch ${unit}.checked)
  add_custom_target(examples_checked ALL DEPENDS ${unit}.checked)
endif()
