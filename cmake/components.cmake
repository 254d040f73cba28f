# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# What may be asked for by name. An absent component is refused with its sentence, at configure time,
# by the options of a build (CORDEE_CUDA=ON) and by find_package alike: never a silent fall-back.
set(cordee_present cordee testing onednn mpi cuda nccl)
set(cordee_absent jpeg)
set(cordee_absent_jpeg "this version of cordee reads no JPEG yet; use IDX files, which cordee::cordee reads")
