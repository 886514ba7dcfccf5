#!/usr/bin/env python3
"""Runs googletest programs, a few at a time, and adds up what they report.

    run_tests.py PROGRAM...      a word before a program and '=' labels it:  asan=build/asan/test_core

Prints one line a program, the full output of those that failed, every reason for a skip with its count, and writes the totals
to the file named by --totals as JSON {"passed", "failed", "skipped", "skips": {reason: count}}. A program that dies counts as one failure more
than the tests it reported. Exit status 1 when anything failed.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

# g++ 13 turns stack-use-after-return on, and its fake stack does not keep the alignment of 32- and 64-byte vectors (GCC bug 110027).
ENVIRONMENT = {"ASAN_OPTIONS": "detect_stack_use_after_return=0", **os.environ}


def run(label: str, program: str, extra: list[str]) -> dict:
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        start = time.monotonic()
        done = subprocess.run(
            [program, "--gtest_color=no", f"--gtest_output=json:{report.name}", *extra],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=ENVIRONMENT,
        )
        seconds = time.monotonic() - start
        tally = {"label": label, "passed": 0, "failed": 0, "skipped": 0, "skips": collections.Counter(), "output": done.stdout}
        text = pathlib.Path(report.name).read_text()
    cases = [case for suite in (json.loads(text)["testsuites"] if text else []) for case in suite["testsuite"]]
    for case in cases:
        if case.get("failures"):
            tally["failed"] += 1
        elif case["result"] == "SKIPPED":
            tally["skipped"] += 1
        elif case["result"] == "COMPLETED":
            tally["passed"] += 1
    # googletest's report does not hold the reasons; its output does, behind the line of each skip.
    tally["skips"].update(re.findall(r": Skipped\n(.+)\n", done.stdout))
    if done.returncode != 0 and tally["failed"] == 0 or not cases:
        tally["failed"] += 1
        tally["output"] += f"\n{program}: exit status {done.returncode}, {len(cases)} tests reported\n"
    print(
        f"{label:40s} {tally['passed']:5d} passed {tally['failed']:4d} failed {tally['skipped']:4d} skipped  {seconds:6.1f} s", flush=True
    )
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--totals")
    parser.add_argument("--filter", default=None, help="as --gtest_filter")
    arguments = parser.parse_args()
    extra = [f"--gtest_filter={arguments.filter}"] if arguments.filter else []
    jobs = [entry.split("=", 1) if "=" in entry else (pathlib.Path(entry).name, entry) for entry in arguments.programs]
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, (os.cpu_count() or 1))) as pool:
        tallies = list(pool.map(lambda job: run(job[0], job[1], extra), jobs))
    skips: collections.Counter = sum((t["skips"] for t in tallies), collections.Counter())
    for tally in tallies:
        if tally["failed"]:
            print(f"\n===== {tally['label']} =====\n{tally['output']}")
    for reason, count in sorted(skips.items()):
        print(f"skipped {count:4d}: {reason}")
    totals = {key: sum(t[key] for t in tallies) for key in ("passed", "failed", "skipped")}
    if arguments.totals:
        pathlib.Path(arguments.totals).write_text(json.dumps({**totals, "skips": skips}))
    else:
        print(f"{totals['passed']} passed, {totals['failed']} failed, {totals['skipped']} skipped")
    return 1 if totals["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
