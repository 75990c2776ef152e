"""Dataset files of other trainers: written here byte by byte and read by fptrain; and converted by fptrain and read here."""
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

import numpy

FPTRAIN = os.environ["FPTRAIN"]
EOT = 256  # of the byte tokenizer
MEGATRON_CODES = {1: "u1", 2: "i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
LLMC_KINDS = {20240520: (1, "<u2"), 20240801: (7, "<u4")}


def write_megatron(prefix, documents, code):
    """documents: lists of sequences, each a list of ids."""
    sequences = [s for d in documents for s in d]
    dtype = numpy.dtype(MEGATRON_CODES[code])
    numpy.array([i for s in sequences for i in s], dtype=dtype).tofile(f"{prefix}.bin")
    lengths = numpy.array([len(s) for s in sequences], dtype="<i4")
    pointers = (numpy.cumsum(lengths, dtype="<i8") - lengths) * dtype.itemsize
    ends = numpy.cumsum([0] + [len(d) for d in documents], dtype="<i8")
    with open(f"{prefix}.idx", "wb") as f:
        f.write(b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, code, len(sequences), len(ends)))
        f.write(lengths.tobytes() + pointers.astype("<i8").tobytes() + ends.tobytes())


def read_megatron(prefix):
    raw = pathlib.Path(f"{prefix}.idx").read_bytes()
    assert raw[:9] == b"MMIDIDX\x00\x00"
    version, code, sequences, entries = struct.unpack_from("<QBQQ", raw, 9)
    assert version == 1 and len(raw) == 34 + 12 * sequences + 8 * entries
    lengths = numpy.frombuffer(raw, "<i4", sequences, 34)
    pointers = numpy.frombuffer(raw, "<i8", sequences, 34 + 4 * sequences)
    ends = numpy.frombuffer(raw, "<i8", entries, 34 + 12 * sequences)
    dtype = numpy.dtype(MEGATRON_CODES[code])
    ids = pathlib.Path(f"{prefix}.bin").read_bytes()
    assert len(ids) == int(lengths.sum()) * dtype.itemsize
    read = [numpy.frombuffer(ids, dtype, n, p).tolist() for n, p in zip(lengths, pointers)]
    return code, [sum(read[a:b], []) for a, b in zip(ends, ends[1:])]


def write_llmc(path, ids, magic):
    version, dtype = LLMC_KINDS[magic]
    header = numpy.zeros(256, dtype="<i4")
    header[:3] = magic, version, len(ids)
    path.write_bytes(header.tobytes() + numpy.array(ids, dtype=dtype).tobytes())


def read_llmc(path):
    raw = path.read_bytes()
    header = numpy.frombuffer(raw, "<i4", 256)
    version, dtype = LLMC_KINDS[int(header[0])]
    assert header[1] == version and not header[3:].any()
    ids = numpy.frombuffer(raw, dtype, offset=1024)
    assert len(ids) == header[2]
    return int(header[0]), ids.tolist()


def wide_tokenizer(path, size):
    """A tokenizer.json of GPT-2's kind with `size` ids: the bytes, tokens no merge makes, <|endoftext|> last."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names, extra = {b: chr(b) for b in printable}, 0
    for b in range(256):
        if b not in names:
            names[b], extra = chr(256 + extra), extra + 1
    vocab = {names[b]: b for b in range(256)} | {f"unused{i}": i for i in range(256, size - 1)}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    path.write_text(json.dumps({
        "version": "1.0",
        "added_tokens": [{"id": size - 1, "content": "<|endoftext|>", **flags}],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocab, "merges": []},
    }))


class Datasets(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.dir = pathlib.Path(scratch.name)
        random = numpy.random.default_rng(7)
        # Bodies of documents, without a token between them; sequences of several lengths.
        self.bodies = [random.integers(0, 256, int(n)).tolist() for n in random.integers(1, 900, 60)]

    def run_fptrain(self, *arguments, code=0):
        done = subprocess.run([FPTRAIN, "data", *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr if code else done.stdout

    def ids(self, path, *arguments):
        lines = self.run_fptrain("inspect", path, "--dump-ids", "train", *arguments).splitlines()
        return [[int(i) for i in line.split()] for line in lines]

    def test_megatron_pairs_are_read_exactly(self):
        documents = [[b + [EOT]] for b in self.bodies]
        documents[3] = [self.bodies[3][:5], self.bodies[3][5:9], [], self.bodies[4] + [EOT]]  # several sequences
        documents[7] = []  # a document of no sequence
        documents[9] = [[1, 2, 3]]  # no end-of-document token
        for code in (8, 4, 5, 3):
            write_megatron(self.dir / f"m{code}_text_document", documents, code)
            expected = [sum(d, []) for d in documents]
            for ending in ("", ".bin", ".idx"):
                path = self.dir / f"m{code}_text_document{ending}"
                self.assertEqual(self.ids(path, "--tokenizer", "bytes"), expected)

    def test_llmc_files_and_shards_are_read_exactly(self):
        wide_tokenizer(self.dir / "wide.json", 70000)
        for magic, tokenizer, eot in ((20240520, "bytes", EOT), (20240801, self.dir / "wide.json", 69999)):
            documents = [[eot] + b for b in self.bodies]
            documents[5][3] = eot - 1 if magic == 20240801 else 255
            stream = sum(documents, [])
            one = self.dir / f"{magic}.bin"
            write_llmc(one, stream, magic)
            self.assertEqual(self.ids(one, "--tokenizer", tokenizer), documents)
            cuts = [0, 100, len(stream) // 2, len(stream)]  # documents run across shards
            for n, (a, b) in enumerate(zip(cuts, cuts[1:])):
                write_llmc(self.dir / f"{magic}_train_{n:06}.bin", stream[a:b], magic)
            self.assertEqual(self.ids(self.dir / f"{magic}_train_*.bin", "--tokenizer", tokenizer), documents)

    def test_nanogpt_files_are_read_exactly(self):
        documents = [b + [EOT] for b in self.bodies]
        path = self.dir / "train.bin"
        numpy.array(sum(documents, []), dtype="<u2").tofile(path)
        named = ("--tokenizer", "bytes", "--format", "nanogpt")
        self.assertEqual(self.ids(path, *named), documents)
        self.assertIn("set format: nanogpt", self.run_fptrain("inspect", path, "--tokenizer", "bytes", code=2))
        numpy.array([1, 2, 400], dtype="<u2").tofile(path)
        self.assertIn("train.bin: token 2 is 400", self.run_fptrain("inspect", path, *named, code=3))

    def test_converted_files_are_read_back(self):
        nano = self.dir / "nano.bin"
        numpy.array(sum([b + [EOT] for b in self.bodies], []), dtype="<u2").tofile(nano)
        wide_tokenizer(self.dir / "wide.json", 70000)
        write_llmc(self.dir / "wide.bin", sum([[69999] + b for b in self.bodies], []), 20240801)
        source = (nano, "--format", "nanogpt", "--tokenizer", "bytes")
        wide = (self.dir / "wide.bin", "--tokenizer", self.dir / "wide.json")

        self.run_fptrain("convert", *source, "--to", "megatron", "--out", self.dir / "narrow_text_document")
        self.assertEqual(read_megatron(self.dir / "narrow_text_document"), (8, [b + [EOT] for b in self.bodies]))
        self.run_fptrain("convert", *wide, "--to", "megatron", "--out", self.dir / "wide_text_document")
        self.assertEqual(read_megatron(self.dir / "wide_text_document"), (4, [[69999] + b for b in self.bodies]))

        self.run_fptrain("convert", *source, "--to", "llmc", "--out", self.dir / "gpt2.bin")
        self.assertEqual(read_llmc(self.dir / "gpt2.bin"), (20240520, sum([[EOT] + b for b in self.bodies], [])))
        self.run_fptrain("convert", *wide, "--to", "llmc", "--out", self.dir / "llama3.bin")
        self.assertEqual((self.dir / "llama3.bin").read_bytes(), (self.dir / "wide.bin").read_bytes())
        self.assertIn("16 bits", self.run_fptrain("convert", *wide, "--to", "nanogpt", "--out", self.dir / "x", code=2))
        self.assertFalse((self.dir / "x").exists())

        self.run_fptrain("convert", self.dir / "gpt2.bin", "--tokenizer", "bytes", "--to", "nanogpt", "--out",
                         self.dir / "again.bin")
        self.assertEqual((self.dir / "again.bin").read_bytes(), nano.read_bytes())
        self.run_fptrain("convert", self.dir / "gpt2.bin", "--tokenizer", "bytes", "--to", "prepared", "--out",
                         self.dir / "folder")
        self.assertEqual(self.ids(self.dir / "folder"), [b + [EOT] for b in self.bodies])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir() if ".tmp" in p.name), [])


if __name__ == "__main__":
    unittest.main()
