"""Llama 3's published vocabulary: known ids, and the same ids as tiktoken on mixed text."""
import importlib.util
import os
import unittest

import tiktoken
from tiktoken.load import load_tiktoken_bpe

import tokenizer_corpus
from parity import Case, fptrain

PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


class Llama3(Case):
    def setUp(self):
        super().setUp()
        package = importlib.util.find_spec("llama_models").submodule_search_locations[0]
        self.model = os.path.join(package, "llama3", "tokenizer.model")

    def ids(self, text, *arguments):
        with open(self.path("text"), "wb") as f:
            f.write(text.encode())
        return [int(i) for i in fptrain("data", "tokenize", "--tokenizer", self.model, *arguments, self.path("text")).split()]

    def test_published_ids(self):
        self.assertEqual(self.ids("This is a test sentence.", "--add-special"), [128000, 2028, 374, 264, 1296, 11914, 13])
        self.assertEqual(self.ids("<|start_header_id|>user<|end_header_id|>\n\n", "--parse-special"), [128006, 882, 128007, 271])
        self.assertEqual(self.ids("<|eot_id|><|end_of_text|>", "--parse-special"), [128009, 128001])
        self.assertEqual(self.ids("system"), [9125])

    def test_mixed_text(self):
        text = tokenizer_corpus.text(3_000_000, seed=8)
        theirs = tiktoken.Encoding("llama3", pat_str=PATTERN, mergeable_ranks=load_tiktoken_bpe(self.model), special_tokens={})
        self.assertEqual(self.ids(text), theirs.encode_ordinary(text))


if __name__ == "__main__":
    unittest.main()
