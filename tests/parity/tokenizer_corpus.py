"""Mixed text for tokenizer tests: seeded, so that every run sees the same bytes."""
import random
import unicodedata

WORDS = ("the of and to in is that for it was with as his on be at by had not are but from or have an they which one you "
         "were her all she there would their we him been has when who will more no if out so said what up its about into "
         "than them can only other new some could time these two may then do first any my now such like our over man me "
         "even most made after also did many before must through back years where much your way well down should because "
         "each just those people state how too little good very make world still own see men work long get here between "
         "I'll don't they've we're it's he'd I'm DON'T tokenization hyper-parameter naïve café Übermaß façade").split()
CODE = ["def f(x, *args):\n    return [y**2 for y in x if y != 0]\n", "for (int i = 0; i < n; ++i) {\n\t\ta[i] += b[i];\n}\n",
        "#include <vector>\n", "SELECT * FROM t WHERE a >= 10 AND b LIKE '%x_%';\r\n", "        if self.x is None:\n",
        "<div class=\"a b\">&nbsp;</div>\n", "0x1F + 1e-10 - 3.14159;  // comment\n", "{\"key\": [1, 22, 333, 4444, 55555]}\n"]
SCRIPTS = [(0x4E00, 0x9FA5), (0x3041, 0x30FF), (0xAC00, 0xD7A3), (0x0410, 0x044F), (0x0391, 0x03C9), (0x05D0, 0x05EA),
           (0x0621, 0x064A), (0x0905, 0x0939), (0x0E01, 0x0E2E), (0x1F300, 0x1F64F), (0x1F900, 0x1F9FF), (0x20000, 0x20100),
           (0x00C0, 0x017F), (0x2190, 0x21FF), (0x0660, 0x0669), (0x2460, 0x2473), (0x1E900, 0x1E943)]
ODD = ["e\u0301", "a\u0308\u0323", "\u1100\u1161\u11A8", "\U0001F468\u200D\U0001F469\u200D\U0001F467", "\U0001F1E9\U0001F1EA",
       "\u00A0", "\u2003\u2003", "\u3000", "\u0085", "\u180E", "\u200B", "\uFEFF", "\u2028", "\x00", "\x1F", "\x7F",
       "\uFFFD", "\uFFFF", "\U0010FFFF", "\u2581", "\u2581\u2581x", "\u017F's", "'\u017F", "\u212A", "ﬁ", "²³½", "\r\n\r\n", "\r",
       "\n\n\n", "\t \t", " \n ", "'S'T'RE'VE'M'LL'D", "\u00E9\u0301", "\u1E9E", "\uAC00\u11A8", "\u0344", "\u2126",
       "<|endoftext|", "<0x0A>", "</s", "<unk", "[/INST]", "1234567890", "12345", "________", "!!!???...", "=" * 60]


def text(size, seed, odd=True):
    """Returns about `size` bytes of well-formed UTF-8."""
    rng = random.Random(seed)
    parts, total = [], 0
    while total < size:
        kind = rng.random()
        if kind < 0.6:
            part = " ".join(rng.choice(WORDS) for _ in range(rng.randint(3, 20))) + rng.choice([". ", "\n", ", ", "! ", "\n\n"])
            if rng.random() < 0.3:
                part = part.capitalize()
        elif kind < 0.7:
            part = rng.choice(CODE)
        elif kind < 0.85:
            low, high = rng.choice(SCRIPTS)
            part = "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 12))) + rng.choice(["", " ", "\n"])
        elif kind < 0.9:
            part = rng.choice([" ", "\n", "\t", " \t", "\r\n"]) * rng.choice([1, 2, 3, 4, 7, 16, 60, 200])
        elif kind < 0.95 and odd:
            part = rng.choice(ODD) + rng.choice(["", " ", "a", "1"])
        elif odd:
            part = "".join(c for c in (chr(rng.randint(0, 0x2FFFF)) for _ in range(rng.randint(1, 6)))
                           if unicodedata.category(c) not in ("Cs", "Cn"))  # unassigned: its class depends on the version
        else:
            part = str(rng.randint(0, 10 ** rng.randint(1, 9))) + " "
        parts.append(part)
        total += len(part.encode())
    return "".join(parts)


def with_invalid_bytes(data, seed, share=0.001):
    """Returns `data` with some bytes replaced by random ones."""
    rng = random.Random(seed)
    data = bytearray(data)
    for _ in range(int(len(data) * share)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)
