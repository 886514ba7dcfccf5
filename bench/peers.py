#!/usr/bin/env python3
"""Times other programs on the same acquisition. Called by bench.py in a venv that has them; prints one JSON object last.

peers.py MASTER.h5 DENSE.npy FOLDER      FOLDER holds our answers, which theirs must equal
"""

import json
import pathlib
import sys

import numpy as np
from timing import timed


def main() -> int:
    master, dense_path, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    out: dict = {}

    def note(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    mask = np.load(folder / "bf_mask.npy").astype(bool)
    want = np.load(folder / "bf.npy")
    shape = None
    try:
        import h5py
        import hdf5plugin  # noqa: F401  registers the bitshuffle filter

        def read():
            with h5py.File(master) as f:
                return np.concatenate([f["/entry/data"][name][...] for name in sorted(f["/entry/data"]) if name.startswith("data_")])

        dense, out["h5py + hdf5plugin: load to dense"] = timed(read, 1)
        shape = (*want.shape, *dense.shape[1:])
    except Exception as error:  # a peer that is not there or fails is named and left out
        note(f"h5py + hdf5plugin: {error}")
        dense = np.load(dense_path)
        shape = dense.shape
    dense = dense.reshape(shape)
    try:
        from libertem.api import Context
        from libertem.udf.com import CoMUDF
        from libertem.udf.sum import SumUDF

        context = Context.make_with("threads")
        data = context.load("memory", data=dense, sig_dims=2)
        analysis = context.create_mask_analysis(factories=[lambda: mask.astype(np.float32)], dataset=data)
        sums, out["LiberTEM: masked sum"] = timed(lambda: context.run(analysis))
        if not np.allclose(sums[0].raw_data, want, rtol=1e-6):
            raise RuntimeError("masked sum differs")
        sums, out["LiberTEM: sum pattern"] = timed(lambda: context.run_udf(dataset=data, udf=SumUDF()))
        if not np.allclose(sums["intensity"].data, np.load(folder / "sum_pattern.npy"), rtol=1e-6):
            raise RuntimeError("sum pattern differs")
        _, out["LiberTEM: CoM"] = timed(lambda: context.run_udf(dataset=data, udf=CoMUDF.with_params(cy=0.0, cx=0.0)))
    except Exception as error:
        note(f"LiberTEM: {error}")
    try:
        import py4DSTEM

        cube = py4DSTEM.DataCube(dense)
        image, out["py4DSTEM: masked sum"] = timed(
            lambda: cube.get_virtual_image(mode="mask", geometry=mask, name="bf", verbose=False, returncalc=True), 2
        )
        if not np.allclose(np.asarray(getattr(image, "data", image)), want, rtol=1e-6):
            raise RuntimeError("masked sum differs")
        mean, out["py4DSTEM: mean pattern"] = timed(lambda: cube.get_virtual_diffraction(method="mean", name="mean", returncalc=True), 2)
        if not np.allclose(np.asarray(getattr(mean, "data", mean)), np.load(folder / "mean.npy"), rtol=1e-6):
            raise RuntimeError("mean pattern differs")
    except Exception as error:
        note(f"py4DSTEM: {error}")
    print(json.dumps(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
