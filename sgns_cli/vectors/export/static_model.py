"""A folder that model2vec's `StaticModel.from_pretrained` and `SentenceTransformer` load. Their vector of a text is the
mean of its tokens' vectors, as that of `sgns embed --pool mean --no-positions`.

    config.json          how model2vec pools: not normalized, texts of any length
    model.safetensors    `embeddings` [rows, dim], row i for id i of tokenizer.json; for int8 also `weights` [rows],
                         which both multiply the rows with
    tokenizer.json       corpus/tokenizer_json.py
    modules.json         what SentenceTransformer looks for

Ids that were not trained have zero rows and count in the mean, as they do here. A word that `whitespace` does not know
counts for SentenceTransformer as a zero row too, and not for model2vec nor here.
"""

import json
from pathlib import Path

from sgns_cli.corpus.tokenizer_json import tokenizer_json
from sgns_cli.files import write_json
from sgns_cli.tensors import write_tensors
from sgns_cli.vectors.export.selection import Selection, Written
from sgns_cli.vectors.export.tensor_files import matrix_streams

FILES = ("config.json", "model.safetensors", "tokenizer.json", "modules.json")


def write_static_model(folder: Path, selection: Selection) -> Written:
    """Write the files of the folder. `selection` has all rows."""
    model = selection.model
    tokenizer = tokenizer_json(model.tokenizer, n_ids=model.n_vocab, lowercase=model.lowercase)
    rows = len(tokenizer["model"]["vocab"])
    config = {
        "model_type": "model2vec",
        "architectures": ["StaticModel"],
        "normalize": False,
        "max_length": None,  # where it is missing, model2vec cuts texts after 512 tokens
        "embedding_dtype": selection.dtype,
    }
    modules = [{"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"}]
    write_json(folder / "config.json", config)
    write_json(folder / "modules.json", modules)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    tensors = matrix_streams(selection, selection.by_id, scales="weights", padding=rows - model.n_vocab)
    write_tensors(folder / "model.safetensors", tensors)
    return Written(rows)
