"""Qwen3 against transformers 5, which needs a newer PyTorch than Debian's; scripts/nightly runs it."""
import os
import unittest

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

import qwen3
from parity import DECAY, LR, Case, adamw_step, fptrain


def make(**changes):
    torch.manual_seed(23)
    config = {k: v for k, v in (qwen3.CONFIG | changes).items() if k not in ("architectures", "model_type", "rope_scaling")}
    model = Qwen3ForCausalLM(Qwen3Config(**config, attn_implementation="eager"))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape) * 0.08 + (1.0 if p.dim() == 1 else 0.0))
    return model.eval()


class Qwen3(Case):
    def compare(self, length, **changes):
        model = make(**changes)
        model.save_pretrained(self.path("hf"))
        tokens = torch.randint(0, qwen3.CONFIG["vocab_size"], (2, length), generator=torch.Generator().manual_seed(1))
        out = model(tokens, labels=tokens, use_cache=False)
        out.loss.backward()
        parameters = dict(model.named_parameters())
        gradients = {n: p.grad.detach().clone() for n, p in parameters.items()}
        adamw_step(list(parameters.values()))
        ours = self.probe(self.path("hf"), tokens, "--gradients", "--update", "--lr", LR, "--weight-decay", DECAY)
        self.close(ours[0], out.logits.detach().numpy(), 1e-4, "logits")
        self.assertAlmostEqual(ours[1], float(out.loss.detach()), delta=1e-5)
        self.assertEqual(sorted(ours[2]), sorted(gradients))
        for name, theirs in gradients.items():
            self.relatively_close(ours[2][name], theirs.numpy(), 1e-4, f"gradient of {name}")
            self.close_update(ours[3][name], parameters[name].detach().numpy(), ours[2][name], theirs.numpy(), name)

    def test_grouped_heads(self):
        self.compare(37)

    def test_tied(self):
        self.compare(20, tie_word_embeddings=True)

    def test_export_loads(self):
        model = make()
        model.save_pretrained(self.path("hf"))
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"))
        fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"))
        self.assertTrue(os.path.exists(self.path("out/config.json")))
        again, info = Qwen3ForCausalLM.from_pretrained(self.path("out"), output_loading_info=True, attn_implementation="eager")
        self.assertEqual([list(info[k]) for k in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []])
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, again.state_dict()[name].to(tensor.dtype)), name)
        tokens = torch.arange(24).reshape(1, 24)
        with torch.no_grad():
            self.assertTrue(torch.equal(model(tokens).logits, again.float().eval()(tokens).logits))


if __name__ == "__main__":
    unittest.main()
