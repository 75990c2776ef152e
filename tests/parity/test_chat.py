"""Chat templates give the same ids as templating and tokenizing in transformers, whatever the flags of the tokenizer."""
import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

FPTRAIN = os.environ["FPTRAIN"]
PHI3 = ("{% for m in messages %}{{ '<|' + m['role'] + '|>\n' + m['content'] + '<|end|>\n' }}{% endfor %}"
        "{{ eos_token }}")
TEMPLATES = {
    "phi3": PHI3,
    "phi3-small": "{{ '<|endoftext|>' }}" + PHI3,
    "llama3": "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m['role'] + "
              "'<|end_header_id|>\n\n' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}{{ eos_token }}",
}
PHI_TOKENS = ["<|endoftext|>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>"]
LLAMA_TOKENS = ["<|endoftext|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
WORDS = ["the", "cat's", " ", "  ", "\n", "\n\n", "42", "Straße", "日本", "🙂", "?!", "\t", "end", "|>", "<|", "\u3000", "a"]


def conversations(seed, count):
    rng = random.Random(seed)

    def text():
        return "".join(rng.choice(WORDS) for _ in range(rng.randrange(12)))

    for _ in range(count):
        turns = [{"role": "system", "content": text()}] if rng.random() < 0.5 else []
        for _ in range(rng.randrange(1, 4)):
            turns += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
        yield turns


def special(tokens, rstrip):
    return [AddedToken(t, rstrip=rstrip and t != "<|endoftext|>", normalized=False, special=True) for t in tokens]


def byte_level(tokens, rstrip):
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(CL100K), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(WORDS * 20, trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet,
                                                                        show_progress=False))
    tokenizer.add_special_tokens(special(tokens, rstrip))
    return tokenizer


def character_level(tokens, rstrip):
    """As in Llama 2 and phi-3: a dummy prefix for every piece of text, unknown characters as bytes."""
    pieces = ["<unk>"] + [f"<0x{b:02X}>" for b in range(256)] + ["\u2581", "t", "h", "e", "c", "a", "th", "the", "\u2581the"]
    merges = [("t", "h"), ("th", "e"), ("\u2581", "the")]
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges, unk_token="<unk>", fuse_unk=True,
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens(special(tokens, rstrip))
    return tokenizer


class Chat(unittest.TestCase):
    def check(self, name, tokenizer, seed):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            tokenizer.save(str(folder / "tokenizer.json"))
            chats = list(conversations(seed, 60))
            (folder / "chat.jsonl").write_text("".join(json.dumps({"messages": c}) + "\n" for c in chats))
            for arguments in (["prepare", "--chat", name, "--tokenizer", folder / "tokenizer.json", "--out", folder / "out",
                               "--validation-fraction", "0", folder / "chat.jsonl"],
                              ["inspect", folder / "out", "--dump-ids", "train"]):
                done = subprocess.run([FPTRAIN, "data", *map(str, arguments)], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
            ours = [[int(i) for i in line.split()] for line in done.stdout.splitlines()]
            mask = b"".join(p.read_bytes() for p in sorted((folder / "out").glob("*.mask")))
        theirs = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
        theirs.chat_template = TEMPLATES[name]
        header = "<|start_header_id|>assistant<|end_header_id|>" if name == "llama3" else "<|assistant|>"
        header = theirs.encode(header, add_special_tokens=False)
        end = theirs.convert_tokens_to_ids("<|eot_id|>" if name == "llama3" else "<|end|>")
        self.assertEqual(len(ours), len(chats))
        at = 0
        for chat, ids in zip(chats, ours):
            self.assertEqual(ids, theirs.apply_chat_template(chat, tokenize=True), chat)
            # Answers run from a header, whose white space is not part of them, to the next end of a message.
            learned, at = mask[at:at + len(ids)], at + len(ids)
            expected, inside = [], False
            for i, token in enumerate(ids):
                expected.append(inside)
                inside = (inside and token != end) or ids[max(i + 1 - len(header), 0):i + 1] == header
            self.assertTrue(all(e or not m for e, m in zip(expected, learned)))
            for i, (e, m) in enumerate(zip(expected, learned)):
                if e and not m:
                    self.assertEqual(theirs.decode([ids[i]]).strip(), "", "only a header's white space is left out")
            ends = [i for i, token in enumerate(ids) if token == end]
            self.assertEqual([learned[i] for i in ends], [m["role"] == "assistant" for m in chat])

    def test_phi3_characters(self):
        for rstrip in (True, False):
            self.check("phi3", character_level(PHI_TOKENS, rstrip), 1)

    def test_phi3_small_bytes(self):
        for rstrip in (True, False):
            self.check("phi3-small", byte_level(PHI_TOKENS, rstrip), 2)

    def test_llama3_bytes(self):
        self.check("llama3", byte_level(LLAMA_TOKENS, False), 3)


if __name__ == "__main__":
    unittest.main()
