"""Supervised fine-tuning and DPO: losses and gradients against PyTorch, and whole runs from the YAML files of configs/."""
import json
import os
import shutil
import unittest

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models as token_models, pre_tokenizers

import models
from parity import Case, fptrain
from test_models import our_name

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CHAT_TOKENS = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]


def chat_tokenizer():
    """Bytes and phi-3's special tokens: 256 + 5 ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(token_models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(t, rstrip=t != "<|endoftext|>") for t in CHAT_TOKENS])
    return tokenizer


def row_logp(model, tokens, mask):
    """Sum of log-probabilities of the tokens that the mask marks, by row."""
    logp = model(tokens, use_cache=False).logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[..., 0]
    return (logp * mask[:, 1:]).sum(-1)


def ignored_targets(tokens, mask):
    """Each token's target is the next one where the mask marks that, else -1."""
    rows = []
    for row, marks in zip(tokens.tolist(), mask.tolist()):
        rows.append([row[t + 1] if t + 1 < len(row) and marks[t + 1] else -1 for t in range(len(row))])
    return rows


class Losses(Case):
    def setUp(self):
        super().setUp()
        self.model = models.make("llama-3.1")
        self.model.save_pretrained(self.path("hf"))
        generator = torch.Generator().manual_seed(11)
        self.tokens = torch.randint(0, models.VOCAB - 1, (4, 20), generator=generator)
        self.mask = torch.zeros(4, 20, dtype=torch.long)
        for row, (first, last) in enumerate(((8, 20), (8, 15), (3, 9), (3, 20))):
            self.mask[row, first:last] = 1

    def check_gradients(self, gradients, tolerance):
        for name, p in self.model.named_parameters():
            self.relatively_close(gradients[our_name(self.model, name)[0]], p.grad.numpy(), tolerance, f"gradient of {name}")

    def test_loss_on_answers_only(self):
        loss = -row_logp(self.model, self.tokens, self.mask).sum() / self.mask[:, 1:].sum()
        loss.backward()
        ours = self.probe(self.path("hf"), self.tokens, "--gradients", targets=ignored_targets(self.tokens, self.mask))
        self.assertAlmostEqual(ours[1], float(loss.detach()), delta=1e-5)
        self.check_gradients(ours[2], 1e-5)

    def test_dpo(self):
        reference = [-31.0, -20.5, -18.25, -55.0]
        for beta, smoothing, nll in ((0.1, 0.0, 0.0), (0.5, 0.1, 0.0), (0.1, 0.0, 0.2)):
            with self.subTest(beta=beta, smoothing=smoothing, nll=nll):
                self.model.zero_grad()
                logp = row_logp(self.model, self.tokens, self.mask)
                ratio = logp - torch.tensor(reference)
                margin = beta * (ratio[0::2] - ratio[1::2])
                sigmoid = torch.nn.functional.logsigmoid
                lengths = self.mask[0::2, 1:].sum(-1)
                loss = (-(1 - smoothing) * sigmoid(margin) - smoothing * sigmoid(-margin) - nll * logp[0::2] / lengths).mean()
                loss.backward()
                ours = self.probe(self.path("hf"), self.tokens, "--gradients", "--dpo-beta", beta, "--dpo-label-smoothing", smoothing,
                                  "--dpo-nll-weight", nll, targets=ignored_targets(self.tokens, self.mask), reference_logp=reference)
                self.assertAlmostEqual(ours[1], float(loss.detach()), delta=1e-5)
                self.check_gradients(ours[2], 1e-5)


class Runs(Case):
    def setUp(self):
        super().setUp()
        config = dict(models.llama_config(pad_token_id=0, bos_token_id=1, eos_token_id=2), vocab_size=264, sliding_window=None)
        torch.manual_seed(4)
        model = models.Phi3ForCausalLM(models.Phi3Config(**config))
        model.save_pretrained(self.path("hf"))
        chat_tokenizer().save(self.path("hf/tokenizer.json"))
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("base"))

    def write_lines(self, name, objects):
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.writelines(json.dumps(o) + "\n" for o in objects)

    def train(self, config, steps, *sets):
        sets += (f"run.directory={self.path('run')}", f"model.init_from={self.path('base')}", f"data.train[0].path={self.path('data')}",
                 "data.seq_len=64", f"train.steps={steps}", "train.global_batch=8", "train.micro_batch=4", "precision.compute=fp32",
                 "optimizer.lr=0.01", "schedule.warmup_steps=0")
        fptrain("train", os.path.join(ROOT, "configs", config), *[x for s in sets for x in ("--set", s)])
        with open(self.path("run/metrics.jsonl"), encoding="utf-8") as f:
            return [json.loads(line) for line in f]

    def test_sft(self):
        """The loss falls and only counts the answers; the result loads in transformers and gives the trained answers."""
        words = ["red", "green", "blue", "black", "white", "grey", "pink", "brown"]
        talks = [{"messages": [{"role": "user", "content": f"Paint it {w}."}, {"role": "assistant", "content": w.upper()}]} for w in words]
        self.write_lines("chat.jsonl", talks)
        fptrain("data", "prepare", "--chat", "phi3", "--tokenizer", self.path("hf/tokenizer.json"), "--validation-fraction", 0, "--out",
                self.path("data"), self.path("chat.jsonl"))
        metrics = self.train("sft-phi-3-mini.yaml", 60)
        self.assertLess(metrics[-1]["loss"], 0.1 * metrics[0]["loss"])

        # The first step's loss, from the template written out by hand.
        tokenizer, rows, masks = chat_tokenizer(), [], []
        end = tokenizer.token_to_id("<|end|>")
        for talk in talks:
            prompt = tokenizer.encode(f"<|user|>\n{talk['messages'][0]['content']}<|end|>\n<|assistant|>\n").ids
            answer = tokenizer.encode(talk["messages"][1]["content"]).ids + [end]
            rows.append(prompt + answer)
            masks.append([0] * len(prompt) + [1] * len(answer))
        width = max(map(len, rows))
        tokens = torch.tensor([r + [0] * (width - len(r)) for r in rows])
        mask = torch.tensor([m + [0] * (width - len(m)) for m in masks])
        model = models.Phi3ForCausalLM.from_pretrained(self.path("hf")).eval()
        with torch.no_grad():
            expected = -row_logp(model, tokens, mask).sum() / mask.sum()
        self.assertAlmostEqual(metrics[0]["loss"], float(expected), delta=1e-4)

        fptrain("checkpoint", "export", self.path("run"), "--to", self.path("out"))
        tuned = models.Phi3ForCausalLM.from_pretrained(self.path("out")).eval()
        ids = rows[0][: masks[0].index(1)]
        prompt = len(ids)
        with torch.no_grad():
            while ids[-1] != end and len(ids) < prompt + 8:
                ids.append(int(tuned(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
        self.assertEqual(tokenizer.decode(ids[prompt:]), "RED")
        ends = [end, 2, 256]  # <|end|>, what config.json said before, <|endoftext|>
        self.assertEqual([tuned.generation_config.eos_token_id, tuned.config.eos_token_id], [ends, ends])
        for source in ("run", "out"):  # both know that <|end|> ends an answer
            said = fptrain("generate", "--checkpoint", self.path(source), "--temperature", 0, "--max-tokens", 8, "--prompt",
                           "<|user|>\nPaint it red.<|end|>\n<|assistant|>\n")
            self.assertTrue(said.strip().endswith("RED"), said)

    def test_dpo(self):
        """The margin grows from zero, chosen answers win; a resumed run reads the stored reference scores."""
        pairs = [{"messages": [{"role": "user", "content": f"Say {n}"}], "chosen": f"yes {n}", "rejected": f"no, not {n}"} for n in range(16)]
        self.write_lines("pairs.jsonl", pairs)
        fptrain("data", "prepare", "--preferences", "phi3", "--tokenizer", self.path("hf/tokenizer.json"), "--validation-fraction", 0.25,
                "--out", self.path("data"), self.path("pairs.jsonl"))
        lr = "optimizer.lr=0.001"
        metrics = self.train("dpo-phi-3-mini.yaml", 15, lr)
        self.assertAlmostEqual(metrics[0]["loss"], 0.6931, delta=1e-3)  # -log sigmoid(0): model and reference are the same
        self.assertAlmostEqual(metrics[0]["margin"], 0.0, delta=1e-3)
        self.assertGreater(metrics[-1]["margin"], 0.05)
        self.assertEqual(metrics[-1]["accuracy"], 1.0)
        self.assertGreater(metrics[-1]["val_margin"], 0.0)
        before = os.stat(self.path("run/reference-scores.bin"))
        more = self.train("dpo-phi-3-mini.yaml", 20, lr)
        self.assertEqual(more[: len(metrics) - 1], metrics[:-1])
        self.assertEqual(len(more), 20)
        self.assertEqual(os.stat(self.path("run/reference-scores.bin")).st_mtime_ns, before.st_mtime_ns)
        # Another number of held-out pairs: those are scored anew, the run goes on.
        self.train("dpo-phi-3-mini.yaml", 22, lr, "eval.samples=3")
        said = fptrain("eval", os.path.join(ROOT, "configs", "dpo-phi-3-mini.yaml"), "--set", f"data.train[0].path={self.path('data')}",
                       "--set", f"model.init_from={self.path('base')}", "--set", "data.seq_len=64", "--checkpoint", self.path("run"),
                       expect=2)
        self.assertIn("preferences", said)
        # A fresh start from other weights in the same folder does not use the old reference's scores.
        shutil.rmtree(self.path("run/checkpoints"))
        os.remove(self.path("run/metrics.jsonl"))
        shutil.rmtree(self.path("base"))
        torch.manual_seed(5)
        models.randomize(models.Phi3ForCausalLM.from_pretrained(self.path("hf"))).save_pretrained(self.path("hf"))
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("base"))
        self.assertAlmostEqual(self.train("dpo-phi-3-mini.yaml", 2, lr)[0]["loss"], 0.6931, delta=1e-3)


if __name__ == "__main__":
    unittest.main()
