"""phi-3-small, which transformers does not contain, against the slow reference implementation in phi3small.py."""
import json
import os
import unittest

import torch
from safetensors.torch import load_file, save_file

import phi3small
from parity import Case, fptrain


class Phi3Small(Case):
    def compare(self, length, **changes):
        c = phi3small.CONFIG | changes
        weights = {k: v.requires_grad_() for k, v in phi3small.make_weights(c).items()}
        os.makedirs(self.path("hf"))
        save_file({k: v.detach() for k, v in weights.items()} | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)},
                  self.path("hf/model.safetensors"), metadata={"format": "pt"})
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as f:
            json.dump(c, f)
        legal = [i for i in range(c["vocab_size"]) if i not in c["dummy_token_indices"]]
        tokens = torch.tensor(legal)[torch.randint(0, len(legal), (2, length), generator=torch.Generator().manual_seed(1))]
        theirs = torch.stack([phi3small.logits(weights, row, c) for row in tokens])
        loss = torch.nn.functional.cross_entropy(theirs[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"))
        logits, our_loss, gradients, _ = self.probe(self.path("ckpt"), tokens, "--gradients")
        live = torch.isfinite(theirs).numpy()
        self.assertTrue((~live == (logits == -float("inf"))).all())
        self.close(logits[live], theirs.detach().numpy()[live], 1e-4, "logits")
        self.assertAlmostEqual(our_loss, float(loss.detach()), delta=1e-5)
        self.assertEqual(sorted(gradients), sorted(weights))
        for name, w in weights.items():
            self.relatively_close(gradients[name], w.grad.numpy(), 1e-4, f"gradient of {name}")

    def test_blocksparse_longer_than_local(self):
        self.compare(37)

    def test_shorter_than_local_blocks(self):
        self.compare(7)

    def test_homogeneous_heads(self):
        self.compare(30, blocksparse_homo_head_pattern=True, blocksparse_vert_stride=2)

    def test_wide_stride(self):
        """vert_stride over heads: the columns shift by more than one block from head to head."""
        self.compare(50, blocksparse_vert_stride=13, blocksparse_block_size=2, blocksparse_num_local_blocks=1)

    def test_round_trip(self):
        self.compare(5)
        fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"))
        before, after = load_file(self.path("hf/model.safetensors")), load_file(self.path("out/model.safetensors"))
        before.pop("model.layers.0.self_attn.rotary_emb.inv_freq")
        self.assertEqual(sorted(before), sorted(after))
        for name, tensor in before.items():
            self.assertTrue(torch.equal(tensor, after[name]), name)
        with open(self.path("out/config.json"), encoding="utf-8") as f:
            config = json.load(f)
        for key, value in phi3small.CONFIG.items():
            self.assertEqual(config[key], value, key)


if __name__ == "__main__":
    unittest.main()
