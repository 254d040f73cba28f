# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The tokens of a C++ header, and what declarations are found by: brackets, constraints, lists of parameters."""
import dataclasses
import re

TOKEN = re.compile(r"""
    (?P<space>[ \t\r\n]+)
  | (?P<directive>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<behind>///<[^\n]*)
  | (?P<doc>///(?!/)[^\n]*)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>R"(?P<mark>[^(]*)\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)+')
  | (?P<number>\.?[0-9](?:'?[0-9a-zA-Z_.]|(?<=[eEpP])[+-])*)
  | (?P<word>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<punct>::|->|\.\.\.|&&|\|\||[<>=!]=|.)
""", re.VERBOSE | re.DOTALL | re.MULTILINE)

CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    begin: int
    end: int


def join(tokens):
    """The tokens as text, spaces where there were any."""
    out, at = [], None
    for t in tokens:
        if at is not None and t.begin > at:
            out.append(" ")
        out.append(t.text)
        at = t.end
    return "".join(out)


def tokens_of(text):
    found = [Token(m.lastgroup if m.lastgroup != "mark" else "string", m.group(), m.start(), m.end())
             for m in TOKEN.finditer(text)]
    return [t for t in found if t.kind not in ("space", "directive", "comment")]


def closing(tokens, i):
    """The index of the bracket that closes tokens[i]."""
    stack = []
    while True:
        t = tokens[i].text if tokens[i].kind == "punct" else ""
        if t in CLOSING:
            stack.append(CLOSING[t])
        elif stack and t == stack[-1]:
            stack.pop()
            if not stack:
                return i
        i += 1


def closing_angle(tokens, i):
    """The index of the > that closes the < at tokens[i] of a template's parameters or arguments; i, if it is less-than."""
    depth, first = 0, i
    while i < len(tokens):
        t = tokens[i].text if tokens[i].kind == "punct" else ""
        if t in CLOSING:
            i = closing(tokens, i)
        elif t == "<":
            depth += 1
        elif t == ">":
            depth -= 1
            if depth == 0:
                return i
        elif t == ">=" and depth == 1:
            return i
        i += 1
    return first


def without_prefix(head):
    """The head without template parameters, requires clauses and attributes at its beginning."""
    i = 0
    while i < len(head):
        if head[i].text == "template" and i + 1 < len(head) and head[i + 1].text == "<":
            end = closing_angle(head, i + 1)
            if end == i + 1:
                return head[end:]
            i = end + 1
        elif head[i].text == "requires":
            i = end_of_constraint(head, i + 1)
        elif head[i].text == "[" and i + 1 < len(head) and head[i + 1].text == "[":
            i = closing(head, i) + 1
        else:
            break
    return head[i:]


def end_of_constraint(head, i):
    """The index behind a requires clause: primary expressions joined by && and ||."""
    while True:
        if head[i].text == "(":
            i = closing(head, i) + 1
        elif head[i].text == "requires":  # a requires expression
            i += 1
            if head[i].text == "(":
                i = closing(head, i) + 1
            i = closing(head, i) + 1
        else:
            while True:
                i += 1  # a name
                if head[i].text == "<":
                    i = closing_angle(head, i) + 1
                if head[i].text != "::":
                    break
                i += 1
        if head[i].text not in ("&&", "||"):
            return i
        i += 1


def outermost(tokens):
    """The texts of tokens outside of brackets, a group as ()."""
    found, i = [], 0
    while i < len(tokens):
        t = tokens[i].text
        found.append(t + CLOSING[t] if t in CLOSING else t)
        i = closing(tokens, i) + 1 if t in CLOSING else i + 1
    return found


SPECIFIERS = {"inline", "static", "constexpr", "constinit", "consteval", "extern", "explicit", "virtual", "mutable",
              "typename", "CORDEE_HOST", "CORDEE_DEVICE", "CORDEE_HOST_DEVICE", "__device__", "__host__"}


def parameter_list(head):
    """The index of the ( of a function's parameters in a head without prefix; None if it is no function."""
    i = 0
    while i < len(head):
        t = head[i].text
        if t == "operator":
            i += 1
            if head[i].text == "(":
                return i + 2
            while head[i].text != "(":
                i = closing_angle(head, i) if head[i].text == "<" and head[i - 1].kind == "word" and \
                    head[i - 1].text != "operator" else i
                i += 1
            return i
        if t == "=" or t == "{":
            return None
        if t in ("explicit", "noexcept", "decltype", "alignas", "__launch_bounds__") and \
                i + 1 < len(head) and head[i + 1].text == "(":
            i = closing(head, i + 1)
        elif t == "[":
            i = closing(head, i)
        elif t == "<":
            i = closing_angle(head, i)
        elif t == "(":
            if i + 1 < len(head) and head[i + 1].text in ("*", "&"):
                return None  # a pointer to a function
            return i if i and (head[i - 1].kind == "word" or head[i - 1].text == ">") else None
        i += 1
    return None
