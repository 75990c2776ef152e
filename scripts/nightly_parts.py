"""The parts of scripts/nightly, one row each."""
import dataclasses

import quality_runs
import small_runs

TORTURE_SEEDS = (4711, 17, 18, 19)
FUZZ_MINUTES, FUZZ_TOGETHER = 10, 3  # minutes for each target, and targets in one part of guided fuzzing


@dataclasses.dataclass
class Part:
    name: str
    minutes: int  # expected, on two cores; under 50
    what: str
    command: str
    shows: str = r"\S"  # the last line of the output that matches this is the result


BUILD = ("scripts/setup build && cmake --preset release -DFPTRAIN_TESTS=ON && "
         "cmake --build build/release --target fptrain && ")
TESTS = r"tests passed, \d+ tests failed|tests failed out of"

FIXED = [
    Part("meshes", 40, "all tests of meshes, ranks and the planner, those marked [nightly] too",
         "scripts/test --all --label mesh --label ranks --label planner", TESTS),
    Part("checkpoints", 12, "a checkpoint of every mesh loads on every other mesh, in every family",
         "scripts/test --all --label checkpoint", TESTS),
    Part("kernels", 12, "all cases of attention on every backend, CUDA kernels on the CPU, 50 kills of training, "
         "the memory of generation",
         "scripts/test --all --label ops --label cuda_host --label cli --label inference", TESTS),
    Part("instruction-sets", 25, "the CPU kernels of every instruction set under the address sanitizer",
         "scripts/setup build test sanitize && cmake --preset asan -B build/nightly-asan -DFPTRAIN_LAST_ISA=amx "
         "-DFPTRAIN_TESTS=ON && cmake --build build/nightly-asan --target test_ops && "
         "ctest --test-dir build/nightly-asan -L '^ops$' -LE '^nightly$' --output-on-failure -j 2", TESTS),
    Part("includes", 5, "every source compiles by itself, with the headers that it includes", "scripts/check-includes",
         "compile by themselves"),
    Part("memory", 45, "the tests of every folder under the address and undefined-behaviour sanitizers",
         "scripts/test --preset asan --quick", TESTS),
    Part("threads", 45, "the tests of every folder under the thread sanitizer", "scripts/test --preset tsan --quick", TESTS),
    Part("parity", 30, "against transformers, PyTorch and, on 10 MB of text, tokenizer libraries",
         BUILD + "scripts/parity-env && FPTRAIN_PARITY_BYTES=10000000 ctest --test-dir build/release -L '^parity$' --output-on-failure", TESTS),
    Part("vocabularies", 20, "Qwen's and Mistral's published vocabularies on 10 MB of text",
         BUILD + "scripts/parity-env && build/parity-env/bin/pip install --quiet --no-deps --target build/parity-nightly "
         "--upgrade -r tests/parity/requirements-nightly.txt && "
         "PYTHONPATH=$PWD/build/parity-nightly tests/parity/run published_tokenizers", r"^(OK|FAILED)"),
    Part("transformers-5", 20, "Qwen3 against transformers 5, whose PyTorch is newer than Debian's",
         BUILD + "scripts/setup build && python3 -m venv build/parity-newest && build/parity-newest/bin/pip install --quiet "
         "-r tests/parity/requirements-newest.txt && FPTRAIN_PARITY_ENV=build/parity-newest tests/parity/run newest_models",
         r"^(OK|FAILED)"),
    Part("nvcc", 45, "the CUDA backend compiles for every architecture; nothing of it is run",
         "scripts/setup build && cmake --preset release -B build/nightly-cuda -DFPTRAIN_CUDA=ON "
         "-DFPTRAIN_CUDA_ARCHS='80;90;100' -DFPTRAIN_TESTS=OFF && cmake --build build/nightly-cuda --target fptrain", "Linking"),
    Part("docs", 45, "the commands of README and docs/parallelism.md, with all steps of their training",
         BUILD + "for page in README.md docs/parallelism.md; do FPTRAIN=$PWD/build/release/apps/fptrain/fptrain "
         "python3 -B tests/docs/run_blocks.py $page --whole; done", "commands run|FAILED"),
    Part("big-data", 8, "text of some GB is prepared, inspected and trained on in bounded memory",
         BUILD + "scripts/big-data", "bounded"),
]


def parts():
    return FIXED + busy_parts() + torture_parts() + fuzz_parts() + guided_fuzz_parts() + quality_parts()


def busy_parts():
    """All tests, and ten times those that several processes take part in, on a machine that is busy otherwise."""
    def part(name, minutes, what, options):
        tests = f"scripts/test{options}"
        return Part(f"busy-{name}", minutes, what, f"{tests} --build-only && scripts/busy {tests}", TESTS)
    suite = part("suite", 45, "all tests beside two programs that compute and one that writes to the disk", "")
    ten_times = "the tests of {} ten times, beside the same"
    ranks = [part(f"ranks-{i}", 30, ten_times.format("ranks") + f", part {i} of 3", f" --label ranks --part {i}/3 --repeat 10")
             for i in (1, 2, 3)]
    return [suite, *ranks] + [part(folder, minutes, ten_times.format(folder), f" --label {folder} --repeat 10")
                              for folder, minutes in (("launch", 5), ("train", 5))]


def torture_parts():
    return [Part(f"torture-{seed}", 8, f"60 rounds of torture, seed {seed}", f"{BUILD}scripts/torture --kills 60 --seed {seed}",
                 "FAILED|without a fault") for seed in TORTURE_SEEDS]


def fuzz_targets():
    return sorted(f.name[:-len("_fuzz.cpp")] for f in (small_runs.ROOT / "tests/fuzz").glob("*_fuzz.cpp"))


def fuzz_parts():
    return [Part(f"fuzz-{target}", 5 + FUZZ_MINUTES, f"{FUZZ_MINUTES} minutes of broken files under sanitizers: {target}",
                 f"scripts/fuzz {target} --minutes {FUZZ_MINUTES}", "nothing broke: |FAILED:|ERROR") for target in fuzz_targets()]


def guided_fuzz_parts():
    targets = fuzz_targets()
    groups = [targets[i:i + FUZZ_TOGETHER] for i in range(0, len(targets), FUZZ_TOGETHER)]
    return [Part(f"guided-fuzz-{i}", 5 + FUZZ_MINUTES * len(group),
                 f"{FUZZ_MINUTES} minutes each of broken files that reach new code: {', '.join(group)}",
                 f"for target in {' '.join(group)}; do scripts/fuzz $target --guided --minutes {FUZZ_MINUTES}; done",
                 "nothing broke|ERROR") for i, group in enumerate(groups, 1)]


def quality_parts():
    results = quality_runs.SPEC.parent / "results"
    return [Part(f"quality-{name}", 25, f"the loss curve of {name}, seed 1, is the one in docs/quality",
                 f"{BUILD}scripts/quality --check --variants {name} --seeds 1", r"seed \d+: ")
            for name in quality_runs.VARIANTS if (results / f"{name}.seed-1.json").exists()]
