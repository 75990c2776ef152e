#!/usr/bin/python3
"""Prints the contents of an fptrain checkpoint, using only h5py; docs/checkpoint-format.md describes the format.

read_checkpoint.py FOLDER               lists the parameters
read_checkpoint.py FOLDER NAME [KIND]   prints one tensor, one row per line; KIND: param (default), exp_avg, exp_avg_sq
"""
import json
import pathlib
import signal
import sys

import h5py
import numpy


def main(folder, name=None, kind="param"):
    folder = pathlib.Path(folder)
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    # A fragment whose file is missing would read as NaN, so this is checked first.
    for file in manifest["files"]:
        if (folder / file["name"]).stat().st_size != file["bytes"]:
            sys.exit(f"{folder / file['name']}: damaged")
    if name is None:
        for p in manifest["parameters"]:
            print(p["name"], p["shape"], *p["fingerprints"])
        return
    with h5py.File(folder / "index.h5", "r") as index:
        if f"{name}/{kind}" not in index:
            sys.exit(f"{folder}: has no {kind} of {name}")
        tensor = index[f"{name}/{kind}"][...]  # the whole logical tensor, whatever ranks wrote it
    print(f"# {name} {kind} {list(tensor.shape)} {tensor.dtype}")
    numpy.savetxt(sys.stdout, tensor.reshape(tensor.shape[0], -1), fmt="%.9g")  # 9 digits: exact for fp32


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3, 4):
        sys.exit(__doc__)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it quietly
    main(*sys.argv[1:])
