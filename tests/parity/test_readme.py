"""The README's section "Bring your own model and data", run as it is on tiny replacements of the models and data it names."""
import json
import os
import re
import subprocess
import unittest

import numpy as np
import torch

import models
from parity import FPTRAIN, Case
from test_finetuning import ROOT, chat_tokenizer

# A run of the real thing takes days: every `fptrain train` of the section gets these as well.
SMALLER = ["data.seq_len=48", "train.steps=3", "train.global_batch=4", "train.micro_batch=2", "schedule.warmup_steps=0", "optimizer.lr=0.001"]

CONTINUE = """
run: {name: continue}
model: {init_from: models/llama}
data:
  train: [{path: data/local/novels}]
"""


# The tokenizer and the model of the section before.
BOOKS = """
run: {name: books}
model: {family: llama, layers: 2, hidden: 32, heads: 4, ffn: 64, max_position: 256}
data: {train: [{path: data/local/books}]}
"""
BEFORE = ["fptrain data train-tokenizer --vocab 280 --out tokenizer.json books",
          "fptrain data prepare --tokenizer tokenizer.json --out data/local/books books", "fptrain train books.yaml"]


def blocks(language):
    """The blocks of the section in one language."""
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        section = re.search(r"^## Bring your own model and data\n(.*?)^## ", f.read(), flags=re.M | re.S).group(1)
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.S)


def commands():
    return [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


class Readme(Case):
    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)

    def make_models(self):
        torch.manual_seed(2)
        config = dict(models.llama_config(pad_token_id=0, bos_token_id=1, eos_token_id=2), vocab_size=264)
        folders = {"Llama-3.2-1B": models.LlamaForCausalLM(models.LlamaConfig(**config)),
                   "Phi-3-mini-4k-instruct": models.Phi3ForCausalLM(models.Phi3Config(**config, sliding_window=None)),
                   "gpt2": models.gpt2()}
        for name, model in folders.items():
            model.save_pretrained(self.path(name))
            if name != "gpt2":
                chat_tokenizer().save(self.path(f"{name}/tokenizer.json"))

    def make_data(self):
        self.write("continue.yaml", CONTINUE)
        self.write("sft.yaml", blocks("yml")[0])
        self.write("books.yaml", BOOKS)
        for i in range(3):
            self.write(f"books/{i}.txt", "\n\n".join(f"Chapter {n} of book {i}: the sea, the sea, the sea." for n in range(40)))
        talk = [{"role": "user", "content": "Hello?"}]
        self.write("chat.jsonl", "".join(json.dumps({"messages": talk + [{"role": "assistant", "content": f"Yes {n}"}]}) + "\n" for n in range(20)))
        pair = {"messages": talk, "chosen": "Yes", "rejected": "No"}
        self.write("pairs.jsonl", "".join(json.dumps(dict(pair, chosen=f"Yes {n}")) + "\n" for n in range(20)))
        tokens = np.random.default_rng(0).integers(0, 256, 3000).astype("<u2")
        tokens[299::300] = 256
        tokens.tofile(self.path("corpus_text_document.bin"))
        with open(self.path("corpus_text_document.idx"), "wb") as f:
            f.write(b"MMIDIDX\0\0" + np.array([1], "<u8").tobytes() + b"\x08" + np.array([10, 11], "<u8").tobytes())
            f.write(np.full(10, 300, "<i4").tobytes() + (np.arange(10, dtype="<i8") * 600).tobytes() + np.arange(11, dtype="<i8").tobytes())
        question = [65535, 0, 0, 1, 4, 3, 5, 6, 7] + [2, 8, 9] * 4
        question[1] = 2 * len(question)
        header = np.zeros(256, "<i4")
        header[:4] = [20240522, 1, 1, question[1]]
        with open(self.path("hellaswag_val.bin"), "wb") as f:
            f.write(header.tobytes() + np.array(question, "<u2").tobytes())

    def test_commands(self):
        self.make_models()
        self.make_data()
        os.symlink(os.path.join(ROOT, "configs"), self.path("configs"))
        sets = " ".join(f"--set {s}" for s in SMALLER)
        function = f'fptrain() {{ if [ "$1" = train ]; then {FPTRAIN} "$@" {sets}; else {FPTRAIN} "$@"; fi; }}\n'
        lines = commands()
        self.assertGreater(len(lines), 10)
        for line in BEFORE + lines:
            with self.subTest(line):
                done = subprocess.run(["bash", "-ec", function + line], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      check=False)
                self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout.decode(errors='replace')}")
        for made in ("my-llama/model.safetensors", "novels_text_document.idx", "runs/dpo-phi-3-mini/report.html"):
            self.assertTrue(os.path.exists(self.path(made)), made)


if __name__ == "__main__":
    unittest.main()
