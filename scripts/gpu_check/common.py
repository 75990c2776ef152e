"""What the parts of gpu-check share: steps, running them within a time, results."""
import concurrent.futures
import dataclasses
import os
import shlex
import signal
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@dataclasses.dataclass
class Result:
    part: str
    check: str
    result: str
    limit: str = ""
    status: str = "pass"  # pass | fail | skipped


@dataclasses.dataclass
class Step:
    """One program to run. `group`: the model or tool whose results it belongs to. `makes`: a path that it leaves behind;
    a step whose path is there already, from an earlier part, is not run again."""
    name: str
    argv: list
    group: str = ""
    env: dict = dataclasses.field(default_factory=dict)
    makes: str = ""


@dataclasses.dataclass
class Done:
    step: Step
    code: int
    out: str
    err: str
    seconds: float

    def last_words(self):
        lines = [line for line in (self.err + self.out).splitlines() if line.strip()]
        return f"exit {self.code}: {' '.join(lines[-3:])[-300:]}"


@dataclasses.dataclass
class Context:
    """The devices that are compared and where their programs are."""
    device: str     # what is checked
    reference: str  # what it is held against
    fptrain: str
    suite: str
    folder: str
    filter: str = ""
    python: str = ""
    dry_run: bool = False

    def path(self, *names):
        return os.path.join(self.folder, *names)


def run_step(step, deadline):
    """124: it did not end in time."""
    begin = time.monotonic()
    if step.makes and os.path.exists(step.makes):
        return Done(step, 0, "", "", 0.0)
    left = deadline - begin
    if left <= 0:
        return Done(step, 124, "", "no time was left for it", 0.0)
    environment = dict(os.environ, OMP_WAIT_POLICY="passive", **step.env)
    try:
        p = subprocess.Popen(step.argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace",
                             start_new_session=True)
    except OSError as e:
        return Done(step, 127, "", str(e), 0.0)
    try:
        out, err = p.communicate(timeout=left)
        code = p.returncode
    except subprocess.TimeoutExpired:
        os.killpg(p.pid, signal.SIGKILL)  # with what it has started
        p.communicate()
        code, out, err = 124, "", f"not done in {left:.0f} s"
    return Done(step, code, out, err, time.monotonic() - begin)


class Part:
    """One part of the check: its steps, and what they have shown."""
    name = ""
    seconds = 60    # at most
    parallel = 1    # steps at a time
    needs_gpu = False

    def steps(self, context):
        raise NotImplementedError

    def judge(self, context, done, good):
        """Results of [Done, ...]; good(group): none of that group's steps has failed. Failed steps are results already."""
        raise NotImplementedError

    def run(self, context, deadline):
        if self.needs_gpu and context.device != "cuda":
            return [Result(self.name, "all of it", "needs a GPU", status="skipped")]
        steps = self.steps(context)
        if context.dry_run:
            for s in steps:
                print(shlex.join([*(f"{k}={v}" for k, v in s.env.items()), *s.argv]))
            return []
        deadline = min(deadline, time.monotonic() + self.seconds)
        with concurrent.futures.ThreadPoolExecutor(self.parallel) as pool:
            done = list(pool.map(lambda s: run_step(s, deadline), steps))
        failed = [d for d in done if d.code not in (0, 4)]  # 4: a skipped test
        groups = {d.step.group for d in failed}
        results = [Result(self.name, d.step.name, d.last_words(), "exit 0", "fail") for d in failed]
        return self.judge(context, done, lambda group: not groups & {"", group}) + results


def judged(part, check, value, limit, text, at_least=False):
    """A result whose value must not be above the limit (or below it). NaN never passes."""
    good = value >= limit if at_least else value <= limit
    return Result(part, check, text.format(value), (">= " if at_least else "<= ") + text.format(limit), "pass" if good else "fail")
