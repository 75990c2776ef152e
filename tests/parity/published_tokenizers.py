"""Qwen's and Mistral's published vocabularies on 10 MB of text; scripts/nightly runs it, as they come from PyPI.

The packages of requirements-nightly.txt hold the files: ids equal those of tiktoken and of SentencePiece.
"""
import importlib.util
import os
import unicodedata
import unittest

import sentencepiece
import tiktoken
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers.convert_slow_tokenizer import TikTokenConverter

import tokenizer_corpus
from parity import Case, fptrain

BYTES = 10_000_000
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def file_of(package, *path):
    return os.path.join(importlib.util.find_spec(package).submodule_search_locations[0], *path)


def qwen_tokenizer_json(ranks_file):
    """Returns the ranks as tokenizer.json holds them, with the steps that Qwen2 publishes."""
    vocab, merges = TikTokenConverter(vocab_file=ranks_file).extract_vocab_merges_from_model(ranks_file)
    tokenizer = Tokenizer(models.BPE(vocab, merges, fuse_unk=False, byte_fallback=False))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(QWEN), behavior="isolated", invert=False),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    return tokenizer.to_str()


class Published(Case):
    def ids(self, tokenizer, text):
        with open(self.path("text"), "wb") as f:
            f.write(text.encode())
        return [int(i) for i in fptrain("data", "tokenize", "--tokenizer", tokenizer, self.path("text")).split()]

    def test_qwen(self):
        ranks = file_of("qwen_tokenizer", "resources", "qwen.tiktoken")
        os.makedirs(self.path("qwen"))
        with open(self.path("qwen/tokenizer.json"), "w", encoding="utf-8") as f:
            f.write(qwen_tokenizer_json(ranks))
        text = tokenizer_corpus.text(BYTES, seed=12)
        theirs = tiktoken.Encoding("qwen", pat_str=QWEN, mergeable_ranks=load_tiktoken_bpe(ranks), special_tokens={})
        self.assertEqual(self.ids(self.path("qwen/tokenizer.json"), text),
                         theirs.encode_ordinary(unicodedata.normalize("NFC", text)))

    def test_mistral(self):
        for name in ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"):
            with self.subTest(name):
                os.makedirs(self.path(name))
                model = self.path(f"{name}/tokenizer.model")
                os.symlink(file_of("mistral_common", "data", name), model)
                text = tokenizer_corpus.text(BYTES // 2, seed=13)
                theirs = sentencepiece.SentencePieceProcessor(model_file=model).encode(text)
                self.assertEqual(self.ids(model, text), theirs)


if __name__ == "__main__":
    unittest.main()
