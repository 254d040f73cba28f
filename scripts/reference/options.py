# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Tables of options for docs/policies, made from the headers: members of policies, their defaults and docstrings.

A page names the types between `<!-- options: sgd velocity_sgd -->` and `<!-- end of options -->`, where the table is. In
a docstring `Unit: …`, `Range: …, else …` and `Default: …` are sentences of their own (CONTRIBUTING.md, "Docstrings");
what begins with `State: ` is no option. Members that are aggregates of detail are replaced by theirs (limits.clip).
"""
import difflib
import re

import declarations
import public
import tokens

PAGES = public.FOLDER.parents[1] / "docs" / "policies"
BLOCK = re.compile(r"(<!-- options: ([^>]*?) -->\n).*?(<!-- end of options -->)", re.DOTALL)
HEAD = "| option | type | default | unit | range | outside the range | what it is |\n|---|---|---|---|---|---|---|\n"


class Library:
    """All types and aliases of the headers by name, of detail too."""

    def __init__(self, headers):
        self.found, self.hidden = {}, set()
        for h in headers:
            self.add(h.root, "", False)

    def add(self, scope, prefix, detail):
        for d in scope.members:
            if d.kind == "namespace":
                name = re.sub(r"^cordee::inline ?CORDEE_ABI(::)?|(^|::)detail(::[a-z]+)?$", "", d.name)
                self.add(d, prefix + name + "::" if name else prefix, detail or public.is_detail(d))
            elif d.kind in ("type", "alias"):
                name = prefix + d.name.split("<")[0]
                if name not in self.found or d.kind == "type" and len(d.members) > len(self.found[name].members):
                    self.found[name] = d
                if detail and d.kind == "type":
                    self.hidden.add(d.name)
                self.add(d, name + "::", False)

    def get(self, name):
        """The declaration of a name with any namespaces before it; None if there is none."""
        parts = name.split("::")
        for k in range(len(parts)):
            if "::".join(parts[k:]) in self.found:
                return self.found["::".join(parts[k:])]
        return None


def parameters(d):
    """The names of a template's parameters."""
    if not d.head or d.head[0].text != "template":
        return []
    inner = d.head[2:tokens.closing_angle(d.head, 1)]
    names, depth, name, skip = [], 0, "", False
    for t in inner + [tokens.Token("punct", ",", 0, 0)]:
        depth += (t.text in "<({") - (t.text in ">)}")
        if t.text == "," and depth == 0:
            names.append(name)
            name, skip = "", False
        elif t.text == "=":
            skip = True
        elif t.kind == "word" and not skip and depth == 0:
            name = t.text
    return names


def arguments(text):
    """The arguments of `name<a, b>`."""
    m = re.search(r"<(.*)>", text, re.DOTALL)
    return [a.strip() for a in m.group(1).split(",")] if m else []


class Policy:
    """A type with its template arguments, of which defaults may be made."""

    def __init__(self, library, name, declaration=None, known=None, given=""):
        self.library, self.name = library, name
        self.given = dict(re.findall(r"\.(\w+) = ([^,}]+)", given))  # initializers of members
        self.type, self.known = declaration or library.get(name), known or {}
        if self.type is None:
            raise SystemExit(f"docs: no public type is named {name}")
        while self.type.kind == "alias":
            target = public.alias_target(self.type)
            known_arguments = arguments(self.type.text().split("=", 1)[1])
            self.type = library.get(target)
            self.known = dict(zip(parameters(self.type), known_arguments))

    def variables(self):
        """The data members that are options, bases first, as (name prefix, policy, declaration)."""
        for base in public.bases(self.type):
            d = self.library.get(base)
            if d is not None and d.kind == "type":
                yield from Policy(self.library, base, d, self.known).variables()
        for d in self.type.members:
            if d.kind != "variable" or not d.public or d.head[0].text == "static" or d.docs.startswith("State:"):
                continue
            inner = self.member_type(d)
            parts = [] if inner is None else list(Policy(self.library, d.name, inner, {}, self.default(d)).variables())
            for prefix, policy, member in parts:
                yield d.name + "." + prefix, policy, member
            if not parts and not (inner and self.is_empty(inner)):
                yield "", self, d

    @staticmethod
    def is_empty(d):
        return not any(m.kind == "variable" and m.head[0].text != "static" for m in d.members)

    @staticmethod
    def declared_type(d):
        """A member's type as it is written: what stands before the first name of its declaration."""
        head = tokens.without_prefix(d.head)
        first = next(iter(declarations.Parser.declared(head)))
        ends = [k for k, t in enumerate(head) if t.text == first and
                (k + 1 == len(head) or head[k + 1].text in ("=", "{", ",", "["))]
        return tokens.join(head[:ends[0]]) if ends else ""

    def type_name(self, d):
        return self.resolved(re.sub(r"\b(typename|mutable) |\b(cordee|detail(::[a-z]+)?)::", "", self.declared_type(d)))

    def member_type(self, d):
        """The type of a member, if it is an aggregate of detail: its members are options, too."""
        found = self.library.get(self.resolved(re.sub(r"\b(typename|const) ", "", self.declared_type(d))).strip())
        return found if found is not None and found.kind == "type" and found.name in self.library.hidden else None

    def resolved(self, text):
        """The text with `Form::member` replaced by what the form has."""
        def value(m):
            form = self.known.get(m.group(1))
            return self.constant(form, m.group(2)) if form else m.group(0)
        text = re.sub(r"\b([A-Z]\w*)::(\w+)", value, text)
        return re.sub(r"\b[A-Z]\w*\b", lambda m: self.known.get(m.group(0), m.group(0)), text)

    def constant(self, form, member):
        d = self.library.get(form)
        while d is not None:
            for m in d.members:
                if m.name == member:
                    return m.name if m.kind == "alias" and "=" not in m.text() else self.initializer(m)
            bases = public.bases(d)
            d = self.library.get(bases[0]) if bases else None
        raise SystemExit(f"docs: {form} has no {member}")

    @staticmethod
    def initializer(d):
        text = d.text().split("=", 1)[1] if d.kind == "alias" else d.text()
        if d.kind == "alias":
            return text.strip()
        behind = re.search(rf"\b{d.name}(\[[^]]*\])?\s*(=|(?=\{{))(.*)$", text, re.DOTALL)
        value, depth = behind.group(3) if behind else "", 0
        for k, c in enumerate(value):  # up to the next variable of the declaration
            depth += (c in "({[") - (c in ")}]")
            if c == "," and depth == 0:
                return value[:k].strip()
        return " ".join(value.split())

    def constructor_default(self, d):
        """The default argument of a constructor that initializes the member with it; empty if there is none."""
        for f in self.type.members:
            if f.kind != "function" or f.name != self.type.name.split("<")[0]:
                continue
            given = re.search(rf"[:,]\s*{d.name}[({{](\w+)[)}}]", f.text())
            value = given and re.search(rf"\b{given.group(1)} = (.+)", f.text())
            depth = 0
            for k, c in enumerate(value.group(1) if value else ""):  # up to the next parameter
                if depth == 0 and c in ",)":
                    return value.group(1)[:k].strip()
                depth += (c in "({") - (c in ")}")
        return ""

    def default(self, d):
        """The default of a member, as a page shows it; empty if there is none."""
        if d.name in self.given:
            return shortened(self.given[d.name])
        value = self.resolved(self.initializer(d) or self.constructor_default(d))
        if self.declared_type(d) in parameters(self.type) and value in ("", "{}"):
            return ""  # of whatever type it has
        return shortened(value)


def shortened(value):
    value = re.sub(r"std::numeric_limits<[a-z]+>::infinity\(\)", "infinity", value)
    value = re.sub(r"\b(core|cordee|detail)::", "", value)
    if "missing_batch" in value:  # an argument that the constructor of an aggregate must be given
        return ""
    return value[1:-1] if re.fullmatch(r"\{[^{}.,]+\}", value) else value


def sentences(docs):
    """The labelled sentences of a docstring, and the first of the others."""
    text = " ".join(line.strip() for line in docs.split("\n"))
    found = {}
    for label in ("Unit", "Range", "Default"):
        m = re.search(rf"(^| ){label}: (.+?)\.(?=\s+[A-Z`@]|\s*$)", text)
        if m:
            found[label] = m.group(2)
            text = text[:m.start()] + text[m.end():]
    brief = re.match(r"\s*(.+?)(\.(?=\s+[A-Z`(]|\s*$)|$)", text)
    brief = brief.group(1) if brief else ""
    found["brief"] = re.sub(r"\s*\([^()]*[.](hpp|cuh)[^()]*\)", "", brief)  # files are beside the header
    return found


def code(text):
    return f"`{text}`" if text else ""


def defaults_of(values):
    """One cell for the defaults of several types: the common one, or each with its types."""
    if len(set(values.values())) == 1:
        return code(next(iter(values.values()))) or "required"
    groups = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(f"`{name}`")
    return "; ".join(f"{code(v) or 'required'} ({', '.join(names)})" for v, names in groups.items())


def rows(policies):
    """Rows of the policies of one template."""
    options, before = {}, ("", "")
    for policy in policies:
        for prefix, owner, d in policy.variables():
            options.setdefault(prefix + d.name, {})[policy.name] = (owner, d)
    yield "| **" + ", ".join(f"`{p.name}`" for p in policies) + "** | | | | | | |"
    for name, by_type in options.items():
        owner, d = next(iter(by_type.values()))
        said = sentences(d.docs)
        if said["brief"] and said["brief"] == before[1]:
            raise SystemExit(f"docs: {before[0]} and {name} share one docstring: give each a declaration of its own")
        before = name, said["brief"]
        span, _, beyond = said.get("Range", "").partition(", else ")
        default = defaults_of({n: o.default(m) for n, (o, m) in by_type.items()})
        if len(by_type) < len(policies):
            default += " (" + ", ".join(f"`{n}`" for n in by_type) + " only)"
        if "Default" in said:
            default += ": " + said["Default"]
        cells = [code(name), code(owner.type_name(d)), default, said.get("Unit", ""), span, beyond, said["brief"]]
        yield "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def table(library, names):
    groups = {}
    for name in names:
        policy = Policy(library, name)
        groups.setdefault(id(policy.type), []).append(policy)
    return HEAD + "\n".join(row for policies in groups.values() for row in rows(policies)) + "\n"


NUMBER = re.compile(r"\| `(?:double|float|unsigned|int|std::(?:u?int\d+_t|size_t|chrono::\w+))` \| [^|]* \| [^|]* \|  \|")


def write():
    """Writes the tables of all pages, and names the numbers without range."""
    for path, text, wanted in pages():
        if text != wanted:
            path.write_text(wanted, encoding="utf-8")
            print(f"docs/policies/{path.name}: written")
        without = [row.split("`")[1] for block in BLOCK.finditer(wanted) for row in block.group(0).splitlines()
                   if NUMBER.search(row)]
        if without:
            print(f"docs/policies/{path.name}: {len(without)} numbers without range: {', '.join(without)}")
    return True


def stale():
    """Names the rows that --tables would change; true if there are none."""
    fresh = True
    for path, text, wanted in pages():
        for line in difflib.unified_diff(text.splitlines(), wanted.splitlines(), lineterm="", n=0):
            if line[0] in "+-" and line[:3] not in ("+++", "---"):
                fresh = False
                print(f"docs/policies/{path.name}: {line}")
    if not fresh:
        print("options of the headers and of docs/policies differ: run scripts/docs --tables")
    return fresh


def pages():
    """Each policy page with its text as it is and as it ought to be."""
    library = Library(public.all_headers())
    for path in sorted(PAGES.glob("*.md")):
        text = path.read_text(encoding="utf-8")
        if text.count("<!-- options: ") != len(BLOCK.findall(text)):
            raise SystemExit(f"docs: docs/policies/{path.name}: a line <!-- options: … --> without <!-- end of options -->")
        yield path, text, BLOCK.sub(
            lambda m: m.group(1) + "\n" + table(library, m.group(2).split()) + "\n" + m.group(3), text)
