"""Random settings of torture: the training of a run, and its mesh and saving in each round."""
import dataclasses
import json

import small_runs
import torture_checks as checks

SPEC = """\
run: {{threads: 1, device: cpu, seed: 11}}
model: {{family: llama, layers: 4, hidden: 48, heads: 12, kv_heads: 4, ffn: 54, tied_embeddings: false,
        max_position: 32, dropout_embedding: 0.1, dropout_attention: 0.1, dropout_residual: 0.1, dropout_ffn: 0.1}}
data: {{train: [{{path: {data}}}], seq_len: 32}}
optimizer: {{lr: 3e-3, eps: 1e-3}}
schedule: {{kind: constant, warmup_steps: 3}}
train: {{steps: {steps}, global_batch: 12, micro_batch: 1}}
precision: {{compute: fp32}}
checkpoint: {{every: 0, keep_last: 3}}
eval: {{every: 0}}
watchdog: {{setup_s: 300, step_s: 300, evaluation_s: 300, save_s: 300}}
logging: {{report: false, tensorboard: false, console_every: 1}}
"""
SCHEDULES = ["gpipe", "1f1b", "interleaved", "bfs", "zb-h1", "zb-h2", "zb-v", "interleaved-zb", "chimera", "bitpipe",
             "dualpipe", "dualpipev", "zeropp", "wave"]
ROLES = ("system", "user", "assistant", "end")


@dataclasses.dataclass
class Flavour:
    """The training settings of one run, from its first step to its last."""
    name: str
    weight: float
    settings: list
    tolerance: float = 1e-4  # of a loss, relative to that of an uninterrupted run
    data: str = "data"


# In bf16 different meshes round different partial sums.
FLAVOURS = [
    Flavour("fp32", 8, []),
    Flavour("bf16, stochastic rounding", 2, ["precision.compute=bf16", "precision.stochastic_rounding=true"], 2e-2),
    Flavour("Muon, offloaded", 2, ["optimizer.kind=muon", "memory.offload.optimizer=host"]),
    Flavour("partly updated by the host", 2, ["memory.offload.optimizer=host", "memory.offload.device_share=0.5",
                                              "memory.offload.early_gradients=true"]),
    Flavour("batch ramp", 2, ["train.ramp_start_batch=6", "train.ramp_increment=6", "train.ramp_samples=300"]),
    Flavour("observed", 2, ["eval.every=4", "eval.samples=8", "logging.report=true", "logging.tensorboard=true"]),
    Flavour("SFT", 1, ["train.objective=sft"], data="chat"),
    Flavour("DPO", 1, ["train.objective=dpo", "data.sampling=documents", "model.init_from={work}/reference",
                        "model.init_changes=true"],  # the reference model reads bytes
            data="preferences"),
]


class Setting:
    """A flavour with its data, run spec and losses in a folder, made once."""

    def __init__(self, flavour, program, work, steps):
        self.flavour, self.name, self.tolerance = flavour, flavour.name, flavour.tolerance
        if not (work / "data").exists():
            small_runs.prepare(program, work)
        if flavour.data != "data" and not (work / flavour.data).exists():
            prepare_chat(program, work, flavour.data)
        self.spec = work / f"{flavour.name.split(',')[0].replace(' ', '-')}.yaml"
        self.spec.write_text(SPEC.format(data=work / flavour.data, steps=steps), encoding="utf-8")
        self.settings = [s.format(work=work) for s in flavour.settings]
        self.legal = {}  # mesh -> whether it is legal
        whole = self.spec.with_suffix("")
        if "init_from" in " ".join(self.settings) and not (work / "reference/checkpoints").exists():
            text = f"data.train=[{{path: {work / 'data'}}}]"
            self.train(program, work / "reference", ["train.steps=4", "model.vocab=261", text])
        if len(checks.history(whole, [])) < steps:
            self.train(program, whole, self.settings)
        self.reference = checks.history(whole, [])

    def train(self, program, directory, settings):
        arguments = [a for s in [*settings, f"run.directory={directory}"] for a in ("--set", s)]
        small_runs.launch([program, "train", self.spec, *arguments], 1)


def prepare_chat(program, work, name):
    """Conversations or preferences, short enough for the spec's sequences, and a tokenizer that knows their roles."""
    tokenizer = work / "chat-tokenizer.json"
    if not tokenizer.exists():
        small_runs.launch([program, "data", "train-tokenizer", "--vocab", 257, "--no-chat-tokens", "--out", tokenizer,
                           work / "text.txt"], 1)
        content = json.loads(tokenizer.read_text(encoding="utf-8"))
        content["added_tokens"] += [{"id": 257 + i, "content": f"<|{role}|>", "single_word": False, "lstrip": False,
                                     "rstrip": False, "normalized": False, "special": True}
                                    for i, role in enumerate(ROLES)]
        tokenizer.write_text(json.dumps(content), encoding="utf-8")
    lines = []
    for i in range(1500):
        question = {"role": "user", "content": f"{i} + 7?"}
        if name == "chat":
            lines.append({"messages": [question, {"role": "assistant", "content": f"{i + 7}."}]})
        else:
            lines.append({"messages": [question], "chosen": f"{i + 7}.", "rejected": f"{i + 8}!"})
    text = work / f"{name}.jsonl"
    text.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    small_runs.launch([program, "data", "prepare", "--tokenizer", tokenizer, f"--{name}", "phi3", "--out", work / name,
                       text], 1)


def random_mesh(rng):
    """Ranks and settings; not every one is legal."""
    ranks = rng.randint(1, 6)
    degrees, left = {"tensor": 1, "pipeline.ranks": 1, "data": 1, "sequence": 1}, ranks
    for prime in (2, 2, 3, 5):
        if left % prime == 0:
            degrees[rng.choices(list(degrees), (3, 3, 4, 1))[0]] *= prime
            left //= prime
    settings = [f"parallel.{name}={degree}" for name, degree in degrees.items() if degree > 1]
    if degrees["data"] * degrees["sequence"] > 1:
        settings.append(f"parallel.zero_stage={rng.randint(0, 3)}")
    if degrees["tensor"] > 1 and rng.random() < 0.5:
        settings.append("parallel.megatron_sp=true")
    if degrees["pipeline.ranks"] > 1:
        settings.append(f"parallel.pipeline.schedule={rng.choice(SCHEDULES)}")
    return ranks, settings


@dataclasses.dataclass
class Saving:
    """How a run saves, and what of its checkpoints it keeps."""
    every: int
    asynchronous: bool
    keep_last: int
    keep_every: int
    staging_mib: int
    node_local: str

    @staticmethod
    def draw(rng, node_local):
        every, asynchronous = rng.randint(1, 3), rng.random() < 0.5
        keep_last, keeps, staged, local = rng.choice([3, 3, 3, 1]), rng.random(), rng.random(), rng.random()
        return Saving(every, asynchronous, keep_last, 4 * every if keeps < 0.2 else 0,
                      # Both only apply to saves in the background.
                      1 if staged < 0.3 and asynchronous else 0, str(node_local) if local < 0.3 and asynchronous else "")

    def settings(self):
        values = dataclasses.asdict(self)
        values["asynchronous"] = str(self.asynchronous).lower()
        return [f"checkpoint.{key}={value}" for key, value in values.items()
                if value or key not in ("keep_every", "staging_mib", "node_local")]
