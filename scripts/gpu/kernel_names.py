# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Names of kernels as a profiler prints them, demangled, shortened to what tells them apart."""
import re

LONGEST = 200  # characters: those of cuDNN have up to 190


def without_parameters(name):
    """The name without its last list in parentheses: "void f<g(int)>(T1)" is "void f<g(int)>"."""
    if not name.endswith(")"):
        return name
    depth = 0
    for k in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[k], 0)
        if depth == 0:
            return name[:k]
    return name


def short_name(demangled):
    """Of a kernel of this library, all of which are kernel_entry<BODY>, the body, and of one that is
    for_each_kernel<OPERATION> the operation, without the namespaces; of another one its name. Both
    keep their template arguments."""
    name = without_parameters(demangled.strip()).removeprefix("void ")
    name = re.sub(r"\bcordee::(?:v\d\w*::)?(?:detail::\w+::)?", "", name)
    for wrapper in ("kernel_entry", "for_each_kernel"):
        if inner := re.fullmatch(rf"(?:\w+::)*{wrapper}<(.*)>", name):
            name = inner[1].strip()
    while "> >" in name:
        name = name.replace("> >", ">>")
    return name if len(name) <= LONGEST else name[:LONGEST - 1] + "…"
