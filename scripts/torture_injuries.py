"""Damage that happens to the newest checkpoint while nobody trains."""
import ctypes
import json
import re
import shutil
import struct

import torture_checks as checks
from torture_faults import Told


class Injured(Told):
    """The run continues from the previous checkpoint, or refuses to: where there is none, or the newest is of a later
    version. What was damaged is put back or, once something newer has been saved, removed."""

    KINDS = {"newest checkpoint: a bit flipped": 1, "newest checkpoint: cut off": 1, "newest checkpoint: resealed": 1,
             "newest checkpoint: of a later version": 1}

    def prepare(self):
        self.damaged, self.refused = None, None
        steps = checks.visible(self.directory)
        if not steps:
            return
        self.folder = self.directory / f"checkpoints/step-{steps[-1]:08d}"
        self.kept = self.place.work / "kept"
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.folder, self.kept)
        self.damaged = self.folder.stat().st_ino
        if self.kind.endswith("later version"):
            self.change_version()
            self.refused = 2
        else:
            self.damage()
            self.refused = 3 if len(steps) == 1 else None
            self.newest = self.place.newest = steps[-2] if len(steps) > 1 else 0

    def change_version(self):
        manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        manifest["version"] += 1
        seal(self.folder, manifest)

    def damage(self):
        file = self.rng.choice(sorted(self.folder.glob("rank-*.h5")))
        content = bytearray(file.read_bytes())
        if self.kind.endswith("cut off"):
            del content[self.rng.randrange(len(content)):]
        else:
            content[some_weight(content, self.rng) + 3] ^= 1 << self.rng.randrange(8)
        file.write_bytes(content)
        if self.kind.endswith("resealed"):
            reseal(self.folder)

    def visible(self):
        """Without the damaged one."""
        steps = super().visible()
        return [s for s in steps if not self.is_damaged(self.directory / f"checkpoints/step-{s:08d}")]

    def is_damaged(self, folder):
        try:
            return folder.stat().st_ino == self.damaged
        except FileNotFoundError:
            return False

    def happen(self, run):
        if self.refused is None:
            return super().happen(run)
        self.complete, self.step = self.visible(), 0
        return "set-up"

    def codes(self):
        return {75} if self.refused is None else {self.refused}

    def codes_of_set_up(self, text):
        return super().codes_of_set_up(text) if self.refused is None else set()

    def check_after(self, text, problems):
        if self.damaged is None:
            return
        if self.folder.name not in text and self.phase != "set-up":
            problems.append(f"{self.folder.name} was damaged, which no message says")
        folders = sorted((self.directory / "checkpoints").iterdir())
        for folder in folders:
            if self.is_damaged(folder) or re.search(r"\.(aside|damaged|broken)-\d+$", folder.name):
                shutil.rmtree(folder)
        if self.refused is not None:
            shutil.copytree(self.kept, self.folder)
            self.complete.append(int(self.folder.name[5:]))


def some_weight(content, rng):
    """Returns the offset of a tensor element: the first of eight consecutive floats that look like trained values."""
    for _ in range(100000):
        at = 4 * rng.randrange(len(content) // 4 - 8)
        values = struct.unpack_from("<8f", content, at)
        if all(1e-9 < abs(v) < 8 for v in values):
            return at
    raise ValueError("found no tensor in a file of a checkpoint")


class Hash(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def hash_of(content):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found = library.XXH3_128bits(bytes(content), len(content))
    return f"{found.high:016x}{found.low:016x}"


def seal(folder, manifest):
    """Writes it with its own hash, which is that of all before the last line."""
    manifest.pop("xxh3", None)
    text = json.dumps(manifest, indent=2, ensure_ascii=False)[:-2] + ",\n"
    (folder / "manifest.json").write_text(f'{text}  "xxh3": "{hash_of(text.encode())}"\n}}\n', encoding="utf-8")


def reseal(folder):
    """Updates the hashes of a checkpoint to match its files."""
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    for file in manifest["files"]:
        content = (folder / file["name"]).read_bytes()
        file["bytes"], file["xxh3"] = len(content), hash_of(content)
    seal(folder, manifest)


CLASSES = [Injured]
