#!/usr/bin/python3
"""Prints the contents of an fptrain checkpoint, using only h5py; docs/checkpoint-format.md describes the format.

read_checkpoint.py FOLDER               lists the parameters
read_checkpoint.py FOLDER NAME [STATE]  prints one tensor, one row per line; STATE: param (default), exp_avg, ...
"""
import json
import pathlib
import signal
import sys

import h5py
import numpy


def main(folder, name=None, state="param"):
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    # A fragment whose file is missing would read as NaN, so this is checked first.
    for file in manifest["files"]:
        if (folder / file["name"]).stat().st_size != file["bytes"]:
            sys.exit(f"{folder / file['name']}: damaged")
    if name is None:
        for p in manifest["parameters"]:
            states = p["fingerprints"] if manifest["version"] == 1 else [s["name"] for s in p["states"]]
            print(p["name"], p["shape"], *states)
        return
    with h5py.File(folder / "index.h5", "r") as index:
        if f"{name}/{state}" not in index:
            sys.exit(f"{folder}: has no {state} of {name}")
        tensor = index[f"{name}/{state}"][...]  # the whole logical tensor, whatever ranks wrote it
    print(f"# {name} {state} {list(tensor.shape)} {tensor.dtype}")
    numpy.savetxt(sys.stdout, tensor.reshape(tensor.shape[0], -1), fmt="%.9g")  # 9 digits: exact for fp32


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    main(*sys.argv[1:])
