"""config.yaml of a run: the resolved config, under a line that has its checksum.

Whoever edits it by hand, which nothing asks for, removes that line.
"""

import hashlib
from pathlib import Path

from sgns_cli.config import Config
from sgns_cli.config_file import MAX_BYTES, dump_config, load_config
from sgns_cli.errors import SgnsError
from sgns_cli.files import own_file, read_whole
from sgns_cli.folders import publish_file
from sgns_cli.run_folder import CONFIG

FIRST_LINE = b"# SHA-256 of all below: "


def write_run_config(run: Path, config: Config) -> None:
    """Write config.yaml of a run. Raises SgnsError if the disk refuses."""
    text = dump_config(config).encode()
    with publish_file(run / CONFIG) as hidden:
        hidden.write_bytes(FIRST_LINE + hashlib.sha256(text).hexdigest().encode() + b"\n" + text)


def load_run_config(run: Path) -> Config:
    """The config that a run was trained with. Raises SgnsError if it is missing, damaged, or a link out of the run."""
    path = own_file(run, CONFIG)
    try:
        first, _, rest = read_whole(path, at_most=MAX_BYTES).partition(b"\n")
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "train the run again") from error
    if first.startswith(FIRST_LINE) and first != FIRST_LINE + hashlib.sha256(rest).hexdigest().encode():
        raise SgnsError(f"{path} is damaged: it is not what was written", "train the run again")
    return load_config(path, [])
