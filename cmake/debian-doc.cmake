# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# CPack's step between installing and packaging: Debian wants copyright and changelog in a folder of the package's name.
set(doc ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/usr/share/doc)
set(package ${doc}/${CPACK_PACKAGE_NAME})
file(REMOVE_RECURSE ${doc}/cordee)
file(WRITE ${package}/copyright "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: cordee

Files: *
Copyright: 2026 the Cordee contributors
License: Apache-2.0
 On Debian systems the full text of this license is in
 /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # SOURCE_DATE_EPOCH, if set
file(WRITE ${package}/changelog "${CPACK_PACKAGE_NAME} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * Made by cpack; changes are listed in CHANGELOG.md of the sources.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
execute_process(COMMAND gzip -9n ${package}/changelog COMMAND_ERROR_IS_FATAL ANY)
file(CHMOD_RECURSE ${package} FILE_PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ
  DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
