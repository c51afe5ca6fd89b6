"""Holding a folder: by one process at a time, and by none that is dead."""

import select
from pathlib import Path

import pytest
from processes import holding

from sgns_cli.locks import Held, locked


@pytest.fixture
def holder(tmp_path):
    with holding(tmp_path / "folder") as process:
        assert process.stdout.readline() == b"held\n"
        yield process


def test_what_another_process_holds_is_refused_until_it_ends(tmp_path, holder):
    with pytest.raises(Held, match="another process is writing"), locked(tmp_path / "folder"):
        pytest.fail("it is held")
    with locked(tmp_path / "another"):
        pass
    holder.stdin.close()
    holder.wait()
    with locked(tmp_path / "folder"):
        assert (tmp_path / ".folder.lock").exists()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_held_is_free(tmp_path, holder):
    holder.kill()
    holder.wait()
    with locked(tmp_path / "folder"):
        pass


def test_one_can_wait(tmp_path, holder):
    with holding(tmp_path / "folder") as waiter:
        assert select.select([waiter.stdout], [], [], 0.5)[0] == []  # it waits
        holder.stdin.close()
        assert waiter.stdout.readline() == b"held\n"
        waiter.stdin.close()
        assert waiter.wait() == 0


def test_the_folder_that_it_is_to_lie_in_is_made(tmp_path):
    with locked(tmp_path / "no" / "folder") as held:
        assert held
        assert (tmp_path / "no").is_dir()


def test_a_name_of_dots_is_the_folder_that_it_stands_for(tmp_path, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    for name, place in ((".", tmp_path / "a" / ".b.lock"), ("..", tmp_path / ".a.lock")):
        with locked(Path(name)) as held:
            assert held
            assert place.exists()
    with locked(Path("/")) as held:
        assert not held


def test_what_takes_no_lock_is_not_held(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with locked(tmp_path / "folder") as held:
        assert not held
    assert list(tmp_path.iterdir()) == []


def test_a_failure_inside_frees_it(tmp_path):
    with pytest.raises(ValueError, match="x"), locked(tmp_path / "folder"):
        raise ValueError("x")
    assert list(Path(tmp_path).iterdir()) == []
