"""Inputs to start from: valid files, and those odd ones that a fuzzer would take long to come upon."""

import struct

from fuzz.choices import DEEP
from fuzz.folder_targets import FOLDER_TARGETS
from fuzz.targets import BYTES, SIMPLE_TARGETS

CONFIG = b"""data: {sources: [a.txt, "b c"], document: paragraph, column: text, lowercase: false, errors: strict}
tokenizer:
  train: {vocab_size: 8192, pattern: lines}
model: {dim: 100, window: 5, negatives: 5, noise_power: 0.75, subsample_threshold: 1e-3, min_count: 5, positions: none}
train: {epochs: 5, learning_rate: 0.025, final_learning_rate: 1.0e-4, seed: 1, deterministic: true}
run: {directory: runs/my, checkpoint_minutes: 10, keep_checkpoints: 2, log_seconds: 1}
"""
SCALARS = [  # as values and as keys
    *("0x" + "f" * 5000, "9" * 5000, "1:" * 2000 + "1", "1" * 400 + ".0", ".inf", "-.NaN", "0b2", "0o9", "+_1", "1_0"),
    *("2001-99-99", "2001-12-14t21:59:43.10-25:00", '"\\UFFFFFFFF"', '"\\ud800"', '"\\x00"', '"\\N\\L"', "!!binary x"),
    *("!!python/name:os.system x", "!!set {a}", "!!int x", "!!float x", "!!bool x", "!!null x", "!!timestamp x"),
    *("&a b", "<<", "=", "~", "*a", "''", "|\n x\n", ">-\n x\n", "{a: &a b, c: *a}", "{<<: {a: b}}", "? [a]"),
    *("\x85", "\u2028"),
]
ATTEMPTS = ("model.dim={}", "data.sources=[{}]", "tokenizer.train.pattern={}", "{}=1", "model={}")
VECTORS = b"king 0.5 -1 2e-3\nqueen .25 1 0\n\xc4\xa0man 1 2 3\n"
TENSORS = b'{"e":{"dtype":"F32","shape":[3,2],"data_offsets":[0,24]}}'
PAIRS = b'word,other,score\n"a, b",c,1.5\nd,e,-2\n'
ANALOGIES = b"// c\n: capitals\nthe dog ball cat\n\n: gold\nSilver gold night the\nx silver cat dog\n"


def tensor_file(header: bytes, data: bytes = struct.pack("<6f", 1, 2, 3, -1, 0.5, 0)) -> bytes:
    return b"a\nb\n\xc4\xa0c\n\n" + len(header).to_bytes(8, "little") + header + data


def _damages() -> list[bytes]:
    """Each kind of change, to each of the first files."""
    return [
        bytes([which, stranger, 0, name, 3, 0, kind, value, 2, 3, 5, 7])
        for which in (0, 1)
        for stranger in (0, 1)
        for name in range(8)
        for kind in range(8)
        for value in (1, 9)
    ]


SEEDS: dict[str, list[bytes]] = {
    "config_file": [
        CONFIG,
        b"\xef\xbb\xbf" + CONFIG,
        b"data: {sources: [a]}\nmodel: " + DEEP[:2000].encode(),
        *(f"data: {{sources: [a]}}\nmodel: {{dim: {text}}}".encode() for text in SCALARS),
        *(f"data:\n  sources:\n  - {text}\n".encode() for text in SCALARS),
        *(f"{text}: 1".encode() for text in SCALARS),
    ],
    "config_overrides": [
        b"\0" + attempt.format(text).encode() + b"\0model.window=3" for attempt in ATTEMPTS for text in SCALARS
    ],
    "rank_file": [
        BYTES + b"dGg= 256\ndGhl 257\n" + b'\0{"pattern": "[^ ]+| ", "special_tokens": {"<|end|>": 300}, "name": "x"}',
        *(b'+dGg= 256\n\0{"pattern": "%s"}' % pattern for pattern in (rb"\\s+(?!\\S)|\\S+", b"(a+)+b", b"x*|.")),
        b"+dGg=\n\n256 dGhl 257\n\0" + b'{"pattern": ".", "special_tokens": {"\\ud800": 300}}',
        b"+dGg= 16777215\n\0" + b'{"pattern": ".", "special_tokens": {"<s>": 3}, "name": "\\u001b[31m"}',
    ],
    "token_text": [b"\0 silver\n\t\xe2", b"\1" + "<0xE2>␣⏎é".encode("utf-16-le"), b"\1\0\xd8", "\0Ġx\u2800".encode()],
    "query": [
        bytes([model, number, 0, kind]) + text.encode("utf-16-le" if kind else "utf-8", "surrogatepass")
        for model in range(4)
        for kind, number in ((0, 3), (1, 200))
        for text in ("silver", " gold\0the dog\0night", "the unknown \x1b[31m\u202e", "␣silver<0xE2>", "\ud800", "a\tb")
    ],
    "question_file": [ANALOGIES, PAIRS, PAIRS.replace(b",", b"\t"), b"the dog 1e400", b"the dog nan x 1\nGOLD cat 2"],
    "word_vectors": [
        VECTORS,
        b"3 3\n" + VECTORS,
        b"2 2\nthe " + struct.pack("<2f", 1, -0.5) + b"\ndog " + struct.pack("<2f", 3, 2) + b"\n",
        b"999999999 99999999\na 1 1\n",
        b"a" + b" 1" * 500 + b"\n" * 500,
        b"1 1\n" + b"\0" * 200,
    ],
    "tensor_file": [
        tensor_file(TENSORS),
        tensor_file(TENSORS.replace(b"F32", b"F16").replace(b"3,2", b"3,4")),
        tensor_file(TENSORS.replace(b"F32", b"BF16").replace(b"3,2", b"3,4")),
        tensor_file(TENSORS.replace(b"3,2", b"1152921504606846976,16")),
        tensor_file(TENSORS.replace(b"[3,2]", b"[3,2" + b",1" * 70 + b"]")),
        tensor_file(DEEP.encode()),
        b"a\n\n" + b"\xff" * 8,
    ],
    **{name: _damages() for name in FOLDER_TARGETS},
}

TARGETS = {**SIMPLE_TARGETS, **FOLDER_TARGETS}
