# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Installs cordee_infer, component infer: the library, its header, a package of its own for CMake (find_package(cordee_infer),
# target cordee::infer, in C) and one for pkg-config. A build that has it for its tests alone installs it on demand
# (cmake --install . --component infer).
set(on_demand EXCLUDE_FROM_ALL)
if(CORDEE_INFER)
  set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY OFF)
  set(on_demand)
endif()
set(infer_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/cordee_infer)
set_target_properties(cordee_infer PROPERTIES EXPORT_NAME infer)
install(TARGETS cordee_infer EXPORT cordee-infer LIBRARY COMPONENT infer ${on_demand}
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES include/cordee_infer.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT infer ${on_demand})
install(EXPORT cordee-infer FILE cordee_infer-config.cmake NAMESPACE cordee:: DESTINATION ${infer_package_dir}
  COMPONENT infer ${on_demand})
write_basic_package_version_file(cordee_infer-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
file(CONFIGURE OUTPUT cordee_infer.pc @ONLY CONTENT [[
prefix=${pcfiledir}/@to_prefix@
Name: cordee_infer
Description: Integer networks, for programs that only deploy them
Version: @PROJECT_VERSION@
Cflags: -I${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
Libs: -L${prefix}/@CMAKE_INSTALL_LIBDIR@ -lcordee_infer
]])
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cordee_infer-config-version.cmake DESTINATION ${infer_package_dir}
  COMPONENT infer ${on_demand})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/cordee_infer.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT infer ${on_demand})
