"""Reads exports with the programs they are for: `python -W ignore tests/export_readers.py FOLDER TEXTS.json`.

A process of its own, since these packages are slow to import and warn. FOLDER has gensim/*.txt, *.glove and *.bin,
models/*, projectors/*; what was read is printed as JSON: {"gensim/words.txt": {"names": [...], "vectors": [...]}, ...}.
"""

import importlib.util
import json
import sys
from pathlib import Path
from urllib.parse import urlencode


def read_words(path):
    from gensim.models import KeyedVectors

    vectors = KeyedVectors.load_word2vec_format(
        str(path), binary=path.suffix == ".bin", no_header=path.suffix == ".glove"
    )
    return {"names": vectors.index_to_key, "vectors": vectors.vectors.tolist(), "dtype": str(vectors.vectors.dtype)}


def read_static_model(folder, texts):
    from model2vec import StaticModel

    model = StaticModel.from_pretrained(folder)
    found = {"tokens": list(model.tokens), "ids": model.tokenize(texts), "model2vec": model.encode(texts).tolist()}
    if importlib.util.find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        found["sentence_transformers"] = SentenceTransformer(str(folder), device="cpu").encode(texts).tolist()
    return found


def read_projector(folder):
    import numpy as np
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.projector.projector_plugin import ProjectorPlugin
    from werkzeug.test import Client

    apps = ProjectorPlugin(TBContext(logdir=str(folder))).get_plugin_apps()
    config = Client(apps["/info"]).get("/?run=.").json
    [embedding] = config["embeddings"]
    query = "/?" + urlencode({"run": ".", "name": embedding["tensorName"], "num_rows": 100_000})
    vectors = np.frombuffer(Client(apps["/tensor"]).get(query).data, np.float32)
    lines = Client(apps["/metadata"]).get(query).data.decode().removesuffix("\n").split("\n")
    return {"metadata": lines, "vectors": vectors.reshape(embedding["tensorShape"]).tolist()}


if __name__ == "__main__":
    exports, texts = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    found = {f"gensim/{path.name}": read_words(path) for path in sorted(exports.glob("gensim/*"))}
    found |= {f"models/{path.name}": read_static_model(path, texts) for path in sorted(exports.glob("models/*"))}
    if importlib.util.find_spec("tensorboard"):
        found |= {f"projectors/{path.name}": read_projector(path) for path in sorted(exports.glob("projectors/*"))}
    sys.stdout.write(json.dumps(found))
