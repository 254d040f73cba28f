# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Pages in Markdown as Doxygen 1.9.4 reads them: links to headings and between pages, pictures, and files to look at.

GitHub's names of headings become labels (1.9.4 has no GitHub style of its own); a link to a header becomes its name, which
Doxygen links; a file that is no page is copied beside the pages. A link that leads nowhere is an error.
"""
import os
import re
import shutil

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")
PLACES = ("*.md", "docs/**/*.md", "examples/**/*.md")
FIRST = ("README.md", "docs/guide.md", "docs/policies/README.md", "examples/README.md", "docs/architecture.md")
LAST = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")


def sources(root):
    return sorted({p for place in PLACES for p in root.glob(place)})


def label(path):
    return "mainpage" if path == "README.md" else "page_" + re.sub(r"\W", "_", path.removesuffix(".md"))


def file(path):
    """The name of a page's file: Doxygen lists pages in the order of files."""
    place = FIRST.index(path) if path in FIRST else 90 + LAST.index(path) if path in LAST else 50
    return f"{place:02}_{label(path)}.md"


def slug(heading):
    """GitHub's name of a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def outside_of_blocks(text):
    """(line, whether it is text) of each line; blocks of code are not, and comments are left out."""
    fenced = comment = False
    for line in text.split("\n"):
        fence = line.lstrip().startswith("```")
        comment = comment or line.startswith("<!--") and not fenced
        yield "" if comment else line, not (fenced or fence)
        comment = comment and "-->" not in line
        fenced = fenced != fence


def numbered(name, seen):
    """A heading's name as GitHub has it: the second of one name ends in -1."""
    seen[name] = seen.get(name, -1) + 1
    return f"{name}-{seen[name]}" if seen[name] else name


def anchors(text):
    """The names that links to a page may end in."""
    found, seen = set(), {}
    for line, is_text in outside_of_blocks(text):
        m = re.match(r"#+ (.*)$", line) if is_text else None
        if m:
            found.add(numbered(slug(m.group(1)), seen))
        found |= set(re.findall(r'<a id="([^"]+)"></a>', line))
    return found


class Site:
    """The pages of a repository, written into `work`; files that they link are copied to `out`."""

    def __init__(self, root, work, out, markup):
        self.root, self.work, self.out, self.markup = root, work, out, markup
        self.paths = [str(p.relative_to(root)) for p in sources(root)]
        self.texts = {p: (root / p).read_text(encoding="utf-8") for p in self.paths}
        self.anchors = {p: anchors(t) for p, t in self.texts.items()}
        self.errors = []

    def write(self):
        for path in self.paths:
            target = self.work / file(path)
            target.write_text(self.page(path), encoding="utf-8")
        return self.errors

    def page(self, path):
        out, chunk, seen = [], [], {}

        def flush(number):
            if chunk:  # links go over several lines
                text = self.inline(path, number - len(chunk), "\n".join(chunk))
                out.append(re.sub(r'<a id="([^"]+)"></a>', lambda a: f"\\anchor {label(path)}_{a.group(1)}\n", text))
                chunk.clear()
        for number, (line, is_text) in enumerate(outside_of_blocks(self.texts[path]), 1):
            m = re.match(r"(#+) (.*)$", line) if is_text else None
            if is_text and not m and line.strip():
                chunk.append(line)
                continue
            flush(number)
            if m:
                own = numbered(slug(m.group(2)), seen)
                name = label(path) if len(seen) == 1 else label(path) + "_" + own
                line = f"{m.group(1)} {self.inline(path, number, m.group(2))} {{#{name}}}"
            out.append(line)
        flush(number + 1)
        return "\n".join(out) + "\n"

    def inline(self, path, number, line):
        parts = re.split(r"(`[^`]*`)", line)
        codes = {f"\x00{k}\x00": parts[k] for k in range(1, len(parts), 2)}  # links may have code in their text
        text = "".join(parts[k] if k % 2 == 0 else f"\x00{k}\x00" for k in range(len(parts)))
        text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", text)  # Doxygen wants a letter behind the stars
        text = re.sub(r"\\(?![|*_])", r"\\\\", text).replace("@", "\\@")
        text = LINK.sub(lambda m: self.link(path, number, *m.groups()), text)
        for mark, original in codes.items():
            text = text.replace(mark, self.markup.code(original[1:-1].replace("\\|", "|")))
        return text

    def link(self, path, number, picture, text, target):
        if re.match(r"[a-z]+:", target):
            return f"{picture}[{text}]({target})"
        file, _, fragment = target.partition("#")
        wanted = os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path
        there = self.root / wanted
        if there.is_dir() and (there / "README.md").is_file():
            wanted = os.path.join(wanted, "README.md")
        if wanted in self.texts:
            if fragment and fragment not in self.anchors[wanted]:
                self.errors.append(f"{path}:{number}: {wanted} has no heading #{fragment}")
            name = label(wanted) + ("_" + fragment if fragment else "")
            sub = path == "docs/policies/README.md" and wanted.startswith("docs/policies/") and wanted != path
            return f"@subpage {name} \"{text}\"" if sub and "\x00" not in text else f"[{text}](@ref {name})"
        if not there.exists():
            self.errors.append(f"{path}:{number}: {target} does not exist")
            return text
        if there.is_dir():
            return f"{text} ({wanted})" if text != wanted else text
        if wanted.startswith("include/"):
            return f"{text} ({wanted.removeprefix('include/')})"
        copy = self.out / "files" / (wanted if picture else wanted + ".txt")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there, copy)
        where = copy.relative_to(self.out)
        return f'<img src="{where}" alt="{text}"/>' if picture else f'<a href="{where}">{text}</a>'
