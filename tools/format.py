#!/usr/bin/env python3
"""clang-format over C++ and CUDA, ruff over Python; with --check says what differs instead of changing it.

format.py [--check] --venv DIR      DIR: a Python environment with clang-format and ruff
"""

import argparse
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--venv", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    files = [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]
    sources = [name for name in files if name.endswith((".h", ".cpp", ".cu", ".cuh"))]
    scripts = [name for name in files if name.endswith(".py")]
    clang = [arguments.venv / "bin/clang-format", *(["--dry-run", "-Werror"] if arguments.check else ["-i"]), *sources]
    ruff = arguments.venv / "bin/ruff"
    steps = [
        clang,
        [ruff, "check", *([] if arguments.check else ["--fix"]), *scripts],
        [ruff, "format", *(["--check"] if arguments.check else []), *scripts],
    ]
    status = 0
    for command in steps:
        status |= subprocess.run([str(word) for word in command], cwd=ROOT).returncode
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
