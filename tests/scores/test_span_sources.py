"""Spans with scores, and other pipelines, as token scores."""

import json

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc
from spacy.training import Example
from tiny_training import train

from bcrf.io.text import CorpusError
from spacy_bcrf.scores.find_sources import find_sources, guess_source
from spacy_bcrf.scores.foreign_tagger import ForeignTagger
from spacy_bcrf.scores.span_sources import SpanScores, score_tokens, span_labels

NLP = spacy.blank("xx")
TEXT = "Ann Smith left Rome"


def test_probabilities_of_spans():
    labels = span_labels(["PER", "LOC"])
    values = score_tokens(3, [(0, 2, "PER", 0.75), (0, 1, "LOC", 0.25)], labels)
    assert labels == ["O", "B-LOC", "I-LOC", "B-PER", "I-PER"]
    p = np.exp(values)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(p[0, [1, 3]], [0.25, 0.75], atol=1e-3)
    np.testing.assert_allclose(p[1, [0, 4]], [0.25, 0.75], atol=1e-3)
    assert p[2, 0] > 0.99


def test_equal_spans_count_once():
    spans = [(0, 1, "PER", 0.5), (0, 1, "PER", 0.75), (0, 1, "PER", 0.5)]
    p = np.exp(score_tokens(1, spans, span_labels(["PER"])))
    np.testing.assert_allclose(p[0, :2], [0.25, 0.75], atol=1e-3)


def spans_of(tmp_path, *records, **options):
    path = tmp_path / "spans.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return ForeignTagger(
        {"name": "gliner", "@misc": "spacy-bcrf.SpanScores.v1", "path": str(path)} | options
    )


def test_spans_of_json_lines(tmp_path):
    spans = [
        {"start": 0, "end": 9, "label": "PER", "score": 0.9},
        {"start": 15, "end": 19, "label": "LOC"},
    ]
    tagger = spans_of(tmp_path, {"text": TEXT, "spans": spans})
    known, unknown = tagger.find([NLP(TEXT), NLP("another text")])
    best = [tagger.labels[i] for i in known.values.argmax(axis=1)]
    assert best == ["B-PER", "I-PER", "O", "B-LOC"]
    assert np.exp(known.values[3].max()) == pytest.approx(0.95, abs=1e-3)
    assert unknown.silent.all()


@pytest.mark.parametrize(
    ("span", "message"),
    [
        ({"start": 0, "end": 99, "label": "PER"}, "0 to 99 is not within the text"),
        ({"start": 0, "end": 3, "label": "PER", "score": 7}, "score must be a number from 0 to 1"),
        ({"start": 0, "end": 3, "label": "PER", "score": "0.8"}, "score .*, got '0.8'"),
        ({"start": 0, "end": 3, "label": "PER", "score": True}, "score .*, got True"),
        ({"start": 0, "label": "PER"}, "must be whole numbers, got 0 and None"),
        ({"start": 0, "end": 3, "label": 5}, '"label" must be a text, got 5'),
        ({"start": 0, "end": 3, "label": None}, '"label" must be a text, got None'),
        ({"start": 0, "end": 3, "label": "P\ud83d"}, '"label" has half of a surrogate pair'),
        ({"start": 0.5, "end": 3, "label": "PER"}, "must be whole numbers, got 0.5"),
        ({"start": False, "end": 3, "label": "PER"}, "must be whole numbers, got False"),
        ({"start": 3, "end": 4, "label": "PER"}, "the span 3 to 4 is white space"),
        ("PER", "a span must be an object, got 'PER'"),
    ],
)
def test_wrong_spans_name_the_line(tmp_path, span, message):
    tagger = spans_of(tmp_path, {"text": "Ann", "spans": []}, {"text": TEXT, "spans": [span]})
    with pytest.raises(ValueError, match=rf"'gliner': .*spans\.jsonl:2.*{message}"):
        tagger.find([NLP(TEXT)])


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"text": TEXT}, '"spans" must be a list, got None'),
        ({"text": 5, "spans": []}, '"text" must be a text, got 5'),
        ({"text": "\ud83d", "spans": []}, '"text" has half of a surrogate pair'),
        ([TEXT], "expected an object"),
    ],
)
def test_wrong_records_name_the_line(tmp_path, record, message):
    tagger = spans_of(tmp_path, {"text": "Ann", "spans": []}, record)
    with pytest.raises(ValueError, match=rf"'gliner': .*spans\.jsonl:2: .*{message}"):
        tagger.find([NLP(TEXT)])


def test_records_of_one_text_agree(tmp_path):
    a, b = ({"start": s, "end": e, "label": "PER"} for s, e in ((0, 3), (4, 9)))
    other = {"text": "Ann", "spans": [a]}
    records = [{"text": TEXT, "spans": [a, b]}, other, {"text": TEXT, "spans": [b, a]}]
    (scores,) = spans_of(tmp_path, *records).find([NLP(TEXT)])
    assert not scores.silent.any()
    tagger = spans_of(tmp_path, *records, {"text": TEXT, "spans": [a]})
    with pytest.raises(ValueError, match=r"jsonl:4: has the text of .*jsonl:1 with other spans"):
        tagger.find([NLP(TEXT)])


def test_spans_that_cut_tokens_are_named_and_counted(tmp_path):
    spans = [{"start": start, "end": 12, "label": "PER"} for start in (9, 10, 11)]
    tagger = spans_of(tmp_path, {"text": TEXT, "spans": spans})
    message = r"spans\.jsonl: the span 10 to 12 'le' PER cuts tokens of 'left', and takes all"
    with pytest.warns(UserWarning, match=message):
        (scores,) = tagger.find([NLP(TEXT)])
    # White space at an end is trimmed: it takes no token.
    assert [tagger.labels[k] for k in scores.values.argmax(axis=1)] == ["O", "O", "B-PER", "O"]
    assert tagger.source.n_cut == 3


def make_pipeline(factory, config):
    nlp = spacy.blank("xx")
    nlp.add_pipe(factory, config=config)
    doc = Doc(nlp.vocab, words=TEXT.split(), ents=["B-PER", "I-PER", "O", "B-LOC"])
    examples = [Example(nlp.make_doc(TEXT), doc)]
    train(nlp, examples, 40)
    return nlp


TOK2VEC = {"@architectures": "spacy.HashEmbedCNN.v2", "width": 16, "depth": 1, "embed_size": 100}
TOK2VEC |= {"window_size": 1, "maxout_pieces": 2, "subword_features": False}
TOK2VEC["pretrained_vectors"] = None
PARSER = {"@architectures": "spacy.TransitionBasedParser.v2", "state_type": "ner", "nO": None}
PARSER |= {"extra_state_tokens": False, "hidden_width": 16, "maxout_pieces": 2, "use_upper": False}
PARSER["tok2vec"] = TOK2VEC


@pytest.mark.parametrize(
    ("factory", "config", "expected"),
    [
        ("bcrf_ner", {"scheme": "BIO"}, "B-PER I-PER O B-LOC"),
        ("ner", {"model": PARSER}, "B-PER L-PER O U-LOC"),
        ("beam_ner", {"model": PARSER}, "B-PER I-PER O B-LOC"),
    ],
)
def test_another_pipeline(factory, config, expected, tmp_path):
    make_pipeline(factory, config).to_disk(tmp_path / "model")
    tagger = ForeignTagger(
        {"name": "other", "@misc": "spacy-bcrf.PipelineScores.v1", "path": str(tmp_path / "model")}
    )
    scores, _ = tagger.find([NLP(TEXT), NLP("Rome")])
    best = [tagger.labels[i] for i in scores.values.argmax(axis=1)]
    assert best == expected.split()
    np.testing.assert_allclose(np.exp(scores.values).sum(axis=1), 1, atol=1e-3)
    assert tagger.source.identity
    # The strings of a text do not stay in the vocabulary of the source.
    strings = tagger.source._nlp.vocab.strings
    known = len(strings)
    tagger.find([NLP("Kowalska saw Przemysl")])
    assert len(strings) == known


def test_a_pipeline_without_entities(tmp_path):
    nlp = spacy.blank("xx")
    nlp.add_pipe("sentencizer")
    nlp.to_disk(tmp_path / "model")
    config = {
        "name": "other",
        "@misc": "spacy-bcrf.PipelineScores.v1",
        "path": str(tmp_path / "model"),
    }
    with pytest.raises(ValueError, match="has no component that sets entities; it has sentencizer"):
        ForeignTagger(config).find([NLP(TEXT)])


def test_a_component_of_overlapping_spans(tmp_path):
    nlp = spacy.blank("xx")
    spans = nlp.add_pipe("bcrf_spans")
    for label in "AB":
        spans.add_label(label)
    nlp.to_disk(tmp_path / "model")
    config = {"name": "o", "@misc": "spacy-bcrf.PipelineScores.v1", "path": str(tmp_path / "model")}
    with pytest.raises(ValueError, match="the spans of bcrf_spans can overlap"):
        ForeignTagger(config | {"component": "bcrf_spans"}).find([NLP(TEXT)])


def test_sources_by_their_path(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    assert guess_source(str(tmp_path / "a.jsonl"))["@misc"] == "spacy-bcrf.SpanScores.v1"
    spacy.blank("xx").to_disk(tmp_path / "pipeline")
    assert guess_source(str(tmp_path / "pipeline"))["@misc"] == "spacy-bcrf.PipelineScores.v1"
    (tmp_path / "package").mkdir()
    (tmp_path / "package/meta.json").write_text("{}")
    with pytest.raises(ValueError, match="its name, or the inner folder"):
        guess_source(str(tmp_path / "package"))
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf/config.json").write_text('{"id2label": {"0": "O", "1": "B-X"}}')
    assert guess_source(str(tmp_path / "hf"))["@misc"] == "spacy-bcrf.OnnxScores.v1"
    (tmp_path / "hf/model.safetensors").write_text("")
    assert guess_source(str(tmp_path / "hf"))["@misc"] == "spacy-bcrf.HuggingFaceScores.v1"
    with pytest.raises(ValueError, match="expected the folder of a token classifier"):
        guess_source(str(tmp_path / "nothing"))
    for content in ("{", "[]", '{"id2label": 5}'):
        (tmp_path / "hf/config.json").write_text(content)
        with pytest.raises(ValueError, match=r"hf/config\.json: .*expected"):
            guess_source(str(tmp_path / "hf"))


def test_sources_of_a_config():
    config = {"a": {"model": {"scores": [{"name": "x"}]}}, "b": {"scores": 3}}
    assert list(find_sources(config)) == [{"name": "x"}]


def test_a_file_without_a_span_is_named(tmp_path):
    path = tmp_path / "none.jsonl"
    path.write_text('{"text": "Ann left", "spans": []}\n')
    with pytest.raises(CorpusError, match=r"none.jsonl: none of its 1 texts has a span"):
        SpanScores(str(path)).labels  # noqa: B018
