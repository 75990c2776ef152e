"""Qwen3, which the transformers of this environment do not contain, against the slow reference in qwen3.py."""
import json
import os
import unittest

import torch
from safetensors.torch import load_file, save_file

import qwen3
from parity import DECAY, LR, Case, adamw_step, fptrain


class Qwen3(Case):
    def write(self, c):
        weights = qwen3.make_weights(c)
        os.makedirs(self.path("hf"))
        save_file(weights, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as f:
            json.dump(c, f)
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"))
        return {k: v.requires_grad_() for k, v in weights.items()}

    def compare(self, length, **changes):
        c = qwen3.CONFIG | changes
        weights = self.write(c)
        tokens = torch.randint(0, c["vocab_size"], (2, length), generator=torch.Generator().manual_seed(1))
        theirs = torch.stack([qwen3.logits(weights, row, c) for row in tokens])
        loss = torch.nn.functional.cross_entropy(theirs[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        gradients = {k: v.grad.detach().clone() for k, v in weights.items()}
        adamw_step(list(weights.values()))
        ours = self.probe(self.path("ckpt"), tokens, "--gradients", "--update", "--lr", LR, "--weight-decay", DECAY)
        self.close(ours[0], theirs.detach().numpy(), 1e-4, "logits")
        self.assertAlmostEqual(ours[1], float(loss.detach()), delta=1e-5)
        self.assertEqual(sorted(ours[2]), sorted(weights))
        for name, theirs in gradients.items():
            self.relatively_close(ours[2][name], theirs.numpy(), 1e-4, f"gradient of {name}")
            self.close_update(ours[3][name], weights[name].detach().numpy(), ours[2][name], theirs.numpy(), name)

    def test_grouped_heads(self):
        self.compare(37)

    def test_tied(self):
        self.compare(9, tie_word_embeddings=True)

    def test_heads_as_wide_as_the_stream(self):
        self.compare(20, head_dim=8, num_key_value_heads=6)

    def test_round_trip(self):
        self.write(qwen3.CONFIG)
        fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"))
        before, after = load_file(self.path("hf/model.safetensors")), load_file(self.path("out/model.safetensors"))
        self.assertEqual(sorted(before), sorted(after))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(tensor.view(torch.int32), after[name].view(torch.int32)), name)
        with open(self.path("out/config.json"), encoding="utf-8") as f:
            config = json.load(f)
        for key, value in qwen3.CONFIG.items():
            self.assertEqual(config[key], value, key)


if __name__ == "__main__":
    unittest.main()
