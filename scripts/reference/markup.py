# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Comments as Doxygen reads them: commands and marks escaped, names of code linked, equations set as such."""
import html
import re

COMMANDS = r"(?:throws|param|tparam|return|returns|see|sa|pre|post|note|overload|ref|code|endcode)\b"


def outside_of_quotes(change, text):
    """The text, changed where Doxygen reads it: what stands in double quotes on a line it leaves as it is."""
    return "".join(html.escape(part, quote=False) if part.startswith('"') else change(part)
                   for part in re.split(r'("[^"\n]*")', text))


def literal(text, marks=""):
    """HTML in which Doxygen finds no commands, nor any of Markdown's marks."""
    def change(part):
        part = html.escape(part, quote=False).replace("\\", "\\\\")
        part = re.sub(r"(?<!\w)::", r"\\::", part)  # which it would look up
        for sign in "@#%" + marks:
            part = part.replace(sign, "\\" + sign)
        return part.replace("--", "\\--")  # an option, not a dash
    return outside_of_quotes(change, text)


def escaped(text):
    """Prose of a docstring."""
    def change(part):
        part = html.escape(part.replace("\\", "\\\\"), quote=False)
        for sign in "#|*~":
            part = part.replace(sign, "\\" + sign)
        part = re.sub(r"(?<!\w)::", r"\\::", part)
        part = re.sub(r"@throws (\w+),", r"@throws \1", part)  # the comma would be of the name
        part = re.sub(r" [.][.] ", "&nbsp;..&nbsp;", part)
        part = re.sub(r"[.] (?=[a-z0-9(])", ".&nbsp;", part)  # "et al. 2017" ends no sentence
        return re.sub(r"@(?!" + COMMANDS + ")", r"\\@", part)
    return outside_of_quotes(change, text)


def typeset(line):
    """A line of an equation as HTML: arrows, relations and superscripts; columns behind two spaces stay where they are."""
    out, lost = "", 0
    for part in re.split(r"( {2,})", line):
        if part.isspace() and lost > 0:
            out, lost = out + part + " " * lost, 0
            continue
        made = part
        for plain, sign in (("<-", "←"), ("<=", "≤"), (">=", "≥"), ("!=", "≠"), ("->", "→")):
            made = made.replace(plain, sign)
        made = re.sub(r"\bsqrt(?=[ (\w])", "√", made)
        lost += len(part) - len(made)
        made = literal(made)

        def raised(m):
            nonlocal lost
            lost += len(m.group(0)) - len(m.group(1) or m.group(2))
            return f"<sup>{m.group(1) or m.group(2)}</sup>"
        made = re.sub(r"\^(?:\(([^()]*)\)|(-?\w+))", raised, made)
        out += made
    return out


class Markup:
    """Comments and code spans; `links` are the public names that have a page: their label by their name."""

    def __init__(self, links):
        self.links, self.own = links, set()

    def code(self, text):
        """A code span, as a link if it is a public name and none of `own`, a type's members and parameters."""
        if text in self.links and text not in self.own:
            return f'<code>@ref {self.links[text]} "{text}"</code>'
        return f"<code>{literal(text, '*|~')}</code>"

    def prose(self, line):
        """A line of a docstring with what would be a command escaped."""
        parts = re.split(r"(`[^`]*`)", line)
        for k in range(1, len(parts), 2):
            parts[k] = self.code(parts[k][1:-1])
        return "".join(escaped(p) if k % 2 == 0 else p for k, p in enumerate(parts))

    def formatted(self, lines):
        """Lines of a comment, blocks that are indented as equations; as many lines."""
        def is_block(k):
            return lines[k].startswith("  ") and lines[k].strip() != ""
        out, inside = [], False
        for k, line in enumerate(lines):
            if is_block(k):
                begins = not inside
                inside = True
                later = next((j for j in range(k + 1, len(lines)) if lines[j].strip()), None)
                ends = later is None or not is_block(later)
                out.append(("<pre class=\"equation\">" if begins else "") + typeset(line) + ("</pre>" if ends else ""))
                inside = not ends
            else:
                out.append("" if inside else self.prose(line))
        return out
