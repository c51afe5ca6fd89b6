"""The choices that options and the code behind them share: alone here, so that --help loads no numpy for them."""

from typing import Literal

Kind = Literal["input", "context", "sum"]  # the matrix that vectors are taken from
Method = Literal["pca", "tsne"]  # how vectors become places on a map
FormatName = Literal["word2vec", "word2vec-bin", "glove", "safetensors", "model2vec", "projector"]  # of an export
Rows = Literal["trained", "all"]  # of an export
Dtype = Literal["float32", "float16", "int8"]  # of an export
