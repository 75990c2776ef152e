"""The start of a run: which paths name a model, and which settings are refused before they can do harm."""
import json
import os
import resource
import shutil
import subprocess
import unittest

import torch
from safetensors.torch import load_file, save_file

import models
from parity import FPTRAIN, Case, fptrain


class Starting(Case):
    def setUp(self):
        super().setUp()
        models.make("llama-3.1").save_pretrained(self.path("hf"))
        with open(self.path("text.txt"), "w", encoding="utf-8") as f:
            f.write("\n\n".join(f"{n}: abc" for n in range(200)))
        # 256 bytes and more: the model has 211 ids, so use a tokenizer that the model can hold.
        fptrain("data", "prepare", "--documents", "blank-line", "--tokenizer", "bytes", "--out", self.path("data"), self.path("text.txt"))

    def config(self, **changes):
        with open(self.path("hf/config.json"), encoding="utf-8") as f:
            config = json.load(f)
        config |= changes
        with open(self.path("hf/config.json"), "w", encoding="utf-8") as f:
            json.dump(config, f)

    def big_vocabulary(self):
        torch.manual_seed(3)
        config = models.llama_config(vocab_size=264, num_key_value_heads=2)
        models.randomize(models.LlamaForCausalLM(models.LlamaConfig(**config))).save_pretrained(self.path("big"))

    def train(self, model, *sets, name="run", expect=0):
        with open(self.path("run.yaml"), "w", encoding="utf-8") as f:
            json.dump({"run": {"directory": self.path(name)}, "model": model, "data": {"train": [{"path": self.path("data")}], "seq_len": 32},
                       "train": {"steps": 2, "global_batch": 2, "micro_batch": 2}, "precision": {"compute": "fp32"}}, f)
        return fptrain("train", self.path("run.yaml"), *[x for s in sets for x in ("--set", s)], expect=expect)

    def first_loss(self, name):
        with open(self.path(f"{name}/metrics.jsonl"), encoding="utf-8") as f:
            return json.loads(f.readline())["loss"]

    def test_every_way_to_name_a_model(self):
        self.big_vocabulary()
        fptrain("checkpoint", "import", "--from", self.path("big"), "--to", self.path("ckpt"))
        os.makedirs(self.path("folder/checkpoints"))
        shutil.copytree(self.path("ckpt"), self.path("folder/checkpoints/step-00000000"))
        losses = []
        for i, where in enumerate(("big", "big/model.safetensors", "ckpt", "folder/checkpoints")):
            self.train({"init_from": self.path(where)}, name=f"run{i}")
            losses.append(self.first_loss(f"run{i}"))
        self.train({"preset": self.path("big"), "init_from": self.path("run0")}, name="second")
        self.assertEqual(losses, losses[:1] * 4)
        self.assertNotEqual(self.first_loss("second"), losses[0])
        self.assertIn("model.init_from", self.train({"init_from": self.path("nothing")}, name="x", expect=2))

    def test_other_settings_are_refused(self):
        """Settings with the same shapes but another function: heads, rotary base and scaling must not change unasked."""
        self.big_vocabulary()
        model = {"preset": self.path("big"), "init_from": self.path("big")}
        said = self.train(model | {"heads": 12, "kv_heads": 4, "head_dim": 4, "rope": {"theta": 77777.0}}, expect=2)
        for part in ("model.heads: 12 here, 6 there", "model.rope.theta: 77777 here, 10000 there", "model.init_changes"):
            self.assertIn(part, said)
        self.train(model | {"rope": {"theta": 77777.0}, "init_changes": True}, name="meant")

    def test_zero_sizes(self):
        for key in ("num_attention_heads", "hidden_size", "num_hidden_layers", "num_key_value_heads", "vocab_size"):
            with self.subTest(key):
                shutil.copy(self.path("hf/config.json"), self.path("good.json"))
                self.config(**{key: 0, "head_dim": None})
                fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("x"), expect=3)
                shutil.copy(self.path("good.json"), self.path("hf/config.json"))

    def test_lone_file_in_the_working_folder(self):
        done = subprocess.run([FPTRAIN, "checkpoint", "import", "--from", "model.safetensors", "--to", "../ckpt"], cwd=self.path("hf"),
                              check=False)
        self.assertEqual(done.returncode, 0)

    def test_failed_import_leaves_nothing(self):
        before = sorted(os.listdir(self.folder))
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        done = subprocess.run([FPTRAIN, "checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt")], check=False,
                              preexec_fn=limit, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 3, done.stderr.decode())
        self.assertEqual(sorted(os.listdir(self.folder)), before)

    def test_tied_head_in_metas_names(self):
        models.make("llama-3.2").save_pretrained(self.path("tied"))
        renamed = {}
        pairs = (("model.embed_tokens.", "tok_embeddings."), ("model.norm.", "norm."), ("model.layers.", "layers."),
                 ("self_attn.q_proj", "attention.wq"), ("self_attn.k_proj", "attention.wk"), ("self_attn.v_proj", "attention.wv"),
                 ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"), ("mlp.down_proj", "feed_forward.w2"),
                 ("mlp.up_proj", "feed_forward.w3"), ("input_layernorm", "attention_norm"), ("post_attention_layernorm", "ffn_norm"))
        for name, tensor in load_file(self.path("tied/model.safetensors")).items():
            for ours, theirs in pairs:
                name = name.replace(ours, theirs)
            renamed[name] = tensor
        renamed["output.weight"] = renamed["tok_embeddings.weight"].clone()
        save_file(renamed, self.path("tied/model.safetensors"))
        fptrain("checkpoint", "import", "--from", self.path("tied"), "--format", "meta", "--to", self.path("ckpt"))

    def test_evaluation_with_a_large_loss_chunk(self):
        """Evaluation plans memory for the loss chunks of the run spec."""
        self.train({"family": "llama", "layers": 1, "hidden": 32, "heads": 2, "ffn": 64, "vocab": 8000, "max_position": 64},
                   "memory.loss_chunk_tokens=65536", "train.micro_batch=32", "train.global_batch=32")
        fptrain("eval", self.path("run.yaml"), "--set", "train.micro_batch=32", "--set", "train.global_batch=32", "--checkpoint",
                self.path("run"))


if __name__ == "__main__":
    unittest.main()
