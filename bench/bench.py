#!/usr/bin/env python3
"""Times the CPU engine against what people use today, in one run on one machine, and checks that the answers agree first.

    ./run bench [--peers] [--scan 256x256] [--keep DIR] [--record [FILE]]

Makes a 4D-STEM acquisition (bench/acquisition.h), loads and queries it with this engine, and does the same with NumPy on the dense array; with --peers
also with LiberTEM, py4DSTEM and h5py + hdf5plugin (installed into a venv below the build folder). A wrong answer prints no time and fails. Prints ratios
beside their targets, and with --record writes the record (bench/records/cpu.json). Targets are for 256x256 positions: a smaller scan (--scan 32) shows
that every step works, and is not recorded. 256x256 takes 6 GB of disk and 8 GB of memory.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tempfile

import numpy as np
from targets import SMALLER_IS_BETTER, TARGETS, meets
from timing import timed

ROOT = pathlib.Path(__file__).resolve().parent.parent
FULL_SCAN = "256x256"


def check(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    if ours.shape != theirs.shape or not np.array_equal(ours, theirs):
        different = int((ours != theirs).sum()) if ours.shape == theirs.shape else -1
        sys.exit(f"bench: {name}: answers differ ({different} elements); no time is printed for a wrong answer")


def numpy_times(dense: np.ndarray, folder: pathlib.Path) -> dict:
    """Times of the exact NumPy forms on the dense array (positions, pixels); answers compared with ours before anything is printed."""

    def read(name):
        return np.load(folder / f"{name}.npy").ravel()

    det_cols = np.load(folder / "bf_mask.npy").shape[1]
    pixels = np.arange(dense.shape[1])
    row, col = (pixels // det_cols).astype(np.uint32), (pixels % det_cols).astype(np.uint32)
    times = {}
    for band in ("bf", "adf", "adf_40_80", "df"):
        mask = read(f"{band}_mask").astype(np.uint32)
        image, times[band] = timed(lambda mask=mask: np.einsum("ij,j->i", dense, mask))
        check(band, read(band), image.astype(np.uint64))

    def moments(array, weights):
        return [np.einsum("ij,j->i", array, w) for w in weights]

    ones = np.ones_like(row)
    sums, times["com"] = timed(lambda: moments(dense, (ones, row, col)), 2)
    for name, image in zip(("total", "row", "col"), sums, strict=False):
        check(f"com {name}", read(f"com_{name}"), image.astype(np.uint64))
    inside = np.flatnonzero(read("masked_com_mask"))
    selected = np.ascontiguousarray(dense[:, inside])  # the copy is not timed: the peer's best case
    sums, times["masked_com"] = timed(lambda: moments(selected, (ones[inside], row[inside], col[inside])), 2)
    for name, image in zip(("total", "row", "col"), sums, strict=False):
        check(f"masked com {name}", read(f"masked_com_{name}"), image.astype(np.uint64))
    total, times["mean"] = timed(lambda: dense.sum(axis=0))
    check("sum pattern", read("sum_pattern"), total.astype(np.uint64))
    check("mean pattern", read("mean"), total / np.float64(dense.shape[0]))
    return times


def peers_times(python: pathlib.Path, master: pathlib.Path, dense: pathlib.Path, folder: pathlib.Path) -> dict:
    done = subprocess.run(
        [str(python), str(ROOT / "bench/peers.py"), str(master), str(dense), str(folder)], stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout.strip() else {}


def processor() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def scan_shape(text: str) -> str:
    rows, _, cols = text.partition("x")
    if not rows.isdecimal() or not (cols or rows).isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not ROWSxCOLS, nor one number for both")
    return f"{int(rows)}x{int(cols or rows)}"


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="folder of the built programs")
    parser.add_argument("--scan", default=FULL_SCAN, type=scan_shape, help="scan positions, ROWSxCOLS or one number")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the data, kept and used again")
    parser.add_argument("--peers", type=pathlib.Path, help="python of a venv with LiberTEM, py4DSTEM, h5py, hdf5plugin")
    parser.add_argument(
        "--record",
        type=pathlib.Path,
        nargs="?",
        const=ROOT / "bench/records/cpu.json",
        help="write the record; bench/records/cpu.json without FILE",
    )
    arguments = parser.parse_args()
    if arguments.record and arguments.scan != FULL_SCAN:
        parser.error(f"--record goes with {FULL_SCAN} positions, for which the targets stand; --scan is {arguments.scan}")
    return arguments


def engine_times(build: pathlib.Path, folder: pathlib.Path, scan: str) -> tuple[dict, pathlib.Path, pathlib.Path]:
    """Makes what is not there yet, then runs the engine: its run.json, the master, and the dense .npy file."""
    master, dense = folder / f"bench_{scan}_master.h5", folder / f"bench_{scan}.npy"
    if not dense.exists():  # it comes last: where it is, the master is whole
        print(f"bench: making {scan} positions", flush=True)
        subprocess.run([build / "quantem-bench", "generate", master, "--scan", scan], check=True)
        unfinished = dense.with_name(f"unfinished_{dense.name}")
        subprocess.run([build / "quantem-gpu", "convert", master, unfinished, "--progress", "none"], check=True, stdout=subprocess.DEVNULL)
        unfinished.rename(dense)
    os.sync()  # writing back gigabytes would slow down what is timed next
    subprocess.run([build / "quantem-bench", "run", master, "--out", folder], check=True)
    return json.loads((folder / "run.json").read_text()), master, dense


def ratios_of(ours: dict, theirs: dict) -> dict:
    """Our median against the peer's shortest time: the peer gets its best case."""
    median = {row["what"]: row["median_ms"] for row in ours["rows"]}
    ratios = {
        "load_gb_per_s": ours["logical_bytes"] / 1e6 / median["load"],
        "volume_over_file": ours["resident_bytes"] / ours["file_bytes"],
    }
    ratios |= {f"{name}_over_numpy": theirs[name]["min_ms"] / median[name] for name in ("bf", "adf", "df", "com", "masked_com", "mean")}
    ratios["load_memory_mb"] = ours["load_memory_bytes"] / 1e6
    return ratios


def print_table(ours: dict, theirs: dict, ratios: dict) -> None:
    median = {row["what"]: row["median_ms"] for row in ours["rows"]}
    print(f"{'':22s}{'ours ms':>10s}{'NumPy ms':>10s}{'ratio':>10s}   {'must':16s}stretch")
    for name, bounds in TARGETS["cpu"].items():
        key = "load" if name == "load_gb_per_s" else name.removesuffix("_over_numpy")
        mine = f"{median[key]:.3f}" if key in median else ""
        peer = f"{theirs[key]['min_ms']:.0f}" if key in theirs else ""
        verdicts = ""
        for bound in bounds:
            smaller = name in SMALLER_IS_BETTER
            verdicts += f"{'<=' if smaller else '>='} {bound:<5g}{'met' if meets(ratios[name], bound, smaller) else 'MISSED':8s}"
        print(f"{name:22s}{mine:>10s}{peer:>10s}{ratios[name]:10.3f}   {verdicts.rstrip()}")


def record_of(ours: dict, ratios: dict, rows: list) -> dict:
    def git(*words):
        return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True).stdout.strip()

    changed = "-changed" if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/records") else ""
    return {
        "machine": f"{processor()}, {os.cpu_count()} cores, {ours['runtime']}, threads: {ours['threads']}",
        "commit": git("rev-parse", "--short", "HEAD") + changed,
        "date": datetime.date.today().isoformat(),
        "ratios": {name: round(value, 3) for name, value in ratios.items()},
        "rows": rows,
    }


def main() -> int:
    arguments = parse_arguments()
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="quantem-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        ours, master, dense_path = engine_times(arguments.build, folder, arguments.scan)
        dense = np.load(dense_path)
        theirs = numpy_times(dense.reshape(dense.shape[0] * dense.shape[1], -1), folder)
        del dense
        print(f"answers agree with NumPy {np.__version__}: {', '.join(theirs)}")
        ratios = ratios_of(ours, theirs)
        print_table(ours, theirs, ratios)
        if arguments.scan != FULL_SCAN:
            print(f"the targets are for {FULL_SCAN} positions: of {arguments.scan} the ratios mean little, the answers everything")
        rows = ours["rows"] + [{"what": f"NumPy {name}", **times} for name, times in theirs.items()]
        if arguments.peers:
            peers = peers_times(arguments.peers, master, dense_path, folder)
            for name, times in peers.items():
                print(f"peer: {name:40s} {times['median_ms']:10.1f} ms")
            rows += [{"what": name, **times} for name, times in peers.items()]
        if arguments.record:
            arguments.record.write_text(json.dumps(record_of(ours, ratios, rows), indent=1) + "\n")
            print(f"record: {arguments.record}")
    finally:
        if not arguments.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
