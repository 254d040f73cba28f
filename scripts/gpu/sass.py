# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Machine code of a GPU as nvdisasm prints it: its instructions, its loops, figures of a kernel."""
import re

# Functions behind the divisions, roots and powers of floating-point numbers, for rare arguments.
FLOATING = re.compile(r"slowpath|mediumpath|_f64_full|internal_accurate_pow")


class Instruction:
    def __init__(self, address, text):
        self.address = address
        match = re.match(r"(@!?U?P[T\d]+ +)?([A-Z][A-Z0-9_.]*)(.*)", text)
        self.predicated = bool(match and match[1])
        self.name, self.operands = (match[2], match[3]) if match else (text, "")
        target = re.search(r"`\(([^)]+)\)", self.operands)
        self.target = target[1] if target else None

    def is_(self, *names):
        """Whether it is one of these, modifiers (.E, .128) left out unless they are given."""
        return any((self.name + ".").startswith(name + ".") for name in names)

    def registers(self, which):
        """The registers that are written (which = 0: the first operand), or read (1)."""
        operands = self.operands.split(",", 1)
        text = operands[which] if len(operands) > which else ""
        return {int(r) for r in re.findall(r"\bR(\d+)", text)}


def parse(sass):
    """{kernel: (instructions, {label: index})} of nvdisasm's output."""
    kernels, code, labels = {}, None, None
    for line in sass.splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.([^,\"]+)", line):
            code, labels = [], {}
            kernels[section[1]] = (code, labels)
        elif line.lstrip().startswith(".section"):
            code = None
        elif code is not None and (label := re.match(r"(\.?[\w.$]+):", line)):
            labels[label[1]] = len(code)
        elif code is not None and (found := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)):
            code.append(Instruction(int(found[1], 16), found[2].lstrip("{} ")))
    for code, _ in kernels.values():
        while code and code[-1].is_("NOP"):  # alignment
            code.pop()
        if code and code[-1].is_("BRA"):  # behind the end, to itself
            code.pop()
    return kernels


def loops_of(code, labels):
    """The natural loops, as sorted lists of indices into the code."""
    if not code:
        return []
    starts = {0} | {i for i in labels.values() if i < len(code)}
    starts |= {i + 1 for i, c in enumerate(code[:-1]) if c.is_("BRA", "EXIT", "RET", "BRX", "JMP")}
    starts = sorted(starts)
    ends = starts[1:] + [len(code)]
    number = {first: b for b, first in enumerate(starts)}
    following = []
    for end in ends:
        last, next_blocks = code[end - 1], set()
        if last.is_("BRA", "JMP") and last.target in labels and labels[last.target] in number:
            next_blocks.add(number[labels[last.target]])
        conditional = last.predicated or "P" in last.operands.split("`")[0]
        if end in number and (not last.is_("BRA", "EXIT", "RET", "JMP") or conditional):
            next_blocks.add(number[end])
        following.append(next_blocks)
    preceding = [set() for _ in starts]
    for b, blocks in enumerate(following):
        for other in blocks:
            preceding[other].add(b)
    dominators = [set(range(len(starts))) for _ in starts]
    dominators[0] = {0}
    changed = True
    while changed:
        changed = False
        for b in range(1, len(starts)):
            above = [dominators[p] for p in preceding[b]]
            new = (set.intersection(*above) if above else set()) | {b}
            if new != dominators[b]:
                dominators[b], changed = new, True
    loops = {}
    for tail, blocks in enumerate(following):
        for head in blocks & dominators[tail]:
            body, stack = loops.setdefault(head, {head}), [tail]
            while stack:
                b = stack.pop()
                if b not in body:
                    body.add(b)
                    stack.extend(preceding[b])
    return [sorted(i for b in body for i in range(starts[b], ends[b])) for body in loops.values()]


def loads_in_a_row(code):
    """Most 16-byte global loads before the result of one of them is used; branches end a row."""
    best, pending, previous = 0, [], None
    for c in code:
        if previous is not None and c.address != previous.address + 16:
            pending = []
        previous = c
        if c.is_("BRA", "BSSY", "BSYNC", "BAR") or c.registers(1) & set().union(*pending, set()):
            pending = []
        if c.is_("LDG") and ".128" in c.name:
            first = min(c.registers(0), default=0)
            pending.append(set(range(first, first + 4)))
            best = max(best, len(pending))
    return best


FLOAT = re.compile(r"U?(F(ADD2?|MUL2?|FMA2?|SETP?|SEL|MNMX3?|CHK|SWZADD|RND|2F|2FP|2I|2IP)|I2FP?|MUFU"
                   r"|[HD](ADD|MUL|FMA|SETP?|MNMX|MMA)2?|[QO]MMA|HGMMA|QGMMA)")


def float_instructions(code):
    """The instructions that compute with floating-point numbers: arithmetic, comparisons, conversions. HFMA2 of zeros
    and a constant is a move of the constant."""
    return [c for c in code if FLOAT.fullmatch(c.name.split(".")[0])
            and not (c.is_("HFMA2") and re.match(r" *U?R\w+, -?RZ, -?RZ, ", c.operands))]


def figures_of(code, labels):
    count = lambda some, *names: sum(c.is_(*names) for c in some)
    loops = [[code[i] for i in loop] for loop in loops_of(code, labels)]
    mma, memory = ("HMMA", "IMMA"), ("LDG", "STG", "LDGSTS", "ATOMG", "RED", "LDS", "STS", "ATOMS")
    wide_loads = lambda loop: sum(c.is_("LDG") and ".128" in c.name for c in loop)
    # The main loop: the innermost with the matrix products, or with the most memory accesses.
    outer = {id(a) for a in loops for b in loops if set(b) < set(a) and count(b, *memory)}
    main = max(loops, default=code, key=lambda l: (
        count(l, *mma), -len(l) if count(l, *mma) else 0, id(l) not in outer, wide_loads(l),
        count(l, *memory[:5]), count(l, *memory), len(l)))
    loads = [c for c in main if c.is_("LDG")]
    wide = [c for c in loads if ".128" in c.name]
    stores = [c for c in main if c.is_("STG") and ".128" not in c.name]
    looped = set().union(*loops)
    calls = [c.operands for c in looped if c.is_("CALL")]
    floating = sum(bool(FLOATING.search(operands)) for operands in calls)
    first = next((i for i, c in enumerate(code) if c.is_(*mma)), 0)
    epilogue = [l for l in loops if first and count(l, "STG") and not count(l, *mma)]
    return {
        "code": len(code), "prologue": first, "loop": len(main) if loops else 0,
        "mma": count(main, *mma), "ldgsts": count(main, "LDGSTS"), "ldg16": len(wide),
        "row": loads_in_a_row(main), "ldg": len(loads) - len(wide), "stg": len(stores),
        "epilogue": max((count(l, "LDG") for l in epilogue), default=0), "floats": len(float_instructions(code)),
        "divisions": len(calls) - floating + sum(c.is_("I2F") and ".RP" in c.name for c in looped),
        "floating": floating,
        "local": count(code, "LDL", "STL"), "trap": count(code, "BPT"),
    }
