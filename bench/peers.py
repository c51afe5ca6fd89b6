"""What the bench runs in processes of their own: `python bench/peers.py NAME '{"option": value}'` prints a JSON line.

A fresh process a measurement keeps imports, caches and memory of one trainer away from the next. Times are taken here
where only the library can tell them apart; the process as a whole (seconds, memory) is watched by cpu.py.
"""

import json
import lzma
import re
import sys
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")
CANDIDATES = 30_000  # the most frequent words: of these the analogies choose their answers
Record = dict[str, Any]


def write_words(source: str, output: str, vocabulary: str, limit: int, min_count: int) -> Record:
    """Novels as lower-case words, a paragraph a line, up to about `limit` tokens (0: all of them).

    `vocabulary` gets the words that are trained, by falling count, then by word: the order of every evaluation.
    """
    counts: Counter[str] = Counter()
    tokens = 0
    with lzma.open(source, "rt", encoding="utf-8") as paragraphs, Path(output).open("w", encoding="utf-8") as lines:
        for paragraph in paragraphs:
            words = WORD.findall(paragraph.lower())
            if words:
                lines.write(" ".join(words) + "\n")
                counts.update(words)
                tokens += len(words)
            if 0 < limit <= tokens:
                break
    trained = sorted((-count, word) for word, count in counts.items() if count >= min_count)
    Path(vocabulary).write_text("".join(f"{word}\n" for _, word in trained), encoding="utf-8")
    return {"tokens": tokens}


def write_ids(store: str, output: str) -> Record:
    """The ids of a token folder as decimal words, a document a line, for trainers that read text."""
    from sgns_cli.corpus.token_store import open_token_store

    opened = open_token_store(Path(store))
    starts = opened.documents
    with Path(output).open("w", encoding="utf-8") as lines:
        for start, end in pairwise(starts):
            lines.write(" ".join(map(str, opened.tokens[start:end].tolist())) + "\n")
    return {"tokens": len(opened.tokens)}


def train_gensim(text: str, output: str, dim: int, subsample: float, epochs: int, seed: int, threads: int) -> Record:
    """Word2Vec from a file to a saved model. The loop is `train` alone, after the vocabulary is built."""
    from gensim.models import Word2Vec

    model = Word2Vec(
        vector_size=dim,
        window=5,
        min_count=5,
        sg=1,
        hs=0,
        negative=5,
        sample=subsample,
        alpha=0.025,
        min_alpha=0.0001,
        workers=threads,
        seed=seed,
    )
    model.build_vocab(corpus_file=text)
    tokens = model.corpus_total_words
    began = time.perf_counter()
    model.train(corpus_file=text, total_words=tokens, total_examples=model.corpus_count, epochs=epochs)
    loop = time.perf_counter() - began
    model.save(output)
    return {"loop_seconds": loop}


def train_fasttext(text: str, output: str, dim: int, subsample: float, epochs: int, seed: int, threads: int) -> Record:
    """fastText from a file to a saved model, words only.

    Its API has one call for everything. The loop is that call's time less the time of the same call with no epoch,
    which reads the text, makes the vocabulary and fills the matrices; that second call is no part of the command
    (`extra_seconds`). The call looks every 0.1 s whether its threads are done, so the loop is known to 0.1 s.
    """

    def train(epochs: int) -> tuple[Any, float]:
        import fasttext_pybind
        from fasttext import FastText

        options = {"input": text, "model": "skipgram", "dim": dim, "ws": 5, "minCount": 5, "minn": 0, "maxn": 0}
        options |= {"neg": 5, "loss": "ns", "lr": 0.025, "t": subsample, "wordNgrams": 1, "bucket": 0, "verbose": 0}
        options |= {"epoch": epochs, "thread": threads, "seed": seed}
        began = time.perf_counter()
        # The body of fasttext.train_unsupervised, which refuses a seed.
        arguments = FastText._build_args({**FastText.unsupervised_default, **options}, [])
        model = FastText._FastText(args=arguments)
        fasttext_pybind.train(model.f, arguments)
        model.set_args(model.f.getArgs())
        return model, time.perf_counter() - began

    model, seconds = train(epochs)
    model.save_model(output)
    del model
    began = time.perf_counter()
    _, without = train(0)
    return {"loop_seconds": seconds - without, "extra_seconds": time.perf_counter() - began}


def measure_imports() -> Record:
    """Anonymous memory of a process that has only imported what training imports."""
    import numba  # noqa: F401
    import numpy as np  # noqa: F401

    import sgns_cli.training.kernels.cpu  # noqa: F401

    status = Path("/proc/self/status").read_text(encoding="ascii")
    return {"anonymous_mb": int(status.split("RssAnon:")[1].split()[0]) / 1024}


def evaluate(trainer: str, model: str, vocabulary: str) -> Record:
    """Analogies, WordSim-353 and SimLex-999 of a saved model, its rows put in the order of `vocabulary`."""
    import numpy as np
    from gensim.models import KeyedVectors
    from gensim.test.utils import datapath

    words = Path(vocabulary).read_text(encoding="utf-8").split()
    matrix = np.ascontiguousarray(_vectors(trainer, model, words), np.float32)
    vectors = KeyedVectors(matrix.shape[1])
    vectors.add_vectors(words, matrix)
    analogies, _ = vectors.evaluate_word_analogies(datapath("questions-words.txt"), restrict_vocab=CANDIDATES)
    scores = {"analogies": float(analogies)}
    for name, file in (("wordsim", "wordsim353.tsv"), ("simlex", "simlex999.txt")):
        _, spearman, _ = vectors.evaluate_word_pairs(datapath(file))
        scores[name] = float(spearman[0])
    return scores


def _vectors(trainer: str, path: str, words: list[str]) -> Any:
    """The input rows of `words`, [words, dim]."""
    if trainer == "gensim":
        from gensim.models import Word2Vec

        return Word2Vec.load(path).wv[words]
    if trainer == "fasttext":
        from fasttext import FastText

        model = FastText._FastText(model_path=path)  # load_model prints a warning
        rows = {word: row for row, word in enumerate(model.get_words())}
        return model.get_input_matrix()[[rows[word] for word in words]]
    from sgns_cli.vectors.opening import open_model

    run = open_model(Path(path))
    ids = {run.tokenizer.token_bytes(token): token for token in range(run.n_vocab)}
    return run.embeddings[[ids[word.encode()] for word in words]]


WORKERS: dict[str, Callable[..., Record]] = {
    "words": write_words,
    "ids": write_ids,
    "gensim": train_gensim,
    "fasttext": train_fasttext,
    "evaluate": evaluate,
    "imports": measure_imports,
}

if __name__ == "__main__":
    print(json.dumps(WORKERS[sys.argv[1]](**json.loads(sys.argv[2]))))
