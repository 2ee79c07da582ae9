"""The pictures of README and pages."""

from xml.etree import ElementTree

import spacy
from spacy.training import Example

from experiments.site_figures import draw_entities, draw_lattice

TEXT = "Ann & Bob saw Oslo ."


def test_the_picture_has_the_entities_with_their_probabilities(tmp_path):
    nlp = spacy.blank("xx")
    model = {"@architectures": "spacy-bcrf.LinearChain.v1", "templates": "ner"}
    nlp.add_pipe("bcrf_ner", name="ner", config={"model": model})
    examples = [Example.from_dict(nlp.make_doc(TEXT), {"entities": [(14, 18, "LOC")]})]
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(20):
        nlp.update(examples, sgd=optimizer)
    nlp.to_disk(tmp_path / "model")
    doc = nlp(TEXT)
    (candidates,) = nlp.get_pipe("ner").entity_candidates([doc], threshold=0.5)
    assert [candidate.span.text for candidate in candidates] == ["Oslo"]

    picture = ElementTree.fromstring(draw_entities(str(tmp_path / "model"), [TEXT]))
    texts = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == [TEXT, f"LOC {candidates[0].probability:.2f}"]


def test_a_figure_is_the_same_each_time(tmp_path):
    for name in ("a.svg", "b.svg"):
        draw_lattice(tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
