"""Components whose head scores tags with a hidden layer."""

import pytest
import spacy
from spacy.training import Example
from spacy.util import fix_random_seed
from tiny_training import RATE, network

CHAR_TOKENIZER = {"nlp": {"tokenizer": {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}}}
WORDS = {"words": ["我", "喜欢", "鸡蛋"], "spaces": [False] * 3, "tags": ["PRON", "VERB", "NOUN"]}


def make_nlp(factory, **head):
    """Return a pipeline of one component with a small network."""
    fix_random_seed(0)
    config = CHAR_TOKENIZER if factory == "bcrf_segmenter" else {}
    nlp = spacy.blank("zh" if config else "xx", config=config)
    model = network()
    model["head"] |= head
    nlp.add_pipe(factory, name="labeler", config={"model": model})
    return nlp


def make_example(nlp, factory):
    """Return an example that the component can learn."""
    if factory == "bcrf_segmenter":
        return Example.from_dict(nlp.make_doc("我喜欢鸡蛋"), WORDS)
    doc = nlp.make_doc("Ada lived in Rome")
    if factory == "bcrf_tagger":
        return Example.from_dict(doc, {"tags": ["N", "V", "P", "N"]})
    spans = [(0, 3, "PERSON"), (13, 17, "LOC")]
    if factory == "bcrf_ner":
        return Example.from_dict(doc, {"entities": spans})
    return Example.from_dict(doc, {"spans": {"chunks": spans}})


def read(doc):
    """Return all annotation of a document that a component writes."""
    chunks = doc.spans.get("chunks", [])
    return (
        [(token.text, token.tag_) for token in doc],
        [(span.start, span.end, span.label_) for span in [*doc.ents, *chunks]],
    )


@pytest.mark.parametrize("transitions", ["shared", "pairwise"])
@pytest.mark.parametrize("factory", ["bcrf_tagger", "bcrf_ner", "bcrf_chunker", "bcrf_segmenter"])
def test_a_component_learns_is_saved_and_gets_a_label(factory, transitions):
    head = {"hidden_width": 8, "transitions": transitions, "transition_width": 4}
    nlp = make_nlp(factory, **head)
    example = make_example(nlp, factory)
    optimizer = nlp.initialize(lambda: [example])
    optimizer.learn_rate = RATE
    for _ in range(20):
        nlp.update([example], sgd=optimizer)
    text = example.predicted.text
    learned = read(nlp(text))
    assert learned == read(example.reference)
    loaded = make_nlp(factory, **head).from_bytes(nlp.to_bytes())
    assert read(loaded(text)) == learned
    nlp.get_pipe("labeler").add_label("NEW")
    assert read(nlp(text)) == learned
    nlp.update([example], sgd=optimizer)
    assert read(nlp(text)) == learned
