"""NVIDIA's profiler on the six most important of fptrain's own kernels, and a step compared with the sum of its ops."""
import csv
import json
import shutil

from .common import Result, Section, Step
from .suite import OWN_ATTENTION

KERNELS = ("forward_kernel", "keys_kernel", "queries_kernel", "norm_kernel", "softmax_stats_kernel", "update_kernel")
WANTED = ("Duration", "DRAM Throughput", "Compute (SM) Throughput", "Achieved Occupancy", "Registers Per Thread")


def metrics_of(text):
    """{metric: "value unit"} of the last kernel in ncu's CSV; lines of the program itself come before and between."""
    lines = [line for line in text.splitlines() if line.startswith('"')]
    last = {}
    for row in csv.DictReader(lines):
        if row.get("ID") != last.get("ID"):
            last = {"ID": row.get("ID"), "Kernel": row.get("Kernel Name", "")}
        if row.get("Metric Name") in WANTED:
            last[row["Metric Name"]] = f"{row['Metric Value']} {row['Metric Unit']}".strip()
    return last


class Kernels(Section):
    name = "ncu"

    def unavailable(self, context):
        if context.dry_run:
            return ""
        if not context.on_gpu:
            return "needs a GPU"
        return "" if self.program() else "ncu is not installed"

    def program(self):
        return shutil.which("ncu") or shutil.which("ncu", path="/usr/local/cuda/bin")

    def steps(self, context):
        training = [context.fptrain, "bench", "train", "--preset", "llama-3-8b", "--set", "model.layers=1", "--batch", "1", "--seq-len", "4096",
                    "--warmup", "0", "--steps", "1", "--device", "cuda"]
        # The clocks are not locked, so that the conditions are those of a training run.
        return [Step(kernel, [self.program() or "ncu", "--csv", "--set", "basic", "--section", "MemoryWorkloadAnalysis", "--clock-control", "none", "--target-processes", "all",
                              "--kernel-name", f"regex:^{kernel}", "--launch-count", "2", *training], kernel, OWN_ATTENTION, limit=120)
                for kernel in KERNELS]

    def evaluate(self, context, done, good):
        results = []
        for d in done:
            if good(d.step.group):
                found = metrics_of(d.out)
                text = ", ".join(f"{m} {found[m]}" for m in WANTED if m in found)
                results.append(Result(self.name, d.step.name, text or "the profiler has seen no such kernel", status="pass" if text else "fail"))
        return results


class Gaps(Section):
    """A step compared with its ops timed one by one, for a small model, where launch overhead and host waits would show."""
    name = "gaps"

    def steps(self, context):
        shape = ["--preset", "gpt2", "--batch", "4", "--seq-len", "1024", "--warmup", "3", "--steps", "10"] if context.on_gpu else [
            "--preset", "gpt-nano", "--set", "model.vocab=256", "--set", "model.layers=1", "--batch", "1", "--seq-len", "64", "--warmup", "0", "--steps", "1"]
        return [Step("gpt2" if context.on_gpu else "gpt-nano",
                     [context.fptrain, "bench", "train", "--json", "--profile", "--device", context.device, *shape], "gaps")]

    def evaluate(self, context, done, good):
        if not good("gaps"):
            return []
        b = json.loads(done[0].out.splitlines()[-1])
        ops = sum(t["ms"] for t in b["profile"].values())
        calls = sum(t["calls"] for t in b["profile"].values())
        return [Result(self.name, f"{done[0].step.name}: step against the sum of its ops", f"{b['step_ms']:.2f} against {ops:.2f} ms in {calls} calls",
                       figure=b["step_ms"] / ops)]
