"""Strikes at the processes of a run and at what joins them: in set-up, at the end, between ranks, by a second run."""
import re
import signal
import subprocess
import time

import torture_checks as checks
from torture_run import Run
from torture_strike import IMPATIENT, SAVED, Signalled, Strike

SECOND = 300  # seconds after which a second run that is neither refused nor at work hangs: twice what a lease may take


class Told(Strike):
    """Is stopped by a signal, after an event that it has to survive."""

    def strike(self, run):
        self.disturb(run)
        run.send_launcher(signal.SIGUSR1)

    def disturb(self, run):
        pass

    def codes(self):
        return {75}


class StruckInSetUp(Signalled):
    """An interrupted run is interrupted again while it recovers."""

    KINDS = {"a rank killed in set-up": 1, "all killed in set-up": 1, "a rank killed while planning": 1}

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        self.kind = kind.removesuffix(" in set-up").removesuffix(" while planning")
        self.after_load = rng.random() < 0.4
        if kind.endswith("planning"):
            self.mesh = self.planned

    @staticmethod
    def planned(rng):
        return rng.choice([2, 3, 4, 6]), ["parallel.auto=[all]", "parallel.cluster=laptop"]

    def await_moment(self, run):
        while run.running() and not run.ranks():
            time.sleep(0.002)
        while run.running() and self.after_load and self.newest and "resumed from" not in run.text():
            time.sleep(0.002)
        run.wait(self.delay * (0.05 if self.after_load else 1.5 if self.mesh else 0.8))


class Launcher(Told):
    """mpirun is frozen for a while: no signals or output are forwarded."""

    KINDS = {"launcher stopped for a while": 1}

    def disturb(self, run):
        run.send_launcher(signal.SIGSTOP)
        time.sleep(0.3 + 3 * self.delay)
        run.send_launcher(signal.SIGCONT)
        self.await_lines(run, SAVED, 1)


class FrozenAtEnd(Told):
    """A rank freezes in MPI_Finalize, after all is saved."""

    KINDS = {"a rank frozen at the end": 0.5}
    SEVERAL = True

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        self.settings += [*IMPATIENT, "watchdog.farewell_s=5"]

    def prepare(self):
        self.environment = self.place.shim.environment(TORTURE_STOP=str(int(self.who * self.place.ranks)))

    def codes(self):
        return {76}


class Unlike(Strike):
    """One rank is started with another setting than the others."""

    KINDS = {"specs differ": 1}
    SEVERAL = True

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        self.key, value = rng.choice([("optimizer.lr", 2e-3), ("train.global_batch", 24), ("run.seed", 12),
                                      ("schedule.warmup_steps", 5), ("optimizer.weight_decay", 0.2)])
        self.last_arguments = ["--set", f"{self.key}={value}"]

    def happen(self, run):
        self.complete, self.step = self.visible(), 0
        return "set-up"

    def codes(self):
        return {2}

    def check_after(self, text, problems):
        if self.key not in text:
            problems.append(f"{self.key} differs, which no message says")
        if checks.made_steps(text):
            problems.append(f"{self.key} differs, and steps were made")


class ConnectionReset(Told):
    """The lifeline connections of the ranks to rank 0."""

    KINDS = {"connections reset": 1}
    SEVERAL = True

    def disturb(self, run):
        cut = 0
        for _ in range(1 + int(3 * self.delay)):
            cut += reset_connections(set(run.ranks()))
            time.sleep(0.2)
        if cut:
            self.await_lines(run, SAVED, 2)
        elif run.running() and self.phase != "set-up":
            print("no connection was reset: that needs root and a kernel with INET_DIAG_DESTROY")


def reset_connections(pids):
    """Destroys connections between these processes and returns their number. The kernel ends one as if its peer had."""
    def found():
        listed = subprocess.run(["ss", "-tnpH", "state", "established"], stdout=subprocess.PIPE, text=True,
                                stderr=subprocess.DEVNULL, check=False).stdout
        ends = {}  # (own, other) of each socket of ours
        for line in listed.splitlines():
            pid = re.search(r"pid=(\d+)", line)
            if pid and int(pid[1]) in pids:
                ends[tuple(re.sub(r"\[(::ffff:)?(.*)\]", r"\2", end) for end in line.split()[2:4])] = int(pid[1])
        return {a for a in ends if a[::-1] in ends and ends[a] != ends[a[::-1]]}
    before = found()
    for own, other in before:
        subprocess.run(["ss", "-K", "src", own.rsplit(":", 1)[0], "sport", "=", ":" + own.rsplit(":", 1)[1], "dst",
                        other.rsplit(":", 1)[0], "dport", "=", ":" + other.rsplit(":", 1)[1]],
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return len(before - found())


class SecondRun(Told):
    """Another start in the same directory while the first trains; or on another node, where no lock is seen."""

    KINDS = {"a second run": 1, "a second run elsewhere": 0.5}

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        if kind.endswith("elsewhere"):  # the first shows that it lives every half minute, so it must not be done before
            self.slow_ms, self.moment, self.steps = 60, "a step", 1
            self.settings += ["checkpoint.every=1", "checkpoint.staging_mib=0", "checkpoint.node_local="]
        elif self.moment == "any time":
            self.moment = "a step"  # whoever comes first has the directory

    def disturb(self, run):
        environment = {}
        if self.kind.endswith("elsewhere"):
            boot = self.place.work / "boot_id"
            boot.write_text("5b1cf2b7-2f1e-4f0e-a8d0-9a2b6d7c1e11\n", encoding="utf-8")
            environment = self.place.shim.environment(TORTURE_HOST="elsewhere", TORTURE_BOOT=str(boot))
        second = Run(self.place.program, self.place.arguments([]), 1, self.place.work / "second", environment)
        self.went_on = True
        try:
            limit = time.monotonic() + SECOND
            while (code := second.wait(0.1)) is None and time.monotonic() < limit and run.running():
                pass
            if code is None and not run.running():
                self.went_on = False  # the directory is free
                second.send_launcher(signal.SIGUSR1)
                code = second.wait(SECOND)
            self.second = code, second.text()
        finally:
            second.destroy()
        self.await_lines(run, SAVED, 1)

    def check_after(self, text, problems):
        code, told = self.second
        if code not in ({3, 76} if self.went_on else {0, 3, 75, 76}):
            problems.append(f"the second run ended with {code}:\n{told[-2000:]}")
        if code == 3 and "another run is using this folder" not in told:
            problems.append(f"the second run did not say why it ended:\n{told[-2000:]}")

    def codes(self):
        return {75, 76} if self.kind.endswith("elsewhere") else {75}


class Flipped(Strike):
    """A bit changes where it is found before a save keeps it (docs/clusters.md, "Silent corruption")."""

    KINDS = {"flipped weights": 0.5, "flipped moments": 0.5, "flipped sums": 0.5, "flipped gradients": 0.5}
    SEVERAL = True

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        self.slow_ms, what = 0, kind.removeprefix("flipped ")
        self.after = self.newest + rng.randint(0, 4)  # finished steps
        self.trusted = self.after
        # Upwards by the exponent's highest bit in a sum, whose rounding hides less.
        bit = {"sums": 30, "gradients": rng.randint(12, 30)}.get(what, rng.randint(0, 29))
        if what == "gradients":
            self.settings.append("train.check_repeats=1")
        self.what, self.element, self.bit = what, rng.randrange(2000), bit

    def mesh(self, rng):
        """Copies of the state on several ranks."""
        ranks = rng.choice([2, 3, 4, 6])
        zero = rng.randint(0, 3) if self.what in ("sums", "gradients") else 0
        return ranks, [f"parallel.data={ranks}", f"parallel.zero_stage={zero}"]

    def prepare(self):
        self.environment = {"FPTRAIN_FAULT": f"rank={int(self.who * self.place.ranks)},step={self.after},kind=flip,"
                                             f"what={self.what},element={self.element},bit={self.bit}"}

    def happen(self, run):
        self.complete, self.step = self.visible(), self.after
        self.phase = "step"
        return "step"

    def codes(self):
        return {76}

    def check_after(self, text, problems):
        late = [s for s in self.visible() if s > self.after]
        if late:
            problems.append(f"a bit flipped after step {self.after}; saved nevertheless: {late}")
        if "fault injected" not in text:
            problems.append("no bit flipped")


CLASSES = [StruckInSetUp, Launcher, FrozenAtEnd, Unlike, ConnectionReset, SecondRun, Flipped]
