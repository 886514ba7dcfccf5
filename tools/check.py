#!/usr/bin/env python3
"""What `./run test` checks once everything is built: layers, format, the support page, the parity table, the test programs.
Its last line is the sum of all: N passed, N failed, N skipped.

    check.py --build DIR --venv DIR -- LABEL=PROGRAM...
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOTALS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


class Tally:
    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def add(self, passed: int, failed: int, skipped: int) -> None:
        self.passed += passed
        self.failed += failed
        self.skipped += skipped

    def check(self, name: str, good: bool, output: str = "") -> None:
        self.add(good, not good, 0)
        print(f"check/{name}: {'passed' if good else 'FAILED'}", flush=True)
        if not good:
            print(output)

    def skip(self, name: str, reason: str) -> None:
        self.add(0, 0, 1)
        print(f"check/{name}: skipped: {reason}", flush=True)


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")


def check_support_page(tally: Tally, parity: pathlib.Path) -> None:
    page, printed = ROOT / "docs/support.md", run(parity, "support").stdout
    same = page.exists() and page.read_text() == printed
    tally.check("support page", same, "docs/support.md is not what the parity table says: ./run parity support > docs/support.md")


def check_install(tally: Tally, build: pathlib.Path) -> None:
    """find_package(quantem-gpu) in a project of its own, and the program that it builds."""
    with tempfile.TemporaryDirectory() as folder:
        prefix, project, sample = (pathlib.Path(folder) / name for name in ("prefix", "project", "sample.npy"))
        steps = [
            ("cmake", "--install", build, "--prefix", prefix, "--strip"),
            ("cmake", "-G", "Ninja", "-S", ROOT / "tests/install", "-B", project, f"-DCMAKE_PREFIX_PATH={prefix}"),
            ("cmake", "--build", project),
            (prefix / "bin/quantem-gpu", "simulate", sample, "--scan", "8x9", "--detector", "24x24", "--quiet"),
            (project / "bright_field", sample),
        ]
        done = None
        for step in steps:
            done = run(*step)
            if done.returncode:
                break
        tally.check("installed library", done.returncode == 0 and done.stdout.startswith("8 x 9, first value "), done.stdout)


def run_parity(tally: Tally, parity: pathlib.Path) -> None:
    done = run(parity, "run")
    found = TOTALS.findall(done.stdout)
    passed, failed, skipped = map(int, found[-1]) if found else (0, 1, 0)
    if done.returncode and not failed:
        failed = 1
    tally.add(passed, failed, skipped)
    print(f"{'parity':40s} {passed:5d} passed {failed:4d} failed {skipped:4d} skipped", flush=True)
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED", "skipped")):
            print(line)
    if done.returncode and not found:
        print(done.stdout[-4000:])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--venv", required=True, type=pathlib.Path, help="where clang-format and ruff are")
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    tally = Tally()

    layers = run(sys.executable, ROOT / "tools/check_layers.py")
    tally.check("layers", layers.returncode == 0, layers.stdout)
    if (arguments.venv / "bin/clang-format").exists():
        form = run(sys.executable, ROOT / "tools/format.py", "--check", "--venv", arguments.venv)
        tally.check("format", form.returncode == 0, form.stdout)
    else:
        tally.skip("format", "clang-format and ruff could not be installed")
    check_install(tally, arguments.build / "release")
    parity = arguments.build / "release/quantem-parity"
    check_support_page(tally, parity)
    page = run(sys.executable, ROOT / "bench/page.py", "--check")
    tally.check("performance page", page.returncode == 0, "docs/performance.md is not what bench/records says: python3 bench/page.py")
    run_parity(tally, parity)

    with tempfile.NamedTemporaryFile(suffix=".json") as totals:
        subprocess.run([sys.executable, str(ROOT / "tools/run_tests.py"), "--totals", totals.name, *arguments.programs])
        counted = json.loads(pathlib.Path(totals.name).read_text() or '{"passed": 0, "failed": 1, "skipped": 0}')
    tally.add(counted["passed"], counted["failed"], counted["skipped"])
    real = collections.Counter({reason: n for reason, n in counted.get("skips", {}).items() if "QUANTEM_REAL_DATA" in reason})
    if real:
        print(f"real-data tests skipped: {sum(real.values())} (QUANTEM_REAL_DATA)")
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
