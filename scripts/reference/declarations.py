# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Reads the declarations of a header, with their docstrings, without a compiler.

It relies on the layout that clang-format gives the library's headers, and on what they use of C++: a docstring is `///`
above a declaration or `///<` behind it. Both branches of an #if are read. Bodies of functions are skipped.
"""
import dataclasses
import re

from tokens import (CLOSING, SPECIFIERS, closing, closing_angle, join, outermost, parameter_list, tokens_of,
                    without_prefix)


@dataclasses.dataclass
class Declaration:
    kind: str          # namespace, type, enum, enumerator, alias, concept, function, variable, friend, other
    name: str
    head: list         # tokens up to the body or the semicolon
    begin: int         # offsets in the text, without the docstring
    end: int
    docs: str = ""     # docstring, lines joined by \n
    public: bool = True
    members: list = dataclasses.field(default_factory=list)
    body: tuple = ()   # offsets of { and behind } of a function, type or namespace
    parent: object = None
    comments: list = dataclasses.field(default_factory=list)  # the docstring's tokens

    def text(self):
        return join(self.head)


def docstring(comments):
    """The text of a docstring's tokens."""
    return "\n".join(re.sub(r"^///<? ?", "", t.text) for t in comments)


class Parser:
    def __init__(self, text):
        self.text, self.tokens = text, tokens_of(text)

    def docs_before(self, i):
        lines, limit = [], None
        while i > 0 and self.tokens[i - 1].kind == "doc":
            t = self.tokens[i - 1]
            if limit is not None and self.text.count("\n", t.end, limit) > 1:
                break
            lines.insert(0, t)
            limit, i = t.begin, i - 1
        return lines

    def docs_behind(self, i):
        """The docstring behind the token before i, and the index behind it."""
        lines = []
        while i < len(self.tokens) and self.tokens[i].kind == "behind":
            lines.append(self.tokens[i])
            i += 1
        return lines, i

    def scope(self, i, end, parent, public=True):
        """Reads the declarations of tokens[i:end] into parent.members."""
        while i < end:
            t = self.tokens[i]
            if t.kind in ("doc", "behind") or t.text == ";":
                i += 1
            elif t.text in ("public", "private", "protected") and self.tokens[i + 1].text == ":":
                public = t.text == "public"
                i += 2
            else:
                i = self.declaration(i, end, parent, public)

    def declaration(self, i, end, parent, public):
        first, docs = i, self.docs_before(i)
        head, body = [], None
        while i < end:
            t = self.tokens[i]
            if t.kind in ("doc", "behind"):
                i += 1
                continue
            if t.text == ";":
                break
            if t.text == "{":
                if self.is_body(head):
                    body = (i, closing(self.tokens, i))
                    break
                close = closing(self.tokens, i)
                head += [x for x in self.tokens[i:close + 1] if x.kind not in ("doc", "behind")]
                i = close + 1
                continue
            if t.text in ("(", "["):
                close = closing(self.tokens, i)
                head += [x for x in self.tokens[i:close + 1] if x.kind not in ("doc", "behind")]
                i = close + 1
                continue
            head.append(t)
            i += 1
        last = body[1] if body else i
        plain = without_prefix(head)
        keyword = next((x.text for x in plain if x.text not in SPECIFIERS), "")
        made = self.classify(plain, keyword, head, body)
        if body and made.kind in ("type", "enum") and last + 1 < end and self.tokens[last + 1].text == ";":
            last += 1
        behind, after = self.docs_behind(min(last + 1, len(self.tokens)))
        made.begin, made.end = self.tokens[first].begin, self.tokens[min(last, len(self.tokens) - 1)].end
        made.comments = docs + behind
        made.docs, made.public, made.parent = docstring(made.comments), public, parent
        if body:
            made.body = (self.tokens[body[0]].begin, self.tokens[body[1]].end)
            if made.kind == "namespace":
                self.scope(body[0] + 1, body[1], made)
            elif made.kind == "type":
                self.scope(body[0] + 1, body[1], made, keyword != "class")
            elif made.kind == "enum":
                self.enumerators(body[0] + 1, body[1], made)
        parent.members.append(made)
        if made.kind == "variable":
            for name in self.more_names(plain):
                parent.members.append(dataclasses.replace(made, name=name, members=[]))
        return after

    @staticmethod
    def is_body(head):
        try:
            plain = without_prefix(head)
        except IndexError:
            return False  # within a requires expression
        if plain and plain[0].text == "<":
            return False  # within a template's parameters
        words = [t.text for t in plain]
        keyword = next((w for w in words if w not in SPECIFIERS), "")
        if keyword in ("namespace", "struct", "class", "union", "enum"):
            return words.count("<") == words.count(">")  # else an argument of a base class
        if keyword in ("using", "concept"):
            return False
        if keyword == "extern":
            return True
        at = parameter_list(plain)
        if at is None:
            return False
        behind = outermost(plain[closing(plain, at) + 1:])
        if ":" not in behind:
            expression = behind[-1:] == ["requires"] or \
                behind[-2:] == ["requires", "()"] and behind[-3:-2] in (["requires"], ["&&"], ["||"])
            return "=" not in behind and not expression
        # a constructor's initializers: `a{...}` and `b(...)`, then the body
        return behind[-1] in ("()", "{}", "...")

    @staticmethod
    def classify(plain, keyword, head, body):
        words = [t.text for t in plain]
        made = Declaration("other", "", head, 0, 0)
        if keyword == "namespace":
            made.kind, made.name = "namespace", "".join(w for w in words[words.index("namespace") + 1:])
        elif keyword in ("struct", "class", "union", "enum"):
            k = words.index(keyword) + 1
            if words[k:k + 1] in (["class"], ["struct"]):
                k += 1
            while k < len(words) and words[k] in ("[", "alignas"):
                k = closing(plain, k if words[k] == "[" else k + 1) + 1
            made.kind = "enum" if keyword == "enum" else "type"
            made.name = words[k] if k < len(words) else ""
            if words[k + 1:k + 2] == ["<"]:  # a specialization
                made.name += join(plain[k + 1:closing_angle(plain, k + 1) + 1])
            if words[k + 1:k + 2] == ["::"]:
                made.kind = "other"
            if not body:
                made.kind = "other"  # declared only
        elif keyword == "concept":
            made.kind, made.name = "concept", words[words.index("concept") + 1]
        elif keyword == "using":
            if "=" in words and words[1] != "namespace":
                made.kind, made.name = "alias", words[1]
        elif keyword == "friend":
            made.kind = "friend"
        elif keyword in ("static_assert", "template", "typedef", "catch", ""):  # catch: of a constructor's try
            pass
        else:
            at = parameter_list(plain)
            if at is not None:
                made.kind, name = "function", at - 1
                if "operator" in words[:at]:
                    name = words.index("operator")
                elif words[name] == ">":  # an explicit specialization
                    made.kind = "other"
                made.name = "".join(words[name:at]) if "operator" in words[:at] else words[name]
                if name and words[name - 1] == "~":
                    made.name = "~" + made.name
                if name and words[name - 1] == "::":
                    made.kind = "other"  # defined outside of its class
                arrow = words[closing(plain, at) + 1:][:1]
                if arrow == ["->"] and "auto" not in words[:at]:
                    made.kind = "other"  # a deduction guide
            else:
                names = list(Parser.declared(plain))
                made.kind, made.name = ("variable", names[0]) if names else ("other", "")
        return made

    @staticmethod
    def declared(plain):
        """The names that a declaration of variables declares."""
        name, k, skip = "", 0, False
        while k < len(plain):
            t = plain[k]
            if t.text == "(" and plain[k + 1].text in ("*", "&"):
                yield plain[k + 2].text  # a pointer to a function
                return
            if t.text in CLOSING:
                k = closing(plain, k) + 1
                skip = skip or t.text == "{"
                continue
            if t.text == "<" and k and plain[k - 1].kind == "word":
                k = closing_angle(plain, k) + 1
                if not skip and (k == len(plain) or plain[k].text in (";", "=", "{")):
                    name = ""  # a specialization of a variable
                continue
            if t.text == "=" or t.text == ":":
                skip = True
            elif t.text == ",":
                if name:
                    yield name
                name, skip = "", False
            elif t.kind == "word" and not skip:
                name = t.text
            k += 1
        if name:
            yield name

    def more_names(self, plain):
        return list(self.declared(plain))[1:]

    def enumerators(self, i, end, parent):
        while i < end:
            docs, first = [], i
            while i < end and self.tokens[i].kind == "doc":
                i += 1
            if i >= end:
                return
            docs, first, head = self.docs_before(i), i, []
            while i < end and self.tokens[i].text != ",":
                if self.tokens[i].kind not in ("doc", "behind"):
                    head.append(self.tokens[i])
                elif self.tokens[i].kind == "behind":
                    docs.append(self.tokens[i])
                i += 1
            behind, i = self.docs_behind(min(i + 1, end))
            docs += behind
            parent.members.append(Declaration("enumerator", head[0].text, head, self.tokens[first].begin, head[-1].end,
                                              docstring(docs), True, [], (), parent, docs))


def declarations(text):
    """The declarations of a header, as the members of a namespace without name."""
    root = Declaration("namespace", "", [], 0, len(text))
    parser = Parser(text)
    parser.scope(0, len(parser.tokens), root)
    return root
