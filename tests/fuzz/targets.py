"""What is fuzzed: each function takes any bytes, and raises only if a promise is broken.

A right answer or an SgnsError is all that may come of a file from a stranger, or of any text. `refused` is where that
is said; what a right answer is, each target asserts.
"""

import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from conftest import WORD_COUNTS, WORDS, bpe_counts, bpe_tokenizer, word_tokenizer, write_run

from fuzz.choices import Choices, written
from sgns_cli.config_file import dump_config, load_config
from sgns_cli.console import printable
from sgns_cli.corpus import rank_files
from sgns_cli.corpus.bpe import check_pattern
from sgns_cli.corpus.token_text import from_byte_alphabet, parse, show, to_byte_alphabet
from sgns_cli.corpus.tokenizer import Tokenizer, read_rank_file
from sgns_cli.errors import SgnsError
from sgns_cli.vectors.analogy import analogies, similarities
from sgns_cli.vectors.embed import Embedder
from sgns_cli.vectors.evaluate import score_records
from sgns_cli.vectors.lookup import find_words, make_candidates
from sgns_cli.vectors.model import Model
from sgns_cli.vectors.neighbors import make_space, nearest
from sgns_cli.vectors.query import Query, query_vectors, resolve_id, resolve_query
from sgns_cli.vectors.question_files import AnalogyFile, PairFile, read_analogies, read_similarities
from sgns_cli.vectors.run import open_run
from sgns_cli.vectors.tensor_file import open_tensor_file
from sgns_cli.vectors.word_vectors import open_word_vectors

LONGEST_MESSAGE = 2000  # characters: a stranger's file does not fill the screen
BYTES = b"".join(rank_files.format_ranks({bytes([byte]): byte}) for byte in range(256))


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """What happens in here may end in an SgnsError: two lines for people, that have one of `words` in them."""
    try:
        yield
    except SgnsError as error:
        for line in (error.message, error.hint):
            assert line and len(line) < LONGEST_MESSAGE, f"{len(line)} characters: {line[:200]}"
            assert printable(line).isprintable()
        assert not words or any(word in error.message for word in words), error.message


@contextmanager
def in_memory(bytes_: int) -> Iterator[None]:
    """What happens in here allocates no more than so many bytes at a time, of Python or numpy."""
    tracemalloc.start()
    try:
        yield
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak <= bytes_, f"{peak} bytes of memory for {bytes_}"  # an error that comes too late is none


def config_file(data: bytes) -> None:
    with written({"my.yaml": data}) as folder, refused():
        _reads_back(folder / "my.yaml", [])


def config_overrides(data: bytes) -> None:
    overrides = Choices(data).text().split("\0")
    with written({"my.yaml": b"data: {sources: [a.txt]}\n"}) as folder, refused():
        _reads_back(folder / "my.yaml", overrides)


def _reads_back(path: Path, overrides: list[str]) -> None:
    config = load_config(path, overrides)
    again = path.with_name("again.yaml")
    again.write_text(dump_config(config), encoding="utf-8")
    assert load_config(again, []) == config


def rank_file(data: bytes) -> None:
    """The ranks (after a + those that have the 256 bytes already), and behind a NUL the description."""
    ranks, _, description = data.partition(b"\0")
    if ranks.startswith(b"+"):
        ranks = BYTES + ranks[1:]
    with written({"my.tiktoken": ranks, "my.json": description, "again.tiktoken": b""}) as folder:
        path = folder / "my.tiktoken"
        fast = rank_files._parse_fast(ranks)
        if fast is not None:
            assert list(fast.items()) == list(rank_files._parse_strictly(ranks, path).items())
        with refused("my.tiktoken, line "):
            read = rank_files.read_ranks(path)
            (folder / "again.tiktoken").write_bytes(rank_files.format_ranks(read))
            assert rank_files.read_ranks(folder / "again.tiktoken") == read
        with refused():
            tokenizer = read_rank_file(path)
            check_pattern(tokenizer.name, tokenizer.pattern)
            use_tokenizer(tokenizer)


def use_tokenizer(tokenizer: Tokenizer) -> None:
    """Ask a tokenizer for what the rest of the program asks."""
    assert len(tokenizer.fingerprint) == 64
    assert all(0 <= id < tokenizer.n_vocab for id in tokenizer.special_ids)
    for id in range(min(tokenizer.n_vocab, 1000)):
        token = tokenizer.token_bytes(id)
        assert token is None or id in tokenizer.special_ids or tokenizer.id_of(token) == id
    for text in ("the cat's 12 dogs,\n\n\u00e9", "\ud800 x \udcff", " " * 300):
        ids = tokenizer.encode(text).tolist()
        assert all(0 <= id < tokenizer.n_vocab and tokenizer.token_bytes(id) is not None for id in ids)


def token_text(data: bytes) -> None:
    shown = show(data)
    assert parse(shown) == data
    assert shown.isprintable()
    assert not set(shown) & set(" \u034f\u2800\ufe0f")
    names = to_byte_alphabet(data)
    assert from_byte_alphabet(names) == data
    assert names.isprintable() and len(names.split()) == bool(data)
    text = Choices(data).text()
    assert parse(show(parse(text))) == parse(text)
    try:
        assert to_byte_alphabet(from_byte_alphabet(text)) == text
    except ValueError as error:
        assert "stands for no byte" in str(error)


@cache
def models() -> list[Model]:
    """Words, words in lower case, a BPE with learned positions, and vectors of another program, without counts."""
    folder = Path(_models.name)
    words = write_run(folder / "words", word_tokenizer(), np.array(WORD_COUNTS))
    lower = write_run(folder / "lower", word_tokenizer(), np.array(WORD_COUNTS), lowercase=True)
    bpe = write_run(folder / "bpe", bpe_tokenizer(), bpe_counts(), positions="learned", context_length=4)
    rows = "".join(f"{word} {place} 1 -0.5\n" for place, word in enumerate([*WORDS, "silver", "\u0120gold"]))
    (folder / "vectors.txt").write_text(rows, encoding="utf-8")
    return [open_run(words.path), open_run(lower.path), open_run(bpe.path), open_word_vectors(folder / "vectors.txt")]


_models = TemporaryDirectory()


def query(data: bytes) -> None:
    """A model, and one to three texts (or an id) to ask it for."""
    choices = Choices(data)
    model = choices.pick(models())
    id = choices.number(512)
    texts = choices.text().split("\0")[:3]
    queries: list[Query] = []
    with refused():
        _is_resolved(model, resolve_id(model, id))
    for text in texts:
        with refused():
            queries.append(resolve_query(model, text))
            _is_resolved(model, queries[-1])
    ask(model, queries)
    embed(model, texts)


def _is_resolved(model: Model, query: Query) -> None:
    assert query.ids and all(0 <= id < model.n_vocab and model.trained[id] for id in query.ids)
    assert all(note.isprintable() for note in query.notes), query.notes


def ask(model: Model, queries: list[Query]) -> None:
    """Whatever was resolved has answers with proper scores."""
    if not queries:
        return
    space = make_space(model)
    answers = nearest(space, query_vectors(model, queries, "input"), [query.ids for query in queries], k=3)
    if len(queries) == 3:
        answers += analogies(model, space, [queries], "input", k=3)
    for found in answers:
        assert model.trained[found.ids].all()
        assert (np.abs(found.scores) < 1.001).all()
    scores = similarities(model, [[queries[0], queries[-1]]], "input", np.zeros(model.dim, np.float32))
    assert abs(scores[0]) < 1.001


def embed(model: Model, texts: list[str]) -> None:
    """Any text has vectors, one for each of its tokens."""
    embedder = Embedder(model)
    tokens = embedder.tokenize_batch(texts)
    for text in tokens:
        assert embedder.embed(text).shape == (len(text.ids), model.dim)
        assert len(text.positions) == len(text.ids)
        assert len(text.ids) == 0 or 0 <= text.positions[0] <= text.positions[-1] < text.length
    assert np.isfinite(embedder.pool_batch(tokens)).all()


def question_file(data: bytes) -> None:
    """Analogies and word pairs, read and scored."""
    with written({"q.txt": data}) as folder:
        with refused("q.txt, line ", "has no analogy in it"):
            questions = read_analogies(folder / "q.txt")
            assert all(len(four) == 4 and all(word.split() == [word] for word in four) for four in questions.questions)
            _has_scores(questions)
        with refused("q.txt, line ", "has no word pair in it"):
            pairs = read_similarities(folder / "q.txt")
            assert len(pairs.pairs) == len(pairs.scores) > 0
            assert all(one and other for one, other in pairs.pairs) and np.isfinite(pairs.scores).all()
            _has_scores(pairs)


def _has_scores(file: AnalogyFile | PairFile) -> None:
    for model in (models()[0], models()[2]):
        for record in score_records(find_words(make_candidates(model, restrict=100), file.words), file):
            score = record["score"]
            assert score is None or -1.001 < score < 1.001
            assert record["skipped"] >= 0


def word_vectors(data: bytes) -> None:
    with written({"v.txt": data}) as folder, refused("v.txt"), in_memory(2**23 + 100 * len(data)):
        use_vectors(open_word_vectors(folder / "v.txt"))


def tensor_file(data: bytes) -> None:
    """A token a line, two newlines, and a .safetensors file."""
    names, _, tensors = data.partition(b"\n\n")
    files = {"v.safetensors": tensors, "vocab.txt": names}
    with written(files) as folder, refused(), in_memory(2**23 + 100 * len(data)):
        path, vocabulary = folder / "v.safetensors", folder / "vocab.txt"
        use_vectors(open_tensor_file(path, tensor=None, encoding=str(vocabulary)))


def use_vectors(model: Model) -> None:
    """Ask for some of the rows; numbers that are not finite may be refused."""
    assert model.embeddings.ndim == 2 and len(model.trained) == model.n_vocab
    ids = np.flatnonzero(model.trained)[:3].tolist()
    with refused():
        ask(model, [resolve_id(model, id) for id in ids])


SIMPLE_TARGETS: dict[str, Callable[[bytes], None]] = {
    target.__name__: target
    for target in (
        config_file,
        config_overrides,
        rank_file,
        token_text,
        query,
        question_file,
        word_vectors,
        tensor_file,
    )
}
