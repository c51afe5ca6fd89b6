"""The power may go at any moment: what has its name is on the disk, and so is the name (faults/disk_order.py)."""

import pytest
from faults.disk_order import following

from sgns_cli import folders

CONFIG = """\
data: {sources: [corpus.txt]}
tokenizer: {encoding: whitespace}
model: {dim: 4, min_count: 1, subsample_threshold: 0}
train: {epochs: 2}
run: {checkpoint_minutes: 1e-9, log_seconds: 1e-9}
"""


@pytest.fixture
def durable(sgns, tmp_path):
    """Run commands one by one, following each; gives what each of them published."""

    def run(*commands: str) -> list[list[str]]:
        published = []
        for command in commands:
            with following(tmp_path) as order:
                result = sgns(*command.split())
            assert result.code == 0, result.err
            assert order.faults == [], command
            published.append(order.published)
        return published

    return run


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_text("the dog saw the cat\nthe cat saw the dog\n" * 50)
    (tmp_path / "c.yaml").write_text(CONFIG)


@pytest.mark.parametrize("exchanges", [True, False], ids=["by exchange", "by two renames"])
def test_a_run_is_on_the_disk_before_its_name(durable, corpus, exchanges, monkeypatch):
    if not exchanges:
        monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
    train = "train c.yaml -o deep/runs/c --device cpu --threads 1"
    made, more, anew = durable(train, f"{train} --resume --set train.epochs=4", f"{train} --overwrite")
    assert made[0].startswith("deep/runs/.tokens/")
    assert any(name.startswith("deep/runs/c/step-") for name in made)
    assert any(name.startswith("deep/runs/c/step-") for name in more)
    assert "deep/runs/c" in anew


@pytest.mark.parametrize("tokenizer", ["--encoding whitespace", "--train-vocab 270"])
def test_a_token_folder_is_on_the_disk_before_its_name(durable, corpus, tokenizer):
    assert durable(f"tokenize corpus.txt -o a/b/tokens {tokenizer}") == [["a/b/tokens"]]


@pytest.mark.parametrize("exchanges", [True, False], ids=["by exchange", "by two renames"])
def test_what_queries_write_is_on_the_disk_before_its_name(durable, word_run, exchanges, monkeypatch):
    if not exchanges:
        monkeypatch.setattr(folders, "_exchange", lambda one, other: False)
    commands = {
        "export -o words.bin --format word2vec-bin": ["words.bin"],
        "export -o out.safetensors --format safetensors": ["out.safetensors"],
        "export -o board --format projector": ["board"],
        "export -o board --format projector --overwrite": ["board"],
        "embed silver -o out.safetensors": ["out.safetensors"],
        "embed silver -o out.npy --context-length 4": ["out.npy", "out.mask.npy"],
        "plot -o map.html": ["map.html"],
        "init deep/config.yaml": ["deep/sample.txt", "deep/config.yaml"],
    }
    published = durable(*commands)
    assert [sorted(names) for names in published] == [sorted(names) for names in commands.values()]
