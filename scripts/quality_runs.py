"""The variants of scripts/quality and their training: one run from its data to its result as JSON."""
import dataclasses
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

import small_runs

SPEC = small_runs.ROOT / "docs/quality/run.yaml"
STEPS = 2000      # steps of every run whose result is kept in docs/quality/results
PLAIN = "bf16"    # the variant with which the others are compared
INTERVALS = 40    # intervals of the training loss kept in a result
TAIL = 10         # the last tenth of the steps is a run's tail
INTERRUPTED = 75
TEXT_SHA256 = "cd45f0c9cedab8e4439bd6486c8952c77cc8b0ecc5d1f6ae3513f2039f47229d"  # of Debian 12's bible-kjv


@dataclasses.dataclass
class Variant:
    meaning: str
    settings: dict = dataclasses.field(default_factory=dict)  # override the spec
    ranks: int = 1
    is_mesh: bool = False  # plain training on other ranks: its difference from plain is noise
    fault: str = ""        # FPTRAIN_FAULT, injected from the first step on
    optimizer: str = ""    # whose learning rates are tried, this one with `rate`
    rate: str = ""


# Four ranks, two on each of two nodes.
FOUR_RANKS = {"parallel.data": 4, "parallel.ranks_per_node": 2, "train.micro_batch": 2}
ZEROPP = {**FOUR_RANKS, "parallel.zero_stage": 3, "communication.weight_bits": 8, "communication.gradient_bits": 4,
          "communication.node_weights": "true"}
SDP4BIT = {**FOUR_RANKS, "parallel.zero_stage": 1, "communication.weight_bits": 4,
           "communication.weight_differences": "true", "communication.gradient_bits": 4,
           "communication.node_gradient_bits": 8, "communication.rotate_gradients": "true"}
GUARDED = {**ZEROPP, "communication.max_gradient_error": 0.85}
# Gradients of one channel of the embedding are 10,000 times larger, and a block is one of its rows, so that the channel sets
# the scale of every block. AdamW divides by their size, but clipping would make all others as small as its eps.
OUTLIER = "kind=outlier,what=wte.weight,element=7,factor=1e4"
UNCLIPPED = {"optimizer.grad_clip": 0}
ROW_BLOCKS = {**UNCLIPPED, "communication.block": 384}

VARIANTS = {
    "bf16": Variant("plain training on one rank", is_mesh=True, optimizer="AdamW", rate="1e-3"),
    "bf16-data-2": Variant("plain, two data-parallel ranks", {"parallel.data": 2, "train.micro_batch": 4}, 2, True),
    "bf16-tensor-2": Variant("plain, two tensor-parallel ranks", {"parallel.tensor": 2}, 2, True),
    "fp32": Variant("fp32 throughout", {"precision.compute": "fp32"}),
    "zeropp": Variant("ZeRO++: weights in 8 bits, gradients in 4", ZEROPP, 4),
    "zeropp-guarded": Variant("ZeRO++ with a limit of gradient errors", GUARDED, 4),
    "sdp4bit": Variant("SDP4Bit: differences of weights in 4 bits, gradients in 8 and 4", SDP4BIT, 4),
    "sdp4bit-feedback": Variant("SDP4Bit, and what sums lose is added to the next",
                                {**SDP4BIT, "communication.error_feedback": 0.8}, 4),
    "outlier": Variant("ZeRO 3 with an outlier channel", {**FOUR_RANKS, **UNCLIPPED, "parallel.zero_stage": 3}, 4,
                       fault=OUTLIER),
    "outlier-zeropp": Variant("ZeRO++ with the same", {**ZEROPP, **ROW_BLOCKS}, 4, fault=OUTLIER),
    "outlier-guarded": Variant("ZeRO++ with a limit of gradient errors and the same", {**GUARDED, **ROW_BLOCKS}, 4,
                               fault=OUTLIER),
}

# Muon against AdamW: learning rates of each are tried with this seed, and the best of each are compared with others.
TRIED_WITH = 1
VARIANTS |= {
    f"{kind}-lr-{lr}": Variant(f"{name}, learning rate {lr}", {"optimizer.kind": kind, "optimizer.lr": lr}, optimizer=name, rate=lr)
    for kind, name in (("adamw", "AdamW"), ("muon", "Muon")) for lr in ("5e-4", "1e-3", "2e-3", "4e-3")
    if (kind, lr) != ("adamw", "1e-3")  # that is bf16
}


class Interrupted(Exception):
    """A run was stopped by a signal and has saved."""


def settings_of(variant, steps):
    """Returns the overrides of the spec that determine a run's numbers, without the seed."""
    keys = {}
    if steps != STEPS:
        every = max(1, steps // 8)
        keys = {"train.steps": steps, "schedule.warmup_steps": steps // 20, "eval.every": every, "checkpoint.every": every}
    return {**keys, **VARIANTS[variant].settings}


def identity(variant, steps):
    """Results with the same identity are comparable, whenever and wherever they were made."""
    keys = json.dumps(settings_of(variant, steps), sort_keys=True)
    spec = re.sub(r"^#.*\n", "", SPEC.read_text(encoding="utf-8"), flags=re.MULTILINE)
    fault = VARIANTS[variant].fault
    parts = [spec, keys, str(VARIANTS[variant].ranks), TEXT_SHA256, *([fault] if fault else [])]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


@dataclasses.dataclass
class Bench:
    """The folders in which runs are trained and their results kept."""
    program: pathlib.Path
    work: pathlib.Path
    steps: int
    threads: int
    commit: str
    anew: bool = False  # repeat runs, to compare them with the kept results

    def __post_init__(self):
        self.results = SPEC.parent / "results" if self.steps == STEPS else self.work / f"results-{self.steps}"
        if self.anew:
            self.results = self.work / f"results-{self.steps}-{self.commit}"

    def result_file(self, variant, seed):
        return self.results / f"{variant}.seed-{seed}.json"

    def result(self, variant, seed):
        """Returns a finished run's result; None when there is none, or only one of a different spec."""
        file = self.result_file(variant, seed)
        if not file.exists():
            return None
        kept = json.loads(file.read_text(encoding="utf-8"))
        return kept if kept["identity"] == identity(variant, self.steps) else None

    def prepare(self):
        """Makes the data, once."""
        self.work.mkdir(parents=True, exist_ok=True)
        text, data = self.work / "king-james.txt", self.work / "data"
        if not text.exists():
            with open(self.work / "text.part", "wb") as out:
                subprocess.run(["bible", "-f", "gen1:1-rev22:21"], stdout=out, check=True)
            os.replace(self.work / "text.part", text)
        if hashlib.sha256(text.read_bytes()).hexdigest() != TEXT_SHA256:
            raise SystemExit(f"error: {text} is not the text of the kept results, with the SHA-256 {TEXT_SHA256}; "
                             "Debian 12's package bible-kjv has it")
        if not data.exists():
            small_runs.launch([self.program, "data", "prepare", "--tokenizer", "bytes", "--documents", "line", "--out",
                               data, text], 1)

    def _arguments(self, variant, without=()):
        keys = {"data.train": f"[{{path: {self.work / 'data'}}}]", **settings_of(variant, self.steps)}
        sets = [f"{key}={value}" for key, value in keys.items() if not key.startswith(without)]
        return [SPEC, *(word for s in sets for word in ("--set", s))]

    def run(self, variant, seed):
        """Trains from where an earlier call was interrupted. Returns the result, or None when another process trains it."""
        # A check must not continue what another program began.
        folder = self.work / (identity(variant, self.steps) + (f"-{self.commit}" if self.anew else "")) / f"seed-{seed}"
        if self.anew and self.commit.endswith("-modified"):  # the same name may mean another program
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "lock", "w", encoding="ascii") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            with open(folder / "commits", "a", encoding="ascii") as commits:
                commits.write(self.commit + "\n")
            ranks, fault = VARIANTS[variant].ranks, VARIANTS[variant].fault
            before, allowed = (["env", f"FPTRAIN_FAULT={fault}"], ["--allow-faults"]) if fault else ([], [])
            code = small_runs.run_logged(
                [*before, self.program, "train", *allowed, *self._arguments(variant), "--set",
                 f"run.directory={folder / 'run'}", "--set",
                 f"run.seed={seed}", "--set", f"run.threads={max(1, self.threads // ranks)}"], ranks, folder / "output.txt",
                (lock.fileno(),))
            if code == INTERRUPTED:
                raise Interrupted
            if code != 0:
                raise SystemExit(f"{variant}, seed {seed}: ended with {code}; see {folder / 'output.txt'}")
            commits = dict.fromkeys((folder / "commits").read_text(encoding="ascii").split())
            result = self._result(variant, seed, folder / "run", " and ".join(commits))
            self.results.mkdir(parents=True, exist_ok=True)
            part = self.result_file(variant, seed).with_suffix(".part")
            part.write_text(to_text(result), encoding="utf-8")
            os.replace(part, self.result_file(variant, seed))
        shutil.rmtree(folder)
        if not os.listdir(folder.parent):
            folder.parent.rmdir()
        return result

    def _result(self, variant, seed, run, commits):
        steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        losses = [s["loss"] for s in steps]
        if len(losses) != self.steps or None in losses:
            raise SystemExit(f"{run / 'metrics.jsonl'}: not {self.steps} finite losses")
        length = max(1, self.steps // INTERVALS)
        ends = range(length, self.steps + 1, length)
        held_out = self._evaluate(variant, run)
        # Parameters whose gradients were sent with more bits: the mean over the steps after the first, which sends all so.
        widened = [s["widened_parameters"] for s in steps[1:] if "widened_parameters" in s]
        return {
            **({"widened_parameters": round(statistics.fmean(widened), 3)} if widened else {}),
            "variant": variant, "seed": seed, "steps": self.steps, "ranks": VARIANTS[variant].ranks,
            "settings": settings_of(variant, self.steps),
            "identity": identity(variant, self.steps), "text_sha256": TEXT_SHA256,
            "date": datetime.date.today().isoformat(), "commit": commits, "cpu": instruction_sets(),
            "spec": (run / "config.yaml").read_text(encoding="utf-8").replace(str(self.work), "WORK").splitlines(),
            "final_loss": held_out["val_loss"], "final_tokens": held_out["tokens"],
            "tail_loss": statistics.fmean(losses[-max(1, self.steps // TAIL):]),
            "train_loss": [[end, round(statistics.fmean(losses[end - length:end]), 6)] for end in ends],
            "held_out_loss": [[s["step"], s["val_loss"]] for s in steps if "val_loss" in s],
            "seconds": round(steps[-1]["elapsed_s"]),
        }

    def _evaluate(self, variant, run):
        """Returns the loss of the last checkpoint over all held-out text, on one rank whatever mesh it was trained on."""
        command = [self.program, "eval", *self._arguments(variant, ("parallel.", "communication.")), "--set", f"run.threads={self.threads}",
                   "--checkpoint", run, "--json"]
        if self.steps != STEPS:
            command += ["--samples", "64"]  # a rehearsal
        done = subprocess.run([str(c) for c in command], env=small_runs.environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"eval of {run}: ended with {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)


def instruction_sets():
    """Returns the instruction sets of this CPU that affect results: those that select its kernels."""
    flags = re.search(r"^flags\s*:(.*)$", pathlib.Path("/proc/cpuinfo").read_text(encoding="ascii"), re.MULTILINE)
    found = set(flags[1].split()) if flags else set()
    return " ".join(f for f in ("avx2", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16") if f in found) or "unknown"


def to_text(result):
    """JSON with a line for each key, and for each point of a curve."""
    def value(v):
        if isinstance(v, list):
            return "[\n" + ",\n".join("    " + json.dumps(x) for x in v) + "\n  ]"
        return json.dumps(v, sort_keys=True)
    return "{\n" + ",\n".join(f"  {json.dumps(k)}: {value(v)}" for k, v in result.items()) + "\n}\n"
