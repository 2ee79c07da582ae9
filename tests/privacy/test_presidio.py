"""The recognizer for Presidio, with Presidio's own analyzer."""

import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import network, train

presidio = pytest.importorskip("presidio_analyzer", reason="needs the extra presidio")

from presidio_analyzer.nlp_engine import SpacyNlpEngine  # noqa: E402

from spacy_bcrf.pipeline.settings import Control  # noqa: E402
from spacy_bcrf.privacy.presidio import BCRFRecognizer  # noqa: E402
from spacy_bcrf.privacy.redact import find_regions  # noqa: E402

TEXT = "Ann saw Rome ."


class BlankEngine(SpacyNlpEngine):
    """Presidio's engine for its other recognizers, without a model to download."""

    def __init__(self):
        super().__init__()
        self.nlp = {"en": spacy.blank("en")}


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_ner", config={"model": network()})
    doc = Doc(nlp.vocab, words=TEXT.split(), ents=["B-PER", "O", "B-CITY", "O"])
    train(nlp, [Example(nlp.make_doc(TEXT), doc)], steps=8)
    return nlp


def analyze(recognizer, **options):
    registry = presidio.RecognizerRegistry(supported_languages=["en"])
    registry.add_recognizer(recognizer)
    engine = presidio.AnalyzerEngine(registry, BlankEngine(), supported_languages=["en"])
    return engine.analyze(TEXT, "en", **options)


def test_scores_are_probabilities(nlp):
    recognizer = BCRFRecognizer(nlp)
    assert recognizer.supported_entities == ["CITY", "PERSON"]
    results = analyze(recognizer, return_decision_process=True)
    results.sort(key=lambda result: result.start)
    assert [(r.entity_type, r.start, r.end) for r in results] == [
        ("PERSON", 0, 3),
        ("CITY", 8, 12),
    ]
    ents = nlp(TEXT).ents
    assert [r.score for r in results] == pytest.approx([ent._.confidence for ent in ents])
    assert results[0].analysis_explanation.textual_explanation == "Probability of PER by bcrf_ner"
    cities = analyze(recognizer, entities=["CITY"])
    assert [r.entity_type for r in cities] == ["CITY"]
    assert analyze(recognizer, score_threshold=1.0) == []


def test_a_threshold_finds_all_likely_spans(nlp):
    pipe = nlp.get_pipe("bcrf_ner")
    (expected,) = pipe.entity_candidates([nlp.make_doc(TEXT)], 0.001)
    recognizer = BCRFRecognizer(nlp, threshold=0.001, entity_types={})
    found = recognizer.analyze(TEXT, ["PER", "CITY"])
    assert len(found) == len(expected) > 2
    assert [r.score for r in found] == pytest.approx([c.probability for c in expected])


def test_entities_of_other_components_are_left_to_them(nlp):
    ruler = nlp.add_pipe("entity_ruler", last=True)
    ruler.add_patterns([{"label": "PER", "pattern": "saw"}])
    try:
        assert [r.start for r in BCRFRecognizer(nlp).analyze(TEXT, ["PERSON"])] == [0]
    finally:
        nlp.remove_pipe("entity_ruler")


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pipe": "ner"}, "'ner' is no bcrf_ner of the pipeline; it has bcrf_ner"),
        ({"threshold": 0.0}, r"threshold must be None, promise or in \(0, 1\], got 0.0"),
        ({"threshold": "promise"}, "'bcrf_ner' has no promise of recall: run `control`"),
    ],
)
def test_wrong_options(nlp, options, message):
    with pytest.raises(ValueError, match=message):
        BCRFRecognizer(nlp, **options)


def test_a_promise_finds_its_candidates_and_further_occurrences(nlp):
    pipe = nlp.get_pipe("bcrf_ner")
    pipe.control = Control("recall", ("PER", "CITY"), (0.3, 0.3))
    try:
        text = "Ann saw Rome . Rome saw ANN ."
        found = BCRFRecognizer(nlp, threshold="promise").analyze(text, ["PERSON", "CITY"])
        (regions,) = find_regions(pipe, [nlp.make_doc(text)])
        assert [(r.start, r.end) for r in found] == [region[:2] for region in regions]
        assert {(0, 3), (8, 12), (15, 19)} <= {(r.start, r.end) for r in found}
    finally:
        pipe.control = None


def test_the_anonymizer_has_surrogates(nlp):
    anonymizer = pytest.importorskip("presidio_anonymizer")
    from spacy_bcrf.privacy.presidio_anonymizer import BCRFReplace

    engine = anonymizer.AnonymizerEngine()
    engine.add_anonymizer(BCRFReplace)
    results = analyze(BCRFRecognizer(nlp))

    def replace(**params):
        config = anonymizer.OperatorConfig("bcrf_replace", params)
        return engine.anonymize(TEXT, results, {"DEFAULT": config}).text

    first = replace(key="secret")
    assert first == replace(key="secret", style="surrogate") != replace(key="other")
    assert first.split()[1] == "saw" and len(first) == len(TEXT) and first != TEXT
    assert replace(style="mask") == "Xxx saw Xxxx ."
    assert replace(style="label") == "[PERSON] saw [CITY] ."
    for params in ({}, {"style": "x"}):
        with pytest.raises(ValueError, match=r"key is missing|style must be one of"):
            replace(**params)
