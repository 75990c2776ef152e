"""Tests whether it starts at all: machine, libraries, one training step, a few ops, and the attention implementation."""
import json
import shutil

from .common import Result, Section, Step
from .suite import OWN_ATTENTION, pattern, tests_of

# Layers are equal, so two of them show which implementation runs the attention of all.
MODELS = (("gpt2-xl", 1024), ("llama-3.2-1b", 4096), ("llama-3-8b", 8192))


class Start(Section):
    name = "start"

    def training(self, context):
        shape = ["--preset", "gpt2", "--batch", "4", "--seq-len", "1024"] if context.on_gpu else [
            "--preset", "gpt-nano", "--set", "model.vocab=256", "--set", "model.layers=1", "--batch", "1", "--seq-len", "64"]
        return Step("bench train", [context.fptrain, "bench", "train", "--json", "--device", context.device, "--warmup", "1", "--steps", "3", *shape],
                    "bench train")

    def tests(self, context):
        """A matrix product, and attention by cuDNN and by fptrain's own kernels."""
        names = tests_of(context)
        chosen = next((n for n in names if n.startswith("linear")), None), next((n for n in names if n.startswith("attention agrees")), None)
        return [n for n in chosen if n]

    def steps(self, context):
        steps = [Step("doctor", [context.fptrain, "doctor"], "doctor"), self.training(context)]
        if shutil.which("nvidia-smi"):
            steps.append(Step("nvidia-smi", ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit,memory.total",
                                             "--format=csv,noheader"], "nvidia-smi", limit=30))
            steps.append(Step("nvidia-smi -q", ["nvidia-smi", "-q"], "all of nvidia-smi", limit=30))
        for name in self.tests(context):
            steps.append(Step(name, [context.suite, pattern(name)], name))
            if context.on_gpu and name.startswith("attention"):
                steps.append(Step(f"{name} (own kernels)", [context.suite, pattern(name)], name, OWN_ATTENTION))
        return steps

    def evaluate(self, context, done, good):
        results = []
        for d in done:
            if not good(d.step.group):
                continue
            text = "ran"
            if d.step.name == "bench train":
                b = json.loads(d.out.splitlines()[-1])
                text = f"{b['tokens_per_s']:.0f} tokens/s, step {b['step_ms']:.1f} ms"
            elif d.step.name == "nvidia-smi":
                text = d.out.strip().splitlines()[0]
            elif d.step.group == d.step.name and d.step.name in self.tests(context):
                text = "passed"
            results.append(Result(self.name, d.step.name, f"{text} ({d.seconds:.1f} s)"))
        return results


class AttentionChoice(Section):
    """On a GPU, plain bf16 attention that cuDNN does not run trains at half the speed, and no other check would notice."""
    name = "attention"

    def steps(self, context):
        steps = []
        for model, length in MODELS if context.on_gpu else (("gpt-nano", 64),):
            spec = context.path(f"attention-{model}.yaml")
            with open(spec, "w", encoding="utf-8") as f:
                f.write(f"model: {{preset: {model}, layers: 2, vocab: 32000, max_position: {length}}}\ndata: {{seq_len: {length}}}\n"
                        "train: {micro_batch: 1, global_batch: 1}\n")
            steps.append(Step(f"{model}, T={length}", [context.fptrain, "plan", spec, "--explain", "--set", f"run.device={context.device}"], model))
        return steps

    def evaluate(self, context, done, good):
        results = []
        for d in done:
            if not good(d.step.group):
                continue
            said = [line.split("by", 1)[1].strip() for line in d.out.splitlines() if line.startswith("attention is run by")]
            bad = not said or (context.on_gpu and not all(s.startswith(("cudnn", "forward: cudnn")) for s in said))
            results.append(Result(self.name, d.step.name, "; ".join(said) or "not said", "cudnn" if context.on_gpu else "", "fail" if bad else "pass"))
        return results
