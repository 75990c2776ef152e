"""Tokenizers of every published kind, trained here on a small text and written by the real libraries."""
import base64
import io
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
BYTES = [f"<0x{b:02X}>" for b in range(256)]


def gpt2(lines, vocab=3000):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return t


def llama3(lines, vocab=3000):
    """Split + ByteLevel, ignore_merges, a template, special tokens."""
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CL100K), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=vocab, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    # A token that its merges do not reach: only ignore_merges gives it.
    spec = json.loads(t.to_str())
    spec["model"]["vocab"]["\u0120Zwiebelfisch"] = len(spec["model"]["vocab"])
    t = Tokenizer.from_str(json.dumps(spec))
    t.add_special_tokens(["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"])
    t.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B",
                                      special_tokens=[("<|begin_of_text|>", t.token_to_id("<|begin_of_text|>"))])])
    return t


def nfc(lines, vocab=2000):
    """NFC, added tokens of every flavour, a prefixed space."""
    t = gpt2(lines, vocab)
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.add_tokens([AddedToken("caf\u00E9", normalized=True), AddedToken("people", single_word=True),
                  AddedToken("<left>", lstrip=True), AddedToken("<both>", lstrip=True, rstrip=True),
                  AddedToken("  \n", normalized=False), AddedToken("<|end", normalized=False)])
    return t


def llama2(lines, vocab=3000):
    """Byte fallback, Prepend + Replace, no pre-tokenizer; phi-3's added tokens."""
    t = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["<unk>", "<s>", "</s>"] + BYTES, show_progress=False, max_token_length=16,
        limit_alphabet=400))
    spec = json.loads(t.to_str())
    spec["pre_tokenizer"] = None
    spec["added_tokens"] = [a for a in spec["added_tokens"] if a["id"] < 3]
    spec["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    spec["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    spec["post_processor"] = {
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    t = Tokenizer.from_str(json.dumps(spec))
    t.add_special_tokens([AddedToken("<|endoftext|>", normalized=False)])
    t.add_special_tokens([AddedToken(name, rstrip=True, normalized=False)
                          for name in ("<|assistant|>", "<|system|>", "<|end|>", "<|user|>")])
    return t


def metaspace(lines, vocab=3000):
    """Metaspace first, unknown characters fused, no byte fallback."""
    t = Tokenizer(models.BPE(fuse_unk=True, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=True)
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    t.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=vocab, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, limit_alphabet=300))
    return t


def splits(lines, vocab=2000):
    """Every behaviour of Split in one row."""
    t = gpt2(lines, vocab)
    t.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split("\u2581", "removed"),
        pre_tokenizers.Split(Regex(r"[\r\n]"), "merged_with_previous"),
        pre_tokenizers.Split(Regex(r"\d"), "contiguous"),
        pre_tokenizers.Split(Regex(r"\p{Han}"), "merged_with_next"),
        pre_tokenizers.Split(Regex(r"\s?\S+|\s+"), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return t


def sentencepiece_model(path, lines, vocab=4000, **options):
    import sentencepiece
    settings = dict(model_type="bpe", vocab_size=vocab, normalization_rule_name="identity", byte_fallback=True,
                    add_dummy_prefix=True, remove_extra_whitespaces=False, split_digits=True,
                    allow_whitespace_only_pieces=True, character_coverage=0.985, minloglevel=2, num_threads=2)
    settings.update(options)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=model, **settings)
    with open(path, "wb") as f:
        f.write(model.getvalue())


def tiktoken_ranks(folder, lines, vocab=2000):
    """A rank file and a folder around it; returns the ranks and the special tokens."""
    from transformers.models.gpt2.tokenization_gpt2 import bytes_to_unicode
    back = {c: b for b, c in bytes_to_unicode().items()}
    t = llama3(lines, vocab)
    ordered = sorted((i, s) for s, i in json.loads(t.to_str())["model"]["vocab"].items())
    ranks = {bytes(back[c] for c in s): rank for rank, (_, s) in enumerate(ordered)}
    special = {"<|endoftext|>": len(ranks) + 1, "<|user|>": len(ranks) + 5}
    with open(os.path.join(folder, "test.tiktoken"), "wb") as f:
        for token, rank in ranks.items():
            f.write(base64.b64encode(token) + b" %d\n" % rank)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"eos_token": "<|endoftext|>", "added_tokens_decoder": {
            str(i): {"content": s, "special": True} for s, i in special.items()}}, f)
    return ranks, special
