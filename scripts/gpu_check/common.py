"""Shared code of the parts of gpu-check: steps, running them within a time limit, results."""
import concurrent.futures
import dataclasses
import os
import re
import shlex
import shutil
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclasses.dataclass
class Result:
    """`figure`: the measured value as a number, when predictions.json may have one for this check."""
    part: str
    check: str
    result: str
    limit: str = ""
    status: str = "pass"  # pass | fail | skipped | open (time ran out: run again)
    figure: float = None


@dataclasses.dataclass
class Step:
    """One program to run. `group`: the model or tool to whose results it belongs. `makes`: a path that it creates;
    several sections may have a step that makes the same, which then runs once. `clears`: a folder that must not be there before.
    `limit`: seconds after which it has failed."""
    name: str
    argv: list
    group: str = ""
    env: dict = dataclasses.field(default_factory=dict)
    makes: str = ""
    clears: str = ""
    limit: float = 240


@dataclasses.dataclass
class Done:
    """`finished` is false when the part's time ran out first: the next run of the script starts the step again."""
    step: Step
    code: int
    out: str
    err: str
    seconds: float
    finished: bool = True

    def last_words(self):
        lines = [line for line in (self.err + self.out).splitlines() if line.strip()]
        said = "" if "All tests passed" not in self.out else "all tests passed, but it ended badly: "
        return f"{said}exit {self.code}: {' '.join(lines[-3:])[-300:]}"


@dataclasses.dataclass
class Context:
    """The devices that are compared and the paths of their programs."""
    device: str     # the device that is checked
    reference: str  # the device with which it is compared
    fptrain: str
    suite: str      # the op suite of `device`
    folder: str
    filter: str = ""
    python: str = ""
    dry_run: bool = False

    @property
    def on_gpu(self):
        return self.device == "cuda"

    def path(self, *names):
        return os.path.join(self.folder, *names)


def run_step(step, deadline):
    begin = time.monotonic()
    left = min(deadline - begin, step.limit)
    if deadline - begin <= 0:
        return Done(step, 124, "", "no time was left for it", 0.0, finished=False)
    if step.clears:
        shutil.rmtree(step.clears, ignore_errors=True)  # partial results of an interrupted run
    environment = dict(os.environ, **step.env)
    try:
        p = subprocess.Popen(step.argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                             start_new_session=True)
    except OSError as e:
        return Done(step, 127, "", str(e), 0.0)
    try:
        out, err = p.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)  # with its children
        out, _ = p.communicate()
        return Done(step, 124, out, f"not done in {left:.0f} s", time.monotonic() - begin, finished=left == step.limit)
    return Done(step, p.returncode, out, err, time.monotonic() - begin)


class Section:
    """Steps of a part whose results are evaluated together."""
    name = ""
    parallel = 1  # steps at a time

    def unavailable(self, context):
        """Returns why none of its steps can run here; empty when they can."""
        return ""

    def steps(self, context):
        raise NotImplementedError

    def evaluate(self, context, done, good):
        """Results of [Done, ...]; good(group): all steps of that group have ended well. Failed steps are results already."""
        raise NotImplementedError

    def missing(self, why):
        return [Result(self.name, "all of it", why, status="skipped")]

    def run(self, context, store, deadline):
        why = self.unavailable(context)
        if why:
            return self.missing(why)
        steps = self.steps(context)
        if context.dry_run:
            for s in steps:
                print(shlex.join([*(f"{k}={v}" for k, v in s.env.items()), *s.argv]))
            return []

        def once(step):
            known = store.known(self.name, step)
            if known is None:
                known = run_step(step, deadline)
                store.add(self.name, known)
            return known
        with concurrent.futures.ThreadPoolExecutor(self.parallel) as pool:
            done = list(pool.map(once, steps))
        failed = [d for d in done if d.finished and d.code not in (0, 4)]  # 4: a skipped test
        left = [d for d in done if not d.finished]
        groups = {d.step.group for d in [*failed, *left]}
        results = [Result(self.name, d.step.name, d.last_words(), "exit 0", "fail") for d in failed]
        if left:
            names = ", ".join(d.step.name for d in left[:3]) + (", ..." if len(left) > 3 else "")
            results.append(Result(self.name, f"{len(left)} of {len(done)} steps", f"no time was left: {names}", "", "open"))
        return self.evaluate(context, done, lambda group: not groups & {"", group}) + results


def compare_with_limit(part, check, value, limit, text, at_least=False):
    """A result whose value must not be above the limit (or below it). NaN never passes."""
    good = value >= limit if at_least else value <= limit
    return Result(part, check, text.format(value), (">= " if at_least else "<= ") + text.format(limit), "pass" if good else "fail")


def file_name(text):
    return re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")[:100]
