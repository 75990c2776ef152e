"""fptrain's token ids equal those of `tokenizers`, `sentencepiece` and `tiktoken`, for a tokenizer of every kind made here.

Takes the path of the program from the environment variable FPTRAIN and, optionally, the size of the text in bytes from
FPTRAIN_PARITY_BYTES.
"""
import array
import json
import os
import random
import subprocess
import tempfile
import unittest

import tokenizer_corpus as corpus
import tokenizer_makers as makers

FPTRAIN = os.environ["FPTRAIN"]
SIZE = int(os.environ.get("FPTRAIN_PARITY_BYTES", 2_000_000))


def specials(names, seed=3):
    """Returns text in which added tokens have every kind of neighbour."""
    rng = random.Random(seed)
    parts = []
    for _ in range(3000):
        parts.append(rng.choice(names))
        parts.append(rng.choice(["", " ", "  ", "\n", "x", "x ", " x", "\u00A0", "\u3000 ", "people", "peoples", "\u2581", "1 "]))
    return "".join(parts)


class Tokenizers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.lines = corpus.text(1_500_000, seed=1, odd=False).split("\n")
        cls.text = corpus.text(SIZE, seed=2)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def tokenize(self, tokenizer, data, *flags):
        if isinstance(data, str):
            data = data.encode()
        with open(self.path("text"), "wb") as f:
            f.write(data)
        subprocess.run([FPTRAIN, "data", "tokenize", "--tokenizer", tokenizer, self.path("text"), "--out", self.path("ids"),
                        *flags], check=True)
        with open(self.path("ids"), "rb") as f:
            return array.array("I", f.read()).tolist()

    def detokenize(self, tokenizer, ids):
        with open(self.path("ids"), "wb") as f:
            array.array("I", ids).tofile(f)
        return subprocess.run([FPTRAIN, "data", "detokenize", "--tokenizer", tokenizer, self.path("ids")], check=True,
                              stdout=subprocess.PIPE).stdout

    def same(self, ours, theirs, what):
        if ours != theirs:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
            self.fail(f"{what}: of {len(ours)} and {len(theirs)} ids the {at}th differ: "
                      f"fptrain {ours[max(0, at - 5):at + 10]}, theirs {theirs[max(0, at - 5):at + 10]}")

    def check_json(self, name, made, text, names=(), lossless=False):
        path = self.path(name + ".json")
        made.save(path)
        flags = ["--parse-special", "--add-special"]
        self.same(self.tokenize(path, text, *flags), made.encode(text).ids, name)
        if names:
            odd = specials(list(names))
            self.same(self.tokenize(path, odd, *flags), made.encode(odd).ids, name + ", added tokens")
        for short in ["", " ", "  ", "a", " a", "\u2581", "\n", "<|end|>", " <|end|>  x"]:
            self.same(self.tokenize(path, short, *flags), made.encode(short).ids, f"{name}, {short!r}")
        if lossless:
            data = random.Random(5).randbytes(200_000) + b"<|endoftext|>" + corpus.text(20000, 6).encode()[:-1]
            self.assertEqual(self.detokenize(path, self.tokenize(path, data)), data)

    def test_gpt2(self):
        made = makers.gpt2(self.lines)
        self.check_json("gpt2", made, self.text, ["<|endoftext|>", "<|end"], lossless=True)
        # The same as vocab.json and merges.txt in a folder.
        folder = self.path("gpt2")
        os.mkdir(folder)
        made.model.save(folder)
        text = corpus.text(200_000, seed=7)
        self.same(self.tokenize(folder, text, "--parse-special"), made.encode(text).ids, "vocab.json and merges.txt")

    def test_llama3(self):
        made = makers.llama3(self.lines)
        text = self.text + " Zwiebelfisch Zwiebelfische"
        self.check_json("llama3", made, text, ["<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>"], lossless=True)

    def test_nfc_and_added_tokens(self):
        made = makers.nfc(self.lines)
        names = ["cafe\u0301", "caf\u00E9", "people", "<left>", "<both>", "  \n", "<|end", "<|endoftext|>"]
        self.check_json("nfc", made, self.text[:SIZE // 5], names)

    def test_llama2(self):
        made = makers.llama2(self.lines)
        names = ["<|assistant|>", "<|end|>", "<|user|>", "<|endoftext|>", "</s>", "<s>", "<unk>", "<0x0A>"]
        self.check_json("llama2", made, self.text, names)
        text = corpus.text(100_000, 8).replace("\u2581", "_")
        path = self.path("llama2.json")
        self.assertEqual(self.detokenize(path, self.tokenize(path, text)), text.encode())

    def test_metaspace(self):
        self.check_json("metaspace", makers.metaspace(self.lines), self.text[:SIZE // 5], ["<s>", "</s>", "<unk>"])

    def test_splits(self):
        self.check_json("splits", makers.splits(self.lines), self.text[:SIZE // 5])

    def check_sentencepiece(self, name, data, **options):
        import sentencepiece
        path = self.path(name + ".model")
        makers.sentencepiece_model(path, self.lines, **options)
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        self.same(self.tokenize(path, data), model.encode(data), name)
        for short in ["", " ", "  ", "\u2581", " \u2581 ", "a  b ", "\n", "\u4E00", "<s>"]:
            self.same(self.tokenize(path, short), model.encode(short), f"{name}, {short!r}")
        return path, model

    def test_sentencepiece(self):
        path, model = self.check_sentencepiece("llama2", self.text, user_defined_symbols=["<tool>", "\u2581\u2581\u2581"])
        text = corpus.text(100_000, 8).replace("\u2581", "_")
        self.assertEqual(self.detokenize(path, self.tokenize(path, text)), text.encode())
        invalid = corpus.with_invalid_bytes(corpus.text(500_000, 9).encode(), 10)
        self.same(self.tokenize(path, invalid), model.encode(invalid), "invalid bytes")

    def test_sentencepiece_flags(self):
        text = self.text[:SIZE // 20]
        self.check_sentencepiece("extra", text, remove_extra_whitespaces=True)
        self.check_sentencepiece("no_prefix", text, add_dummy_prefix=False)
        self.check_sentencepiece("unknown", text, byte_fallback=False, character_coverage=0.98)

    def test_tiktoken(self):
        import tiktoken
        folder = self.path("ranks")
        os.mkdir(folder)
        ranks, special = makers.tiktoken_ranks(folder, self.lines)
        encoding = tiktoken.Encoding("test", pat_str=makers.CL100K, mergeable_ranks=ranks, special_tokens=special)
        text = self.text[:SIZE // 2] + "<|endoftext|>x<|user|>"
        self.same(self.tokenize(folder, text, "--parse-special"), encoding.encode(text, allowed_special="all"), "tiktoken")
        self.same(self.tokenize(folder, self.text[SIZE // 2:]), encoding.encode_ordinary(self.text[SIZE // 2:]), "as text")
        data = random.Random(5).randbytes(200_000)
        self.assertEqual(self.detokenize(folder, self.tokenize(folder, data)), data)


if __name__ == "__main__":
    unittest.main()
