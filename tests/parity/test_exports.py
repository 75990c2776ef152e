"""The files beside an export's weights in transformers: tokenizers, special ids, rope_scaling, windows."""
import json
import os
import unittest

from tokenizers import AddedToken, Tokenizer, decoders, models as token_models, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

import models
from parity import Case, fptrain
from tokenizer_corpus import text
from tokenizer_makers import llama3, sentencepiece_model

LINES = text(60_000, 5, odd=False).splitlines(keepends=True)
TEXT = "Der Zwiebelfisch ist <|eot_id|> 42 Jahre alt.\n"


class Exports(Case):
    def write(self, name, content):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(content if isinstance(content, str) else json.dumps(content))

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as f:
            return json.load(f)

    def train_and_export(self, tokenizer, *sets):
        """Prepares a text, trains a step on it, exports."""
        self.write("text/text.txt", "".join(f"{n} apples and {n + 1} pears\n" for n in range(400)))
        fptrain("data", "prepare", "--tokenizer", self.path(tokenizer), "--validation-fraction", 0, "--documents", "line",
                "--out", self.path("data"), self.path("text/text.txt"))
        self.write("run.yaml", "model: {family: llama, layers: 1, hidden: 16, heads: 2, ffn: 24}\n" if not sets else "run: {}\n")
        sets += (f"run.directory={self.path('run')}", f"data.train[0].path={self.path('data')}", "data.seq_len=32", "train.steps=1",
                 "train.global_batch=2", "train.micro_batch=2", "precision.compute=fp32", "schedule.warmup_steps=0")
        fptrain("train", self.path("run.yaml"), *[x for s in sets for x in ("--set", s)])
        fptrain("checkpoint", "export", self.path("run"), "--to", self.path("out"))

    def test_tokenizer_with_other_special_tokens(self):
        """tokenizer_config.json of an instruct model names another end-of-text token than tokenizer.json."""
        llama3(LINES, 600).save(self.path("tokenizer.json"))
        os.mkdir(self.path("tokenizer"))
        os.rename(self.path("tokenizer.json"), self.path("tokenizer/tokenizer.json"))
        self.write("tokenizer/tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|begin_of_text|>",
                                                       "eos_token": "<|eot_id|>"})
        self.train_and_export("tokenizer")
        before, after = AutoTokenizer.from_pretrained(self.path("tokenizer")), AutoTokenizer.from_pretrained(self.path("out"))
        self.assertEqual(before(TEXT).input_ids, after(TEXT).input_ids)
        self.assertEqual([before.eos_token_id, before.bos_token_id], [after.eos_token_id, after.bos_token_id])
        config = AutoConfig.from_pretrained(self.path("out"))
        self.assertEqual([config.eos_token_id, config.bos_token_id], [after.eos_token_id, after.bos_token_id])

    def test_sentencepiece(self):
        os.mkdir(self.path("tokenizer"))
        sentencepiece_model(self.path("tokenizer/tokenizer.model"), LINES, 1500)
        self.write("tokenizer/tokenizer_config.json", {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
                                                       "add_bos_token": True, "add_eos_token": False})
        self.train_and_export("tokenizer")
        with open(self.path("tokenizer/tokenizer.model"), "rb") as a, open(self.path("out/tokenizer.model"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        before, after = AutoTokenizer.from_pretrained(self.path("tokenizer")), AutoTokenizer.from_pretrained(self.path("out"))
        self.assertEqual(before("12 apples").input_ids, after("12 apples").input_ids)
        self.assertEqual(after.eos_token, "</s>")

    def test_other_tokenizer_than_the_initial_weights(self):
        model = models.make("llama-2")
        model.resize_token_embeddings(300, mean_resizing=False)
        model.save_pretrained(self.path("hf"))
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        for name, order in (("hf", alphabet), ("other", alphabet[::-1])):
            tokenizer = Tokenizer(token_models.BPE({c: i for i, c in enumerate(order)}, []))
            tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
            tokenizer.decoder = decoders.ByteLevel()
            tokenizer.add_special_tokens([AddedToken("<|endoftext|>")])
            os.makedirs(self.path(name), exist_ok=True)
            tokenizer.save(self.path(f"{name}/tokenizer.json"))
        self.write("hf/generation_config.json", {"eos_token_id": 2, "temperature": 0.5})
        self.write("hf/tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"})
        self.train_and_export("other", f"model.init_from={self.path('hf')}", "model.init_changes=true")
        ours = AutoTokenizer.from_pretrained(self.path("out"))
        self.assertEqual(ours(TEXT).input_ids, Tokenizer.from_file(self.path("other/tokenizer.json")).encode(TEXT).ids)
        self.assertEqual([self.read(f"out/{f}")["eos_token_id"] for f in ("config.json", "generation_config.json")], [256, 256])
        self.assertNotIn("temperature", self.read("out/generation_config.json"))

    def test_longrope_has_three_fields(self):
        models.make("phi-3-mini-128k").save_pretrained(self.path("hf"))
        config = self.read("hf/config.json")
        config["rope_scaling"]["attention_factor"] = 2 ** 0.5  # sqrt(1 + log(1024 / 32) / log(32))
        self.write("hf/config.json", config)
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--to", self.path("ckpt"))
        fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"))
        AutoModelForCausalLM.from_pretrained(self.path("out"))

    def test_window_as_published(self):
        models.make("phi-3-mini-4k").save_pretrained(self.path("hf"))
        fptrain("checkpoint", "import", "--from", self.path("hf"), "--sliding-window", 10, "--to", self.path("ckpt"))
        fptrain("checkpoint", "export", self.path("ckpt"), "--to", self.path("out"))
        self.assertEqual(self.read("out/config.json")["sliding_window"], 9)


if __name__ == "__main__":
    unittest.main()
