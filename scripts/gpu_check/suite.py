"""The op suite of tests/ops on the device, by itself and under compute-sanitizer."""
import os
import shutil
import subprocess

from .common import Part, Result, Step, run_step

OWN_ATTENTION = {"FPTRAIN_ATTENTION": "flash,simt"}  # without cuDNN, which would take most calls


def tests_of(context):
    """Names of the suite's tests, without those marked [slow]."""
    if context.dry_run and not os.path.exists(context.suite):
        return ["EACH TEST OF THE SUITE"]
    listing = subprocess.run([context.suite, "--list-test-names-only", "~[slow]"], stdout=subprocess.PIPE, text=True, check=False).stdout
    names = [line.strip().strip('"') for line in listing.splitlines() if line.strip()]
    return [n for n in names if context.filter in n]


def pattern(name):
    """A test's name as Catch2's command line takes it."""
    for special in "\\,[]":
        name = name.replace(special, "\\" + special)
    return name


class Ops(Part):
    """Every test in a process of its own, so that one that breaks the device does not break the others."""
    name, seconds = "ops", 90
    parallel = max(1, min(8, len(os.sched_getaffinity(0))))

    def steps(self, context):
        steps = []
        for name in tests_of(context):
            steps.append(Step(name, [context.suite, pattern(name)], name))
            if context.device == "cuda" and "attention" in name:
                steps.append(Step(f"{name} (own kernels)", [context.suite, pattern(name)], name, OWN_ATTENTION))
        return steps

    def judge(self, context, done, good):
        passed = sum(d.code == 0 for d in done)
        return [Result(self.name, f"op suite on {context.device}", f"{passed} of {len(done)} tests passed", "all",
                       "pass" if done and passed == len(done) else "fail")]


class Sanitizer(Part):
    """Each op's comparison with the oracle. Races are looked for in our own kernels: NVIDIA's are left out."""
    name, seconds, needs_gpu = "sanitizer", 120, True
    parallel = 8
    TOOLS = ("memcheck", "racecheck")

    def program(self):
        return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")

    def chosen(self, context):
        tests = tests_of(context)
        others = ("cast rounds", "find_nonfinite finds", "dropout drops")  # ops whose results are known without an oracle
        return [n for n in tests if n.startswith(others) or ("with the oracle" in n and "longer" not in n)] or tests

    def steps(self, context):
        steps = []
        program = self.program() or ("compute-sanitizer" if context.dry_run else None)
        for tool in self.TOOLS if program else ():
            for name in self.chosen(context):
                if tool == "racecheck" and name.startswith("linear"):
                    continue
                # Libraries ask the driver for what it may not have: its answers are no memory errors.
                command = [program, "--tool", tool, "--error-exitcode", "99", "--target-processes", "all"]
                command += ["--report-api-errors", "no"] if tool == "memcheck" else []
                steps.append(Step(f"{tool}: {name}", [*command, context.suite, pattern(name)], tool, OWN_ATTENTION))
        return steps

    def run(self, context, deadline):
        if context.device == "cuda" and not context.dry_run:
            if self.program() is None:
                return [Result(self.name, "all of it", "compute-sanitizer is not installed", status="skipped")]
            trial = run_step(self.steps(context)[0], deadline)
            if "Device not supported" in trial.out + trial.err:  # as in some virtual machines
                return [Result(self.name, "all of it", "compute-sanitizer does not support this machine's GPU", status="skipped")]
        return super().run(context, deadline)

    def judge(self, context, done, good):
        results = []
        for tool in self.TOOLS:
            codes = [d.code for d in done if d.step.group == tool]
            results.append(Result(self.name, tool, f"{codes.count(0)} of {len(codes)} ops clean", "all",
                                  "pass" if codes and not any(codes) else "fail"))
        return results
