"""Files of analogies and of word pairs scored by people, read as they are published.

Analogies: Google's format, a line `: name` before each section and four words a line. Word pairs: WordSim-353,
SimLex-999, MEN, RW and whatever else has two words and a number a line. Knows nothing of vectors. Words stay as they
are written: the part of speech in MEN's lemma form ("sun-n") is not taken off.
"""

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NoReturn

from sgns_cli.errors import SgnsError
from sgns_cli.files import read_whole

Delimiter = Literal["\t", ",", " "]
Line = tuple[int, str]  # its number in the file, from 1, and its text

Analogy = tuple[str, str, str, str]
Pair = tuple[str, str]

MOST_BYTES = 2**28  # of a file of questions, of which the largest have one megabyte

FOUR_WORDS = "a line should be four words, like king queen man woman, or `: name` where a section begins"
PAIR = "a line should be two words and a number, with tabs, commas or spaces between them"


@dataclass(frozen=True)
class Section:
    name: str
    questions: list[Analogy] = field(default_factory=list)


@dataclass(frozen=True)
class AnalogyFile:
    """a is to b as c is to d, in the sections and the order of the file."""

    name: str
    sections: list[Section]

    @property
    def questions(self) -> list[Analogy]:
        return [question for section in self.sections for question in section.questions]

    @property
    def words(self) -> list[str]:
        return [word for question in self.questions for word in question]


@dataclass(frozen=True)
class PairFile:
    """Word pairs, and how similar people found them: `scores` are as long as `pairs`."""

    name: str
    pairs: list[Pair]
    scores: list[float]

    @property
    def words(self) -> list[str]:
        return [word for pair in self.pairs for word in pair]


def read_analogies(path: Path) -> AnalogyFile:
    """Read a file in Google's format; what comes before its first section is one that is named like the file.

    Lines that begin with # or // are comments. Raises SgnsError with the line that is neither a section nor four words,
    and for a file without a question.
    """
    sections: list[Section] = []
    for number, line in _lines(path, comments=("#", "//")):
        if line.startswith(":"):
            name = line[1:].strip()
            if not name:
                _refuse(path, number, "a section without a name", FOUR_WORDS)
            sections.append(Section(name))
            continue
        words = line.split()
        if len(words) != 4:
            _refuse(path, number, "1 word, not 4" if len(words) == 1 else f"{len(words)} words, not 4", FOUR_WORDS)
        if not sections:
            sections.append(Section(path.stem))
        sections[-1].questions.append((words[0], words[1], words[2], words[3]))
    if not any(section.questions for section in sections):
        raise SgnsError(f"{path} has no analogy in it", FOUR_WORDS)
    return AnalogyFile(path.name, sections)


def read_similarities(path: Path) -> PairFile:
    """Read word pairs with scores; lines that begin with # are comments.

    The second line decides how the file is read, for the first may be a header: fields end at tabs if it has one, else
    at commas (with the quotes of CSV), else at white space; the first two are the words, and the score is in the
    column of the first number after them. The first line is a header if it has no number there. Raises SgnsError with
    the line that has no such score, and for a file without a pair.
    """
    lines = _lines(path, comments=("#",))
    if not lines:
        raise SgnsError(f"{path} has no word pair in it", PAIR)
    number, sample = lines[min(1, len(lines) - 1)]
    delimiter: Delimiter = "\t" if "\t" in sample else "," if "," in sample else " "
    column = _score_column(_fields(path, number, sample, delimiter))
    if column is None:
        _refuse(path, number, "no number after two words", PAIR)
    pairs: list[Pair] = []
    scores: list[float] = []
    for number, line in lines:
        fields = _fields(path, number, line, delimiter)
        score = _number(fields[column]) if column < len(fields) else None
        if score is None and number == lines[0][0]:
            continue
        if score is None or not math.isfinite(score):
            what = "nothing" if column >= len(fields) else repr(fields[column])
            _refuse(path, number, f"column {column + 1} should have the score, and has {what}", PAIR)
        if not (fields[0] and fields[1]):
            _refuse(path, number, "a word is missing", PAIR)
        pairs.append((fields[0], fields[1]))
        scores.append(score)
    if not pairs:
        raise SgnsError(f"{path} has no word pair in it", PAIR)
    return PairFile(path.name, pairs, scores)


def _lines(path: Path, *, comments: tuple[str, ...]) -> list[Line]:
    r"""The lines that say something, without the space around them. Only \n and \r\n end a line."""
    lines: list[Line] = []
    try:
        for number, raw in enumerate(read_whole(path, at_most=MOST_BYTES, pipes=True).split(b"\n"), start=1):
            if b"\0" in raw:
                _refuse(path, number, "there is a NUL byte, so this is no text", "name a text file in UTF-8")
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
            if line and not line.startswith(comments):
                lines.append((number, line))
    except UnicodeDecodeError as error:
        _refuse(path, number, f"not UTF-8 at byte {error.start}", "convert the file to UTF-8")
    except OSError as error:
        raise SgnsError(f"cannot read {path}: {error.strerror}", "check the path and its rights") from error
    return lines


def _fields(path: Path, number: int, line: str, delimiter: Delimiter) -> list[str]:
    if delimiter == " ":
        return line.split()
    if delimiter == "\t":
        return _stripped(line.split("\t"))
    try:
        return _stripped(next(csv.reader([line], skipinitialspace=True, strict=True)))
    except csv.Error as error:
        _refuse(path, number, f"not CSV: {error}", "a field with a comma in it stands between quotes")


def _stripped(fields: Iterable[str]) -> list[str]:
    return [field.strip() for field in fields]


def _score_column(fields: Sequence[str]) -> int | None:
    return next((place for place, text in enumerate(fields) if place >= 2 and _number(text) is not None), None)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _refuse(path: Path, number: int, what: str, hint: str) -> NoReturn:
    raise SgnsError(f"{path}, line {number}: {what}", hint)
