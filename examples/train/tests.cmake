# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# The program for a user's own data: training, a stop, resuming, evaluation, prediction, refusals.

set(folder ${out}/train.dir)
set(top_1 "top-1 ([0-9.]+) %, top-5")
set(fashion --format idx --data ${PROJECT_SOURCE_DIR}/data/fashion-mnist --network resnet8 --batch 64
  --reference-batch 64 --learning-rate 0.05 --warmup 0.2 --epochs 2)
cordee_example(train.help MATCH "--network resnet50 --precision fp32 +images of 3x224x224, 1000 classes" ARGS --help)
cordee_example(train.dry_run MATCH "reducer +tree over 2 ranks" NUMBER "measured +([0-9.e+-]+) s an update" 1e-6 60
  ARGS ${fashion} --ranks 2 --reducer tree --dry-run)
cordee_example(train.frozen MATCH "frozen +conv1, bn1, layer1: " MATCH "gradients clipped to norm 0.5"
  ARGS ${fashion} --freeze conv1,bn1,layer1 --clip-norm 0.5 --dry-run)
cordee_example(train.frozen_name STATUS 1 MATCH "no tensor of the network begins with .layer9."
  ARGS ${fashion} --freeze layer9)
cordee_example(train.dropout STATUS 1 MATCH "dropout_rate needs a dropout layer" ARGS ${fashion} --dropout 0.5)
# refuse(NAME SENTENCE OPTIONS...)
macro(refuse name sentence)
  cordee_example(train.${name} STATUS 2 MATCH "${sentence}" ARGS ${fashion} ${ARGN})
endmacro()
refuse(clipped "--clip-norm with --optimizer decentlam: " --optimizer decentlam --reducer gossip --clip-norm 1)
refuse(pairing "--optimizer decentlam with --reducer ring: " --optimizer decentlam)
refuse(nesterov "--nesterov with --optimizer adam: " --optimizer adam --nesterov)
refuse(no_batch "--batch: [^\n]*0" --batch 0)
refuse(no_epochs "--epochs 0: training takes a positive number of passes" --epochs 0)
refuse(negative_epochs "--epochs -3: training takes" --epochs -3)
refuse(long_warmup "--warmup 5 of 2 epochs: the learning rate would rise to the end" --warmup 5)
refuse(file_as_data "--format idx reads a folder, and [^\n]* is a file" --data ${CMAKE_CURRENT_LIST_FILE})
refuse(file_as_output "--output [^\n]*: a file has this name" --output ${CMAKE_CURRENT_LIST_FILE})
refuse(mistyped "--momentun: did you mean --momentum." --momentun 0.8)
cordee_example(train.mostly_warmup MATCH "warning: --warmup 5 of --epochs 6: the learning rate rises for more than half"
  ARGS ${fashion} --epochs 6 --warmup 5 --dry-run)
refuse(transition "rmsprop_warmup needs --warmup" --optimizer rmsprop_warmup --warmup 0)
refuse(one_cycle "--schedule one_cycle has its warm-up in it, 3 of 2 epochs" --schedule one_cycle --warmup 3)
refuse(slow_start "akiba_slow_start begins at half the learning rate" --schedule akiba_slow_start)
refuse(threshold "--target-threshold with --loss cross_entropy: " --target-threshold 0.2)
cordee_example(train.unknown_option STATUS 2 MATCH "--no-such-option" ARGS --no-such-option)
cordee_example(train.unknown_network STATUS 2 MATCH "resnet9 .*is not compiled in. There are"
  ARGS ${fashion} --network resnet9)
cordee_example(train.other_images STATUS 1 MATCH "has images of 1x28x28, resnet20 is compiled for 3x32x32"
  ARGS ${fashion} --network resnet20)
cordee_example(train.without_data STATUS 1 MATCH "train: .*nowhere" ARGS --format idx --data nowhere --network resnet8)
cordee_example(train.usual_rate
  MATCH "schedule +warm-up from 0 over the first 0.2 epochs of: 1 = 64/64 times: cosine from 0.001 to 0 "
  ARGS --format synthetic --network resnet8 --batch 64 --reference-batch 64 --warmup 0.2 --optimizer adamw --dry-run)
# 72.3, 64.5, 69.4; a guess has 10
cordee_example(train.adam NUMBER "${top_1}" 40 95 ARGS ${fashion} --epochs 0.5 --optimizer adam --learning-rate 0.002)
cordee_example(train.binary_cross_entropy MATCH "loss +binary cross-entropy of each class, label smoothing 0.1"
  NUMBER "${top_1}" 35 95
  ARGS ${fashion} --epochs 0.5 --optimizer adam --learning-rate 0.002 --loss binary_cross_entropy)
cordee_example(train.larc MATCH "schedule +1 = 64/64 times: one cycle" MATCH "optimizer +larc .Nesterov."
  NUMBER "${top_1}" 35 95
  ARGS ${fashion} --epochs 0.5 --optimizer larc --nesterov --schedule one_cycle)
cordee_example(train.gossip NUMBER "${top_1}" 40 95  # 67.5; a guess has 10
  ARGS ${fashion} --epochs 1 --ranks 2 --optimizer decentlam --reducer gossip)
cordee_example_fixture(train.empty_folder train_folder ${CMAKE_COMMAND} -E rm -rf ${folder} ${folder}.photographs)
set(patterns timeout --foreground --preserve-status -s TERM 6 $<TARGET_FILE:train> --format synthetic --network resnet8 --batch 64
  --reference-batch 64 --learning-rate 0.05 --warmup 0.2 --epochs 10000 --ranks 2)
cordee_example(train.stopped STATUS 3 MATCH "stopped by a signal after step [0-9]+, which is saved"
  RUN ${patterns} --output ${folder} --log csv,jsonl,tensorboard)
cordee_example(train.started_again STATUS 1 MATCH "checkpoints has a checkpoint of .* continue that run by --resume"
  RUN ${patterns} --batch 32 --output ${folder} --log csv)
cordee_example(train.resumed STATUS 3 MATCH "goes on after update [1-9]" MATCH "stopped by a signal"
  RUN ${patterns} --config ${folder}/settings.ini --resume)
cordee_example(train.evaluated NUMBER "${top_1}" 20 100 MATCH "class 9 +recall +[0-9.]+ %, precision"
  ARGS --config ${folder}/settings.ini --load ${folder}/best.safetensors --evaluate)
cordee_example_property(train.stopped FIXTURES_REQUIRED train_folder)
cordee_example_property(train.stopped FIXTURES_SETUP train_stopped)
cordee_example_property(train.started_again FIXTURES_REQUIRED train_stopped)
cordee_example_property(train.started_again FIXTURES_SETUP train_started_again)
cordee_example_property(train.resumed FIXTURES_REQUIRED "train_stopped;train_started_again")
cordee_example_property(train.resumed FIXTURES_SETUP train_resumed)
cordee_example_property(train.evaluated FIXTURES_REQUIRED train_resumed)
set(photo_run --data ${photographs} --network resnet18 --batch 8 --epochs 1 --warmup 0.5 --validation-batch 6 --seed 1)
cordee_example(train.photographs NUMBER "validation: loss ([0-9.]+)" 0.1 20
  ARGS ${photo_run} --output ${folder}.photographs --resume)
cordee_example(train.predicted MATCH "0.jpg: (daisy|dandelion|roses|sunflowers|tulips) [0-9.]+ %, "
  ARGS --config ${folder}.photographs/settings.ini --data gone --output ${CMAKE_CURRENT_LIST_FILE}
    --load ${folder}.photographs/final.safetensors --predict ${photographs}/roses/0.jpg)
cordee_example(train.predicted_folder STATUS 1 MATCH "tulips/0.jpg: (daisy|dandelion|roses|sunflowers|tulips) [0-9.]+ %"
  MATCH "not predicted: [^\n]*tests.cmake" MATCH "1 of [0-9]+ images could not be read"
  ARGS --network resnet18 --load ${folder}.photographs/best.safetensors
    --predict ${CMAKE_CURRENT_LIST_FILE} ${photographs})
cordee_example(train.predicted_gray MATCH "0.jpg: class [0-9] [0-9.]+ %, "
  ARGS --network resnet8 --load ${folder}/best.safetensors --predict ${photographs}/roses/0.jpg)
cordee_example(train.other_classes STATUS 1 MATCH "the validation has the classes 0, 1, 2, .*Class 0 is .0., not .daisy."
  ARGS ${photo_run} --validation-data ${folder}.other)
cordee_example_fixture(train.other_folder train_other ${CMAKE_COMMAND} -D FROM=${photographs} -D TO=${folder}.other
  -P ${CMAKE_CURRENT_LIST_DIR}/rename_classes.cmake)
cordee_example(train.settings_without_lists MATCH "measured "
  ARGS --config ${folder}.photographs/settings.ini --dry-run)
cordee_example_property(train.photographs FIXTURES_REQUIRED photographs train_folder)
cordee_example_property(train.photographs FIXTURES_SETUP train_photographs)
cordee_example_property(train.predicted FIXTURES_REQUIRED photographs train_photographs)
cordee_example_property(train.predicted_folder FIXTURES_REQUIRED photographs train_photographs)
cordee_example_property(train.predicted_gray FIXTURES_REQUIRED photographs train_resumed)
cordee_example_property(train.other_folder FIXTURES_REQUIRED photographs)
cordee_example_property(train.other_classes FIXTURES_REQUIRED train_other)
cordee_example_property(train.settings_without_lists FIXTURES_REQUIRED photographs train_photographs)
if(TARGET cordee::mpi)
  cordee_example(train.processes NUMBER "${top_1}" 40 95
    RUN ${launch}/mpirun.sh 2 $<TARGET_FILE:train> ${fashion} --epochs 1 --transport mpi)
  cordee_example_over_mpi(train.processes)
else()
  cordee_skipped_without(mpi example example.train.processes)
endif()
