"""Evaluation directly from Hugging Face folders, and models trained by fptrain in transformers."""
import json
import os
import struct
import unittest

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import models
from parity import Case, fptrain
from test_finetuning import chat_tokenizer


class Evaluation(Case):
    def write_json(self, name, value):
        with open(self.path(name), "w", encoding="utf-8") as f:
            json.dump(value, f)

    def test_held_out_loss(self):
        """The loss of `fptrain eval` on a folder is that of transformers on the same tokens."""
        torch.manual_seed(9)
        config = models.llama_config(pad_token_id=0, bos_token_id=1, eos_token_id=2)
        model = models.randomize(models.LlamaForCausalLM(models.LlamaConfig(**dict(config, vocab_size=264))))
        model.save_pretrained(self.path("hf"))
        chat_tokenizer().save(self.path("hf/tokenizer.json"))
        with open(self.path("text.txt"), "w", encoding="utf-8") as f:
            f.write("\n\n".join(f"Line {n} of a text." for n in range(40)))
        fptrain("data", "prepare", "--documents", "blank-line", "--tokenizer", self.path("hf"), "--out", self.path("data"), self.path("text.txt"))
        dumped = fptrain("data", "inspect", self.path("data"), "--dump-ids", "validation")
        stream = [int(x) for x in dumped.split()]
        end = chat_tokenizer().token_to_id("<|endoftext|>")
        self.assertLess(len(stream), 128)
        tokens = torch.tensor([[end] + stream])
        with torch.no_grad():
            expected = float(model(tokens, labels=tokens, use_cache=False).loss)
        self.write_json("run.yaml", {"data": {"train": [{"path": self.path("data")}], "seq_len": 128}, "train": {"micro_batch": 4},
                                     "model": {"preset": self.path("hf")}})
        for precision, tolerance in (("fp32", 1e-5), ("bf16", 2e-2)):
            said = json.loads(fptrain("eval", self.path("run.yaml"), "--checkpoint", self.path("hf"), "--precision", precision, "--json"))
            self.assertEqual(said["tokens"], len(stream))
            self.assertAlmostEqual(said["val_loss"], expected, delta=tolerance)

    def test_multiple_choice(self):
        """Accuracy by sums and by means of log-probabilities equals that of a direct computation."""
        model = models.make("gpt2")
        model.save_pretrained(self.path("hf"))
        generator = torch.Generator().manual_seed(6)
        questions = []
        for _ in range(40):
            lengths = torch.randint(1, 9, (5,), generator=generator).tolist()
            context, *completions = [torch.randint(0, models.VOCAB, (n,), generator=generator).tolist() for n in lengths]
            questions.append((int(torch.randint(0, 4, (1,), generator=generator)), context, completions))
        records = []
        for i, (label, context, completions) in enumerate(questions):
            body = [i, label, 4, len(context), *context] + [x for c in completions for x in (len(c), *c)]
            records.append(struct.pack(f"<{len(body) + 2}H", 65535, 2 * (len(body) + 2), *body))
        with open(self.path("questions.bin"), "wb") as f:
            f.write(struct.pack("<256i", 20240522, 1, len(records), max(map(len, records)), *[0] * 252) + b"".join(records))
        right = [0, 0]
        for label, context, completions in questions:
            scores = []
            for c in completions:
                row = torch.tensor([context + c])
                with torch.no_grad():
                    logp = model(row, use_cache=False).logits.log_softmax(-1)
                scores.append(sum(float(logp[0, len(context) + t - 1, token]) for t, token in enumerate(c)))
            right[0] += max(range(4), key=lambda k: scores[k]) == label
            right[1] += max(range(4), key=lambda k: scores[k] / len(completions[k])) == label
        said = json.loads(fptrain("eval", "--checkpoint", self.path("hf"), "--multiple-choice", self.path("questions.bin"), "--rows", 7,
                                  "--precision", "fp32", "--json"))
        self.assertEqual(said["examples"], len(questions))
        self.assertAlmostEqual(said["acc"], right[0] / len(questions))
        self.assertAlmostEqual(said["acc_norm"], right[1] / len(questions))
        self.assertNotEqual(right, [0, 0])


class Trained(Case):
    """A model and a tokenizer trained by fptrain, loaded in transformers."""

    def export(self, model):
        text = "\n\n".join(f"The {a} cat number {n} sat on the mat." for n, a in enumerate(["red", "old", "big"] * 60))
        with open(self.path("text.txt"), "w", encoding="utf-8") as f:
            f.write(text)
        fptrain("data", "train-tokenizer", "--vocab", 300, "--no-chat-tokens", "--documents", "blank-line", "--out", self.path("tokenizer.json"), self.path("text.txt"))
        fptrain("data", "prepare", "--documents", "blank-line", "--tokenizer", self.path("tokenizer.json"), "--out", self.path("data"), self.path("text.txt"))
        with open(self.path("run.yaml"), "w", encoding="utf-8") as f:
            json.dump({"run": {"directory": self.path("run")}, "model": model | {"max_position": 64},
                       "data": {"train": [{"path": self.path("data")}], "seq_len": 64}, "optimizer": {"lr": 0.01},
                       "train": {"steps": 20, "global_batch": 4, "micro_batch": 4}}, f)
        fptrain("train", self.path("run.yaml"))
        fptrain("checkpoint", "export", self.path("run"), "--to", self.path("out"))
        theirs, info = AutoModelForCausalLM.from_pretrained(self.path("out"), output_loading_info=True, attn_implementation="eager")
        self.assertEqual([info[k] for k in ("missing_keys", "unexpected_keys", "mismatched_keys")], [[], [], []])
        tokenizer = AutoTokenizer.from_pretrained(self.path("out"))
        sentence = "The old cat  sat!\n\n<|endoftext|>"
        with open(self.path("sentence.txt"), "w", encoding="utf-8") as f:
            f.write(sentence)
        ids = fptrain("data", "tokenize", "--tokenizer", self.path("out"), "--parse-special", self.path("sentence.txt")).split()
        self.assertEqual(tokenizer(sentence).input_ids, [int(i) for i in ids])
        self.assertEqual(tokenizer.decode(tokenizer(sentence).input_ids), sentence)
        self.assertEqual(tokenizer.eos_token, "<|endoftext|>")
        tokens = torch.tensor([[int(i) for i in ids]])
        with torch.no_grad():
            logits = theirs.float().eval()(tokens, use_cache=False).logits.numpy()
        self.close(self.probe(self.path("out"), tokens)[0], logits, 1e-4, "logits of the export")
        # The export is in bf16, which the run computed in: probing the run itself in fp32 shows the master weights.
        self.assertEqual(str(theirs.config.torch_dtype), "torch.bfloat16")
        fptrain("checkpoint", "export", self.path("run"), "--dtype", "f32", "--to", self.path("out32"))
        self.close(self.probe(self.path("out32"), tokens)[0], self.probe(self.path("run"), tokens)[0], 0.0, "fp32 export")
        self.assertTrue(os.path.exists(self.path("out/generation_config.json")))

    def test_gpt(self):
        self.export({"family": "gpt", "layers": 2, "hidden": 48, "heads": 4})

    def test_llama(self):
        self.export({"family": "llama", "layers": 2, "hidden": 48, "heads": 4, "kv_heads": 2, "ffn": 96, "tied_embeddings": False})

    def test_phi3(self):
        self.export({"family": "phi3", "layers": 2, "hidden": 48, "heads": 4, "ffn": 96, "sliding_window": 20, "tied_embeddings": False})


if __name__ == "__main__":
    unittest.main()
