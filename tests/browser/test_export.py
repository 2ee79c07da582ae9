"""A pipeline in JavaScript has the same output as in Python, and what it cannot run is refused."""

import gzip
import json
import re
from itertools import product

import pytest
import spacy
from browser_pipelines import KINDS, make_forms, make_texts, train
from compare_texts import NODE, STREAMS, compare, compare_streams, run_node

from spacy_bcrf.annotation.folding import Folded
from spacy_bcrf.browser.export import export
from spacy_bcrf.browser.patterns import to_javascript
from spacy_bcrf.sparse.word_attributes import LENGTHS, PLAIN

needs_node = pytest.mark.skipif(not NODE, reason="Node is not installed")


@needs_node
@pytest.mark.parametrize("kind", KINDS)
def test_javascript_repeats_the_output_of_python(kind, tmp_path):
    texts = make_texts(100, identifiers=kind == "identifiers") + make_forms(50)
    found = compare(kind, texts, tmp_path)
    assert (found["texts"], found["different"]) == (150, [])
    assert found["spans"] >= 1
    assert found["p"] < (1e-4 if kind == "two passes" else 1e-5)


@needs_node
@pytest.mark.parametrize(("kind", "decoder", "threshold"), STREAMS)
def test_a_stream_at_random_cuts_equals_the_whole_text(kind, decoder, threshold, tmp_path):
    texts = make_texts(150, seed=11, identifiers=kind == "identifiers")
    found = compare_streams(kind, decoder, threshold, texts, tmp_path)
    assert (found["texts"], found["different"]) == (150, [])
    assert found["p"] < 1.1e-4 and found["released"] > 1000


IPS = [
    *("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "1::2:3:4:5:6:7:8", "::2:3:4:5:6:7:8"),
    *(":1:2:3:4:5:6:7", "::1%a/b", "1:2:3:4:5:6:1.2.3.4", "::1.2.3.04"),
    *("::1.2.3", "1.2.3.4", "256.1.1.1", "::"),
    *(":::", "1::2::3", "::1%eth0", "::1%"),
    *("::1%a%b", "1.2.3.4%a", "::12345", "::g"),
    *("1:2", "1.2.3.4:5"),
]


@needs_node
def test_attributes_of_words_have_the_values_of_python(tmp_path):
    export(train("address"), tmp_path / "model.bcrf")
    words = sorted({*IPS, *(word for text in make_texts(150) for word in text.split())})
    lengths = {"prefix": [1, 3], "suffix": [1, 2, 9], "substring": [2, 3]}
    asked = [(name, lengths.get(name), word) for name in (*PLAIN, *lengths) for word in words]
    (tmp_path / "words.jsonl").write_text("\n".join(map(json.dumps, asked)))
    found = run_node("attributes.mjs", tmp_path / "model.bcrf", tmp_path / "words.jsonl")
    for (name, of, word), values in zip(asked, found, strict=True):
        wanted = PLAIN[name](word) if of is None else LENGTHS[name](of, word)
        assert (name, word, values) == (name, word, list(wanted))


@needs_node
def test_folded_texts_are_those_of_python(tmp_path):
    export(train("address"), tmp_path / "model.bcrf")
    parts = ("\ufeff", "\u200b", "\u00ad", "\u0301", " ", "\n", "\u00a0", "a", "É", ".")
    texts = ["".join(some) for n in (1, 2, 3, 4) for some in product(parts, repeat=n)]
    asked = "\n".join(json.dumps(["folded", None, text]) for text in texts)
    (tmp_path / "texts.jsonl").write_text(asked)
    found = run_node("attributes.mjs", tmp_path / "model.bcrf", tmp_path / "texts.jsonl")
    for text, (folded, offsets) in zip(texts, found, strict=True):
        wanted = Folded(text)
        offsets = range(len(text) + 1) if offsets is None else offsets
        assert (text, folded, [*offsets]) == (text, wanted.text, [*wanted.offsets])


@needs_node
@pytest.mark.parametrize("kind", ["address", "document"])
def test_a_damaged_file_is_a_named_error(kind, tmp_path):
    export(train(kind), tmp_path / "model.bcrf")
    found = run_node("break_model.mjs", tmp_path / "model.bcrf", "250")
    assert found.pop("ModelError") > 100
    assert found.pop("memory") < 2
    assert {*found} <= {"loaded", "later: ModelError", "slowest"}


@needs_node
@pytest.mark.parametrize("kind", ["bio", "two passes"])
def test_a_pipeline_keeps_no_memory_of_a_long_text(kind, tmp_path):
    """Lattices of a long text have up to 200 times the size of the model."""
    export(train(kind), tmp_path / "model.bcrf")
    assert run_node("keep_memory.mjs", tmp_path / "model.bcrf") < 8


def test_a_file_does_not_depend_on_the_process_and_can_be_gzipped(tmp_path):
    nlp = train("bio")
    size = export(nlp, tmp_path / "model.bcrf")
    smaller = export(nlp, str(tmp_path / "model.bcrf.gz"))
    data = (tmp_path / "model.bcrf").read_bytes()
    assert len(data) == size > smaller
    assert gzip.decompress((tmp_path / "model.bcrf.gz").read_bytes()) == data


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda nlp: nlp.get_pipe("ner").set_decoder("mbr"), "its decoder is mbr"),
        (lambda nlp: nlp.add_pipe("sentencizer"), r"\[sentencizer\] Sentencizer needs Python"),
        (
            lambda nlp: nlp.add_pipe("bcrf_identifiers"),
            r"\[bcrf_identifiers\] keeps what ner writes to entities",
        ),
        (lambda nlp: setattr(nlp, "tokenizer", str.split), "needs Python; expected spaCy's Token"),
        (lambda nlp: nlp.disable_pipe("ner"), "there are no components to export"),
    ],
)
def test_what_needs_python_is_refused_by_name(change, message, tmp_path):
    nlp = train("bio")
    if "identifiers" in message:
        pytest.importorskip("phonenumbers", reason="needs the extra identifiers")
    change(nlp)
    with pytest.raises(ValueError, match=message):
        export(nlp, tmp_path / "model.bcrf")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"templates": ["is_digit[0]"]}, "the attribute is_digit"),
        ({"templates": ["tag[0]"]}, "read tag, which no earlier exported component"),
        ({"templates": "pos", "objective": "bcrf"}, "probabilities of its objective bcrf"),
    ],
)
def test_settings_that_need_python_are_refused_by_name(config, message, tmp_path):
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", **config}
    pipe = nlp.add_pipe("bcrf_ner", config={"model": model})
    pipe.add_label("PER")
    with pytest.raises(ValueError, match="it is not trained"):
        export(nlp, tmp_path / "model.bcrf")
    nlp.initialize(lambda: train_examples(nlp))
    with pytest.raises(ValueError, match=message):
        export(nlp, tmp_path / "model.bcrf")


def train_examples(nlp):
    from browser_pipelines import make_gold
    from spacy.training import Example

    gold = make_gold(spacy.blank("en", vocab=nlp.vocab), flat=False, n=5)
    return [Example(nlp.make_doc(doc.text), doc) for doc in gold]


def test_patterns_that_javascript_does_not_have_are_named():
    for pattern, message in [(r"(?i:a)b", "SUBPATTERN"), (r"(a)?(?(1)b|c)", "GROUPREF_EXISTS")]:
        with pytest.raises(ValueError, match=message):
            to_javascript(re.compile(pattern))
