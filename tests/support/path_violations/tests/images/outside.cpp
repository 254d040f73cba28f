// SPDX-FileCopyrightText: the Cordee contributors
// SPDX-License-Identifier: Apache-2.0
const char* const beside_the_repository = CORDEE_SOURCE_DIR "/../photographs";
