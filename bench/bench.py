#!/usr/bin/env python3
"""Times the CPU engine against what people use today, in one run on one machine, and checks that the answers agree first.

    ./run bench [--peers] [--scan 256x256] [--keep DIR] [--record FILE]

Makes a 4D-STEM acquisition (bench/acquisition.h), loads and queries it with this engine, and does the same with NumPy on the dense array; with --peers
also with LiberTEM, py4DSTEM and h5py + hdf5plugin (installed into a venv below the build folder). A wrong answer prints no time and fails. Prints ratios and
writes the record (bench/records/cpu.json with --record).
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
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
# must and stretch of each ratio; larger is better except where named in SMALLER.
TARGETS = {
    "load_gb_per_s": (3, 5),
    "volume_over_file": (1, 0.93),
    "bf_over_numpy": (500, 1000),
    "adf_over_numpy": (200, 500),
    "df_over_numpy": (300, 700),
    "com_over_numpy": (500, 2000),
    "masked_com_over_numpy": (30, 60),
    "mean_over_numpy": (15, 25),
    "load_memory_mb": (600, 300),
}
SMALLER = {"volume_over_file", "load_memory_mb"}


def best(function, repeat: int = 3):
    """The result of function and the shortest of `repeat` times, in ms: the peer gets its best case."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = function()
        times.append(1e3 * (time.perf_counter() - start))
    return result, min(times)


def check(name: str, ours: np.ndarray, theirs: np.ndarray) -> None:
    if ours.shape != theirs.shape or not np.array_equal(ours, theirs):
        different = int((ours != theirs).sum()) if ours.shape == theirs.shape else -1
        sys.exit(f"bench: {name}: answers differ ({different} elements); no time is printed for a wrong answer")


def numpy_times(dense: np.ndarray, folder: pathlib.Path) -> dict:
    """Times in ms of the exact NumPy forms on the dense array (positions, pixels); answers compared with ours first."""

    def read(name):
        return np.load(folder / f"{name}.npy").ravel()

    det_cols = np.load(folder / "bf_mask.npy").shape[1]
    pixels = np.arange(dense.shape[1])
    row, col = (pixels // det_cols).astype(np.uint32), (pixels % det_cols).astype(np.uint32)
    times = {}
    for band in ("bf", "adf", "adf_40_80", "df"):
        mask = read(f"{band}_mask").astype(np.uint32)
        image, times[band] = best(lambda mask=mask: np.einsum("ij,j->i", dense, mask))
        check(band, read(band), image.astype(np.uint64))

    def moments(array, weights):
        return [np.einsum("ij,j->i", array, w) for w in weights]

    ones = np.ones_like(row)
    sums, times["com"] = best(lambda: moments(dense, (ones, row, col)), 2)
    for name, image in zip(("total", "row", "col"), sums, strict=False):
        check(f"com {name}", read(f"com_{name}"), image.astype(np.uint64))
    inside = np.flatnonzero(read("masked_com_mask"))
    selected = np.ascontiguousarray(dense[:, inside])  # the copy is not timed: the peer's best case
    sums, times["masked_com"] = best(lambda: moments(selected, (ones[inside], row[inside], col[inside])), 2)
    for name, image in zip(("total", "row", "col"), sums, strict=False):
        check(f"masked com {name}", read(f"masked_com_{name}"), image.astype(np.uint64))
    total, times["mean"] = best(lambda: dense.sum(axis=0))
    check("sum pattern", read("sum_pattern"), total.astype(np.uint64))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=pathlib.Path, help="folder of the built programs")
    parser.add_argument("--scan", default="256x256")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the data, kept and used again")
    parser.add_argument("--peers", type=pathlib.Path, help="python of a venv with LiberTEM, py4DSTEM, h5py, hdf5plugin")
    parser.add_argument("--record", type=pathlib.Path, help="write the record here")
    arguments = parser.parse_args()
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="quantem-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    master, dense_path = folder / "bench_master.h5", folder / "dense.npy"
    bench, program = arguments.build / "quantem-bench", arguments.build / "quantem-gpu"
    try:
        if not master.exists():
            print("bench: making the acquisition", flush=True)
            subprocess.run([bench, "generate", master, "--scan", arguments.scan], check=True)
        if not dense_path.exists():
            subprocess.run([program, "convert", master, dense_path, "--progress", "none"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([bench, "run", master, "--out", folder], check=True)
        ours = json.loads((folder / "run.json").read_text())
        dense = np.load(dense_path)
        dense = dense.reshape(dense.shape[0] * dense.shape[1], -1)
        theirs = numpy_times(dense, folder)
        del dense
        print(f"answers agree with NumPy {np.__version__}: {', '.join(theirs)}")
        median = {row["what"]: row["median_ms"] for row in ours["rows"]}
        ratios = {
            "load_gb_per_s": ours["logical_bytes"] / 1e6 / median["load + mean pattern + totals"],
            "volume_over_file": ours["resident_bytes"] / ours["file_bytes"],
        }
        ratios |= {f"{name}_over_numpy": theirs[name] / median[name] for name in ("bf", "adf", "df", "com", "masked_com", "mean")}
        ratios["load_memory_mb"] = ours["load_memory_bytes"] / 1e6
        print(f"{'':26s}{'ours ms':>10s}{'NumPy ms':>10s}{'ratio':>9s}{'must':>8s}{'stretch':>9s}")
        for name, (must, stretch) in TARGETS.items():
            key = name.removesuffix("_over_numpy")
            ms = f"{median[key]:10.3f}{theirs[key]:10.0f}" if key in theirs else " " * 20
            met = [ratios[name] <= bound if name in SMALLER else ratios[name] >= bound for bound in (must, stretch)]
            verdict = "stretch" if met[1] else "must" if met[0] else "MISSED"
            print(f"{name:26s}{ms}{ratios[name]:9.2f}{must:8g}{stretch:9g}  {verdict}")
        rows = ours["rows"] + [{"what": f"NumPy {name}", "min_ms": ms} for name, ms in theirs.items()]
        if arguments.peers:
            peer = peers_times(arguments.peers, master, dense_path, folder)
            for name, ms in peer.items():
                print(f"peer: {name:40s} {ms:10.1f} ms")
            rows += [{"what": name, "min_ms": ms} for name, ms in peer.items()]
        commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        record = {
            "machine": f"{processor()}, {os.cpu_count()} cores, {ours['runtime']}",
            "commit": commit,
            "date": datetime.date.today().isoformat(),
            "shape": ours["shape"],
            "ratios": {name: round(value, 3) for name, value in ratios.items()},
            "rows": rows,
        }
        if arguments.record:
            arguments.record.write_text(json.dumps(record, indent=1) + "\n")
            print(f"record: {arguments.record}")
    finally:
        if not arguments.keep:
            shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
