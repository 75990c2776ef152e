"""Small training runs for memory-table, plan-accuracy and quality, and functions by which scripts start fptrain."""
import os
import pathlib
import re
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build/release/apps/fptrain/fptrain"

SIZE = "layers=8 hidden=512 heads=8 vocab=8192 max_position=256"
WIDE = "layers=8 hidden=1024 heads=16 vocab=8192 max_position=256"
FAMILIES = {
    "gpt": "family=gpt",
    "llama": "family=llama kv_heads=4 ffn=1536",
    "phi3": "family=phi3 kv_heads=4 ffn=1536 sliding_window=96",
    "phi3small": "family=phi3small kv_heads=4 ffn=1536 blocksparse.block=16 blocksparse.local_blocks=2 "
                 "blocksparse.vertical_stride=3",
    "qwen2": "family=qwen2 kv_heads=4 ffn=1536",
    "mistral": "family=mistral kv_heads=4 ffn=1536 sliding_window=96",
    "qwen3": "family=qwen3 kv_heads=4 ffn=1536",
}
SHORT = {"tp": "parallel.tensor", "sp": "parallel.sequence", "dp": "parallel.data", "pp": "parallel.pipeline.ranks",
         "zero": "parallel.zero_stage", "megatron": "parallel.megatron_sp", "schedule": "parallel.pipeline.schedule",
         "chunks": "parallel.pipeline.chunks", "w_pass": "parallel.pipeline.w_pass",
         "stage_recompute": "parallel.pipeline.recompute", "recompute": "memory.recompute",
         "loss_chunk": "memory.loss_chunk_tokens", "compute": "precision.compute",
         "gradients": "precision.gradients", "micro": "train.micro_batch", "global": "train.global_batch",
         "seq": "data.seq_len"}


def settings(run):
    """Returns the keys of a run such as "llama tp=2 wide", and its number of ranks."""
    family, *words = run.split()
    model = (WIDE if "wide" in words else SIZE) + " " + FAMILIES[family]
    given = dict(w.split("=", 1) for w in words if w != "wide")
    keys = {f"model.{k}": v for k, v in (w.split("=") for w in model.split())}
    keys.update({"model.head_dim": "64", "precision.compute": "bf16", "train.micro_batch": "2", "data.seq_len": "128"})
    keys.update({SHORT[k]: v for k, v in given.items()})
    ranks = 1
    for degree in ("tp", "sp", "dp", "pp"):
        ranks *= int(given.get(degree, 1))
    keys.setdefault("train.global_batch", str(2 * int(keys["train.micro_batch"]) * int(given.get("dp", 1)) *
                                              int(given.get("pp", 1))))
    return keys, ranks


def version_of_tree(*paths):
    """Returns the last commit that changed these paths of the working tree; marked when they have been modified since."""
    git = ["git", "-C", str(ROOT)]
    try:
        last, changed = (subprocess.run([*git, *command, "--", *paths], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                        text=True, check=True).stdout.strip()
                         for command in (["log", "-1", "--format=%h", "--abbrev=12"], ["status", "--porcelain"]))
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return last + ("-modified" if changed else "")


def environment():
    """Returns the environment for runs of fptrain: waiting threads sleep, and mpirun may be run by root."""
    return dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                OMPI_MCA_plm="^rsh")


def with_ranks(command, ranks, last=()):
    """The command as text, under mpirun where there are several ranks, whose last one is given more arguments."""
    command, more = [str(c) for c in command], [str(c) for c in last]
    if ranks == 1:
        return command + more
    launcher = ["mpirun", "--oversubscribe", "--bind-to", "none", "-np"]
    if not more:
        return [*launcher, str(ranks), *command]
    return [*launcher, str(ranks - 1), *command, ":", "-np", "1", *command, *more]


def launch(command, ranks):
    """Runs fptrain; ends the script when it fails."""
    command = with_ranks(command, ranks)
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: ended with {done.returncode}\n{done.stdout}")


def run_logged(command, ranks, file, pass_fds=()):
    """Runs fptrain and appends its output to a file; returns the exit code. When interrupted, it lets the run save and exit
    first."""
    with open(file, "ab") as out:
        process = subprocess.Popen(with_ranks(command, ranks), env=environment(), stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True, pass_fds=pass_fds)
        while True:
            try:
                return process.wait()
            except KeyboardInterrupt:
                process.send_signal(signal.SIGUSR1)


def prepare(fptrain, work):
    """The data and the empty run spec that runs in this folder need."""
    (work / "empty.yaml").write_text("{}\n", encoding="utf-8")
    text = "".join(f"The number {i} squared is {i * i}, they say.\n" for i in range(4000))
    (work / "text.txt").write_text(text, encoding="utf-8")
    launch([fptrain, "data", "prepare", "--tokenizer", "bytes", "--documents", "line", "--out", work / "data",
            work / "text.txt"], 1)


def train(fptrain, work, name, keys, ranks):
    """The directory of a run with these keys over what all have in common: no checkpoints, no reports."""
    directory = work / re.sub(r"\W+", "-", name)
    keys = {"run.directory": directory, "run.device": "cpu", "data.train": f"[{{path: {work / 'data'}}}]",
            "checkpoint.at_end": "false", "checkpoint.every": "0", "logging.tensorboard": "false",
            "logging.report": "false", **keys}
    command = [fptrain, "train", work / "empty.yaml"]
    for key, value in keys.items():
        command += ["--set", f"{key}={value}"]
    launch(command, ranks)
    return directory
