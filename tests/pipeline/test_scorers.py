"""Scores of gold spans that cut tokens."""

import warnings
from typing import Any

import pytest
import spacy
from spacy.pipeline.spancat import spancat_score
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_bcrf.annotation.misaligned import MisalignedSpan, add_misaligned, find_misaligned
from spacy_bcrf.judging.evaluation import CORRECT, evaluate, read_annotations, read_gold_spans
from spacy_bcrf.pipeline.scorers import score_entities, score_spans
from spacy_bcrf.privacy.leaks import measure_leaks
from spacy_bcrf.privacy.occurrences import Region
from spacy_bcrf.privacy.redact import Redacted
from spacy_bcrf.promises.evidence import Evidence

VOCAB = spacy.blank("en").vocab
FINE = ["Ada", "is", "H", ".", "12"]
COARSE = ["Ada", "is", "H.", "12"]


def make(words: Any, ents: Any = (), key: Any = None, missing: Any = (), cut: Any = ()) -> Doc:
    """Return a document of the text "Ada is H. 12". ents: start, end and label of tokens."""
    spaces = [word != "H" and i < len(words) - 1 for i, word in enumerate(words)]
    doc = Doc(VOCAB, words=words, spaces=spaces)
    assert doc.text == "Ada is H. 12"
    spans = [Span(doc, start, end, label) for start, end, label in ents]
    if key is None:
        doc.set_ents(spans, missing=[doc[i : i + 1] for i in missing], default="outside")
    else:
        doc.spans[key] = spans
    for span in cut:
        add_misaligned(doc, MisalignedSpan(*span), key)
    return doc


SEX = (7, 8, "SEX")
CASES = [
    # predicted words and entities, true positives, false positives
    (COARSE, [(0, 1, "PER")], 1, 0),
    (COARSE, [(0, 1, "PER"), (2, 3, "SEX")], 1, 1),  # "H." is known to be wrong
    (FINE, [(0, 1, "PER"), (2, 3, "SEX")], 2, 0),  # another tokenizer can find it
    (FINE, [(2, 3, "PER")], 0, 1),
    (FINE, [(3, 4, "SEX")], 0, 1),
    (COARSE, [(3, 4, "NUM")], 0, 0),  # of missing annotation
]


@pytest.mark.parametrize("key", [None, "sc"])
@pytest.mark.parametrize(("words", "ents", "true", "false"), CASES)
def test_a_span_that_cuts_tokens_is_missed_unless_found(
    words: Any, ents: Any, true: int, false: int, key: str | None
) -> None:
    reference = make(COARSE, [(0, 1, "PER")], key, missing=[2, 3], cut=[SEX])
    example = Example(make(words, ents, key), reference)
    if key is None:
        scores, name = score_entities([example]), "ents"
    else:
        false += ents == [(3, 4, "NUM")]  # a span group has no missing annotation
        scores, name = score_spans([example], spans_key=key), "spans_sc"
    recall, precision = true / 2, true / max(1, true + false)
    assert (scores[f"{name}_r"], scores[f"{name}_p"]) == pytest.approx((recall, precision))
    assert scores[f"{name}_per_type"]["SEX"]["r"] == pytest.approx(true // 2)


def test_without_such_spans_the_scores_are_those_of_spacy() -> None:
    references = [make(COARSE, [(0, 1, "PER"), (2, 3, "SEX")], missing=[3]), make(FINE)]
    predicted = [make(FINE, [(2, 3, "SEX"), (4, 5, "X")]), make(FINE, [(0, 2, "PER")])]
    examples = [Example(x, y) for x, y in zip(predicted, references, strict=True)]
    assert score_entities(examples) == get_ner_prf(examples)
    found, right = make(FINE, [(2, 3, "SEX")], "sc"), make(COARSE, [(2, 3, "SEX")], "sc")
    grouped = [Example(found, right)]
    assert score_spans(grouped, spans_key="sc") == spancat_score(grouped, spans_key="sc")


def train(examples: list[Example], **config: Any) -> Any:
    nlp = spacy.blank("en")
    pipe = nlp.add_pipe("bcrf_ner", config=config)
    nlp.initialize(lambda: examples)
    for _ in range(30):
        pipe.update(examples)
    return nlp, pipe


@pytest.fixture(scope="module")
def trained() -> Any:
    reference = make(COARSE, [(0, 1, "PER"), (2, 3, "SEX")])
    return train([Example(make(COARSE).copy(), reference)])


def gold() -> Doc:
    return make(COARSE, [(0, 1, "PER")], missing=[2], cut=[SEX])


def blank() -> Doc:
    return Doc(VOCAB, words=COARSE, spaces=[True, True, True, False])


def test_a_component_scores_and_reports_it_as_missed(trained: Any) -> None:
    _, pipe = trained
    predicted = pipe(blank())
    assert [(ent.text, ent.label_) for ent in predicted.ents] == [("Ada", "PER"), ("H.", "SEX")]
    scores = pipe.score([Example(predicted, gold())])
    assert (scores["ents_p"], scores["ents_r"]) == (0.5, 0.5)
    right, found = read_gold_spans(pipe.codec, gold()), read_annotations(pipe.codec, predicted)
    assert [span[:3] for span in right] == [(0, 3, "PER"), SEX]
    pairs = evaluate(pipe.codec, [gold()], [right], [found], pipe.labels).pairs[0]
    assert [pair.kind for pair in pairs] == [CORRECT, "boundary"]


def test_promises_count_it(trained: Any) -> None:
    _, pipe = trained
    examples = [Example(blank(), gold())]
    strict = Evidence(pipe, examples, "recall").units.posteriors
    covered = Evidence(pipe, examples, "recall", covered=True).units.posteriors
    assert strict[0] > 0.5 and strict[1] == 0
    assert covered.min() > 0.5  # a candidate covers its characters
    precision = Evidence(pipe, examples, "precision")
    assert precision.units.correct.tolist() == [True, False]
    assert not precision.n_left_out


def test_leaks_count_it() -> None:
    redacted = Redacted("", [], [Region(0, 3, "PER", 1.0)], [])
    assert measure_leaks([gold()], [redacted]).leaks[0].spans[:2] == (1, 2)
    whole = redacted._replace(regions=[*redacted.regions, Region(7, 9, "SEX", 1.0)])
    assert measure_leaks([gold()], [whole]).leaks[0].spans[:2] == (0, 2)


def test_training_learns_neither_it_nor_o(trained: Any) -> None:
    _, pipe = trained
    tags = pipe.read_gold([Example(blank(), gold())]).tags
    assert tags.tolist()[2] == -1


def test_a_scorer_of_others_warns_of_it(trained: Any) -> None:
    reference = make(COARSE, [(0, 1, "PER"), (2, 3, "SEX")])
    examples = [Example(blank(), reference)]
    _, pipe = train(examples, scorer={"@scorers": "spacy.ner_scorer.v1"})
    with pytest.warns(UserWarning, match=r"1 gold spans cut tokens, and the scorer does not"):
        pipe.score([Example(pipe(blank()), gold())])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pipe.score(examples)
    assert not find_misaligned(reference)
