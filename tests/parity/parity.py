"""Shared code of the parity tests: running fptrain, tiny random models of transformers, comparisons."""
import json
import os
import subprocess
import tempfile
import unittest

import h5py
import numpy as np
import torch

FPTRAIN = os.environ["FPTRAIN"]
LR, DECAY = 1e-3, 0.1  # of the AdamW step that is compared
torch.set_num_threads(2)


def adamw_step(parameters):
    """One AdamW step of PyTorch from the gradients of a list of parameters, as `fptrain probe --update` makes it."""
    groups = [{"params": [p for p in parameters if (p.dim() >= 2) == decay], "weight_decay": DECAY if decay else 0.0}
              for decay in (True, False)]
    torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8).step()


def first_step(gradient):
    """Returns Adam's first step at a learning rate of 1, against the direction of the gradient."""
    gradient = gradient.astype(np.float64)
    return gradient / (np.abs(gradient) + 1e-8)


def fptrain(*arguments, expect=0):
    """Runs fptrain and returns what it printed; fails unless it exits with `expect`."""
    done = subprocess.run([FPTRAIN, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode != expect:
        raise AssertionError(f"fptrain {' '.join(map(str, arguments))}: exit {done.returncode}, not {expect}\n"
                             f"{done.stdout.decode()}{done.stderr.decode()}")
    return (done.stdout if expect == 0 else done.stderr).decode()


class Case(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.folder = self._folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def probe(self, checkpoint, tokens, *arguments, **batch):
        """Returns logits, loss, {name: gradient}, {name: weight after one AdamW step} as fptrain computes them."""
        with open(self.path("batch.json"), "w", encoding="utf-8") as f:
            json.dump({"tokens": tokens.tolist()} | batch, f)
        fptrain("probe", "--checkpoint", checkpoint, "--batch", self.path("batch.json"), "--out", self.path("probe.h5"), *arguments)
        with h5py.File(self.path("probe.h5")) as f:
            trees = [{k: v[...] for k, v in f[g].items()} if g in f else {} for g in ("gradients", "updated")]
            return f["logits"][...], float(f["loss"][0]), *trees

    def close(self, ours, theirs, tolerance, what):
        worst = float(np.max(np.abs(ours - theirs))) if ours.size else 0.0
        self.assertLessEqual(worst, tolerance, what)

    def relatively_close(self, ours, theirs, tolerance, what):
        """Returns the norm of the difference relative to the norm of the reference."""
        scale = max(float(np.linalg.norm(theirs)), 1e-12)
        self.assertLessEqual(float(np.linalg.norm(ours - theirs)) / scale, tolerance, what)

    def close_update(self, ours, theirs, our_gradient, their_gradient, name):
        # Where a gradient is only rounding noise (GPT-2's key biases do not change the softmax), its sign decides Adam's
        # first step. The gradients were compared before; here each step has to follow from its own gradient.
        steps = LR * (first_step(their_gradient) - first_step(our_gradient))
        self.close(ours, theirs + steps, 1e-6, f"{name} after one AdamW step")
