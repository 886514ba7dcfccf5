#!/usr/bin/env python3
"""What `./run test` checks once everything is built: layers, test programs. Its last line is the sum of all.

    check.py --build DIR -- LABEL=PROGRAM...
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("programs", nargs="+")
    arguments = parser.parse_args()
    passed = failed = skipped = 0

    checks = {"layers": [sys.executable, str(ROOT / "tools/check_layers.py")]}
    for name, command in checks.items():
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        good = done.returncode == 0
        passed, failed = passed + good, failed + (not good)
        print(f"check/{name}: {'passed' if good else 'FAILED'}")
        if not good:
            print(done.stdout)

    with tempfile.NamedTemporaryFile(suffix=".json") as totals:
        subprocess.run([sys.executable, str(ROOT / "tools/run_tests.py"), "--totals", totals.name, *arguments.programs])
        counted = json.loads(pathlib.Path(totals.name).read_text() or '{"passed": 0, "failed": 1, "skipped": 0}')
    passed, failed, skipped = passed + counted["passed"], failed + counted["failed"], skipped + counted["skipped"]
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
