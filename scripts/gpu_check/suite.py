"""The op suite of tests/ops on the device, by itself and under compute-sanitizer."""
import os
import shutil
import subprocess
import time

from .common import Result, Section, Step, run_step

OWN_ATTENTION = {"FPTRAIN_ATTENTION": "flash,simt"}  # without cuDNN, which would take most calls


def tests_of(context, tags="~[nightly]"):
    """Names of the suite's tests, without those marked [nightly]."""
    if context.dry_run and not os.path.exists(context.suite):
        return ["EACH TEST OF THE SUITE"]
    listing = subprocess.run([context.suite, "--list-test-names-only", tags], stdout=subprocess.PIPE, text=True, check=False).stdout
    names = [line.strip().strip('"') for line in listing.splitlines() if line.strip()]
    return [n for n in names if context.filter in n]


def pattern(name):
    """Escapes a test's name for Catch2's command line."""
    for special in "\\,[]":
        name = name.replace(special, "\\" + special)
    return name


class Ops(Section):
    """Runs every test in a process of its own, so that one that breaks the device does not break the others."""
    name = "ops"
    parallel = max(1, min(8, len(os.sched_getaffinity(0))))

    def steps(self, context):
        steps = []
        for name in tests_of(context):
            steps.append(Step(name, [context.suite, pattern(name)], name))
            if context.on_gpu and "attention" in name and not name.startswith("cuDNN"):
                steps.append(Step(f"{name} (own kernels)", [context.suite, pattern(name)], name, OWN_ATTENTION))
        return steps

    def evaluate(self, context, done, good):
        passed = sum(d.code == 0 for d in done)
        slowest = max(done, key=lambda d: d.seconds, default=None)
        text = f"{passed} of {len(done)} tests passed" + (f", the longest in {slowest.seconds:.0f} s" if slowest else "")
        open_ones = any(not d.finished for d in done)
        return [Result(self.name, f"op suite on {context.device}", text, "all",
                       "pass" if done and passed == len(done) else "open" if open_ones else "fail")]


class LongAttention(Section):
    """Several tiles of keys, where a sum without a fixed order would show. Each call is made three times and compared bit by bit."""
    name = "attention bits"

    def unavailable(self, context):
        return "" if context.dry_run or tests_of(context, "[nightly]") else f"no nightly test has '{context.filter}' in its name"

    def steps(self, context):
        return [Step(n, [context.suite, pattern(n)], n, limit=300) for n in tests_of(context, "[nightly]") if "thousand tokens" in n or context.dry_run]

    def evaluate(self, context, done, good):
        return [Result(self.name, d.step.name, f"the same bits ({d.seconds:.0f} s)", "the same bits") for d in done if good(d.step.group)]


class Sanitizer(Section):
    """Each op's comparison with the oracle. Races are only checked in fptrain's own kernels, not in NVIDIA's."""
    name = "sanitizer"
    parallel = 4
    TOOLS = ("memcheck", "racecheck")

    def program(self):
        return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")

    def chosen(self, context):
        tests = tests_of(context)
        others = ("cast rounds", "find_nonfinite finds", "dropout drops")  # ops whose results are known without an oracle
        return [n for n in tests if n.startswith(others) or ("with the oracle" in n and "longer" not in n)] or tests

    def steps(self, context):
        steps = []
        program = self.program() or "compute-sanitizer"
        for tool in self.TOOLS:
            for name in self.chosen(context):
                if tool == "racecheck" and name.startswith("linear"):
                    continue
                # Libraries query the driver for features that it may not have: such API errors are no memory errors.
                command = [program, "--tool", tool, "--error-exitcode", "99", "--target-processes", "all"]
                command += ["--report-api-errors", "no"] if tool == "memcheck" else []
                steps.append(Step(f"{tool}: {name}", [*command, context.suite, pattern(name)], tool, OWN_ATTENTION, limit=200))
        return steps

    def unavailable(self, context):
        if context.dry_run:
            return ""
        if not context.on_gpu:
            return "needs a GPU"
        if self.program() is None:
            return "compute-sanitizer is not installed"
        trial = run_step(self.steps(context)[0], time.monotonic() + 60)
        if "Device not supported" in trial.out + trial.err:  # as in some virtual machines
            return "compute-sanitizer does not support this machine's GPU"
        return ""

    def evaluate(self, context, done, good):
        results = []
        for tool in self.TOOLS:
            mine = [d for d in done if d.step.group == tool]
            clean = sum(d.code == 0 for d in mine)
            waiting = any(not d.finished for d in mine)
            results.append(Result(self.name, tool, f"{clean} of {len(mine)} ops clean", "all",
                                  "pass" if mine and clean == len(mine) else "open" if waiting else "fail"))
        return results
