"""How well vectors answer analogies and agree with people about word pairs: the scores of test sets.

As gensim's evaluate_word_analogies and evaluate_word_pairs, which give the same on the same vectors. Which rows the
words are is lookup.py's business, how files are read question_files.py's.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sgns_cli.vectors.analogy import directions
from sgns_cli.vectors.lookup import Words, key_of
from sgns_cli.vectors.neighbors import cosines, nearest_to_directions
from sgns_cli.vectors.question_files import Analogy, AnalogyFile, PairFile
from sgns_cli.vectors.records import DECIMALS, Record

QUESTIONS_AT_ONCE = 512
TOTAL = "total"


def score_records(words: Words, file: AnalogyFile | PairFile) -> Iterator[Record]:
    """The scores of a file, whose words were looked up: a record a section of analogies, and one for the whole file."""
    if isinstance(file, AnalogyFile):
        yield from score_analogies(words, file)
    else:
        yield score_pairs(words, file)


def score_analogies(words: Words, file: AnalogyFile) -> Iterator[Record]:
    """One record a section and one for all of them; the score is the part of the questions that is answered right."""
    answers = iter(answer_analogies(words, file.questions))
    every: list[bool | None] = []
    for section in file.sections:
        right = [next(answers) for _ in section.questions]
        yield _analogy_record(words, file.name, section.name, right)
        every += right
    yield _analogy_record(words, file.name, TOTAL, every)


def answer_analogies(words: Words, questions: Sequence[Analogy]) -> list[bool | None]:
    """For each question whether it is answered right; None where a word was not found.

    a is to b as c is to what? The candidate nearest by cosine to b - a + c, each of length one, that is not spelt like
    a, b or c (3CosAdd); right if it is spelt like d. gensim looks at five candidates, and counts wrong where all five
    are other spellings of a, b or c; this looks at all of them.
    """
    found: list[bool | None] = [None] * len(questions)
    asked = [place for place, question in enumerate(questions) if all(words.id(word) is not None for word in question)]
    for start in range(0, len(asked), QUESTIONS_AT_ONCE):
        batch = asked[start : start + QUESTIONS_AT_ONCE]
        spelt = [[words.ids[key_of(word)] for word in questions[place]] for place in batch]
        ids = np.array([[same[0] for same in four] for four in spelt])
        a, b, c = (words.rows(ids[:, role]) for role in range(3))
        given = [[id for same in four[:3] for id in same] for four in spelt]
        nearby = nearest_to_directions(words.space, directions(a, b, c), given, k=1)
        for place, four, answers in zip(batch, spelt, nearby, strict=True):
            found[place] = len(answers.ids) > 0 and int(answers.ids[0]) in four[3]
    return found


def score_pairs(words: Words, file: PairFile) -> Record:
    """The rank correlation between the cosines of the pairs that were found and the scores that people gave them."""
    ids = [(words.id(one), words.id(other)) for one, other in file.pairs]
    asked = [place for place, pair in enumerate(ids) if None not in pair]
    both = np.array([ids[place] for place in asked], dtype=np.int64).reshape(-1, 2)
    scores = np.zeros(len(both))
    for start in range(0, len(both), QUESTIONS_AT_ONCE):
        part = slice(start, start + QUESTIONS_AT_ONCE)
        scores[part] = cosines(words.rows(both[part, 0]), words.rows(both[part, 1]))
    score = spearman(scores, [file.scores[place] for place in asked])
    return _record(words, file.name, TOTAL, "similarity", score, len(asked), len(ids))


def spearman(one: ArrayLike, other: ArrayLike) -> float | None:
    """Spearman's rank correlation of two equally long rows of numbers; None where all of one are equal, or none is."""
    ranks = np.stack([average_ranks(np.asarray(one)), average_ranks(np.asarray(other))])
    centred = ranks - (ranks.shape[1] + 1) / 2
    spread = np.sqrt((centred**2).sum(axis=1)).prod()
    return float((centred[0] * centred[1]).sum() / spread) if spread else None


def average_ranks(values: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of theirs: [3, 1, 3] -> [2.5, 1, 2.5]."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def _analogy_record(words: Words, name: str, section: str, right: Sequence[bool | None]) -> Record:
    asked = [one for one in right if one is not None]
    score = sum(asked) / len(asked) if asked else None
    return _record(words, name, section, "analogy", score, len(asked), len(right))


def _record(
    words: Words, name: str, section: str, kind: str, score: float | None, asked: int, questions: int
) -> Record:
    return {
        "set": name,
        "section": section,
        "kind": kind,
        "score": None if score is None else round(score, DECIMALS),
        "questions": asked,
        "skipped": questions - asked,
        "candidates": len(words.space.ids),
    }
