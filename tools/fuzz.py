#!/usr/bin/env python3
"""Runs every libFuzzer target for a while, as many at a time as there are cores, and says how it went.

    fuzz.py --build DIR [--seconds 300]

The corpus is kept in DIR/corpus/TARGET. Exit status 1 when a target crashed, hung or leaked; the input that did it is named.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys


def run(program: pathlib.Path, seconds: int) -> tuple[str, int, str]:
    corpus = program.parent / "corpus" / program.name
    corpus.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [
            program,
            f"-max_total_time={seconds}",
            "-rss_limit_mb=2048",
            "-timeout=20",
            "-max_len=65536",
            "-print_final_stats=1",
            f"-artifact_prefix={corpus.parent}/{program.name}-",
            corpus,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return program.name, done.returncode, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=300)
    arguments = parser.parse_args()
    programs = sorted(p for p in arguments.build.glob("*_fuzz") if os.access(p, os.X_OK))
    if not programs:
        print(f"fuzz: no targets in {arguments.build}")
        return 1
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for name, status, output in pool.map(lambda p: run(p, arguments.seconds), programs):
            runs = re.search(r"stat::number_of_executed_units:\s*(\d+)", output)
            print(
                f"{name}: {'clean' if status == 0 else 'FAILED'}, {runs.group(1) if runs else '?'} inputs in {arguments.seconds} s",
                flush=True,
            )
            if status:
                failed += 1
                print(output[-6000:])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
