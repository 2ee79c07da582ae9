"""Fuzz tests: each record and each span of a file is counted once."""

import json
import tempfile
from functools import cache
from pathlib import Path

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.vocab import Vocab

from bcrf.io.text import CorpusError
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.readers.doc_files import read_docs

EXPORTS = Path(__file__).parent / "exports"
FORMATS = {
    "prodigy_manual.jsonl": "prodigy",
    "prodigy_teach.jsonl": "prodigy",
    "label_studio.json": "label-studio",
}

junk = st.sampled_from([None, True, 0, -1, 2.5, "", "O", "X", [], [None], {}, "\ud800"])
labels = st.one_of(
    st.sampled_from(["PER", "LOC", None, ["PER"], ["PER", "LOC"]]), st.sampled_from([[], "", 1])
)
bounds = st.sampled_from([0, 0, 3, 4, 8, 9, 13, 5, 99, -1])
spans = st.fixed_dictionaries({"start": bounds, "end": bounds, "label": labels})
span_lists = st.lists(st.one_of(spans, spans, spans, junk), max_size=3)
texts = st.sampled_from(["Ann Rome left", "Eve Oslo slept", "Ann", " Ann \n Rome"])
optional = {
    "text": texts,
    "tokens": st.sampled_from([["Ann", "Rome", "left"], ["Ann"], ["Eve"], [{"text": "Ann"}]]),
    "spans": span_lists,
    "rejected": span_lists,
    "annotated_labels": st.lists(st.sampled_from(["PER", "LOC"]), max_size=2),
    "complete": st.booleans(),
}
others = {key: value for key, value in optional.items() if key != "text"}
broken = {key: st.one_of(value, value, value, junk) for key, value in optional.items()}
records = st.one_of(
    st.fixed_dictionaries({"text": texts}, optional=others),
    st.fixed_dictionaries({"text": texts, "spans": span_lists}),
    st.fixed_dictionaries({}, optional=broken),
)
answers = st.sampled_from(["accept", "accept", "reject", "ignore", "perhaps", None])
tasks = st.fixed_dictionaries(
    {"text": texts, "spans": span_lists, "answer": answers},
    optional={"_view_id": st.sampled_from(["ner", "ner_manual", "text"])},
)


@pytest.fixture(scope="module", autouse=True)
def one_pipeline():
    """Share the empty pipelines: to make one takes most of the time of a small conversion."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spacy, "blank", cache(spacy.blank))
        yield


def check(data, name):
    """Convert a file and compare counts and documents. Return counts, None for an error."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "in.jsonl", Path(folder) / "out.spacy"
        source.write_bytes(data)
        problems = []
        try:
            counts = convert(
                [source], output, format=name, skip_malformed=True, report=problems.append
            )
        except CorpusError as error:
            assert str(error).startswith((f"{source}:", f"{output}: not written"))
            assert list(Path(folder).iterdir()) == [source]
            return None
        assert all(str(source) in problem for problem in problems)
        docs = list(read_docs(output, Vocab()))
    assert len(docs) == counts.docs <= counts.used
    assert sum(len(doc.ents) for doc in docs) == counts.entities
    found = {
        key: sum(len({(s.start, s.end) for s in doc.spans.get(key, [])}) for doc in docs)
        for key in ("ambiguous_spans", "incorrect_spans")
    }
    assert found["ambiguous_spans"] == counts.ambiguous
    assert found["incorrect_spans"] <= counts.rejected
    assert sum(len(doc) for doc in docs) == counts.tokens
    assert sum(token.ent_iob == 0 for doc in docs for token in doc) == counts.missing
    return counts


def count(objects):
    """Return the number of spans."""
    lists = [fields.get(key) for fields in objects for key in ("spans", "rejected")]
    return sum(len(found) for found in lists if isinstance(found, list))


def to_lines(objects):
    return "".join(json.dumps(fields) + "\n" for fields in objects).encode()


@given(st.lists(records, max_size=8), st.integers(0, 2))
def test_json_lines(objects, n_broken):
    data = to_lines([{"text": "good"}, *objects]) + b"{\n" * n_broken
    counts = check(data, "jsonl")
    assert counts.records == 1 + len(objects) + n_broken
    assert counts.spans == count(objects)


@given(st.lists(tasks, max_size=8))
def test_prodigy(objects):
    counts = check(to_lines([{"text": "good", "answer": "accept"}, *objects]), "prodigy")
    assert counts.records == 1 + len(objects)
    assert counts.spans == count(objects)


@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_mutated_exports(name, data):
    text = (EXPORTS / name).read_text(encoding="utf8")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, min(len(text), start + 12)))
        middle = data.draw(st.sampled_from(["", "\n", "0", '"', "[", "{}", text[start:end] * 2]))
        text = text[:start] + middle + text[end:]
    check(text.encode(), FORMATS[name])


@given(st.binary(max_size=40), st.sampled_from(["jsonl", "prodigy", "label-studio", "auto"]))
def test_random_bytes(data, name):
    check(data, name)


@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_exports_with_a_replaced_value(name, data):
    text = (EXPORTS / name).read_text(encoding="utf8")
    objects = (
        json.loads(text) if name.endswith(".json") else list(map(json.loads, text.split("\n")[:-1]))
    )
    place = data.draw(st.sampled_from(objects))
    while True:
        keys = list(place) if isinstance(place, dict) else range(len(place))
        if not keys:
            break
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], dict | list) or data.draw(st.booleans()):
            place[key] = data.draw(junk)
            break
        place = place[key]
    counts = check(to_lines(objects), FORMATS[name])
    assert counts is None or counts.records == len(objects)
