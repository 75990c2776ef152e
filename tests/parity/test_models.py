"""Logits, gradients and an AdamW step of imported models equal those of transformers and PyTorch in fp32."""
import unittest

import numpy as np
import torch

import models
from parity import Case, fptrain

LR, DECAY = 1e-3, 0.1


def our_name(model, name):
    """The parameter's name and a function that brings its values into fptrain's shape."""
    if not name.startswith("transformer."):
        return name, lambda x: x
    name = name[len("transformer."):]
    conv1d = any(name.endswith(f"{part}.weight") for part in ("c_attn", "c_proj", "c_fc"))
    return name, (lambda x: x.T) if conv1d else (lambda x: x)


def torch_step(model, tokens):
    model.zero_grad()
    out = model(tokens, labels=tokens, use_cache=False)
    out.loss.backward()
    gradients = {n: p.grad.detach().clone() for n, p in model.named_parameters()}
    groups = [{"params": [p for p in model.parameters() if (p.dim() >= 2) == decay], "weight_decay": DECAY if decay else 0.0}
              for decay in (True, False)]
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.95), eps=1e-8).step()
    after = {n: p.detach().clone() for n, p in model.named_parameters()}
    with torch.no_grad():
        for n, p in model.named_parameters():
            p.copy_(before[n])
    return out.logits.detach().numpy(), float(out.loss.detach()), gradients, after


class Models(Case):
    def compare(self, name, length):
        model = models.make(name)
        model.save_pretrained(self.path("hf"))
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("imported"))
        # The last id is phi-3's padding, whose embedding PyTorch gives no gradient.
        tokens = torch.randint(0, models.VOCAB - 1, (3, length), generator=torch.Generator().manual_seed(7))
        logits, loss, gradients, updated = torch_step(model, tokens)
        for source in (self.path("imported"), self.path("hf")):
            ours = self.probe(source, tokens, "--gradients", "--update", "--lr", LR, "--weight-decay", DECAY)
            self.close(ours[0], logits, 1e-4, f"logits of {source}")
            self.assertAlmostEqual(ours[1], loss, delta=1e-5)
            self.assertEqual(len(ours[2]), len(gradients))
            for n, theirs in gradients.items():
                key, arrange = our_name(model, n)
                self.relatively_close(ours[2][key], arrange(theirs).numpy(), 1e-4, f"gradient of {n}")
                self.close_update(ours[3][key], arrange(updated[n]).numpy(), arrange(theirs).numpy(), n)

    def close_update(self, ours, theirs, gradient, name):
        # Adam's first step is lr * g / (|g| + eps): where g is only rounding noise, its sign decides and nothing can agree.
        # Rows of tokens that do not occur have none at all, and only decay. GPT-2's key biases, a third of c_attn.bias, do
        # not change the softmax: their gradient is such noise.
        solid = (gradient == 0) | (np.abs(gradient) > 1e-4 * np.abs(gradient).max())
        self.assertGreater(solid.mean(), 0.6, name)
        self.close(ours[solid], theirs[solid], 1e-6, f"{name} after one AdamW step")


for model_name, (_, lengths) in models.MODELS.items():
    for n_tokens in lengths:
        def run(self, name=model_name, length=n_tokens):
            self.compare(name, length)
        setattr(Models, f"test_{model_name}_{n_tokens}".replace("-", "_").replace(".", "_"), run)

if __name__ == "__main__":
    unittest.main()
