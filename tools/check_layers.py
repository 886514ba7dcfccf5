#!/usr/bin/env python3
"""Checks the #include lines of quantem/: dependencies point one way, and nobody includes another operation's backend file.

core <- runtime <- resident <- {io, detector, dpc, ssb, display} <- simulate <- {cli, serve}
dpc and ssb may use detector's headers; simulate may use io's. Prints each wrong line; exit status 1 when there is one.
"""

import pathlib
import re
import sys

ALLOWED = {
    "core": set(),
    "runtime": {"core"},
    "resident": {"core", "runtime"},
    "io": {"core", "runtime", "resident"},
    "detector": {"core", "runtime", "resident"},
    "dpc": {"core", "runtime", "resident", "detector"},
    "ssb": {"core", "runtime", "resident", "detector"},
    "display": {"core", "runtime", "resident"},
    "simulate": {"core", "runtime", "resident", "io"},
    "cli": {"core", "runtime", "resident", "io", "detector", "dpc", "ssb", "display", "simulate"},
    "serve": {"core", "runtime", "resident", "io", "detector", "dpc", "ssb", "display", "simulate"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"quantem/(\w+)/([^"]+)"')
BACKEND = re.compile(r"_(cpu|cuda|wgpu)\.(h|cuh|cpp|cu)$|\.wgsl$")


def main() -> int:
    root = pathlib.Path(__file__).resolve().parent.parent
    wrong = checked = 0
    for path in sorted((root / "quantem").rglob("*")):
        if path.suffix not in {".h", ".cuh", ".cpp", ".cu", ".inc"}:
            continue
        area = path.relative_to(root / "quantem").parts[0]
        test = re.search(r"_(test|laws|bench)\.cpp$", path.name)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            checked += 1
            target, name = found.groups()
            if area not in ALLOWED:
                reason = f"area '{area}' is not in the table of {pathlib.Path(__file__).name}"
            elif target != area and target not in ALLOWED[area]:
                reason = f"{area} may not include {target}"
            elif BACKEND.search(name) and not test and target != area:
                reason = "a backend file of another area; include its contract header"
            else:
                continue
            print(f"{path.relative_to(root)}:{number}: {reason}: {line.strip()}")
            wrong += 1
    print(f"layer check: {checked} includes, {wrong} wrong")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
