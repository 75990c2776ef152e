"""Logits, gradients and an AdamW step of imported models equal those of transformers and PyTorch in fp32."""
import unittest

import torch

import models
from parity import DECAY, LR, Case, adamw_step, fptrain


def our_name(model, name):
    """Returns the parameter's name and a function that converts its values to fptrain's shape."""
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
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    adamw_step(list(model.parameters()))
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
                self.close_update(ours[3][key], arrange(updated[n]).numpy(), ours[2][key], arrange(theirs).numpy(), n)


for model_name, (_, lengths) in models.MODELS.items():
    for n_tokens in lengths:
        def run(self, name=model_name, length=n_tokens):
            self.compare(name, length)
        setattr(Models, f"test_{model_name}_{n_tokens}".replace("-", "_").replace(".", "_"), run)

if __name__ == "__main__":
    unittest.main()
