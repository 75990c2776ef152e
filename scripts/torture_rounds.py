"""Rounds of torture: one run, started again and again, and the checks after each round."""
import os
import random
import shutil
import time

import torture_checks as checks
import torture_kinds as kinds
import torture_settings
from torture_run import Disk, Run
from torture_storage import Shim

# Seconds without any sign of life after which a run hangs, and until the last process of one that has ended is gone.
# Both exceed what the watchdog allows, and no round waits for them unless it fails.
HANG, LEFT = 900, 600


class Place:
    """The state that a strike works with."""

    def __init__(self, program, work, steps):
        self.program, self.work, self.steps = program, work, steps
        self.shim = Shim(work)
        self.directory = work / "disk/run"
        self.setting, self.disk = None, None
        self.ranks = 0   # ranks of this round, or of the last
        self.newest = 0  # step of the newest good checkpoint
        self.trusted = None  # the last step whose loss means anything, until steps are made again; None: all

    def arguments(self, settings):
        """Of a start with these settings over the flavour's."""
        result = ["train", self.setting.spec, "--resume", "auto", "--allow-faults",
                  "--set", f"run.directory={self.directory}"]
        for setting in [*self.setting.settings, *settings]:
            result += ["--set", setting]
        return result


class Torture:
    def __init__(self, program, work, steps, seed, mounts, flavours):
        self.place, self.mounts, self.seed = Place(program, work, steps), mounts, seed
        self.flavours = [f for f in torture_settings.FLAVOURS if not flavours or any(w in f.name for w in flavours)]
        self.settings = {}  # by name of their flavour
        self.results = []
        (work / "node").mkdir(exist_ok=True)
        shutil.rmtree(work / "disk", ignore_errors=True)  # of one that was killed

    def begin_life(self, number):
        self.end_life()
        rng, place = random.Random(f"{self.seed}.{number}.flavour"), self.place
        flavour = rng.choices(self.flavours, [f.weight for f in self.flavours])[0]
        if flavour.name not in self.settings:
            self.settings[flavour.name] = torture_settings.Setting(flavour, place.program, place.work, place.steps)
        place.setting, place.newest = self.settings[flavour.name], 0
        place.trusted = None
        place.disk = Disk(place.work / "disk", self.mounts)
        place.disk.protectable(place.directory / "checkpoints")

    def end_life(self):
        place = self.place
        if place.disk:
            place.disk.remove(place.directory / "checkpoints")
            shutil.rmtree(place.work / "disk")
        place.disk = None

    def mesh(self, rng, draw=None):
        """Settings of a random legal mesh; of another number of ranks than the last, where any will do."""
        place, legal = self.place, self.place.setting.legal
        while True:
            ranks, settings = (draw or torture_settings.random_mesh)(rng)
            if ranks == place.ranks and not draw:
                continue
            key = f"{ranks} {' '.join(settings)}"
            if key not in legal:
                given = [a for s in [*place.setting.settings, *settings] for a in ("--set", s)]
                plan = Run(place.program, ["plan", place.setting.spec, "--ranks", ranks, *given], 1, place.work / "plan")
                legal[key] = plan.wait() == 0
            if legal[key]:
                place.ranks = ranks
                return ranks, settings

    def start(self, settings, strike=None):
        place, environment = self.place, {}
        if strike and strike.slow_ms:
            environment["FPTRAIN_FAULT"] = f"kind=slow,ms={strike.slow_ms}"
        environment.update(strike.environment if strike else {})
        return Run(place.program, place.arguments(settings), place.ranks, place.work / "output", environment,
                   strike.last_arguments if strike else ())

    def round(self, number, names):
        """One start and what happens to it: one of the kinds by these names."""
        rng, place = random.Random(f"{self.seed}.{number}"), self.place  # whatever the rounds before have drawn
        if place.disk is None:
            self.begin_life(number)
        kind, strike = kinds.draw(rng, names, place)
        ranks, settings = self.mesh(rng, strike.mesh)
        while strike.SEVERAL and ranks == 1:
            ranks, settings = self.mesh(rng, strike.mesh)
        saving = torture_settings.Saving.draw(rng, place.work / "node")
        settings = [*settings, *saving.settings(), *strike.settings]
        began, problems, before = time.monotonic(), [], checks.visible(place.directory)
        strike.prepare()
        before = [s for s in before if s in strike.visible()]
        run = self.start(settings, strike)
        try:
            phase = strike.happen(run)
            struck = time.monotonic()
            code = run.wait_while_alive(HANG, self.signs_of_life)
            left = [] if code is None else run.outlived_by(LEFT)
            took = time.monotonic() - struck
        finally:
            run.destroy()
            place.disk.heal(place.directory / "checkpoints")
        text, newest = run.text(), place.newest
        if code is None:
            problems.append(f"has not ended, and done nothing for {HANG} s")
        else:
            strike.check_code(code, text, problems)
        if left:
            problems.append(f"processes are there {LEFT} s after the end: {left}")
        resumed = checks.resumed_from(text)
        if resumed != newest and (resumed is not None or phase in ("step", "save") and newest):
            problems.append(f"the newest checkpoint was of step {newest}, the run resumed from {resumed}")
        strike.check_after(text, problems)
        if strike.trusted is not None or checks.made_steps(text):
            place.trusted = strike.trusted
        self.check(before + strike.complete, text, saving, problems)
        self.results.append((kind, phase, strike.slow_ms > 0, code, took))
        print(f"{number}: {kind}{', slow disk' if strike.slow_ms else ''}; {place.setting.name}; {ranks} ranks, "
              f"{' '.join(settings)}; {phase}, step {checks.last_step(place.directory)}, newest checkpoint {place.newest}, "
              f"code {code}, {took:.1f} of {time.monotonic() - began:.1f} s", flush=True)
        self.fail_if(problems, text, settings)
        if place.newest > place.steps - 8:
            self.complete(number)

    def complete(self, number):
        """Lets the run continue to its end, undisturbed."""
        place, rng = self.place, random.Random(f"{self.seed}.{number}.end")
        ranks, settings = self.mesh(rng)
        run = self.start(settings)
        try:
            code = run.wait_while_alive(HANG, self.signs_of_life)
        finally:
            run.destroy()
        problems = [] if code == 0 else [f"undisturbed, it ended with {code}"]
        place.trusted = None
        self.check([], run.text(), torture_settings.Saving(0, True, 3, 0, 0, ""), problems)
        if place.newest != place.steps:
            problems.append(f"the last checkpoint is of step {place.newest}")
        left = [n for n in os.listdir(place.directory) if ".tmp." in n] + checks.hidden(place.directory)
        if left:
            problems.append(f"left over: {left}")
        print(f"{number}: undisturbed to the end; {place.setting.name}; {ranks} ranks, {' '.join(settings)}; code {code}",
              flush=True)
        self.fail_if(problems, run.text(), settings)
        self.end_life()

    def signs_of_life(self):
        """Returns signs of progress, which change as long as a run makes progress, however slow the machine is."""
        directory = self.place.directory
        return checks.last_step(directory), checks.visible(directory), checks.hidden(directory)

    def check(self, complete, text, saving, problems):
        """What must hold of the run directory, `complete` and what `text` calls saved being complete."""
        place = self.place
        place.newest = checks.check_checkpoints(place.program, place.directory, complete, checks.saves(text), saving,
                                                problems)
        checks.check_history(place.directory, place.setting, place.newest, place.trusted, problems)

    def fail_if(self, problems, text, settings):
        if not problems:
            return
        place = self.place
        kept = place.work / "failed"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(place.directory, kept, symlinks=True)
        print(text[-6000:])
        print("FAILED:\n  " + "\n  ".join(problems))
        given = " ".join(f"--set '{s}'" for s in [*place.setting.settings, *settings])
        print(f"The run directory is kept: {kept}; its last output: {place.work / 'output'}\n"
              f"  {place.program} checkpoint list {kept}\n  {place.program} checkpoint verify {kept}\n"
              f"  {place.program} train {place.setting.spec} --set run.directory={kept} {given}")
        raise SystemExit(1)


def table(results):
    heads = ["what happened", "rounds", "in set-up", "in a step", "in a save", "slow disk", "exit codes",
             "longest until the end, s"]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for kind in kinds.WEIGHTS:
        rows = [r for r in results if r[0] == kind]
        if not rows:
            continue
        count = [sum(r[1] == phase for r in rows) for phase in ("set-up", "step", "save")]
        codes = ", ".join(str(c) for c in sorted({r[3] for r in rows}, key=lambda c: (c is None, c)))
        lines.append(f"| {kind} | {len(rows)} | {' | '.join(map(str, count))} | {sum(r[2] for r in rows)} | {codes} | "
                     f"{max(r[4] for r in rows):.1f} |")
    return "\n".join(lines)
