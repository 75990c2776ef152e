#!/usr/bin/env python3
"""Compares the speed of `fptrain data prepare` and `data tokenize` with tokenizers, sentencepiece and tiktoken.

    scripts/bench/tokenizers.py --fptrain PROGRAM --text FILE [--rounds N] [--vocab N] [--threads N]

Tokenizers of each kind are trained on the first 4 MB of FILE. Both sides encode all of it as documents of 100 lines, and
the first 4 MB as one text, in alternating rounds; figures are MB/s of the median round. fptrain's times include reading the
files, loading the tokenizer and (for documents) writing shards; the libraries' times only include the encoding calls.
Needs the environment of the parity tests.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--fptrain", required=True)
parser.add_argument("--text", required=True)
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--vocab", type=int, default=32000)
parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
args = parser.parse_args()
os.environ["RAYON_NUM_THREADS"] = str(args.threads)
os.environ["TOKENIZERS_PARALLELISM"] = "true"

# Replaces this script's own folder, where this file would hide the package `tokenizers`.
sys.path[0] = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests", "parity")
import tokenizer_makers as makers  # noqa: E402

with open(args.text, encoding="utf-8") as f:
    LINES = f.read().split("\n")
DOCUMENTS = ["\n".join(LINES[i:i + 100]) for i in range(0, len(LINES), 100)]
SAMPLE = "\n".join(LINES)[:4_000_000]
FOLDER = tempfile.TemporaryDirectory()
SAMPLE_FILE, TEXT_FILE = os.path.join(FOLDER.name, "sample.txt"), os.path.join(FOLDER.name, "all.txt")
with open(SAMPLE_FILE, "w", encoding="utf-8") as f:
    f.write(SAMPLE)
with open(TEXT_FILE, "w", encoding="utf-8") as f:
    f.write("\n".join(LINES))
BYTES, SAMPLE_BYTES = os.path.getsize(TEXT_FILE), os.path.getsize(SAMPLE_FILE)


def seconds(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def prepare(path):
    subprocess.run([args.fptrain, "data", "prepare", TEXT_FILE, "--tokenizer", path, "--documents", "lines:100",
                    "--validation-fraction", "0", "--threads", str(args.threads), "--overwrite", "--out",
                    os.path.join(FOLDER.name, "out")], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def tokenize(path):
    subprocess.run([args.fptrain, "data", "tokenize", "--tokenizer", path, SAMPLE_FILE, "--out",
                    os.path.join(FOLDER.name, "ids")], check=True)


def compare(name, path, batch, single):
    """Returns one table row: both programs, run alternately."""
    cells = []
    for ours, theirs, size in ((prepare, batch, BYTES), (tokenize, single, SAMPLE_BYTES)):
        pairs = [(seconds(lambda: ours(path)), seconds(theirs)) for _ in range(args.rounds)]
        ratios = [b / a for a, b in pairs]
        a, b = (statistics.median(size / 1e6 / p[i] for p in pairs) for i in (0, 1))
        cells.append(f"{a:.1f} | {b:.1f} | {statistics.median(ratios):.1f} ({min(ratios):.1f} to {max(ratios):.1f})")
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


def main():
    import sentencepiece
    import tiktoken
    print(f"{BYTES / 1e6:.1f} MB, {len(DOCUMENTS)} documents, {args.threads} threads, vocabulary {args.vocab}")
    print("| kind | documents: fptrain MB/s | library MB/s | ratio | one text: fptrain MB/s | library MB/s | ratio |")
    print("|---|---|---|---|---|---|---|")
    lines = SAMPLE.split("\n")
    for name, make in (("GPT-2 tokenizer.json", makers.gpt2), ("Llama 3 tokenizer.json", makers.llama3),
                       ("Llama 2 tokenizer.json", makers.llama2)):
        made = make(lines, args.vocab)
        path = os.path.join(FOLDER.name, "tokenizer.json")
        made.save(path)
        compare(name, path, lambda: made.encode_batch(DOCUMENTS), lambda: made.encode(SAMPLE))
    path = os.path.join(FOLDER.name, "m.model")
    makers.sentencepiece_model(path, [line[:4000] for line in lines], args.vocab, split_digits=False)
    model = sentencepiece.SentencePieceProcessor(model_file=path)
    compare("SentencePiece", path, lambda: model.encode(DOCUMENTS, num_threads=args.threads), lambda: model.encode(SAMPLE))
    folder = os.path.join(FOLDER.name, "ranks")
    os.mkdir(folder)
    ranks, special = makers.tiktoken_ranks(folder, lines, args.vocab)
    encoding = tiktoken.Encoding("bench", pat_str=makers.CL100K, mergeable_ranks=ranks, special_tokens=special)
    compare("tiktoken", folder, lambda: encoding.encode_ordinary_batch(DOCUMENTS, num_threads=args.threads),
            lambda: encoding.encode_ordinary(SAMPLE))


if __name__ == "__main__":
    main()
