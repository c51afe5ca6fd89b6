"""Holding a folder: by one process at a time, and by none that is dead."""

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
        holder.stdin.close()
        assert waiter.stdout.readline() == b"held\n"
        waiter.stdin.close()
        assert waiter.wait() == 0


def test_there_is_nothing_to_hold_in_a_folder_that_is_not_there(tmp_path):
    with locked(tmp_path / "no" / "folder"):
        assert list(tmp_path.iterdir()) == []


def test_a_failure_inside_frees_it(tmp_path):
    with pytest.raises(ValueError, match="x"), locked(tmp_path / "folder"):
        raise ValueError("x")
    assert list(Path(tmp_path).iterdir()) == []
