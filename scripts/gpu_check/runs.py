"""Small models, trained and probed on both devices: gradients, losses, resuming, the same bits twice."""
import importlib.util
import json
import math
import os
import random

from .common import ROOT, Result, Section, Step, compare_with_limit

# Head sizes of 64 let tensor cores and cuDNN take part. gpt: every dropout and packed documents; llama: neither.
FAMILIES = {
    "gpt": "family: gpt, layers: {layers}, hidden: {hidden}, heads: {heads}, dropout_embedding: 0.1, dropout_attention: 0.1, "
           "dropout_residual: 0.1, dropout_ffn: 0.1",
    "llama": "family: llama, layers: {layers}, hidden: {hidden}, heads: {heads}, kv_heads: {kv_heads}, ffn: {ffn}, tied_embeddings: false",
    "phi3small": "family: phi3small, layers: {layers}, hidden: {hidden}, heads: {heads}, kv_heads: {kv_heads}, ffn: {ffn}, "
                 "blocksparse: {{block: 16, local_blocks: 2, vertical_stride: 3, dense_every: 2}}, "
                 "mup: {{embedding: 10, width: 8, attention: 1}}",
}
TRAINED = ("gpt", "llama")
PRECISIONS = ("fp32", "bf16")
STEPS = 20
MIDDLE, END = "step-00000010", "step-00000020"


def sizes(context):
    if context.device == "cuda":
        return {"layers": 4, "hidden": 256, "heads": 4, "kv_heads": 2, "ffn": 688, "seq_len": 128, "batch": 8}
    return {"layers": 2, "hidden": 48, "heads": 4, "kv_heads": 2, "ffn": 96, "seq_len": 32, "batch": 2}


class Runs:
    """The steps that train and probe, and the paths of their results."""

    def __init__(self, context):
        self.c = context
        self.sizes = sizes(context)

    def run(self, name):
        return self.c.path("runs", name)

    def twice(self):
        """Two runs of a Llama of two layers with sequences so long that gradients of keys come from many tiles; and their last checkpoints."""
        c = self.c
        length, hidden, heads = (4096, 1024, 8) if c.on_gpu else (256, 64, 2)
        steps = 10 if c.on_gpu else 2
        spec = c.path("long.yaml")
        with open(spec, "w", encoding="utf-8") as f:
            f.write(f"model: {{family: llama, layers: 2, hidden: {hidden}, heads: {heads}, kv_heads: {heads // 2}, ffn: {2 * hidden}, "
                    f"max_position: {length}}}\ndata: {{train: [{{path: {c.path('data')}}}], seq_len: {length}}}\n"
                    f"optimizer: {{lr: 1e-3}}\nschedule: {{warmup_steps: 2}}\ntrain: {{steps: {steps}, global_batch: 2, micro_batch: 1}}\n"
                    f"checkpoint: {{every: {steps}}}\nlogging: {{report: false, tensorboard: false}}\n")
        ends = [self.checkpoint(f"long-{which}", f"step-{steps:08}") for which in ("first", "second")]
        runs = [Step(f"train long-{which}", [c.fptrain, "train", spec, "--resume", "none", "--set", f"run.directory={self.run(f'long-{which}')}",
                                             "--set", f"run.device={c.device}"], "long", makes=end, clears=self.run(f"long-{which}")) for which, end in zip(("first", "second"), ends)]
        return runs, ends

    def checkpoint(self, name, step):
        return os.path.join(self.run(name), "checkpoints", step)

    def probe_file(self, family, precision, device):
        return self.c.path(f"probe-{family}-{precision}-{device}.h5")

    def spec(self, family):
        """Writes the run spec of a family and the batch that is probed; returns the spec's path."""
        n = self.sizes
        path = self.c.path(f"{family}.yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"model: {{{FAMILIES[family].format(**n)}, max_position: {n['seq_len']}}}\n"
                    f"data: {{train: [{{path: {self.c.path('data')}}}], seq_len: {n['seq_len']}, mask_documents: {str(family == 'gpt').lower()}}}\n"
                    f"optimizer: {{lr: 1e-3}}\nschedule: {{warmup_steps: 3}}\n"
                    f"train: {{steps: {STEPS}, global_batch: {n['batch']}, micro_batch: {n['batch'] // 2}}}\n"
                    f"checkpoint: {{every: 10, keep_last: 0}}\nlogging: {{report: false, tensorboard: false}}\n")
        tokens = random.Random(1)
        with open(self.c.path("batch.json"), "w", encoding="utf-8") as f:
            json.dump({"tokens": [[tokens.randrange(256) for _ in range(n["seq_len"])] for _ in range(n["batch"])]}, f)
        return path

    def data(self):
        text = os.path.join(ROOT, "docs", "run-spec.md")
        return Step("data", [self.c.fptrain, "data", "prepare", "--tokenizer", "bytes", "--documents", "line", "--out", self.c.path("data"), text],
                    makes=self.c.path("data"), clears=self.c.path("data"))

    def train(self, name, family, precision, device, resume="none"):
        return Step(f"train {name}", [self.c.fptrain, "train", self.spec(family), "--resume", resume, "--set", f"run.directory={self.run(name)}",
                                      "--set", f"run.device={device}", "--set", f"precision.compute={precision}"],
                    family, makes=self.checkpoint(name, END), clears=self.run(name))

    def first(self, family, precision, device):
        """A whole run; its name is family-precision-device."""
        return self.train(f"{family}-{precision}-{device}", family, precision, device)

    def probe(self, family, precision, device):
        weights = self.checkpoint(f"{family}-fp32-{self.c.reference}", END)
        out = self.probe_file(family, precision, device)
        return Step(f"probe {family} {precision} {device}",
                    [self.c.fptrain, "probe", "--checkpoint", weights, "--batch", self.c.path("batch.json"), "--gradients", "--precision", precision,
                     "--device", device, "--out", out], family, makes=out)

    def losses(self, name):
        with open(os.path.join(self.run(name), "metrics.jsonl"), encoding="utf-8") as f:
            rows = [json.loads(line) for line in f]
        return {r["step"]: r["loss"] for r in rows}


def relative_distance(a, b):
    """Returns the largest relative difference of two loss curves over their common steps, relative to the second."""
    common = sorted(a.keys() & b.keys())
    return max((abs(a[s] - b[s]) / abs(b[s]) for s in common), default=float("nan"))


class Gradients(Section):
    """Logits and every gradient of one batch, tensor by tensor: the norm of the difference against the reference's norm."""
    name = "grad"

    def unavailable(self, context):
        missing = [m for m in ("numpy", "h5py") if importlib.util.find_spec(m) is None]
        return f"this Python has no {' and no '.join(missing)}: start the script with another" if missing and not context.dry_run else ""

    def steps(self, context):
        r = Runs(context)
        steps = [r.data()]
        for family in FAMILIES:
            steps.append(r.first(family, "fp32", context.reference))
            steps += [r.probe(family, p, d) for p in PRECISIONS for d in (context.reference, context.device)]
        return steps

    def tensors(self, file):
        import h5py  # only here: the other parts do not need it
        with h5py.File(file) as f:
            return {"logits": f["logits"][...], **{k: v[...] for k, v in f["gradients"].items()}}

    def evaluate(self, context, done, good):
        import numpy as np
        r, results = Runs(context), []
        for family in filter(good, FAMILIES):
            read = {(p, d): self.tensors(r.probe_file(family, p, d)) for p in PRECISIONS for d in (context.reference, context.device)}
            truth = read["fp32", context.reference]

            def distance(a, b, name):
                return float(np.linalg.norm(a[name] - b[name]) / np.linalg.norm(truth[name]))

            def worst(value):
                name = max(truth, key=lambda n: value(n) if value(n) == value(n) else float("inf"))
                return value(name), name
            value, name = worst(lambda n: distance(read["fp32", context.device], truth, n))
            results.append(compare_with_limit(self.name, f"{family} fp32, worst of {len(truth)} tensors ({name})", value, 1e-4, "{:.2g}"))
            # Two bf16 results that each lie within e of the truth lie within 2 e of one another; a small tensor's own e
            # may be small by chance.
            half = read["bf16", context.reference]
            off = {n: distance(read["bf16", context.device], half, n) for n in truth}
            error = {n: distance(half, truth, n) for n in truth}
            value = math.hypot(*off.values()) / math.hypot(*error.values())
            results.append(compare_with_limit(self.name, f"{family} bf16, all tensors, in errors of bf16 itself", value, 2.0, "{:.2f}"))
            value, name = worst(lambda n: off[n] / max(error[n], 1e-30))
            results.append(compare_with_limit(self.name, f"{family} bf16, worst tensor ({name})", value, 4.0, "{:.2f}"))
        return results


class Losses(Section):
    name = "loss"

    def steps(self, context):
        r = Runs(context)
        return [r.data()] + [r.first(f, p, d) for f in TRAINED for p in PRECISIONS for d in (context.reference, context.device)]

    def evaluate(self, context, done, good):
        r, results = Runs(context), []
        for f in filter(good, TRAINED):
            loss = {(p, d): r.losses(f"{f}-{p}-{d}") for p in PRECISIONS for d in (context.reference, context.device)}
            truth, half = loss["fp32", context.reference], loss["bf16", context.reference]
            if len(truth) != STEPS or any(len(x) != STEPS for x in loss.values()):
                results.append(Result(self.name, f, f"{[len(x) for x in loss.values()]} steps", f"{STEPS} steps", "fail"))
                continue
            results.append(compare_with_limit(self.name, f"{f} fp32, {STEPS} steps, relative", relative_distance(loss["fp32", context.device], truth), 1e-5, "{:.2g}"))
            results.append(compare_with_limit(self.name, f"{f} bf16, {STEPS} steps, relative", relative_distance(loss["bf16", context.device], half),
                                  2 * relative_distance(half, truth), "{:.2g}"))
        return results


class Resume(Section):
    """Bit by bit on one device, and from one device to the other."""
    name = "resume"

    def steps(self, context):
        r, c, steps = Runs(context), context, []
        steps.append(r.data())
        for f in TRAINED:
            name = f"{f}-bf16-{c.device}"
            steps += [r.first(f, "bf16", c.device),
                      r.train(f"{name}-resumed", f, "bf16", c.device, r.checkpoint(name, MIDDLE)),
                      r.train(f"{name}-again", f, "bf16", c.device)]
            steps += [Step(f"{f} bf16, {text}", [c.fptrain, "checkpoint", "diff", r.checkpoint(name, END), r.checkpoint(f"{name}-{how}", END)], "bits")
                      for how, text in (("resumed", "resumed at step 10"), ("again", "run twice"))]
            for source, target in ((c.reference, c.device), (c.device, c.reference)):
                steps += [r.first(f, "fp32", source), r.train(f"{f}-{source}-to-{target}", f, "fp32", target, r.checkpoint(f"{f}-fp32-{source}", MIDDLE))]
        return steps

    def evaluate(self, context, done, good):
        r, results = Runs(context), []
        results += [Result(self.name, d.step.name, "the same bits", "the same bits") for d in done if d.step.group == "bits" and d.code == 0]
        for f in filter(good, TRAINED):
            for source, target in ((context.reference, context.device), (context.device, context.reference)):
                value = relative_distance(r.losses(f"{f}-{source}-to-{target}"), r.losses(f"{f}-fp32-{source}"))
                results.append(compare_with_limit(self.name, f"{f} fp32, from {source} to {target} at step 10, relative", value, 1e-5, "{:.2g}"))
        return results


class LongTwice(Section):
    """Long sequences twice: a backward pass whose sums have no fixed order gives different bits."""
    name = "twice"

    def steps(self, context):
        r = Runs(context)
        runs, ends = r.twice()
        return [r.data(), *runs, Step("llama of 2 layers, long sequences, run twice", [context.fptrain, "checkpoint", "diff", *ends], "bits")]

    def evaluate(self, context, done, good):
        return [Result(self.name, d.step.name, "the same bits", "the same bits") for d in done if d.step.group == "bits" and good("bits")]
