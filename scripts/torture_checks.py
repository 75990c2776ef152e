"""Checks of a run directory that must hold whatever happened to the run: no completed work lost, nothing left over."""
import json
import os
import re
import subprocess


def visible(directory):
    """Steps of the checkpoints that can be seen; saves and deletions in progress have hidden names."""
    try:
        names = os.listdir(directory / "checkpoints")
    except FileNotFoundError:
        return []
    return sorted(int(n[5:]) for n in names if re.fullmatch(r"step-\d+", n))


def hidden(directory):
    try:
        return sorted(n for n in os.listdir(directory / "checkpoints") if n.startswith("."))
    except FileNotFoundError:
        return []


def saves(text):
    return [int(step) for step in re.findall(r"^saved .*/step-(\d+)\b", text, re.MULTILINE)]


def resumed_from(text):
    """The step; None where the run did not come to say."""
    found = re.search(r"resumed from .*/step-(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else None


def made_steps(text):
    return re.search(r"^step \d+/", text, re.MULTILINE) is not None


def history(directory, problems):
    """Losses by step. A last line may be cut off, nothing else."""
    losses = {}
    try:
        lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        return losses
    for i, line in enumerate(lines[:-1]):
        try:
            entry = json.loads(line)
        except ValueError:
            problems.append(f"metrics.jsonl, line {i + 1}: {line!r}")
            continue
        if entry["step"] in losses:
            problems.append(f"metrics.jsonl has step {entry['step']} twice")
        losses[entry["step"]] = entry["loss"]
    return losses


def last_step(directory):
    return max(history(directory, []), default=0)


def check_history(directory, setting, newest, trusted, problems):
    """Losses up to step `trusted` (None: all) are those of the setting's run that nobody interrupted."""
    losses = history(directory, problems)
    if sorted(losses) != list(range(1, len(losses) + 1)):
        problems.append(f"metrics.jsonl has the steps {sorted(losses)}")
    if len(losses) < newest:
        problems.append(f"metrics.jsonl ends with step {len(losses)}, the newest checkpoint is of step {newest}")
    for step, loss in losses.items():
        expected = setting.reference[step]
        if trusted is not None and step > trusted:
            break
        if loss is None or abs(loss - expected) > setting.tolerance * expected:
            problems.append(f"step {step}: loss {loss}, of one rank that nobody interrupted {expected}")
            break


def lost(complete, now, saving):
    """Those of the steps of complete checkpoints which the run had to keep, and which are not there now."""
    known = sorted({*complete, *now}, reverse=True)
    kept = {*known[:saving.keep_last], *(s for s in known if saving.keep_every and s % saving.keep_every == 0)}
    return sorted(s for s in kept & set(complete) if s not in now)


def check_checkpoints(program, directory, complete, saved, saving, problems):
    """`complete`: those that were complete before it happened. `saved`: what the run said it has saved. Steps. The
    newest step now."""
    now = visible(directory)
    if gone := lost([*complete, *saved], now, saving):
        problems.append(f"complete were {sorted(complete)}, saved {saved}; now there are {now}: lost {gone}")
    if not now:
        return 0
    done = subprocess.run([program, "checkpoint", "verify", directory], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        problems.append(f"checkpoint verify ended with {done.returncode}:\n{done.stdout}")
    return now[-1]


def is_told_to_stop(text):
    return re.search(r"SIG\w+ received|stopped with nothing to save", text) is not None


def check_reason(code, text, problems):
    """A failed run reports why: by fptrain's message or, before ranks are connected, the launcher's."""
    stopped = is_told_to_stop(text)
    ours = stopped or re.search(r"error: \S", text)
    launchers = re.search(r"exited on signal \d+|process returned\s+a non-zero exit code", text)
    if code != 0 and code != 75 and not ours and not launchers:
        problems.append(f"ended with {code} and gave no reason")
    if code == 75 and not stopped:
        problems.append("ended with 75 and did not say that it was told to")
