"""How often a call goes from one file of the packages to another: what one must read."""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.training import Example

import bcrf
import spacy_bcrf

PACKAGES = tuple(str(Path(package.__file__).parent) for package in (spacy_bcrf, bcrf))
TEXT = "Ada Lovelace lived in London"
SPARSE = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "pos"}


def count_changes(run: Callable[[], object]) -> int:
    """Return how many functions are entered that lie in another file than the one before."""
    files: list[str] = []

    def note(frame, event, arg):
        code = frame.f_code
        # Comprehensions and lambdas are part of their function.
        if event == "call" and code.co_filename.startswith(PACKAGES) and code.co_name[0] != "<":
            files.append(code.co_filename)

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return sum(a != b for a, b in pairwise(files))


def train(pipe: str, config: dict, make: Callable[[Language], list[Example]]):
    nlp = spacy.blank("en")
    nlp.add_pipe(pipe, config=config)
    sgd = nlp.initialize(lambda: make(nlp))
    nlp.update(make(nlp), sgd=sgd)
    nlp(TEXT)
    return nlp, sgd


def entities(nlp: Language) -> list[Example]:
    gold = {"entities": [(0, 12, "PERSON"), (22, 28, "LOC")]}
    return [Example.from_dict(nlp.make_doc(TEXT), gold) for _ in range(2)]


def tags(nlp: Language) -> list[Example]:
    return [Example.from_dict(nlp.make_doc("Ada left Rome"), {"tags": ["N", "V", "N"]})]


@pytest.fixture(scope="module")
def ner():
    return train("bcrf_ner", {"scheme": "BIO", "annotate": ["confidence"]}, entities)


def test_prediction(ner):
    nlp, _ = ner
    assert count_changes(lambda: nlp(TEXT)) <= 25


def test_partial_update(ner):
    nlp, sgd = ner
    partial = entities(nlp)
    for example in partial:
        example.reference._.annotated_labels = ["PERSON"]
    assert count_changes(lambda: nlp.update(partial, sgd=sgd)) <= 35


def test_online_step():
    nlp, sgd = train("bcrf_tagger", {"model": SPARSE}, tags)
    assert count_changes(lambda: nlp.update(tags(nlp), sgd=sgd)) <= 21
