"""Strikes at the storage of a run: calls that fail for a while, and a power failure that loses unsynced data."""
import errno
import os
import pathlib
import shutil
import signal
import subprocess

import torture_checks as checks
from torture_faults import Told
from torture_strike import KILLED, Strike

# Not synced before a checkpoint becomes visible: with the power its last lines may be lost (docs/no-lost-work.md).
SPARED = {"metrics.jsonl"}
SOURCE = pathlib.Path(__file__).resolve().parent / "torture_shim.c"


class Shim:
    """torture_shim.c, compiled when it is first needed."""

    def __init__(self, work):
        self.work, self.library = work, work / "torture_shim.so"

    def environment(self, **variables):
        if not self.library.exists():
            subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, SOURCE, "-ldl"], check=True)
        return {"LD_PRELOAD": str(self.library), "TORTURE_FOLDER": str(self.work), **variables}


class FailingCalls(Told):
    """Some calls of each rank fail, as on a network file system whose server restarts; then all is well."""

    READS = [("open", "manifest.json"), ("open", "rank-"), ("read", "rank-"), ("open", "/train-"), ("read", "/train-"),
             ("open", "metrics.jsonl")]
    WRITES = [("open", "/.tmp-"), ("write", "/.tmp-"), ("sync", "/.tmp-"), ("sync", "/checkpoints"),
              ("write", "metrics.jsonl"), ("write", "config.yaml")]
    KINDS = {"reads fail for a while": 1.5, "writes fail for a while": 1}

    def __init__(self, kind, rng, place):
        super().__init__(kind, rng, place)
        call, part = rng.choice(self.READS if kind.startswith("reads") else self.WRITES)
        error = rng.choice([errno.EIO, errno.ESTALE] + ([errno.EDQUOT] if kind.startswith("writes") else []))
        self.said = f"{call} of *{part}*: {errno.errorcode[error]}"
        self.failing = f"{call} {error} {rng.choice([0, 0, rng.randint(1, 30)])} {rng.randint(1, 3)} {part}"

    def prepare(self):
        self.environment = self.place.shim.environment(TORTURE_FAIL=self.failing)
        print(f"  ({self.said}, {self.failing.split()[3]} times)")

    def codes(self):
        return {75, 76}

    def codes_of_text(self, text):
        """A save has to succeed at the end and on a signal. A full disk in set-up is not the file system's fault."""
        full = os.strerror(errno.EDQUOT) in text and not checks.made_steps(text)
        return {3} if full or " not saved (" in text else set()


class PowerLost(Strike):
    """All processes are killed, and some of the data that they wrote and did not sync is lost."""

    KINDS = {"power lost": 2}

    def prepare(self):
        self.journal = self.place.work / "journal"
        self.journal.unlink(missing_ok=True)
        self.environment = self.place.shim.environment(TORTURE_JOURNAL=str(self.journal))

    def strike(self, run):
        self.complete = []  # what is visible may not be durable yet; what was before, and what is called saved, is
        run.send(signal.SIGKILL, run.processes())

    def codes(self):
        return {KILLED}

    def check_after(self, text, problems):
        if self.journal.exists():
            taken = lose(self.journal.read_text(encoding="utf-8"), self.rng)
            print(f"  ({len(taken)} changes lost{': ' + '; '.join(taken[-3:]) if taken else ''})")


class Remains:
    """The changes in a journal that are not yet durable."""

    def __init__(self):
        self.unsynced = {}  # of a file: the bytes of it that are durable
        self.pending = {}   # of a folder: changes to its entries, oldest first

    def add(self, what, path, other, number):
        folder = os.path.dirname(path)
        if what == "W":
            self.unsynced.setdefault(path, number)
        elif what == "S":
            self.unsynced.pop(path, None)
        elif what == "D":
            self.pending.pop(path, None)
        elif what == "R":
            if not number:  # of one that replaced another file the old content is not known
                self.pending.setdefault(folder, []).append((what, path, other))
            self.move(path, other)
        elif what == "U":
            self.unsynced.pop(path, None)
            self.pending.pop(path, None)
            # A file that was created and removed again leaves nothing to undo.
            entries = self.pending.get(folder, [])
            entries[:] = [e for e in entries if e[1] != path]
        else:
            self.pending.setdefault(folder, []).append((what, path, other))

    def move(self, path, other):
        """Moves the state of a renamed file or folder to its new name."""
        def named(name):
            return other + name[len(path):] if name == path or name.startswith(path + "/") else name
        self.unsynced = {named(name): size for name, size in self.unsynced.items()}
        self.pending = {named(folder): [(w, a, b) if folder == os.path.dirname(path) else (w, named(a), named(b))
                                        for w, a, b in entries] for folder, entries in self.pending.items()}


def lose(journal, rng):
    """Takes back some of what a journal of torture_shim.c shows as not synced; says what. Changes to the entries of a
    folder are lost from some moment on, what was written to a file from its last sync on. A rename that
    replaced a file stays."""
    remains, taken = Remains(), []
    for line in journal.splitlines():
        what, path, other, number = line.split("\t")
        remains.add(what, path, other, int(number))
    for path, durable in remains.unsynced.items():
        if os.path.basename(path) in SPARED:
            continue
        if os.path.isfile(path) and rng.random() < 0.8 and os.path.getsize(path) >= durable:
            os.truncate(path, rng.randint(durable, os.path.getsize(path)) if rng.random() < 0.3 else durable)
            taken.append(f"written to {path} after byte {durable}")
    for entries in remains.pending.values():
        for what, path, other in reversed(entries[rng.randint(0, len(entries)):]):
            taken.append(f"{what} {path} {other}".rstrip())
            if what == "R" and os.path.exists(other) and not os.path.exists(path):
                os.rename(other, path)
            elif what == "M":
                shutil.rmtree(path, ignore_errors=True)
            elif what == "C" and os.path.exists(path):
                os.unlink(path)
    return taken


CLASSES = [FailingCalls, PowerLost]
