"""Files of analogies and word pairs: the published forms, and every way to be none."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sgns_cli.errors import SgnsError
from sgns_cli.vectors.question_files import Section, read_analogies, read_similarities

LETTERS = st.text(st.characters(codec="utf-8", categories=["L"]), min_size=1, max_size=8)
SCORES = st.floats(allow_nan=False, allow_infinity=False)


def write(folder: Path, text: str | bytes, name: str = "questions.txt") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_googles_format(tmp_path: Path) -> None:
    text = (
        "\ufeff: capital-common-countries\r\nAthens Greece  Baghdad\tIraq\r\n\r\n:empty\n: two  words \n日 月 ένας éa\n"
    )
    file = read_analogies(write(tmp_path, text))
    assert file.name == "questions.txt"
    assert file.sections == [
        Section("capital-common-countries", [("Athens", "Greece", "Baghdad", "Iraq")]),
        Section("empty", []),
        Section("two  words", [("日", "月", "ένας", "éa")]),
    ]
    assert file.words == ["Athens", "Greece", "Baghdad", "Iraq", "日", "月", "ένας", "éa"]


def test_analogies_before_any_section_and_comments(tmp_path: Path) -> None:
    file = read_analogies(write(tmp_path, "// Copyright\n# mine\na b c d\n: x\ne f g h", "mine.v1.txt"))
    assert file.sections == [Section("mine.v1", [("a", "b", "c", "d")]), Section("x", [("e", "f", "g", "h")])]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a b c d\na b c\n", "line 2: 3 words, not 4"),
        (": x\n\nking\n", "line 3: 1 word, not 4"),
        ("a b c d e", "line 1: 5 words, not 4"),
        (":\na b c d", "line 1: a section without a name"),
        ("", "has no analogy in it"),
        (": x\n# a b c d\n", "has no analogy in it"),
        (b"a b c d\ncaf\xe9 b c d\n", "line 2: not UTF-8 at byte 3"),
        ("a b c d\n".encode("utf-16"), "line 1: there is a NUL byte"),
        (b"a b c d\n\x00\x01", "line 2: there is a NUL byte"),
    ],
)
def test_what_is_no_file_of_analogies(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SgnsError) as caught:
        read_analogies(path)
    assert caught.value.message.startswith(str(path))
    assert words in caught.value.message
    assert caught.value.hint


PUBLISHED = {
    "WordSim-353, combined.csv": "Word 1,Word 2,Human (mean)\r\ntiger,cat,7.35\r\ntiger,tiger,10.00\r\n",
    "WordSim-353, set1.csv": "Word 1,Word 2,Human (mean),1,2,3\ntiger,cat,7.35,9,7,8\ntiger,tiger,10.00,10,10,10\n",
    "WordSim-353, combined.tab": "Word 1\tWord 2\tHuman (mean)\ntiger\tcat\t7.35\ntiger\ttiger\t10.00\n",
    "gensim's WordSim-353": "# The\n# Word 1\tWord 2\tHuman (mean)\ntiger\tcat\t7.35\ntiger\ttiger\t10.00",
    "SimLex-999.txt": "word1\tword2\tPOS\tSimLex999\tconc(w1)\ntiger\tcat\tN\t7.35\t5\ntiger\ttiger\tN\t10.00\t5\n",
    "rw.txt": "tiger\tcat\t7.35\t8\t7\t6\ntiger\ttiger\t10.00\t10\t10\n",
    "MEN": "tiger cat 7.350000\ntiger tiger 10.000000\n",
    "spaces, with a header": "one two  score\ntiger cat  7.35\ntiger  tiger 1e1\n",
    "a byte-order mark": '\ufefftiger , cat, 7.35\n\n# more\n"tiger",tiger,10',
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_word_pairs_as_they_are_published(tmp_path: Path, name: str) -> None:
    file = read_similarities(write(tmp_path, PUBLISHED[name], "pairs"))
    assert file.name == "pairs"
    assert file.pairs == [("tiger", "cat"), ("tiger", "tiger")]
    assert file.scores == [7.35, 10]
    assert file.words == ["tiger", "cat", "tiger", "tiger"]


def test_fields_may_have_the_other_delimiters_in_them(tmp_path: Path) -> None:
    assert read_similarities(write(tmp_path, "New York\ta,b\t1\nq\tr\t2\n")).pairs == [("New York", "a,b"), ("q", "r")]
    assert read_similarities(write(tmp_path, '"a, b",New York,1\n"say ""x""",r,2\n')).pairs == [
        ("a, b", "New York"),
        ('say "x"', "r"),
    ]
    assert read_similarities(write(tmp_path, "1 2 3")).pairs == [("1", "2")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no word pair in it"),
        ("# a b 1\n\n", "has no word pair in it"),
        ("word1 word2 score\n", "line 1: no number after two words"),
        ("cord;smile;0.02\ngem;jewel;3.94\n", "line 2: no number after two words"),
        ("a b 1\nc d 2\n\ne f x\n", "line 4: column 3 should have the score, and has 'x'"),
        ("a b 1\nc d 2\ne f\n", "line 3: column 3 should have the score, and has nothing"),
        ("a\tb\t1\nc\td\t2\ne f 3\n", "line 3: column 3 should have the score, and has nothing"),
        ("a b 1\nc d nan\n", "line 2: column 3 should have the score, and has 'nan'"),
        ("a b inf\nc d 2\n", "line 1: column 3 should have the score, and has 'inf'"),
        ("a\tb\t1\nc\t\t2\n", "line 2: a word is missing"),
        (",b,1\na,b,2\n", "line 1: a word is missing"),
        ('a,b,1\n"c,d,2\n', "line 2: not CSV"),
        (b"a b 1\n\xff b 2\n", "line 2: not UTF-8 at byte 0"),
        (b"a b 1\n\x00", "line 2: there is a NUL byte"),
    ],
)
def test_what_is_no_file_of_word_pairs(tmp_path: Path, text: str | bytes, words: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(SgnsError) as caught:
        read_similarities(path)
    assert caught.value.message.startswith(str(path))
    assert words in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("read", [read_analogies, read_similarities])
def test_files_that_cannot_be_opened(tmp_path: Path, read: object) -> None:
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises(SgnsError, match=f"cannot read {path}"):
            read(path)


@given(data=st.one_of(st.text('ab1.,\t\n:#" é\r', max_size=60).map(str.encode), st.binary(max_size=60)))
def test_any_bytes_are_read_or_refused(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = write(tmp_path_factory.mktemp("any"), data)
    for read in (read_analogies, read_similarities):
        try:
            file = read(path)
        except SgnsError as error:
            assert str(path) in error.message
            assert error.hint
        else:
            assert file.words
            assert all(file.words)


@given(questions=st.lists(st.tuples(LETTERS, LETTERS, LETTERS, LETTERS), min_size=1, max_size=9), name=LETTERS)
def test_analogies_read_back(
    questions: list[tuple[str, str, str, str]], name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    text = f": {name}\n" + "".join(" ".join(question) + "\n" for question in questions)
    assert read_analogies(write(tmp_path_factory.mktemp("a"), text)).sections == [Section(name, questions)]


@given(
    rows=st.lists(st.tuples(LETTERS, LETTERS, SCORES), min_size=1, max_size=9),
    delimiter=st.sampled_from("\t, "),
    header=st.booleans(),
    kind=st.booleans(),
)
def test_word_pairs_read_back(
    rows: list[tuple[str, str, float]],
    delimiter: str,
    header: bool,
    kind: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    lines = [[one, other, *(["N"] if kind else []), str(score), "7"] for one, other, score in rows]
    if header:
        lines.insert(0, ["word1", "word2", *(["POS"] if kind else []), "mean", "1"])
    file = read_similarities(write(tmp_path_factory.mktemp("p"), "\n".join(delimiter.join(line) for line in lines)))
    assert file.pairs == [(one, other) for one, other, _ in rows]
    assert file.scores == [score for *_, score in rows]


def test_the_example_holds_only_true_lines(project: Path) -> None:
    file = read_analogies(project / "data" / "analogies.txt")
    assert [section.questions[0] for section in file.sections] == [
        ("king", "queen", "man", "woman"),
        ("paris", "france", "tokyo", "japan"),
        ("meter", "kilometer", "foot", "mile"),
        ("cat", "dog", "feline", "canine"),
    ]
    for section in file.sections:
        a, b, c, d = section.questions[0]
        turned = {(a, b, c, d), (b, a, d, c), (c, d, a, b), (d, c, b, a)}
        assert set(section.questions) == turned | {(w, y, x, z) for w, x, y, z in turned}
        assert len(section.questions) == 8
