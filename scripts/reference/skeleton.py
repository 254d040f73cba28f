# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""A header as Doxygen reads it: its public declarations alone, on their lines, without bodies of functions.

What Doxygen 1.9.4 reads wrongly (detail namespaces, the ABI's name, requires clauses, deduction guides) is left out; an
alias of a type of detail becomes a type of its own, which inherits the members. The comment at the header's top becomes
the description of the file, and each type names its header, so that nothing is written twice. Equations are set with
arrows and superscripts.
"""
import re

import declarations
import markup
import public
import tokens

ANNOTATIONS = re.compile(r"\bCORDEE_(HOST_DEVICE|HOST|DEVICE)\b|\b__(host|device)__\b|\[\[[^]]*\]\]")


def plain_numbers(text):
    """The text without the marks in 60'000, at which Doxygen begins a character that ends at the next apostrophe."""
    return re.sub(r"(?<=\d)'(?=\d)", "", text)


class Pieces:
    """Texts at offsets of a file; written so that each stays on its line."""

    def __init__(self, header):
        self.header, self.found = header, []

    def add(self, offset, text):
        self.found.append((offset, text))

    def text(self):
        out, line = [], 1
        for offset, text in sorted(self.found, key=lambda x: x[0]):
            wanted = self.header.line(offset)
            out.append("\n" * (wanted - line) if wanted > line else " " if out else "")
            out.append(text)
            line = max(line, wanted) + text.count("\n")
        return "".join(out) + "\n"


def top_comment(header):
    """The comment at a header's top behind the licence, as lines."""
    lines = []
    for line in header.text.split("\n"):
        if not line.startswith("//"):
            break
        lines.append(line[2:])
    lines = [s[1:] if s.startswith(" ") else s for s in lines[2:]]
    while lines and not lines[0].strip():
        lines.pop(0)
    return lines


class Skeleton:
    def __init__(self, header, shown, name, links):
        self.header, self.shown, self.name, self.out = header, shown, name, Pieces(header)
        self.markup = markup.Markup(links)

    def text(self):
        comment = self.markup.formatted(top_comment(self.header))
        starts = [m.start() for m in re.finditer(r"^", self.header.text, re.MULTILINE)]
        for k, line in enumerate([f"@file {self.name}", "", ""] + comment if comment else []):
            self.out.add(starts[k], "/// " + line)
        self.begin = self.end = ""
        group = self.name.removeprefix("cordee/").rpartition("/")[0].replace("/", "_") or "cordee_all"
        if public.has_names(self.header):
            self.begin, self.end = f"/** @addtogroup {group} */ /** @{{ */", "/** @} */"
        for d in self.header.root.members:
            if d.kind == "namespace" and d.name.startswith("cordee") and not public.is_detail(d):
                self.out.add(d.begin, f"namespace cordee {{ {self.begin}")
                self.members(d, False)
                self.out.add(d.body[1] - 1, self.end + " }")
            elif d.kind == "namespace" and public.is_detail(d) and d.name.startswith("cordee"):
                self.detail(d, d.name.split("detail", 1)[1], True)
        return self.out.text()

    def detail(self, namespace, rest, outermost=False):
        """Types of detail whose members are public."""
        found = [d for d in namespace.members if d.kind == "type" and d.name in self.shown]
        if not found:
            return
        self.out.add(namespace.begin, ("" if outermost else self.end + " ") +
                     ("namespace cordee::detail" if outermost else "namespace detail") + rest + " {")
        for d in found:
            self.declaration(d, False)
        self.out.add(namespace.body[1] - 1, "}" + ("" if outermost else " " + self.begin))

    def members(self, scope, inside):
        seen = set()
        for d in scope.members:
            if d.kind == "namespace":
                if public.is_detail(d):
                    self.detail(d, d.name.split("detail", 1)[1])
                else:
                    self.out.add(d.begin, f"namespace {d.name} {{")
                    self.members(d, inside)
                    self.out.add(d.body[1] - 1, "}")
            elif d.public and not public.needs_none(d) and d.begin not in seen:
                seen.add(d.begin)  # `double a, b;` is one declaration of two names
                self.declaration(d, inside)

    def docs(self, d, behind):
        if not d.comments and not behind and d.kind == "type" and public.is_detail(d.parent):
            self.out.add(d.begin, "/** The members of the types that derive from it. */ ")
        mine = [t for t in d.comments if (t.kind == "behind") == behind]
        owner = d if d.kind == "type" else d.parent
        self.markup.own = {m.name for m in owner.members} if owner.kind == "type" else set()
        if d.kind == "function":
            self.markup.own |= {t.text for t in d.head if t.kind == "word"}
        lines = self.markup.formatted([re.sub(r"^///<? ?", "", t.text) for t in mine])
        for k, (t, line) in enumerate(zip(mine, lines)):
            last = k + 1 == len(mine) and d.kind in ("type", "concept") and d.parent.kind == "namespace" and not behind
            where = f" @see {self.name}" if last and top_comment(self.header) else ""
            self.out.add(t.begin, ("///< " if behind else "/// ") + line + where)

    def source(self, begin, end):
        return plain_numbers(ANNOTATIONS.sub("", self.header.text[begin:end]))

    def declarators(self, d):
        """`double a = 1, b = 2;` as two declarations."""
        plain = tokens.without_prefix(d.head)
        first, found, begin = None, [], None
        names = [d.name] + [x for x in declarations.Parser.declared(plain)][1:]
        k = 0
        while k < len(plain):
            t = plain[k]
            if first is None and t.text == d.name and (k + 1 == len(plain) or plain[k + 1].text in ("=", "{", ",", "[")):
                first, begin = t.begin, k
            if t.text in tokens.CLOSING:
                k = tokens.closing(plain, k)
            elif t.text == "," and first is not None and k + 1 < len(plain) and plain[k + 1].text in names:
                found.append(plain_numbers(tokens.join(plain[begin:k])))
                begin = k + 1
            k += 1
        if first is None:
            return []
        return [self.source(d.begin, first) + one + ";"
                for one in found + [plain_numbers(tokens.join(plain[begin:]))]]

    def declaration(self, d, inside):
        self.docs(d, False)
        if d.kind == "function":
            plain = tokens.without_prefix(d.head)
            close = tokens.closing(plain, tokens.parameter_list(plain))
            end = plain[close].end
            for t in plain[close + 1:]:  # up to a requires clause or a constructor's initializers
                if t.text in ("requires", ":", "="):
                    break
                end = t.end
            self.out.add(d.begin, self.source(d.begin, end) + ";")
        elif d.kind == "alias" and public.alias_target(d).split("::")[-1] in self.shown:
            target = self.source(d.begin, d.end).split("=", 1)[1].rstrip("; \n")
            self.out.add(d.begin, f"struct {d.name} : public {' '.join(target.split())} {{}};")
        elif d.kind == "variable" and len(self.declarators(d)) > 1:  # Doxygen describes the first alone
            docs = " ".join(self.markup.formatted(d.docs.split("\n"))) if d.docs else ""
            above = any(t.kind == "doc" for t in d.comments)  # what stands behind is moved before each
            self.out.add(d.begin, " ".join((f"/** {docs} */ " if docs and (k or not above) else "") + one
                                           for k, one in enumerate(self.declarators(d))))
            return
        elif d.kind in ("alias", "variable", "concept"):
            self.out.add(d.begin, self.source(d.begin, d.end))
        elif d.kind == "enum":
            self.out.add(d.begin, self.source(d.begin, d.body[0]) + "{")
            for k, e in enumerate(d.members):
                self.docs(e, False)
                self.out.add(e.begin, tokens.join(e.head) + ("," if k + 1 < len(d.members) else ""))
                self.docs(e, True)
            self.out.add(d.body[1] - 1, "};")
        elif d.kind == "type":
            self.out.add(d.begin, self.source(d.begin, d.body[0]) + "{ public:")
            self.members(d, True)
            self.out.add(d.body[1] - 1, "};")
        if d.kind != "enum" or any(t.kind == "behind" for t in d.comments):
            self.docs(d, True)
