# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The public names of the library's headers, and those that have no docstring.

Public is what stands in namespace cordee outside of detail, in a public section of its class. Also public are the members
of a type of detail that a public alias names (lars is one of detail::optim::basic_lars) or a public type derives from.
No docstring is needed by what the compiler or another place defines: deduction guides, destructors, copies and moves,
defaulted and deleted functions, specializations of variables, using-declarations, friends, redeclarations.
"""
import pathlib
import re

import declarations
import tokens

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "include" / "cordee"


class Header:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.text = self.path.read_text(encoding="utf-8")
        self.root = declarations.declarations(self.text)

    def line(self, offset):
        return self.text.count("\n", 0, offset) + 1


def is_detail(namespace):
    return re.search(r"(^|::)detail(::|$)", namespace.name) is not None


def types(header):
    """All types of a header at namespace scope, as (declaration, whether in detail)."""
    def walk(scope, detail):
        for d in scope.members:
            if d.kind == "namespace":
                yield from walk(d, detail or is_detail(d))
            elif d.kind == "type":
                yield d, detail
    yield from walk(header.root, False)


def bases(d):
    """The names of a type's base classes, without arguments and namespaces."""
    plain = tokens.without_prefix(d.head)
    texts = [t.text for t in plain]
    if ":" not in texts:
        return []
    found, depth, name = [], 0, ""
    for t in texts[texts.index(":") + 1:] + [","]:
        depth += (t == "<") - (t == ">")
        if depth == 0 and t == ",":
            found.append(name)
            name = ""
        elif depth == 0 and re.match(r"[A-Za-z_]", t):
            name = t
    return found


def alias_target(d):
    """The name that an alias names, as 'detail::optim::basic_lars'; empty if it is none."""
    text = d.text() if d.kind == "alias" else "using"
    m = re.search(r"=\s*(?:typename )?((?:::)?[A-Za-z_0-9]+(?:::[A-Za-z_0-9]+)*)", text[text.index("using"):])
    return m.group(1) if m else ""


def open_members(d):
    return [m for m in d.members if m.public]


def shown_types(headers):
    """The names of types of detail whose members are public all the same."""
    detail, wanted = {}, []
    for h in headers:
        for d, inside in types(h):
            if inside:
                detail.setdefault(d.name, d)
            else:
                wanted.append(d)
        for d in public_scope(h.root):
            if d.kind == "alias" and "detail" in d.text():
                wanted.append(d)
    shown = set()
    while wanted:
        d = wanted.pop()
        if d.kind == "alias":
            names = [alias_target(d).split("::")[-1]]
        else:
            names = bases(d) + [alias_target(m).split("::")[-1] for m in open_members(d) if m.kind == "alias"]
        for name in names:
            if name in detail and name not in shown:
                shown.add(name)
                wanted.append(detail[name])
    return shown


def public_scope(scope):
    """The declarations at namespace scope outside of detail."""
    for d in scope.members:
        if d.kind == "namespace":
            if not is_detail(d) and (scope.name or d.name.startswith("cordee")):
                yield from public_scope(d)
        else:
            yield d


def has_names(header):
    """Whether a header declares a public name."""
    return any(d.public and not needs_none(d) for d in public_scope(header.root))


def needs_none(d):
    """Whether a declaration needs no docstring (see the top)."""
    if d.kind in ("other", "friend", "namespace") or not d.name:
        return True
    if d.kind == "function":
        if d.name.startswith("~") or re.search(r"= *(default|delete)$", d.text()):
            return True
        owner = d.parent.name.split("<")[0] if d.parent else ""
        if re.search(rf"\(\s*(const )?{re.escape(owner)}(<[^()]*>)?&&?( [a-z_]+)?\s*\)", d.text()) and \
                d.parent.kind == "type" and d.name in (owner, "operator="):
            return True
    return False


def public_names(header, shown):
    """The public declarations of a header that need a docstring, in the order of the file."""
    def walk(scope, detail):
        for d in scope.members:
            if d.kind == "namespace":
                if scope is not header.root or d.name.startswith("cordee"):
                    yield from walk(d, detail or is_detail(d))
            elif scope is header.root or detail and not (d.kind == "type" and d.name in shown):
                continue
            elif d.public:
                if not needs_none(d) and not detail:
                    yield d
                if d.kind in ("type", "enum"):
                    yield from walk(d, False)
    yield from walk(header.root, False)


def label(d):
    """A name as messages show it: trainer::step."""
    parts = []
    while d and d.kind != "namespace":
        parts.insert(0, d.name)
        d = d.parent
    return "::".join(p for p in parts if p)


def all_headers(folder=FOLDER):
    return [Header(p) for p in sorted(folder.rglob("*")) if p.suffix in (".hpp", ".cuh")]
