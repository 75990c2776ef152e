"""Speed: the machine's ceilings, each op, whole training steps, and PyTorch for comparison where it can use the GPU."""
import json
import os
import subprocess

from .common import ROOT, Result, Section, Step, compare_with_limit

YARDSTICKS = ("copy", "copy_in", "copy_out")  # the last two cross the bus to the host
LARGE = 64 << 20  # bytes that an op must move for its bandwidth to count: below, launch overhead dominates


def torch_sees_device(context):
    question = "import torch, sys; sys.exit(not torch.cuda.is_available())" if context.on_gpu else "import torch"
    try:
        return subprocess.run([context.python, "-c", question], check=False, stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def last_json(done):
    return json.loads(done.out.splitlines()[-1])


class Ceilings(Section):
    """The speed of NVIDIA's libraries through PyTorch: a copy, products, attention. fptrain is compared with it."""
    name = "ceilings"

    def unavailable(self, context):
        return "" if context.dry_run or torch_sees_device(context) else f"{context.python} has no torch that can use {context.device}"

    def steps(self, context):
        return [Step("torch", [context.python, os.path.join(ROOT, "scripts/gpu_check/ceilings.py"), "--device", context.device], "torch", limit=300)]

    def evaluate(self, context, done, good):
        if not good("torch"):
            return []
        report = last_json(done[0])
        return [Result(self.name, row["name"], f"{row['value']:.1f} {row['unit']}", figure=row["value"]) for row in report["rows"]] + [
            Result(self.name, name, why, status="skipped") for name, why in report["refused"]]


class OpSpeed(Section):
    name = "bench-ops"
    # The second has operands far larger than any cache.
    GPU = (("gpt2-xl", 8, 1024), ("gpt2-xl", 32, 1024), ("llama-3.2-1b", 8, 4096), ("llama-3-8b", 1, 8192))
    CPU = (("gpt-nano", 1, 64),)

    def shapes(self, context):
        return self.GPU if context.on_gpu else self.CPU

    def steps(self, context):
        small = [] if context.on_gpu else ["--set", "model.vocab=256", "--parameters", "100000", "--repeats", "1"]
        return [Step(f"{model} {batch}x{length}", [context.fptrain, "bench", "ops", "--json", "--device", context.device, "--preset", model, "--batch",
                                                   str(batch), "--seq-len", str(length), *small], f"{model} {batch}x{length}")
                for model, batch, length in self.shapes(context)]

    def evaluate_one(self, name, report, on_gpu):
        results = [Result(self.name, f"{name}: copy", f"{report['copy_gb_per_s']:.0f} GB/s", figure=report["copy_gb_per_s"])]
        share = f", {100 * report['product_gflops_per_s'] / report['peak_gflops_per_s']:.0f}% of the peak"
        results.append(Result(self.name, f"{name}: fastest product", f"{report['product_gflops_per_s'] / 1e3:.1f} TFLOP/s{share}",
                              figure=report["product_gflops_per_s"] / 1e3))
        for row in report["ops"]:
            rate = f"{row['ms'] * 1e3:.0f} us, {row['rate'] / (1 if row['unit'] == 'GB/s' else 1e3):.1f} {row['unit'].replace('GFLOP', 'TFLOP')}"
            check = f"{name}: {row['op']} {row['shape']}"
            result = Result(self.name, check, rate)
            if on_gpu and row["unit"] == "GB/s" and row["bytes"] >= LARGE and row["op"] not in YARDSTICKS:
                result = compare_with_limit(self.name, check, row["share"], 0.85, "{:.0%} of copy", at_least=True)
            result.figure = row["ms"] * 1e3
            results.append(result)
        return results

    def own_against_cudnn(self, name, report):
        rates = {(row["op"], row["shape"]): row["rate"] for row in report["ops"]}
        results = []
        for op in ("attention", "attention_backward"):
            pairs = [(shape, rate / rates[f"{op} [cudnn]", shape]) for (o, shape), rate in rates.items()
                     if o == f"{op} [flash]" and (f"{op} [cudnn]", shape) in rates]
            results += [compare_with_limit(self.name, f"{name}: {op} by flash, {shape}", share, 0.7, "{:.0%} of cuDNN", at_least=True) for shape, share in pairs]
            if not pairs:
                why = "; ".join(report["notes"]) or "not measured"
                results.append(Result(self.name, f"{name}: {op} by flash against cuDNN", why, ">= 70% of cuDNN", "skipped"))
        return results

    def evaluate(self, context, done, good):
        results = []
        for d in done:
            if good(d.step.group):
                report = last_json(d)
                results += self.evaluate_one(d.step.name, report, context.on_gpu)
                results += self.own_against_cudnn(d.step.name, report) if context.on_gpu else []
        return results


# name: preset, samples per batch, tokens per sample, batches per step, other settings
STEPS = {
    "gpt2-xl 4x8x1024": ("gpt2-xl", 8, 1024, 4, []),
    "gpt2-xl 4x16x1024": ("gpt2-xl", 16, 1024, 4, []),
    "llama-3.2-1b 4x2x4096": ("llama-3.2-1b", 2, 4096, 4, []),
    "llama-3-8b, 8 layers, 4x1x8192": ("llama-3-8b", 1, 8192, 4, ["--recompute", "full", "--set", "model.layers=8"]),
}
STEPS_ON_CPU = {
    "gpt-nano 2x1x64": ("gpt-nano", 1, 64, 2, ["--set", "model.vocab=256", "--set", "model.layers=1"]),
    "llama-nano 2x1x64": ("llama-nano", 1, 64, 2, ["--set", "model.vocab=256", "--set", "model.layers=1", "--recompute", "full"]),
}
CHUNK, CHUNK_ON_CPU = 8192, 32  # tokens of the loss at a time; each step is also measured with them


def with_chunk(name, tokens):
    return f"{name}, loss chunk {tokens}"


COMPARED = (("gpt2-xl", 8, 1024, 4), ("llama-3.2-1b", 2, 4096, 4))
CLASSES = {"products": lambda op: op.startswith("linear"), "attention": lambda op: op.startswith("attention"),
           "other ops": lambda op: not op.startswith(("linear", "attention"))}


class StepSpeed(Section):
    name = "bench-train"

    def steps(self, context):
        on_gpu, steps, chunked_steps = context.on_gpu, [], []
        for name, (preset, batch, length, accumulate, more) in (STEPS if on_gpu else STEPS_ON_CPU).items():
            command = [context.fptrain, "bench", "train", "--json", "--profile", "--device", context.device, "--preset", preset, "--batch", str(batch),
                       "--seq-len", str(length), "--set", f"train.global_batch={batch * accumulate}", *more]
            command += ["--warmup", "3", "--steps", "5"] if on_gpu else ["--warmup", "0", "--steps", "1"]
            tokens = CHUNK if on_gpu else CHUNK_ON_CPU
            chunked = with_chunk(name, tokens)
            steps.append(Step(name, command, name))
            chunked_steps.append(Step(chunked, [*command, "--set", f"memory.loss_chunk_tokens={tokens}"], chunked))
        return steps + chunked_steps

    def evaluate_one(self, context, name, b):
        peak = f"{b['peak_from']} {b['peak_gflops_per_s'] / 1e3:.1f} TFLOP/s"
        memory = f"{b['peak_bytes'] / 2**30:.2f} GiB, {b['peak_bytes'] / b['predicted_bytes'] - 1:+.1%}"
        results = [Result(self.name, f"{name}: step", f"{b['step_ms']:.1f} ms, {b['tokens_per_s']:.0f} tokens/s", figure=b["step_ms"])]
        # The limits are for GPUs; on a CPU this code only runs to test it.
        mfu = compare_with_limit(self.name, f"{name}: MFU", b["mfu"], 0.55 if context.on_gpu else 0.0, "{:.1%}", at_least=True)
        mfu.result, mfu.figure = f"{mfu.result} of {peak}", 100 * b["mfu"]
        off = compare_with_limit(self.name, f"{name}: memory off its prediction", abs(b["peak_bytes"] / b["predicted_bytes"] - 1), 0.03 if context.on_gpu else 1.0,
                     "{:.1%}")
        off.result = f"{off.result} ({memory})"
        results += [mfu, off]
        for kind, belongs in CLASSES.items():
            ms = sum(t["ms"] for op, t in b["profile"].items() if belongs(op))
            results.append(Result(self.name, f"{name}: {kind}", f"{ms:.1f} ms of {b['profile_step_ms']:.1f} op by op", figure=ms))
        for op, t in sorted(b["profile"].items(), key=lambda item: -item[1]["ms"]):
            results.append(Result(self.name, f"{name}: op {op}", f"{t['ms']:.2f} ms in {t['calls']} calls", figure=t["ms"]))
        return results

    def evaluate(self, context, done, good):
        return [r for d in done if good(d.step.group) for r in self.evaluate_one(context, d.step.name, last_json(d))]


class AgainstTorch(Section):
    """Last, as PyTorch takes minutes to compile a model of 48 layers."""
    name = "pytorch"

    def unavailable(self, context):
        if context.dry_run:
            return ""
        if not context.on_gpu:
            return "on CPUs scripts/bench/compare does this"
        return "" if torch_sees_device(context) else f"no torch that can use the GPU in {context.python}"

    def comparison(self, context, model):
        return context.path(f"compare-{model}.json")

    def steps(self, context):
        return [Step(f"{model} 4x{batch}x{length}",
                     [context.python, os.path.join(ROOT, "scripts/bench/compare"), "--device", context.device, "--python", context.python, "--fptrain",
                      context.fptrain, "--model", model, "--batch", str(batch), "--seq-len", str(length), "--steps", "5", "--accumulate", str(accumulate),
                      "--rounds", "1", "--json", self.comparison(context, model)], model, makes=self.comparison(context, model), limit=480)
                for model, batch, length, accumulate in COMPARED]

    def evaluate(self, context, done, good):
        results = []
        for d in done:
            if good(d.step.group):
                with open(self.comparison(context, d.step.group), encoding="utf-8") as f:
                    compared = json.load(f)
                torch = compared["pytorch"][-1]
                result = compare_with_limit(self.name, f"{d.step.name}: against PyTorch", compared["ratio"], 1.1, "{:.2f}x", at_least=True)
                result.result += f" of {torch['torch']}'s {torch['tokens_per_s']:.0f} tokens/s"
                results.append(result)
        return results
