# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Builds the HTML reference with Doxygen; what it warns of is an error."""
import pathlib
import re
import shutil
import subprocess

import markup
import pages
import public
import skeleton

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TITLES = {
    "train": "Training", "optim": "Optimizers", "schedule": "Schedules", "comm": "Communication",
    "precision": "Precisions", "device": "Devices and memory", "nn": "Networks, layers and losses",
    "data": "Data and augmentation", "images": "Photographs", "checkpoint": "Checkpoints", "infer": "Inference",
    "ops": "Operations and convolution engines", "io": "Files", "core": "Core: steps, errors, random numbers",
    "testing": "Laws, to test policies of your own",
    "comm/transports": "Transports", "comm/reducers": "Reducers", "comm/topologies": "Topologies of gossip",
    "comm/failure": "Failures", "comm/simulated": "Simulated networks", "train/callbacks": "Callbacks",
    "train/input": "Input", "train/step": "A step", "train/measure": "Measurements", "train/checks": "Checks",
    "train/int8": "Training in int8", "train/kfac": "Kronecker factors", "infer/cpu": "On the CPU",
    "infer/gpu": "On a GPU", "infer/onnx": "ONNX", "infer/quantize": "Quantization"}
POLICIES = {"optim": "optimizers", "schedule": "schedules", "comm/reducers": "reducers", "comm/topologies": "reducers",
            "comm/transports": "transports", "precision": "precision", "device": "devices", "data": "data",
            "infer": "inference", "train/callbacks": "logs"}  # the page of docs/policies for an area


def groups(headers):
    """The groups of Doxygen, one for each folder."""
    folders = set()
    for h in headers:
        relative = h.path.relative_to(public.FOLDER).parent
        if public.has_names(h):
            folders |= {f for f in (relative, *relative.parents) if str(f) != "."}
    lines = []
    order = list(TITLES)
    for f in sorted(folders, key=lambda f: (order.index(f.as_posix()) if f.as_posix() in TITLES else 99, f)):
        title = TITLES.get(f.as_posix(), f.name.replace("_", " ").capitalize())
        parent = f"@ingroup {'_'.join(f.parts[:-1])} " if len(f.parts) > 1 else ""
        page = f"Choices, costs and pitfalls: @ref page_docs_policies_{POLICIES[f.as_posix()]}." if f.as_posix() in POLICIES else ""
        lines.append(f"/** @defgroup {'_'.join(f.parts)} {title}\n{parent}\n{page} */")
    lines.append("/** @defgroup cordee_all The whole library\nWhat the headers that include all others declare. */")
    return "\n".join(lines) + "\n"


def names(headers, shown):
    """Public types and concepts at namespace scope, which have pages, with what Doxygen calls them."""
    found = {}
    for h in headers:
        for d in public.public_scope(h.root):
            if d.kind in ("type", "concept", "alias") and d.public and "<" not in d.name:
                outer = d.parent.name if not d.parent.name.startswith("cordee") else ""
                name = f"{outer}::{d.name}" if outer else d.name
                if d.kind == "type" or d.kind == "concept" and d.docs or public.alias_target(d).split("::")[-1] in shown:
                    found[name] = f"cordee::{name}"
    return found


def version():
    text = (public.FOLDER / "core" / "version.hpp").read_text()
    return ".".join(re.search(rf"CORDEE_VERSION_{part} (\d+)", text).group(1) for part in ("MAJOR", "MINOR", "PATCH"))


def layout(doxygen, work):
    """Doxygen's own layout, with areas in place of "Modules" and the guide in place of "Related Pages"."""
    file = work / "layout.xml"
    subprocess.run([doxygen, "-l", file], check=True, stdout=subprocess.DEVNULL)
    text = file.read_text()
    for kind, title in (("pages", "Guide and policies"), ("modules", "Reference by area")):
        text = text.replace(f'<tab type="{kind}" visible="yes" title=""', f'<tab type="{kind}" visible="yes" title="{title}"')
    before, inside, after = re.split(r"(<class>.*?</class>)", text, flags=re.DOTALL)  # options before functions
    for kind in ("publicattributes", "publicstaticattributes"):
        m = re.search(rf" *<{kind} [^>]*>\n", inside)
        inside = inside.replace(m.group(0), "", 1)
        inside = re.sub(r"( *<publicslots )", lambda at: m.group(0) + at.group(0), inside, count=1)
    file.write_text(before + inside + after)
    return file


def build(out):
    """Writes the reference into `out`; returns the errors."""
    doxygen = shutil.which("doxygen")
    if doxygen is None:
        raise SystemExit("docs: doxygen is not installed: apt-get install doxygen")
    if out.exists() and any(out.iterdir()) and not (out / "doxygen.css").exists():
        raise SystemExit(f"docs: {out} has other files: name an empty folder, or one of a former reference")
    work, html = out.with_name(out.name + ".work"), out
    for folder in (work, html):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    headers = public.all_headers()
    shown = public.shown_types(headers)
    links = names(headers, shown)
    for h in headers:
        name = "cordee/" + h.path.relative_to(public.FOLDER).as_posix()
        target = work / "include" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(skeleton.Skeleton(h, shown, name, links).text(), encoding="utf-8")
    (work / "groups.dox").write_text(groups(headers))
    site = pages.Site(ROOT, work, html, markup.Markup(links))
    errors = site.write()
    settings = (HERE / "Doxyfile").read_text() + "".join(f"{name} = {value}\n" for name, value in (
        ("PROJECT_NUMBER", version()), ("INPUT", f'"{work}"'), ("STRIP_FROM_PATH", f'"{work}/include" "{work}"'),
        ("STRIP_FROM_INC_PATH", f'"{work}/include"'), ("LAYOUT_FILE", f'"{layout(doxygen, work)}"'),
        ("HTML_EXTRA_STYLESHEET", f'"{HERE / "style.css"}"'), ("WARN_LOGFILE", f'"{work}/warnings"'),
        ("OUTPUT_DIRECTORY", f'"{html.parent}"'), ("HTML_OUTPUT", f'"{html.name}"')))
    subprocess.run([doxygen, "-"], input=settings, text=True, check=True, stdout=subprocess.DEVNULL)
    warnings = (work / "warnings").read_text().replace(f"{work}/", "")
    for path in site.paths:
        warnings = warnings.replace(f"{pages.file(path)}:", f"{path}:")
    return errors + unexpected(warnings, headers, shown)


def unexpected(warnings, headers, shown):
    """Doxygen's warnings but for undocumented names, which `scripts/docs --check` lists all and more."""
    known = set()
    for h in headers:
        name = "include/cordee/" + h.path.relative_to(public.FOLDER).as_posix()
        for d in public.public_names(h, shown):
            if not d.docs:
                known |= {(name, line) for line in range(h.line(d.begin), h.line(d.body[0] if d.body else d.end) + 1)}
    found = []
    for line in re.sub(r"\n(?=\s)", " ", warnings).splitlines():
        m = re.match(r"([^:]+):(\d+): warning: .* is not documented\.$", line)
        if not (m and (m.group(1), int(m.group(2))) in known) and line not in found:
            found.append(line)
    return found
