"""What can happen to a run, when, and how it may then end."""
import re
import signal
import time

import torture_checks as checks

# By weight. "launcher" is mpirun; of one rank, which has none, the rank.
KINDS = {
    "a rank killed": 5,
    "all killed": 3,
    "launcher killed": 2,
    "SIGTERM to launcher": 2,
    "SIGUSR1 to launcher": 2,
    "SIGTERM to a rank": 3,
    "a rank frozen": 1,
    "disk full": 2,
    "disk full for a while": 2,
    "read-only": 2,
    "read-only for a while": 2,
}
# Only the watchdog can end what a frozen rank leaves. On a busy machine so short a one may also end a run that is well,
# which is legal in these rounds; in the others the watchdog has so long that it speaks of faults only.
NEED_WATCHDOG = {"a rank frozen"}
IMPATIENT = ["watchdog.heartbeat_s=0.5", "watchdog.setup_s=30", "watchdog.step_s=15", "watchdog.evaluation_s=15",
             "watchdog.save_s=20"]
NEED_MOUNTS = {k for k in KINDS if k.startswith(("disk", "read"))}

SCHEDULES = ["gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-v", "interleaved-zb", "chimera", "bitpipe",
             "dualpipe", "dualpipev", "zeropp", "wave"]
FULL = r"not saved \(earlier ones are intact\)"
SAVED = r"^saved "
POLL = 0.0005


def random_mesh(rng):
    """Ranks and settings; not every one is legal."""
    ranks = rng.randint(1, 6)
    degrees, left = {"tensor": 1, "pipeline.ranks": 1, "data": 1, "sequence": 1}, ranks
    for prime in (2, 2, 3, 5):
        if left % prime == 0:
            degrees[rng.choices(list(degrees), (3, 3, 4, 1))[0]] *= prime
            left //= prime
    settings = [f"parallel.{name}={degree}" for name, degree in degrees.items() if degree > 1]
    if degrees["data"] * degrees["sequence"] > 1:
        settings.append(f"parallel.zero_stage={rng.randint(0, 3)}")
    if degrees["tensor"] > 1 and rng.random() < 0.5:
        settings.append("parallel.megatron_sp=true")
    if degrees["pipeline.ranks"] > 1:
        settings.append(f"parallel.pipeline.schedule={rng.choice(SCHEDULES)}")
    return ranks, settings


class Strike:
    """Something that happens to a run at some moment. All that is random is drawn at once."""

    def __init__(self, kind, rng, directory, disk, newest, last):
        self.kind, self.directory, self.disk, self.newest, self.last = kind, directory, disk, newest, last
        self.slow_ms = rng.choice([2, 5, 15]) if rng.random() < 0.35 else 0
        self.moment = rng.choices(["any time", "a step", "a save"], (2, 2, 5))[0]
        self.steps, self.delay, self.who, self.free = rng.randint(1, 6), rng.random(), rng.random(), rng.random()
        self.failures = rng.randint(1, 2)
        self.complete = []  # steps of the newest complete checkpoints when it happened: keep_last many

    def happen(self, run):
        """Waits for the moment and does it; returns what the run was doing."""
        self._await_moment(run)
        self.complete = checks.visible(self.directory)[-3:]
        self.phase = self._phase(run)
        if self.kind in NEED_MOUNTS:
            self._spoil_disk(run)
        else:
            self._send(run)
        self.step = checks.last_step(self.directory)  # at least the step in which it happened
        return self.phase

    def _phase(self, run):
        if not run.running():
            return "done"
        if not self._at_step(run):
            return "set-up"
        return "save" if self._saving() else "step"

    def _saving(self):  # only after set-up, which removes what an earlier run left
        return any(n.startswith(".tmp-") for n in checks.hidden(self.directory))

    def _at_step(self, run):
        return checks.last_step(self.directory) if re.search(r"^step \d+/", run.text(), re.MULTILINE) else 0

    def _await_moment(self, run):
        if self.moment == "any time":
            run.wait(3 * self.delay)
            # Of what is sent before there are ranks mpirun makes nothing.
            while run.running() and not run.ranks() and self.kind not in ("all killed", "launcher killed"):
                time.sleep(0.005)
            return
        while run.running() and self._at_step(run) < self.newest + self.steps:
            time.sleep(0.005)
        while self.moment == "a save" and run.running() and not self._saving():
            time.sleep(POLL)
        # A save of these models takes about 20 ms and 80 changes to the disk.
        run.wait(self.delay * (0.02 + 0.08 * self.slow_ms if self.moment == "a save" else 0.3))

    def _send(self, run):
        ranks = run.ranks()
        one = ranks[int(self.who * len(ranks)):][:1]
        if self.kind == "a rank killed":
            run.send(signal.SIGKILL, one)
        elif self.kind == "all killed":
            run.send(signal.SIGKILL, run.processes())
        elif self.kind == "launcher killed":
            run.send_launcher(signal.SIGKILL)
        elif self.kind == "SIGTERM to launcher":
            run.send_launcher(signal.SIGTERM)
        elif self.kind == "SIGUSR1 to launcher":
            run.send_launcher(signal.SIGUSR1)
        elif self.kind == "SIGTERM to a rank":
            run.send(signal.SIGTERM, one)
        elif self.kind == "a rank frozen":
            run.send(signal.SIGSTOP if run.several else signal.SIGKILL, one)  # one rank has nobody to watch it

    def _spoil_disk(self, run):
        """Until some saves have failed; then all is well again, or the run is told to stop."""
        checkpoints = self.directory / "checkpoints"
        if self.kind.startswith("read"):
            self.disk.protect(checkpoints)
        else:
            self.disk.leave(self.free * 1.5e6)
        self._await_lines(run, FULL, self.failures)
        self.complete = checks.visible(self.directory)[-3:]
        if self.kind.endswith("while"):
            self.disk.heal(checkpoints)
            self._await_lines(run, SAVED, 1)
        run.send_launcher(signal.SIGUSR1)

    def _await_lines(self, run, pattern, more):
        def count():
            return len(re.findall(pattern, run.text(), re.MULTILINE))
        wanted, squeezed = count() + more, time.monotonic() + 4
        while run.running() and count() < wanted:
            time.sleep(0.005)
            if pattern == FULL and self.kind.startswith("disk") and time.monotonic() > squeezed:
                self.disk.leave(0)  # old checkpoints make room for new ones for ever
                squeezed += 1

    def check_code(self, code, text, problems):
        # Who is killed says nothing: mpirun, told SIGTERM, does that to all a second later.
        if code >= 0 and self.kind != "SIGTERM to launcher":
            checks.check_reason(code, text, problems)
        legal = self._codes()
        if re.search(r"^done: \d+ steps", text, re.MULTILINE) and self._may_finish(text):
            legal.add(0)
        if self.kind in NEED_MOUNTS and f"checkpoint of step {self.last} not saved" in text:
            legal.add(3)  # the save at the end has to succeed
        if self.phase == "set-up":
            legal |= self._codes_of_set_up(text)
        if code not in legal:
            problems.append(f"ended with {code}; {self.kind}: {sorted(legal)} would be legal")

    def _may_finish(self, text):
        """A disk may do well after all; what is sent may come too late, above all what a launcher hands on."""
        handed_on = self.kind.endswith("to launcher") and not checks.is_told_to_stop(text)
        return self.kind in NEED_MOUNTS or handed_on or self.step >= self.last - 3

    def _codes_of_set_up(self, text):
        """A run that cannot write its config refuses to begin. A signal may come before anybody is there to take it."""
        number = {"USR1": signal.SIGUSR1, "TERM": signal.SIGTERM}.get(self.kind[3:7])
        if self.kind in NEED_MOUNTS:
            return {3}
        return {-number, 128 + number} if number and "llama, " not in text else set()

    def _codes(self):
        killed = -signal.SIGKILL
        return {
            "a rank killed": {76, 137, killed},
            "all killed": {killed},
            "launcher killed": {killed},
            "SIGTERM to launcher": {75, 1, 143, -signal.SIGTERM},
            "SIGUSR1 to launcher": {75},
            "SIGTERM to a rank": {75},
            "a rank frozen": {76, killed},
            "disk full": {3, 75},
            "disk full for a while": {75},
            "read-only": {3, 75},
            "read-only for a while": {75},
        }[self.kind]
