"""Something that happens to a run at a random moment: the moment, signals and disks, and how the run may then end."""
import re
import signal
import time

import torture_checks as checks

IMPATIENT = ["watchdog.heartbeat_s=0.5", "watchdog.setup_s=30", "watchdog.step_s=15", "watchdog.evaluation_s=15",
             "watchdog.save_s=20", "watchdog.farewell_s=15"]
FULL = r"not saved \(earlier ones are intact\)"
SAVED = r"^saved "
POLL = 0.0005
KILLED = -signal.SIGKILL


class Strike:
    """All that is random is drawn at once. Classes that derive from this one say what happens.

    `place`: what a round works with (torture_rounds.Place). Attributes that the round reads: `settings`, `environment`,
    `slow_ms`, `last_arguments`; after happen() `complete`, steps of checkpoints that were complete then; after
    everything `trusted`, the last step whose loss means anything."""

    KINDS = {}        # names by weight
    SEVERAL = False   # needs more than one rank
    MOUNTS = False    # needs disks of its own
    mesh = None       # of a kind that needs its own: like torture_settings.random_mesh

    def __init__(self, kind, rng, place):
        self.kind, self.rng, self.place = kind, rng, place
        self.directory, self.newest, self.last = place.directory, place.newest, place.steps
        self.settings, self.environment, self.last_arguments = [], {}, []
        self.slow_ms = rng.choice([2, 5, 15]) if rng.random() < 0.35 else 0
        self.moment = rng.choices(["any time", "a step", "a save"], (2, 2, 5))[0]
        self.steps, self.delay, self.who = rng.randint(1, 6), rng.random(), rng.random()
        self.complete, self.trusted, self.phase = [], None, "set-up"

    def prepare(self):
        """Before the run starts."""

    def strike(self, run):
        """At the moment."""
        raise NotImplementedError

    def codes(self):
        """Those that the run may end with when it has begun to train."""
        raise NotImplementedError

    def check_after(self, text, problems):
        """What only this kind of round has to hold; mends what the strike has left."""

    def happen(self, run):
        """Waits for the moment and does it; returns what the run was doing."""
        self.await_moment(run)
        self.complete = self.visible()
        self.phase = self.phase_of(run)
        self.strike(run)
        self.step = checks.last_step(self.directory)  # at least the step in which it happened
        return self.phase

    def visible(self):
        return checks.visible(self.directory)

    def phase_of(self, run):
        if not run.running():
            return "done"
        if not self.at_step(run):
            return "set-up"
        return "save" if self.saving() else "step"

    def saving(self):  # only after set-up, which removes what an earlier run left
        return any(n.startswith(".tmp-") for n in checks.hidden(self.directory))

    def at_step(self, run):
        return checks.last_step(self.directory) if checks.made_steps(run.text()) else 0

    def await_moment(self, run):
        if self.moment == "any time":
            run.wait(3 * self.delay)
            # mpirun ignores signals that are sent before there are ranks.
            while run.running() and not run.ranks() and self.kind not in ("all killed", "launcher killed"):
                time.sleep(0.005)
            return
        while run.running() and self.at_step(run) < self.newest + self.steps:
            time.sleep(0.005)
        while self.moment == "a save" and run.running() and not self.saving():
            time.sleep(POLL)
        # A save of these models takes about 20 ms and 80 changes to the disk.
        run.wait(self.delay * (0.02 + 0.08 * self.slow_ms if self.moment == "a save" else 0.3))

    def one(self, run):
        ranks = run.ranks()
        return ranks[int(self.who * len(ranks)):][:1]

    def await_lines(self, run, pattern, more, meanwhile=lambda: None):
        def count():
            return len(re.findall(pattern, run.text(), re.MULTILINE))
        wanted = count() + more
        while run.running() and count() < wanted:
            time.sleep(0.005)
            meanwhile()

    def check_code(self, code, text, problems):
        # A killed rank reports nothing: mpirun, on SIGTERM, kills all ranks a second later.
        if code >= 0 and self.kind != "SIGTERM to launcher":
            checks.check_reason(code, text, problems)
        legal = set(self.codes())
        if re.search(r"^done: \d+ steps", text, re.MULTILINE) and self.may_finish(text):
            legal.add(0)
        if self.phase == "set-up":
            legal |= self.codes_of_set_up(text)
        legal |= self.codes_of_text(text)
        # mpirun's own last message; the exit codes of the ranks are above it.
        if re.search(r"Signal: Segmentation fault.*PMIx_server_finalize.*\bmpirun\(", text, re.DOTALL):
            legal.add(-signal.SIGSEGV)
        if code not in legal:
            problems.append(f"ended with {code}; {self.kind}: {sorted(legal)} would be legal")

    def may_finish(self, text):
        """A signal may arrive too late, above all one that a launcher forwards."""
        return not checks.is_told_to_stop(text) or self.step >= self.last - 3

    def codes_of_set_up(self, text):
        """A signal may arrive before any process handles it."""
        return {-signal.SIGUSR1, 128 + signal.SIGUSR1} if "llama, " not in text else set()

    def codes_of_text(self, text):
        return set()


class Signalled(Strike):
    """A signal to a rank, to all or to the launcher. "launcher" is mpirun; of one rank, which has none, the rank."""

    KINDS = {"a rank killed": 5, "all killed": 3, "launcher killed": 2, "SIGTERM to launcher": 2,
             "SIGUSR1 to launcher": 2, "SIGTERM to a rank": 3, "a rank frozen": 1}

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        # Only the watchdog can end what a frozen rank leaves. On a busy machine so short a one may also end a run that
        # is well, which is legal in these rounds; in the others it has so long that it speaks of faults only.
        if kind == "a rank frozen":
            self.settings += IMPATIENT

    def strike(self, run):
        one = self.one(run)
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
            run.send(signal.SIGSTOP if run.several else signal.SIGKILL, one)  # a single rank has no watchdog

    def may_finish(self, text):
        handed_on = self.kind.endswith("to launcher") and not checks.is_told_to_stop(text)
        return handed_on or self.step >= self.last - 3

    def codes_of_set_up(self, text):
        number = {"USR1": signal.SIGUSR1, "TERM": signal.SIGTERM}.get(self.kind[3:7])
        return {-number, 128 + number} if number and "llama, " not in text else set()

    def codes(self):
        return {
            "a rank killed": {76, 137, KILLED},
            "all killed": {KILLED},
            "launcher killed": {KILLED},
            "SIGTERM to launcher": {75, 1, 143, -signal.SIGTERM},
            "SIGUSR1 to launcher": {75},
            "SIGTERM to a rank": {75},
            "a rank frozen": {76, KILLED},
        }[self.kind]


class SpoiltDisk(Strike):
    """A disk that is full or read-only until some saves have failed; then it is well, or the run is told to stop."""

    KINDS = {"disk full": 2, "disk full for a while": 2, "read-only": 2, "read-only for a while": 2}
    MOUNTS = True

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        self.free, self.failures = rng.random(), rng.randint(1, 2)

    def strike(self, run):
        disk, checkpoints = self.place.disk, self.directory / "checkpoints"
        if self.kind.startswith("read"):
            disk.protect(checkpoints)
        else:
            disk.leave(self.free * 1.5e6)
        self.await_lines(run, FULL, self.failures, self.squeeze())
        self.complete = self.visible()
        if self.kind.endswith("while"):
            disk.heal(checkpoints)
            self.await_lines(run, SAVED, 1)
        run.send_launcher(signal.SIGUSR1)

    def squeeze(self):
        """Makes the disk smaller every second after four: old checkpoints would make space for new ones for ever."""
        squeezed = time.monotonic() + 4

        def again():
            nonlocal squeezed
            if self.kind.startswith("disk") and time.monotonic() > squeezed:
                self.place.disk.leave(0)
                squeezed += 1
        return again

    def codes(self):
        return {75} if self.kind.endswith("while") else {3, 75}

    def may_finish(self, text):
        return True

    def codes_of_set_up(self, text):
        return {3}  # a run that cannot write its config refuses to start

    def codes_of_text(self, text):
        return {3} if f"checkpoint of step {self.last} not saved" in text else set()  # the one at the end has to succeed
