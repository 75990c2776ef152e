"""Both benchmarks, for a GPT-2 and a Llama, with PyTorch beside them where it can use the GPU."""
import json
import os
import subprocess

from .common import ROOT, Part, Result, Step, judged

# name, samples a batch, tokens a sample, batches a step
TRAINED = (("gpt2-xl", 8, 1024, 4), ("llama-3.2-1b", 2, 4096, 4))
# Operands far larger than any cache: about 33k tokens.
OPS = (("gpt2-xl", 32, 1024), ("llama-3.2-1b", 8, 4096))
YARDSTICKS = ("copy", "copy_in", "copy_out")  # the last two cross the bus to the host
LARGE = 64 << 20  # bytes that an op must move for its bandwidth to count: below, launching dominates


class OpSpeed(Part):
    name, seconds, needs_gpu = "bench-ops", 80, True

    def steps(self, context):
        return [Step(model, [context.fptrain, "bench", "ops", "--json", "--device", context.device, "--preset", model, "--batch", str(batch),
                             "--seq-len", str(length)], model) for model, batch, length in OPS]

    def judge(self, context, done, good):
        results = []
        for d in done:
            if not good(d.step.group):
                continue
            report = json.loads(d.out.splitlines()[-1])
            model, ops = d.step.name, report["ops"]
            results.append(Result(self.name, f"{model}: copy", f"{report['copy_gb_per_s']:.0f} GB/s"))
            sheet = report["data_sheet_gflops_per_s"]
            share = f", {100 * report['product_gflops_per_s'] / sheet:.0f}% of the data sheet" if sheet else ""
            results.append(Result(self.name, f"{model}: fastest product", f"{report['product_gflops_per_s'] / 1e3:.0f} TFLOP/s{share}"))
            for row in ops:
                if row["unit"] == "GB/s" and row["bytes"] >= LARGE and row["op"] not in YARDSTICKS:
                    results.append(judged(self.name, f"{model}: {row['op']}", row["share"], 0.85, "{:.0%} of copy", at_least=True))
            rates = {(row["op"], row["shape"]): row["rate"] for row in ops}
            pairs = [(shape, rate, rates[op.replace("flash", "cudnn"), shape]) for (op, shape), rate in rates.items()
                     if op == "attention [flash]" and ("attention [cudnn]", shape) in rates]
            for shape, flash, cudnn in pairs:
                results.append(judged(self.name, f"{model}: flash forward, {shape}", flash / cudnn, 0.7, "{:.0%} of cuDNN", at_least=True))
            if not pairs:
                results.append(Result(self.name, f"{model}: flash against cuDNN", "; ".join(report["notes"]) or "not measured", ">= 70% of cuDNN", "fail"))
        return results


class StepSpeed(Part):
    name, seconds, needs_gpu = "bench-train", 300, True

    def torch_sees_gpu(self, context):
        return subprocess.run([context.python, "-c", "import torch, sys; sys.exit(not torch.cuda.is_available())"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0

    def comparison(self, context, model):
        return context.path(f"compare-{model}.json")

    def steps(self, context):
        ours, theirs = [], []
        for model, batch, length, accumulate in TRAINED:
            shape = ["--batch", str(batch), "--seq-len", str(length), "--steps", "5"]
            ours.append(Step(model, [context.fptrain, "bench", "train", "--json", "--device", context.device, "--preset", model, *shape, "--set",
                                     f"train.global_batch={batch * accumulate}", "--warmup", "3"], model))
            # No second round where the first, with what PyTorch takes to compile, was long.
            theirs.append(Step(f"{model} and PyTorch", [context.python, os.path.join(ROOT, "scripts/bench/compare"), "--device", context.device,
                                                        "--python", context.python, "--fptrain", context.fptrain, "--model", model, *shape,
                                                        "--accumulate", str(accumulate), "--rounds", "2", "--seconds", "100", "--json",
                                                        self.comparison(context, model)], f"{model} and PyTorch"))
        return ours + (theirs if context.dry_run or self.torch_sees_gpu(context) else [])

    def judge(self, context, done, good):
        results = []
        for d, (model, batch, length, accumulate) in zip(done, TRAINED):
            what = f"{model}, {accumulate} x {batch} x {length}"
            if good(model):
                b = json.loads(d.out.splitlines()[-1])
                results.append(Result(self.name, f"{what}: speed", f"{b['tokens_per_s']:.0f} tokens/s, step {b['step_ms']:.1f} ms"))
                peak = f"{b['peak_from']} {b['peak_gflops_per_s'] / 1e3:.0f} TFLOP/s"
                results.append(judged(self.name, f"{what}: MFU ({peak})", b["mfu"], 0.55, "{:.1%}", at_least=True))
                memory = f"peak memory {b['peak_bytes'] / 2**30:.2f} GiB"
                results.append(judged(self.name, f"{what}: {memory}, off its prediction", abs(b["peak_bytes"] / b["predicted_bytes"] - 1), 0.03, "{:.1%}"))
            if len(done) == len(TRAINED):
                results.append(Result(self.name, f"{what}: against PyTorch", f"no torch that can use the GPU in {context.python}", ">= 1.10x", "skipped"))
            elif good(f"{model} and PyTorch"):
                with open(self.comparison(context, model), encoding="utf-8") as f:
                    compared = json.load(f)
                torch = compared["pytorch"][-1]
                results.append(judged(self.name, f"{what}: against PyTorch {torch['torch']}, {torch['tokens_per_s']:.0f} tokens/s", compared["ratio"], 1.1,
                                      "{:.2f}x", at_least=True))
        return results
