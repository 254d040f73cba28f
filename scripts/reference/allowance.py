# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""How many public names of each folder may have no docstring: numbers that only fall, until all have one."""
import collections
import pathlib

import public

FILE = pathlib.Path(__file__).with_name("undocumented.txt")
HEAD = """# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# Public names without docstring, by folder of include/cordee: at most as many. Lower it: scripts/docs --lower.
"""


def present():
    """The numbers of the headers as they are."""
    headers = public.all_headers()
    shown = public.shown_types(headers)
    numbers = collections.Counter()
    for header in headers:
        parts = header.path.relative_to(public.FOLDER).parts
        numbers[parts[0] if len(parts) > 1 else "."] += sum(not d.docs for d in public.public_names(header, shown))
    return numbers


def allowed():
    lines = [line.split() for line in FILE.read_text().splitlines() if line and not line.startswith("#")]
    return collections.Counter({folder: int(number) for folder, number in lines})


def run(lower=False):
    """Compares the numbers; true if none is higher. With `lower`, writes those that are lower."""
    now, most = present(), allowed()
    too_many = {f: n for f, n in now.items() if n > most[f]}
    for folder, number in sorted(too_many.items()):
        print(f"include/cordee/{folder}: {number} public names without docstring, {most[folder]} are allowed; "
              f"list them: scripts/docs --check include/cordee/{folder}")
    if lower:
        kept = {f: min(now[f], most[f]) for f in most if now[f]}
        FILE.write_text(HEAD + "".join(f"{f} {kept[f]}\n" for f in sorted(kept)))
    print(f"{sum(now.values())} public names without docstring, {sum(most.values())} allowed")
    return not too_many
