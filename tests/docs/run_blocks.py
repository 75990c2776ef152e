"""Runs the shell blocks of a page as they stand, one command after the other, in a folder with what a reader has by then.

  run_blocks.py PAGE [--whole]   PAGE: README.md or another page with blocks of commands, from the repository's root
  run_blocks.py --pages          checks that tests/docs/CMakeLists.txt lists every page with such blocks

Training is shortened to three steps unless --whole is given. Commands that cannot or need not run here are in `SKIPPED`, those
that take minutes in `LONG` (--whole runs them too); the output says which they were and why. $FPTRAIN is the program.
"""
import argparse
import os
import pathlib
import random
import re
import stat
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STAGE = "CI runs it as a stage of its own"
SKIPPED = [
    (r"^\./scripts/quickstart|^\.ci/run", "CI and scripts/bundle-check run it"),
    (r"^scripts/quickstart |^bin/|^cd fptrain-|^tar ", "needs an unpacked bundle; scripts/bundle-check runs it"),
    (r"^cmake ", "scripts/setup and scripts/test build"),
    (r"scripts/(test|format|tidy|setup|parity-env|test-slurm|bundle|bundle-check)\b", STAGE),
    (r"^\./scripts/fuzz|^scripts/torture|^\./scripts/quality --(variants|steps|report)", "a part of scripts/nightly"),
    (r"scripts/gpu-check", "needs an NVIDIA GPU"),
    (r"^mpirun --hostfile|^srun ", "needs several nodes; scripts/test-slurm starts such jobs"),
    (r"FPTRAIN_FAULT", "fails on purpose; tests/ranks injects such faults"),
    (r"^python3 -m venv|^\. ~/cuda|^pip ", "installs packages from the network"),
    (r"^chrt ", "needs a permission for real-time priorities; without it `bench schedule` is a test of tests/cli"),
]
LONG = [
    (r"bench all --write-cluster", "measures for some minutes"),
]
# Commands that a page shows to be refused, with their exit codes.
REFUSED = [(r"--resume none", 2)]
# Sections that another test runs, with their first heading.
SECTIONS = {("README.md", "## Bring your own model and data"): "tests/parity/test_readme.py runs it on tiny models"}
SHORTER = ["train.steps=3", "schedule.warmup_steps=0", "eval.samples=8"]


def blocks(page):
    """(heading, [command, ...]) of each block of commands."""
    heading, found, inside = "", [], None
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        text = line.strip()
        if inside is None and line.startswith("#"):
            heading = line
        elif inside is None and text == "```sh":
            inside = []
        elif inside is not None and text == "```":
            found.append((heading, inside))
            inside = None
        elif inside is not None and text and not text.startswith("#"):
            inside.append(re.sub(r"\s+#\s.*$", "", text))
    return found


def reason_for(page, heading, command, whole):
    """Why a command is not run; None: it is."""
    section = SECTIONS.get((page, heading))
    if section:
        return section
    for pattern, reason in SKIPPED + ([] if whole else LONG):
        if re.search(pattern, command):
            return reason
    return None


def write_program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def write_books(folder):
    """A megabyte of text of some thousand different words, in sixteen files."""
    rng = random.Random(7)
    syllables = [c + v for c in "bdfghklmnprstw" for v in "aeiou"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(12000)]
    folder.mkdir()
    for i in range(16):
        sentences = (" ".join(rng.choices(words, k=12)).capitalize() + "." for _ in range(900))
        (folder / f"{i}.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")


def furnish(folder, page, whole):
    """Makes a folder like the repository's root after the quick start, with fptrain, books and run specs."""
    program = os.environ["FPTRAIN"]
    shorter = "" if whole else " ".join(f"--set {s}" for s in SHORTER)
    wrapper = f'#!/bin/sh\nif [ "$1" = train ]; then exec {program} "$@" {shorter}; fi\nexec {program} "$@"\n'
    write_program(folder / "build/quickstart/apps/fptrain/fptrain", wrapper)
    write_program(folder / "bin/fptrain", wrapper)
    write_program(folder / "bin/sbatch", "#!/bin/sh\necho 4711\n")
    for name in ("configs", "scripts", "docs"):
        (folder / name).symlink_to(ROOT / name)
    write_books(folder / "books")
    spec = re.search(r"^```yaml\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.M | re.S).group(1)
    elsewhere = spec.replace("data/local/books", "runs/quickstart/data")  # README prepares its data itself
    (folder / "my-run.yaml").write_text(spec if page == "README.md" else elsewhere, encoding="utf-8")
    many = elsewhere.replace("global_batch: 16", "global_batch: 32, micro_batch: 1") + "parallel: {data: 0}\n"
    (folder / "run.yaml").write_text(many, encoding="utf-8")
    made = subprocess.run([program, "data", "prepare", "--tokenizer", "bytes", "--documents", "line", "--out", "runs/quickstart/data",
                           "books/0.txt"], cwd=folder, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode != 0:
        sys.exit(made.stdout.decode(errors="replace"))


def environment(folder):
    env = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}", HOME=str(folder))
    env |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_plm": "^rsh", "OMPI_MCA_btl": "self,vader,tcp",
            "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    return env


def run_page(page, whole):
    script, counts = ["shopt -s expand_aliases"], {}
    for heading, commands in blocks(page):
        for command in commands:
            reason = reason_for(page, heading, command, whole)
            counts[reason] = counts.get(reason, 0) + 1
            if reason:
                print(f"not run: {command}\n         {reason}")
            else:
                quoted = "'" + command.replace("'", "'\\''") + "'"
                code = next((code for pattern, code in REFUSED if re.search(pattern, command)), 0)
                script += [f"printf 'run: %s\\n' {quoted}; code=0", f"eval {quoted} || code=$?",
                           f'[ $code -eq {code} ] || {{ echo "FAILED with $code, not {code}: "{quoted}; exit 1; }}']
    print(flush=True)
    with tempfile.TemporaryDirectory(prefix="fptrain-docs-") as name:
        folder = pathlib.Path(name)
        furnish(folder, page, whole)
        done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=environment(folder), check=False,
                              stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    print(f"{page}: {counts.get(None, 0)} commands run, {sum(n for r, n in counts.items() if r)} not")
    return done.returncode


def check_pages():
    listed = set((pathlib.Path(__file__).parent / "CMakeLists.txt").read_text(encoding="utf-8").replace(")", " ").split())
    pages = [p for p in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + [
        str(p.relative_to(ROOT)) for p in sorted((ROOT / "docs").rglob("*.md"))]
    missing = [p for p in pages if blocks(p) and p[:-3] not in listed]
    if missing:
        print(f"tests/docs/CMakeLists.txt does not list {', '.join(missing)}")
    return 1 if missing else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?")
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--pages", action="store_true")
    arguments = parser.parse_args()
    sys.exit(check_pages() if arguments.pages else run_page(arguments.page, arguments.whole))


if __name__ == "__main__":
    main()
