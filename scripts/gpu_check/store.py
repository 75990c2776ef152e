"""Finished results, kept in the output folder: a script that is started again continues after them."""
import dataclasses
import hashlib
import json
import os
import threading

from .common import Done, Result, file_name

KEPT = 400_000  # characters of a step's output


def fingerprint(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()[:16]


class OtherResults(Exception):
    """The folder holds results of another device, build or selection of tests."""


class Store:
    """`facts`: what must be the same for results to be comparable."""

    def __init__(self, folder, facts, fresh=False):
        self.folder, self.file = folder, os.path.join(folder, "results.json")
        self.lock = threading.Lock()
        self.data = {"facts": facts, "steps": {}, "parts": {}}
        if not fresh and os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as f:
                self.data = json.load(f)
            old = self.data["facts"]
            other = [f"{k} {old.get(k)!r}, now {v!r}" for k, v in facts.items() if old.get(k) != v]
            if other:
                raise OtherResults(f"{self.file} is of another run: {'; '.join(other)}")
        os.makedirs(os.path.join(folder, "logs"), exist_ok=True)

    @staticmethod
    def key(section, step):
        return step.name if step.makes else f"{section}: {step.name}"

    def known(self, section, step):
        """Returns the result of an earlier run; None when the step has to run because its result or its output is missing."""
        entry = self.data["steps"].get(self.key(section, step))
        if entry is None or (step.makes and entry["code"] == 0 and not os.path.exists(step.makes)):
            return None
        return Done(step, entry["code"], entry["out"], entry["err"], entry["seconds"])

    def add(self, section, done):
        if done.code not in (0, 4):
            log = os.path.join(self.folder, "logs", file_name(f"{section} {done.step.name}") + ".txt")
            with open(log, "w", encoding="utf-8") as f:
                f.write(f"{done.step.argv}\n{done.last_words()}\n\n{done.out}\n{done.err}\n")
        if not done.finished:
            return
        with self.lock:
            self.data["steps"][self.key(section, done.step)] = {"code": done.code, "seconds": round(done.seconds, 2), "out": done.out[-KEPT:],
                                                                "err": done.err[-KEPT:]}
            self.save()

    def finish(self, part, results, seconds):
        """Keeps a part's results; those of an earlier run of it are replaced."""
        before = self.data["parts"].get(part, {"seconds": 0})
        with self.lock:
            self.data["parts"][part] = {"seconds": round(before["seconds"] + seconds, 1), "results": [dataclasses.asdict(r) for r in results]}
            self.save()

    def results(self):
        """Returns the results of all parts, also those of earlier runs."""
        return [Result(**r) for part in self.data["parts"].values() for r in part["results"]]

    def save(self):
        part = self.file + ".part"
        with open(part, "w", encoding="utf-8") as f:
            json.dump(self.data, f, indent=1)
        os.replace(part, self.file)
