"""The kinds of strikes, by name."""
import torture_faults
import torture_injuries
import torture_storage
import torture_strike

CLASSES = [torture_strike.Signalled, torture_strike.SpoiltDisk, *torture_faults.CLASSES, *torture_injuries.CLASSES,
           *torture_storage.CLASSES]
CLASS_OF = {kind: c for c in CLASSES for kind in c.KINDS}
WEIGHTS = {kind: weight for c in CLASSES for kind, weight in c.KINDS.items()}


def chosen(words, mounts):
    """Names of those with one of these words, or of all."""
    return [kind for kind, c in CLASS_OF.items() if (mounts or not c.MOUNTS) and
            (not words or any(word in kind for word in words))]


def draw(rng, names, place):
    kind = rng.choices(names, [WEIGHTS[name] for name in names])[0]
    return kind, CLASS_OF[kind](kind, rng, place)
