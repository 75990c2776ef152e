"""Import and export of models: byte-identical round trips, exports in transformers, foreign layouts, refusals."""
import json
import os
import subprocess
import sys
import unittest

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

import models
from parity import FPTRAIN, Case, fptrain

TOKENS = torch.randint(0, models.VOCAB - 1, (2, 24), generator=torch.Generator().manual_seed(3))


def tensors_of(folder):
    """Returns every tensor of a folder of safetensors, by name."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            found |= load_file(os.path.join(folder, name))
    return found


class RoundTrip(Case):
    def import_and_export(self, name, *arguments):
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"))
        fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"), *arguments)
        before, after = tensors_of(self.path("hf")), tensors_of(self.path("out"))
        self.assertEqual(sorted(before), sorted(after), name)
        for key, tensor in before.items():
            self.assertEqual(tensor.dtype, after[key].dtype, key)
            self.assertEqual(tensor.shape, after[key].shape, key)
            as_bytes = [t.contiguous().view(torch.int32 if t.element_size() == 4 else torch.int16) for t in (tensor, after[key])]
            self.assertTrue(torch.equal(*as_bytes), key)

    def load_export(self):
        model, info = AutoModelForCausalLM.from_pretrained(self.path("out"), output_loading_info=True, attn_implementation="eager")
        self.assertEqual([info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")], [[], [], [], []])
        return model.float().eval()

    def round_trip(self, name, dtype):
        model = models.make(name).to(dtype)
        model.save_pretrained(self.path("hf"))
        self.import_and_export(name)
        with torch.no_grad():
            theirs = self.load_export()(TOKENS).logits.numpy()
        self.close(self.probe(self.path("ckpt"), TOKENS)[0], theirs, 1e-4, name)

    def test_sharded(self):
        model = models.make("llama-3.1").to(torch.bfloat16)
        model.save_pretrained(self.path("hf"), max_shard_size="40KB")
        self.assertTrue(os.path.exists(self.path("hf/model.safetensors.index.json")))
        self.import_and_export("sharded", "--shard-size", 5e-5)
        with open(self.path("out/model.safetensors.index.json"), encoding="utf-8") as f:
            index = json.load(f)
        self.assertEqual(index["metadata"]["total_size"], sum(t.numel() * 2 for t in model.state_dict().values()))
        self.assertGreater(len(set(index["weight_map"].values())), 2)
        self.load_export()

    def test_element_types_mix(self):
        """One tensor in fp32 among bf16 ones stays so; NaN payloads and infinities survive."""
        models.make("llama-2").to(torch.bfloat16).save_pretrained(self.path("hf"))
        tensors = tensors_of(self.path("hf"))
        tensors["model.norm.weight"] = tensors["model.norm.weight"].float()
        special = torch.tensor([0x7FC1, 0x7F80, 0xFF80 - 0x10000, 0x7F81, 1, 0x8000 - 0x10000], dtype=torch.int16).view(torch.bfloat16)
        tensors["lm_head.weight"].view(-1)[:6] = special
        save_file(tensors, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        self.import_and_export("mixed")

    def test_every_half_value(self):
        """All 65,536 bit patterns of f16 and of bf16 go through fp32 and back unchanged."""
        models.make("llama-2").save_pretrained(self.path("hf"))
        with open(self.path("hf/config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config |= {"hidden_size": 64, "vocab_size": 1024, "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 1,
                   "intermediate_size": 64, "head_dim": 32}
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)
        every = torch.arange(65536, dtype=torch.int32).to(torch.int16)
        square = torch.zeros(64, 64, dtype=torch.bfloat16)
        names = [f"self_attn.{x}_proj" for x in "qkvo"] + [f"mlp.{x}_proj" for x in ("gate", "up", "down")]
        tensors = {f"model.layers.0.{n}.weight": square.clone() for n in names}
        tensors |= {f"model.{n}.weight": torch.ones(64) for n in ("norm", "layers.0.input_layernorm", "layers.0.post_attention_layernorm")}
        tensors |= {"model.embed_tokens.weight": every.view(torch.bfloat16).view(1024, 64),
                    "lm_head.weight": every.clone().view(torch.float16).view(1024, 64)}
        save_file(tensors, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        self.import_and_export("all values")

    def test_newer_rope_form(self):
        """The rope_parameters block of later transformers releases is equivalent to rope_scaling."""
        for name in ("llama-3.1", "phi-3-mini-128k"):
            with self.subTest(name):
                folder = self.path(f"hf-{name}")
                models.make(name).save_pretrained(folder)
                before = self.probe(folder, TOKENS)[0]
                with open(f"{folder}/config.json", encoding="utf-8") as f:
                    config = json.load(f)
                block = dict(config.pop("rope_scaling"), rope_theta=config.pop("rope_theta"), partial_rotary_factor=1.0)
                block["rope_type"] = block.pop("type", None) or block["rope_type"]
                with open(f"{folder}/config.json", "w", encoding="utf-8") as f:
                    json.dump(dict(config, rope_parameters=block), f)
                self.close(self.probe(folder, TOKENS)[0], before, 0.0, name)

    def test_companions_travel(self):
        models.make("llama-2").save_pretrained(self.path("hf"))
        for name, text in (("generation_config.json", '{"eos_token_id": [1, 2], "temperature": 0.6}'), ("chat_template.jinja", "{{ x }}")):
            with open(self.path(f"hf/{name}"), "w", encoding="utf-8") as f:
                f.write(text)
        self.import_and_export("companions")
        for name in ("generation_config.json", "chat_template.jinja"):
            with open(self.path(f"hf/{name}"), "rb") as a, open(self.path(f"out/{name}"), "rb") as b:
                self.assertEqual(a.read(), b.read())


class Memory(Case):
    @unittest.skipIf(os.environ.get("FPTRAIN_SANITIZE"), "a sanitizer's own memory hides the program's")
    def test_streaming(self):
        """Import and export hold less than two of the largest tensor (as fp32), however large the model is."""
        vocab, hidden, ffn, layers = 16384, 1024, 4096, 6
        tensors = {"model.embed_tokens.weight": (vocab, hidden), "model.norm.weight": (hidden,), "lm_head.weight": (vocab, hidden)}
        for n in range(layers):
            tensors |= {f"model.layers.{n}.self_attn.{x}_proj.weight": (hidden, hidden) for x in "qkvo"}
            tensors |= {f"model.layers.{n}.mlp.{x}_proj.weight": (ffn, hidden) for x in ("gate", "up")}
            tensors |= {f"model.layers.{n}.mlp.down_proj.weight": (hidden, ffn)}
            tensors |= {f"model.layers.{n}.{x}_layernorm.weight": (hidden,) for x in ("input", "post_attention")}
        os.mkdir(self.path("hf"))
        save_file({k: torch.ones(s, dtype=torch.bfloat16) for k, s in tensors.items()}, self.path("hf/model.safetensors"),
                  metadata={"format": "pt"})
        config = models.llama_config(vocab_size=vocab, hidden_size=hidden, intermediate_size=ffn, num_hidden_layers=layers,
                                     num_attention_heads=8, num_key_value_heads=8)
        del config["attn_implementation"]
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as f:
            json.dump(dict(config, model_type="llama"), f)
        start = self.peak("doctor")
        for command in (["import", "--from", self.path("hf"), "--to", self.path("ckpt")],
                        ["export", self.path("ckpt"), "--to", self.path("out")]):
            self.assertLess(self.peak("checkpoint", *command) - start, 2 * 4 * vocab * hidden, command[0])

    def peak(self, *arguments):
        """Peak resident bytes of a run of fptrain."""
        program = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); " \
                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)"
        return int(subprocess.run([sys.executable, "-c", program, FPTRAIN, *arguments], check=True, stdout=subprocess.PIPE).stdout)


class OtherLayouts(Case):
    def in_metas_layout(self, model):
        """Meta's names and row order: rows of q and k are (head, pair, half) there and (head, half, pair) here."""
        config = model.config
        renamed = {}
        pairs = (("model.embed_tokens.", "tok_embeddings."), ("model.norm.", "norm."), ("lm_head.", "output."), ("model.layers.", "layers."),
                 ("self_attn.q_proj", "attention.wq"), ("self_attn.k_proj", "attention.wk"), ("self_attn.v_proj", "attention.wv"),
                 ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"), ("mlp.down_proj", "feed_forward.w2"),
                 ("mlp.up_proj", "feed_forward.w3"), ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"))
        for name, tensor in model.state_dict().items():
            for ours, theirs in pairs:
                name = name.replace(ours, theirs)
            heads = {"wq": config.num_attention_heads, "wk": config.num_key_value_heads}.get(name.split(".")[-2])
            if heads:
                rows, columns = tensor.shape
                tensor = tensor.view(heads, 2, rows // heads // 2, columns).transpose(1, 2).reshape(rows, columns)
            renamed[name] = tensor.contiguous()
        return renamed

    def test_meta_llama(self):
        """One file of Meta's; and two, divided as by Meta's model-parallel layers of Llama 2 and Llama 3."""
        for parts, embedding_dim in ((1, 0), (2, 1), (2, 0)):
            with self.subTest(parts=parts, embedding_dim=embedding_dim):
                work = self.path(f"{parts}-{embedding_dim}")
                config = LlamaConfig(**models.llama_config(vocab_size=210 + parts, num_key_value_heads=2))
                model = models.randomize(LlamaForCausalLM(config))
                model.save_pretrained(f"{work}/hf")
                os.mkdir(f"{work}/meta")
                dims = {"wo": 1, "w2": 1, "tok_embeddings": embedding_dim}
                for part in range(parts):
                    tensors = {"rope.freqs": torch.ones(4)}
                    for key, tensor in self.in_metas_layout(model).items():
                        share = tensor if "norm" in key else tensor.chunk(parts, dims.get(key.split(".")[-2], 0))[part]
                        tensors[key] = share.clone()
                    save_file(tensors, f"{work}/meta/consolidated.{part:02}.safetensors")
                os.link(f"{work}/hf/config.json", f"{work}/meta/config.json")
                fptrain("checkpoint", "import", "--from", f"{work}/meta", "--format", "meta", "--to", f"{work}/ckpt")
                self.close(self.probe(f"{work}/ckpt", TOKENS)[0], self.probe(f"{work}/hf", TOKENS)[0], 0.0, "Meta's layout")
                fptrain("checkpoint", "export", f"{work}/ckpt", "--format", "meta", "--to", f"{work}/out")
                written = tensors_of(f"{work}/out")
                for key, tensor in self.in_metas_layout(model).items():
                    self.assertTrue(torch.equal(tensor, written.pop(key)), key)
                self.assertEqual(written, {})

    def test_llmc(self):
        """llm.c's stacked GPT-2 file, fp32 and bf16, vocabulary padded."""
        model = models.make("gpt2")
        c, state = model.config, {k.removeprefix("transformer."): v for k, v in model.state_dict().items()}
        padded = 256
        order = ["ln_1.weight", "ln_1.bias", "attn.c_attn.weight", "attn.c_attn.bias", "attn.c_proj.weight", "attn.c_proj.bias",
                 "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight", "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"]
        table = torch.cat([state["wte.weight"], torch.full((padded - c.vocab_size, c.n_embd), 7.0)])
        stack = [table, state["wpe.weight"]]
        for name in order:
            layers = [state[f"h.{i}.{name}"] for i in range(c.n_layer)]
            stack += [x.T if x.dim() == 2 else x for x in layers]
        stack += [state["ln_f.weight"], state["ln_f.bias"]]
        for version, dtype, carrier in ((3, torch.float32, np.float32), (5, torch.bfloat16, np.int16)):
            header = np.zeros(256, dtype="<i4")
            header[:8] = [20240326, version, c.n_positions, c.vocab_size, c.n_layer, c.n_head, c.n_embd, padded]
            with open(self.path("model.bin"), "wb") as f:
                f.write(header.tobytes())
                for x in stack:
                    x = x.to(dtype).contiguous()
                    f.write((x.view(torch.int16) if dtype == torch.bfloat16 else x).numpy().astype(carrier).tobytes())
            with torch.no_grad():
                theirs = models.make("gpt2").to(dtype).float()(TOKENS).logits.numpy()
            self.close(self.probe(self.path("model.bin"), TOKENS)[0], theirs, 1e-4, f"llm.c version {version}")
        with open(self.path("model.bin"), "ab") as f:
            f.write(b"\0")
        self.assertIn("its header needs", fptrain("checkpoint", "import", "--from", self.path("model.bin"), "--to", self.path("x"), expect=3))


class Refusals(Case):
    def test_all_problems_at_once(self):
        models.make("llama-2").save_pretrained(self.path("hf"))
        tensors = tensors_of(self.path("hf"))
        del tensors["model.norm.weight"]
        tensors["extra.weight"] = torch.zeros(3)
        tensors["lm_head.weight"] = torch.zeros(5, 48)
        tensors["model.layers.1.mlp.up_proj.weight"] = tensors["model.layers.1.mlp.up_proj.weight"].to(torch.float64)
        save_file(tensors, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        said = fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"), expect=3)
        for part in ("model.norm.weight [48] is missing", "extra.weight [3] belongs to no parameter",
                     "lm_head.weight is [5,48], the model needs [211,48]", "up_proj.weight has dtype F64"):
            self.assertIn(part, said)
        self.assertFalse(os.path.exists(self.path("ckpt")))

    def test_tied_copy(self):
        """A stored LM head beside a tied embedding is accepted when it is equal, and refused when it is not."""
        models.make("gpt2").save_pretrained(self.path("hf"))
        tensors = tensors_of(self.path("hf"))
        tensors |= {"lm_head.weight": tensors["transformer.wte.weight"].clone(), "transformer.h.0.attn.bias": torch.ones(1, 1, 8, 8)}
        save_file(tensors, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("good"))
        tensors["lm_head.weight"][5, 5] += 1
        save_file(tensors, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        said = fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("bad"), expect=3)
        self.assertIn("lm_head.weight differs from transformer.wte.weight", said)

    def test_unsupported_configs(self):
        models.make("llama-2").save_pretrained(self.path("hf"))
        with open(self.path("hf/config.json"), encoding="utf-8") as f:
            good = json.load(f)
        for key, value in (("model_type", "mamba"), ("hidden_act", "gelu"), ("attention_bias", True), ("num_hidden_layers", "3"),
                           ("rope_scaling", {"rope_type": "dynamic", "factor": 2.0}), ("partial_rotary_factor", 0.5),
                           ("hidden_size", None), ("num_key_value_heads", 5), ("quantization_config", {"bits": 4})):
            with self.subTest(key):
                with open(self.path("hf/config.json"), "w", encoding="utf-8") as f:
                    json.dump(dict(good, **{key: value}), f)
                said = fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"), expect=3)
                self.assertIn(key.replace("num_key_value_heads", "kv_heads").replace("rope_scaling", "rope_type"), said)

    def test_half_overflow(self):
        models.make("llama-2").save_pretrained(self.path("hf"))
        tensors = tensors_of(self.path("hf"))
        tensors["model.norm.weight"][0] = 1e6
        save_file(tensors, self.path("hf/model.safetensors"), metadata={"format": "pt"})
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"))
        said = fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"), "--dtype", "f16", expect=3)
        self.assertIn("too large for F16", said)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_truncated(self):
        models.make("llama-2").save_pretrained(self.path("hf"))
        with open(self.path("hf/model.safetensors"), "r+b") as f:
            f.truncate(os.path.getsize(self.path("hf/model.safetensors")) - 4)
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"), expect=3)


for model_name in models.MODELS:
    for type_name, torch_dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16)):
        def run(self, name=model_name, dtype=torch_dtype):
            self.round_trip(name, dtype)
        setattr(RoundTrip, f"test_{model_name}_{type_name}".replace("-", "_").replace(".", "_"), run)

if __name__ == "__main__":
    unittest.main()
