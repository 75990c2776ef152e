"""20 steps of Muon equal a restatement of the published algorithm in PyTorch."""
import json
import unittest

import h5py
import numpy as np
import torch

import models
from parity import Case, fptrain

STEPS, ROWS, LENGTH, VOCAB = 20, 8, 24, 264
BETA1, BETA2, EPS, DECAY, CLIP = 0.9, 0.95, 1e-5, 0.1, 1.0


def orthogonalized(matrix):
    """Five steps of the quintic Newton-Schulz iteration of Jordan et al., in double precision."""
    x = matrix.double() / (matrix.double().norm() + 1e-7)
    for _ in range(5):
        gram = x @ x.T if x.shape[0] <= x.shape[1] else x.T @ x
        polynomial = 3.4445 * torch.eye(len(gram), dtype=torch.double) - 4.7750 * gram + 2.0315 * (gram @ gram)
        x = polynomial @ x if x.shape[0] <= x.shape[1] else x @ polynomial
    return x.to(matrix.dtype)


def factor(rule, rows, columns):
    return 0.2 * max(rows, columns) ** 0.5 if rule == "rms" else max(1.0, rows / columns) ** 0.5


class Muon(torch.optim.Optimizer):
    """`fused`: name -> number of rows of each matrix that the parameter holds."""

    def __init__(self, model, lr, momentum, rule, adamw_lr, fused):
        self.layers = {p: fused.get(n.split(".")[-2], [len(p)]) for n, p in model.named_parameters() if ".layers." in n and p.dim() == 2}
        super().__init__(model.parameters(), dict(lr=lr))
        self.momentum, self.rule, self.adamw_lr, self.count = momentum, rule, adamw_lr, 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            for p in group["params"]:
                if p in self.layers:
                    self.move_matrix(p, group["lr"])
                else:
                    self.move_others(p, group["lr"] * self.adamw_lr)

    def move_matrix(self, p, lr):
        m = self.state[p].setdefault("momentum", torch.zeros_like(p))
        m.mul_(self.momentum).add_(p.grad)
        nesterov = p.grad + self.momentum * m
        update = [factor(self.rule, *part.shape) * orthogonalized(part) for part in nesterov.split(self.layers[p])]
        p.sub_(lr * (torch.cat(update) + DECAY * p))

    def move_others(self, p, lr):
        state = self.state[p]
        mean, square = state.setdefault("exp_avg", torch.zeros_like(p)), state.setdefault("exp_avg_sq", torch.zeros_like(p))
        mean.mul_(BETA1).add_(p.grad, alpha=1 - BETA1)
        square.mul_(BETA2).addcmul_(p.grad, p.grad, value=1 - BETA2)
        direction = (mean / (1 - BETA1 ** self.count)) / ((square / (1 - BETA2 ** self.count)).sqrt() + EPS)
        p.sub_(lr * (direction + (DECAY * p if p.dim() > 1 else 0.0)))


class Training(Case):
    def compare(self, model, fused, lr, **muon):
        torch.manual_seed(5)
        model = models.randomize(model)
        model.save_pretrained(self.path("hf"))
        # Every step sees the same windows, in an order that does not matter to the mean.
        stream = np.random.default_rng(3).integers(0, VOCAB, ROWS * LENGTH + 1, dtype=np.uint16)
        stream.tofile(self.path("train.bin"))
        with open(self.path("run.yaml"), "w", encoding="utf-8") as f:
            json.dump({"run": {"directory": self.path("run")}, "model": {"init_from": self.path("hf")},
                       "data": {"train": [{"path": self.path("train.bin"), "format": "nanogpt"}], "tokenizer": "bytes", "seq_len": LENGTH},
                       "train": {"steps": STEPS, "global_batch": ROWS, "micro_batch": 4}, "precision": {"compute": "fp32"},
                       "schedule": {"kind": "constant", "warmup_steps": 0},
                       "optimizer": {"kind": "muon", "lr": lr, "beta1": BETA1, "beta2": BETA2, "eps": EPS, "weight_decay": DECAY,
                                     "grad_clip": CLIP, "muon": muon}}, f)
        fptrain("train", self.path("run.yaml"))
        with open(self.path("run/metrics.jsonl"), encoding="utf-8") as f:
            losses = [json.loads(line)["loss"] for line in f]

        tokens = torch.from_numpy(np.stack([stream[i * LENGTH:(i + 1) * LENGTH + 1] for i in range(ROWS)]).astype(np.int64))
        optimizer = Muon(model, lr, muon.get("momentum", 0.95), muon.get("scale", "rms"), muon.get("adamw_lr", 1.0), fused)
        for loss in losses:
            optimizer.zero_grad()
            logits = model(tokens[:, :-1], use_cache=False).logits
            ours = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            ours.backward()
            self.assertAlmostEqual(loss, float(ours), delta=1e-5 * float(ours))
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
        self.assertEqual(len(losses), STEPS)

        with h5py.File(self.path(f"run/checkpoints/step-{STEPS:08}/index.h5")) as f:
            for name, p in model.named_parameters():
                states = {"param": p.detach()} | optimizer.state[p]
                self.assertEqual(set(f[name]), set(states), name)
                for state, theirs in states.items():
                    self.close(f[name][state][...], theirs.numpy(), 1e-5 * float(theirs.abs().max()), f"{state} of {name}")

    def test_fused_projections(self):
        config = models.llama_config(vocab_size=VOCAB, num_key_value_heads=2, pad_token_id=VOCAB - 1, bos_token_id=1, eos_token_id=2,
                                     resid_pdrop=0.0, sliding_window=None, original_max_position_embeddings=256)
        self.compare(models.Phi3ForCausalLM(models.Phi3Config(**config)), {"qkv_proj": [48, 16, 16], "gate_up_proj": [80, 80]}, 2e-3)

    def test_spectral_scale(self):
        config = models.llama_config(vocab_size=VOCAB, num_key_value_heads=3, tie_word_embeddings=True)
        self.compare(models.LlamaForCausalLM(models.LlamaConfig(**config)), {}, 5e-3, scale="spectral", momentum=0.9, adamw_lr=0.25)


if __name__ == "__main__":
    unittest.main()
