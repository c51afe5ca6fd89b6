"""What bench/query.py runs in processes of their own: `python bench/query_peers.py NAME '{"option": value}'`.

`make` writes one set of vectors in the form of each peer; the others load it and answer, and print what they found.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Record = dict[str, Any]
K = 10


def make(folder: str, rows: int, dim: int, queries: int) -> Record:
    """A run of sgns whose rows are all trained, cl100k_base, random; the same for gensim; and the queries."""
    from gensim.models import KeyedVectors

    from sgns_cli.corpus.token_text import to_byte_alphabet
    from sgns_cli.corpus.tokenizer import open_encoding
    from sgns_cli.files import checksum, sealed, write_json
    from sgns_cli.run_folder import FORMAT_VERSION, MODEL, STATE, TOKENIZER, TRAINING, step_name
    from sgns_cli.tensors import whole, write_tensors

    work, tokenizer = Path(folder), open_encoding("cl100k_base")
    step = work / "run" / step_name(1)
    step.mkdir(parents=True)
    (work / "run" / TOKENIZER).mkdir()
    tokenizer.save(work / "run" / TOKENIZER)
    random = np.random.default_rng(0)
    embeddings = random.normal(size=(tokenizer.n_vocab, dim)).astype(np.float32)
    counts = np.where(np.arange(tokenizer.n_vocab) < rows, 1_000_000 // np.arange(1, tokenizer.n_vocab + 1), 0)
    training = {"contexts": whole(embeddings), "counts": whole(counts.astype(np.int64))}
    sums = write_tensors(step / MODEL, {"embeddings": whole(embeddings)}) | write_tensors(step / TRAINING, training)
    files = {file.name: checksum(file) for file in (work / "run" / TOKENIZER).iterdir()}
    state = {"format_version": FORMAT_VERSION, "step": 1, "min_count": 1, "positions": "none", "context_length": 1}
    state |= {"dim": dim, "n_vocab": tokenizer.n_vocab, "metrics": {}, "tensors": sums, "tokenizer": files}
    write_json(step / STATE, sealed(state))
    tokens = {id: tokenizer.token_bytes(id) for id in range(tokenizer.n_vocab) if id not in tokenizer.special_ids}
    named = {id: token for id, token in tokens.items() if token}
    ids = list(named)[:rows]
    names = [to_byte_alphabet(named[id]) for id in ids]
    vectors = KeyedVectors(dim)
    vectors.add_vectors(names, embeddings[ids])
    vectors.save(str(work / "gensim.kv"))
    words = [named[id].decode() for id in ids if named[id].startswith(b" ") and named[id][1:].isalpha()]
    asked = words[len(words) // 4 :][:queries]
    (work / "queries.json").write_text(json.dumps(asked), encoding="utf-8")
    return {"rows": len(ids), "dim": dim}


def _gensim(vectors: Any, queries: list[str]) -> Record:
    from sgns_cli.corpus.token_text import to_byte_alphabet

    found = [vectors.most_similar(to_byte_alphabet(query.encode()), topn=K)[0][0] for query in queries]
    return {"answers": len(found)}


def gensim(path: str, queries: str, number: int) -> Record:
    """gensim's own file, memory-mapped."""
    from gensim.models import KeyedVectors

    return _gensim(KeyedVectors.load(path, mmap="r"), json.loads(Path(queries).read_text(encoding="utf-8"))[:number])


def gensim_word2vec(path: str, queries: str, number: int) -> Record:
    """A word2vec binary file."""
    from gensim.models import KeyedVectors

    vectors = KeyedVectors.load_word2vec_format(path, binary=True)
    return _gensim(vectors, json.loads(Path(queries).read_text(encoding="utf-8"))[:number])


def model2vec(path: str, queries: str, number: int) -> Record:
    """Its encoder for the queries, and numpy for the neighbours, all at once: it has none of its own."""
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(path)
    asked = model.encode(json.loads(Path(queries).read_text(encoding="utf-8"))[:number])
    rows = model.embedding
    units = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    scores = (asked / np.linalg.norm(asked, axis=1, keepdims=True)) @ units.T
    best = np.argpartition(-scores, K, axis=1)[:, :K]
    return {"answers": len(best)}


WORKERS: dict[str, Callable[..., Record]] = {
    "make": make,
    "gensim": gensim,
    "gensim_word2vec": gensim_word2vec,
    "model2vec": model2vec,
}

if __name__ == "__main__":
    print(json.dumps(WORKERS[sys.argv[1]](**json.loads(sys.argv[2]))))
