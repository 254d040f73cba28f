# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Names of components. A request for an absent component, by an option (CORDEE_TIFF=ON) or by find_package, is a
# configure error with that component's message; there is no silent fallback.
set(cordee_present cordee testing onednn mpi cuda nccl checkpoint images webdataset simulated zeromq)
set(cordee_absent tiff)
set(cordee_absent_tiff "this version of cordee reads no TIFF; convert the images to JPEG or PNG, which cordee::images reads")
