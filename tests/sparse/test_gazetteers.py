"""Lists of phrases: files, matches against all pairs of positions, and memory."""

import random
import tracemalloc

import numpy as np
import pytest
import spacy
from spacy.kb import InMemoryLookupKB
from spacy.symbols import IDS
from spacy.tokens import Doc

from bcrf.io.text import CorpusError
from spacy_bcrf.sparse.features import Features
from spacy_bcrf.sparse.gazetteers import (
    PLACES,
    Gazetteers,
    WordHashes,
    _Hashes,
    read_phrases,
    split_phrases,
)
from spacy_bcrf.sparse.word_tables import WordTables

NLP = spacy.blank("en")
SPLIT = {"@tokenizers": "spacy-bcrf.SplitTokenizer.v1", "capitals": True}


def matches(phrases, words, exact):
    """Return the places of the longest, then first matches, by trying all spans."""
    known = {tuple((p if exact else p.lower()).split()) for p in phrases}
    text = words if exact else [word.lower() for word in words]
    n = len(words)
    spans = [(a, b) for a in range(n) for b in range(a + 1, n + 1) if tuple(text[a:b]) in known]
    places = [""] * n
    for a, b in sorted(spans, key=lambda span: (span[0] - span[1], span[0])):
        if not any(places[a:b]):
            inside = ["I"] * (b - a - 2)
            places[a:b] = ["U"] if b - a == 1 else ["B", *inside, "L"]
    return places


@pytest.mark.parametrize("exact", [False, True])
def test_matches_equal_those_of_all_spans(exact):
    rng = random.Random(3)
    alphabet = ["a", "b", "A", "c", "B"]
    for _ in range(60):
        phrases = [" ".join(rng.choices(alphabet, k=rng.randint(1, 4))) for _ in range(6)]
        words = rng.choices(alphabet, k=rng.randint(0, 15))
        more = rng.choices(alphabet, k=rng.randint(0, 5))
        docs = [Doc(NLP.vocab, words=part) for part in (words, [], more)]
        found = Gazetteers({"x": phrases}).find("x", WordHashes.of(docs), exact)
        # No match crosses the end of a document.
        right = matches(phrases, words, exact) + matches(phrases, more, exact)
        assert [PLACES[k] if k >= 0 else "" for k in found] == right


def test_no_later_word_changes_final_places():
    """The places of a beginning are final at a cut, also in a chain of phrases without an end."""
    rng, n_final = random.Random(4), 0
    for _ in range(200):
        phrases = [" ".join(rng.choices("abc", k=rng.randint(1, 4))) for _ in range(4)]
        lists = Gazetteers({"x": phrases, "y": [*phrases[2:], "a b"]})
        words = rng.choices("abcd" if rng.random() < 0.8 else "aab", k=40)
        doc, beginning = Doc(NLP.vocab, words=words), Doc(NLP.vocab, words=words[:20])
        places = []
        for each in (beginning, doc):
            hashes = WordHashes.of([each])
            found = [lists.find(name, hashes, k) for name in ("x", "y") for k in (False, True)]
            places.append(np.stack(found))
            if each is beginning:
                cuts = np.array(sorted(rng.sample(range(1, 21), 10)))
                end = lists.count_final(hashes, places[0], cuts)
        assert end in (0, *cuts) and (places[0][:, :end] == places[1][:, :end]).all()
        rest = WordHashes.of([Doc(NLP.vocab, words=words[end:])])
        assert (lists.find("x", rest) == places[1][0, end:]).all()
        n_final += end
    assert n_final > 200 * 10
    lists, hashes = Gazetteers({"x": ["a a", "a a a"]}), WordHashes.of([NLP.make_doc("a " * 100)])
    places = lists.find("x", hashes)[None]
    assert lists.count_final(hashes, places, np.arange(1, 101)) >= 88


SYMBOLS = [name for name in IDS if name]


@pytest.mark.parametrize("exact", [False, True])
def test_words_that_are_symbols_of_spacy_match(exact):
    lists = Gazetteers({"x": ["Mark Twain", "number nine", *SYMBOLS]})
    found = lists.find(
        "x", WordHashes.of([Doc(NLP.vocab, words=[name]) for name in SYMBOLS]), exact
    )
    assert (found == PLACES.index("U")).all()
    words = WordHashes.of(
        [Doc(NLP.vocab, words=["Mark", "Twain", "and", "number", "nine", "met", "MARK"])]
    )
    alone = -1 if exact else 3  # "mark" is a symbol, "MARK" is none
    assert lists.find("x", words, exact).tolist() == [0, 2, -1, 0, 2, -1, alone]
    assert all("U" in lists.find_partial("x", name) for name in SYMBOLS)


def test_tables_of_words_know_symbols_of_spacy():
    lists, tables = Gazetteers({"x": ["a"]}), WordTables({"c": {"mark": "01", "LOC": "11"}})
    templates = ["cluster.c[0]", "frequency[0]"]
    features = Features(templates, lists, tables)
    docs = [Doc(NLP.vocab, words=["Mark", "LOC"])] * 2
    features.count_words(docs)
    shown = [["cluster.c[0]=01", "frequency[0]=1"], ["cluster.c[0]=11", "frequency[0]=1"]]
    assert features.describe(docs[0]) == shown


def test_phrases_match_in_the_tokens_of_the_pipeline():
    nlp = spacy.blank("en", config={"nlp": {"tokenizer": SPLIT}})
    lists = Gazetteers({"x": ["McDonald", "Anne O'Brien", " ", "New York"]})
    doc, words = nlp.make_doc("Anne O'Brien, McDonald, New York"), ["Anne", "O'Brien"]
    n_strings = len(nlp.vocab.strings)
    assert lists.find("x", WordHashes.of([doc])).tolist().count(-1) == 8  # only New York
    lists.load(nlp)
    assert len(nlp.vocab.strings) == n_strings
    found = dict(zip(map(str, doc), lists.find("x", WordHashes.of([doc])), strict=True))
    assert [PLACES[k] for k in map(found.get, ("Anne", "O", "'", "Brien", "Mc", "Donald"))] == [
        *"BIIL",
        *"BL",
    ]
    # Corpora may have tokens of their own.
    assert lists.find("x", WordHashes.of([Doc(nlp.vocab, words=words)])).tolist() == [0, 2]


@pytest.mark.parametrize("blank", [" ", None])
def test_phrases_of_a_tokenizer_that_reads_lines_otherwise(blank):
    """The one of spaCy's guide splits at blanks alone, others lose line breaks."""
    nlp = spacy.blank("en")
    nlp.tokenizer = lambda text: Doc(nlp.vocab, words=text.split(blank))
    phrases = ["Ada Lovelace", "New York", "Ada"]
    assert split_phrases(phrases, nlp) == phrases


def test_parts_of_phrases():
    lists = Gazetteers({"x": ["New York City", "york", "Paris"]})
    found = {w: list(lists.find_partial("x", w)) for w in ("YORK", "new", "City", "Paris", "a")}
    assert found == {"YORK": ["I", "U"], "new": ["B"], "City": ["L"], "Paris": ["U"], "a": []}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("names.txt", "New York\n\nParis \nNew York\n"),
        ("names.tsv", "New York\tQ60\ten\nParis\tQ90\n"),
        ("names.jsonl", '{"name": "New York", "label": "LOC"}\n"Paris"\n'),
        ("names.jsonl", '{"pattern": "New York", "label": "LOC"}\n{"label": "Paris", "id": 1}\n'),
        ("names.jsonl", '{"name": "New York", "aliases": ["Paris"]}\n'),
    ],
)
def test_files_of_phrases(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    assert read_phrases(path) == ["New York", "Paris"]


@pytest.mark.parametrize(
    "text", ["{", "[1]", '{"id": 3}', '{"pattern": [{"LOWER": "a"}]}', '{"aliases": []}']
)
def test_a_malformed_line_is_an_error(tmp_path, text):
    path = tmp_path / "names.jsonl"
    path.write_text(f'"Paris"\n{text}\n')
    with pytest.raises(CorpusError, match=r"names\.jsonl:2: expected"):
        read_phrases(path)


def test_a_knowledge_base(tmp_path):
    knowledge = InMemoryLookupKB(NLP.vocab, entity_vector_length=3)
    knowledge.add_entity("Q60", 9, [1, 2, 3])
    knowledge.add_alias("New York", ["Q60"], [0.9])
    knowledge.add_alias("NYC", ["Q60"], [0.9])
    knowledge.to_disk(tmp_path / "kb")
    assert sorted(read_phrases(tmp_path / "kb")) == ["NYC", "New York"]
    (tmp_path / "other").mkdir()
    with pytest.raises(CorpusError, match="expected a spaCy knowledge base"):
        read_phrases(tmp_path / "other")


def test_matchers_are_small():
    rng = random.Random(0)
    syllables = ["ka", "lo", "mi", "ne", "ru", "ta"]
    make = lambda: "".join(rng.choices(syllables, k=6))  # noqa: E731
    phrases = [f"{make()} {make()}" for _ in range(20_000)]
    lists = Gazetteers({"x": phrases})
    tracemalloc.start()
    for exact in (False, True):
        lists.find("x", WordHashes.of([NLP.make_doc("a")]), exact)
    list(lists.find_partial("x", "a"))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Two beginnings a phrase, in two matchers, of 9 to 18 bytes each. Strings are not copied.
    assert kept < 75 * len(phrases)


def test_sets_of_hashes_find_what_they_have():
    rng = np.random.default_rng(0)
    last = np.iinfo("uint64").max
    for size in (0, 1, 2, 3, 1000):
        # Half of the hashes are in one place of the index.
        keys = rng.integers(last, size=size, dtype="uint64", endpoint=True)
        keys[::2] >>= np.uint64(40)
        hashes = _Hashes(keys)
        rows = hashes.find(keys)
        assert (hashes.keys[rows] == keys).all()
        assert len(np.unique(hashes.keys)) == len(hashes.keys)
        others = np.setdiff1d(np.concatenate([keys + np.uint64(1), [0]]).astype("uint64"), keys)
        others = others[others < last]
        assert (hashes.find(others) == -1).all()


def test_blank_phrases_are_left_out():
    for phrases in ([" "], ["  ", ""], []):
        assert Gazetteers({"x": phrases}).phrases == {"x": []}
    assert Gazetteers({"x": ["", " a  b ", " "]}).phrases == {"x": ["a b"]}
