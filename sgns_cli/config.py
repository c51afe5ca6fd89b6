"""The config reference: every key, its type, its range, its default.

Reading a file into these models, `--set`, and the words of the errors live in config_file.py.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

DEFAULT_ENCODING = "cl100k_base"  # where a config names no tokenizer and the source brings none
PATTERNS = {
    "lines": r"[^\n]*\n|[^\n]+",  # a piece is a line with its end: tokens cross spaces and may end with the line
    "words": (  # GPT-4's split
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class DataConfig(Section):
    """What is read, and what a document is."""

    sources: Annotated[list[str], Field(min_length=1)]
    document: Literal["line", "paragraph", "file"] = "line"
    column: str = "text"
    lowercase: bool = False
    errors: Literal["strict", "replace"] = "strict"


class TrainTokenizerConfig(Section):
    """A BPE trained on the corpus itself."""

    vocab_size: Annotated[int, Field(ge=256, le=2**24)] = 8192  # counts the 256 bytes
    pattern: str = "lines"  # a name in PATTERNS, or a regular expression


class TokenizerConfig(Section):
    """An encoding by name or rank file, or `train`, never both (the loader sees to it)."""

    encoding: str | None = None  # None and no train: DEFAULT_ENCODING
    train: TrainTokenizerConfig | None = None

    @property
    def encoding_name(self) -> str:
        """The encoding, where none is trained."""
        return DEFAULT_ENCODING if self.encoding is None else self.encoding


class ModelConfig(Section):
    dim: Annotated[int, Field(ge=1, le=65536)] = 100
    window: Annotated[int, Field(ge=1, le=1000)] = 5
    negatives: Annotated[int, Field(ge=1, le=1000)] = 5
    noise_power: Annotated[float, Field(ge=-2, le=2)] = 0.75
    subsample_threshold: Annotated[float, Field(ge=0, le=1)] = 1e-3  # 0 keeps every token
    min_count: Annotated[int, Field(ge=1)] = 5
    positions: Literal["none", "learned", "sinusoidal"] = "none"
    context_length: Annotated[int, Field(ge=1, le=2**20)] = 1024


class TrainConfig(Section):
    epochs: Annotated[int, Field(ge=0)] = 5
    learning_rate: Annotated[float, Field(gt=0)] = 0.025
    final_learning_rate: Annotated[float, Field(ge=0)] = 1e-4
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    deterministic: bool = True  # changes nothing: training on the CPU always is (docs/algorithm.md)


class RunConfig(Section):
    directory: str | None = None  # None: runs/<config file's name>; the loader fills it in
    checkpoint_minutes: Annotated[float, Field(gt=0)] = 10.0
    keep_checkpoints: Annotated[int, Field(ge=1, le=2**31)] = 2
    log_seconds: Annotated[float, Field(gt=0)] = 1.0


class Config(Section):
    data: DataConfig
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    train: TrainConfig = TrainConfig()
    run: RunConfig = RunConfig()
