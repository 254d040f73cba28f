# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Finds what component images needs, libjpeg-turbo and libpng: sets cordee_found_images. JPEG::JPEG and PNG::PNG are
# then targets. Other libjpegs cannot decode a region.
find_package(JPEG QUIET)
find_package(PNG QUIET)
set(cordee_found_images OFF)
if(TARGET JPEG::JPEG AND TARGET PNG::PNG)
  foreach(folder IN LISTS JPEG_INCLUDE_DIRS)
    if(EXISTS ${folder}/jpeglib.h)
      file(STRINGS ${folder}/jpeglib.h cordee_jpeg_regions REGEX "jpeg_crop_scanline")
      if(cordee_jpeg_regions)
        set(cordee_found_images ON)
      endif()
    endif()
  endforeach()
endif()
set(cordee_images_absent "libjpeg-turbo 1.5 and libpng 1.6, of which one was not found: install libjpeg-dev and libpng-dev")
