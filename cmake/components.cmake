# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Names of components. A request for an absent component, by an option (CORDEE_JPEG=ON) or by find_package, is a
# configure error with that component's message; there is no silent fallback.
set(cordee_present cordee testing onednn mpi cuda nccl checkpoint)
set(cordee_absent jpeg)
set(cordee_absent_jpeg "this version of cordee reads no JPEG yet; use IDX files, which cordee::cordee reads")
