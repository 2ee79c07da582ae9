"""Wrong inputs of newcomers: each message names the cause and the remedy."""

import sys
import warnings
from pathlib import Path

import pytest
import spacy
from spacy.cli.package import get_third_party_dependencies
from spacy.tokens import DocBin
from spacy.training import Example
from tiny_training import network
from typer.testing import CliRunner

from bcrf.io.extras import require
from spacy_bcrf.cli import app

CRF = {"@layers": "spacy-bcrf.CRF.v1"}
BIO = "Ada\tB-PER\nLee\tI-PER\n\nBob\tB-PER\n\n"


def make_ner(**config):
    """Return an initialized pipeline with one entity recognizer."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", name="ner", config={"model": network(), **config}).add_label("LOC")
    nlp.initialize()
    return nlp


def bcrf(*arguments):
    """Return the output of a command of `python -m spacy bcrf`."""
    return CliRunner().invoke(app, [*map(str, arguments)]).output


def debug(**model):
    """Return what `debug` says of a config with this model, and this attribute of a tagger."""
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_tagger", name="tagger", config={"attribute": "pos", "model": network()})
    nlp.config.to_disk("config.cfg")
    text = Path("config.cfg").read_text()
    for old, new in model.items():
        text = text.replace(f"spacy-bcrf.{old}.v1", f"spacy-bcrf.{new}.v1")
    Path("config.cfg").write_text(text)
    doc = nlp.make_doc("Ada left")
    doc[0].pos_ = doc[1].pos_ = "NOUN"
    DocBin(docs=[doc]).to_disk("corpus.spacy")
    paths = ("--paths.train", "corpus.spacy", "--paths.dev", "corpus.spacy")
    return bcrf("debug", "config.cfg", *paths)


def head_typo():
    return debug(BCRF="BCFR")


def head_as_architecture():
    return debug(SequenceLabeler="CRF")


def texts_to_nbest():
    make_ner().get_pipe("ner").nbest(["text"])


def biluo_of_bio():
    Path("bio.conll").write_text(BIO)
    return bcrf("convert", "bio.conll", "bio.spacy", "--scheme", "biluo")


def misaligned_example():
    nlp = spacy.blank("xx")
    example = Example.from_dict(nlp.make_doc("Ada Lovelace"), {"entities": [(0, 2, "PER")]})
    nlp.add_pipe("bcrf_ner").initialize(lambda: [example])


def lone_surrogate():
    Path("texts.jsonl").write_text('{"text": "a \\ud800"}\n')
    return bcrf("convert", "texts.jsonl", "texts.spacy")


def missing_extra():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        require("matplotlib", "plot")


def missing_module_of_an_extra():
    require("no_such_package.part", "plot")


def null_text():
    Path("texts.jsonl").write_text('{"text": null}\n')
    return bcrf("convert", "texts.jsonl", "texts.spacy")


def weights_of_pos():
    return debug()


def corpus_without_entities():
    nlp = spacy.blank("xx")
    examples = [Example.from_dict(nlp.make_doc("Ada"), {})]
    nlp.add_pipe("bcrf_ner").initialize(lambda: examples)


def threshold_of_find_threshold():
    make_ner(threshold=2.0)


def annotate_typo():
    make_ner(annotate=["confidense"])


def explain_without_component():
    spacy.blank("xx").to_disk("blank")
    return bcrf("explain", "blank")


def explain_of_a_network():
    make_ner().to_disk("model")
    return bcrf("explain", "model")


MESSAGES = {
    head_typo: "'spacy-bcrf.BCFR.v1' is unknown. Did you mean spacy-bcrf.BCRF.v1?",
    head_as_architecture: "spacy-bcrf.CRF.v1 is a head, which is a layer and no architecture. Set",
    texts_to_nbest: "[ner] expected documents, got str 'text'. nlp(text) makes one; a segmenter",
    biluo_of_bio: "in the scheme biluo, fewer are in bio; expected `convert --scheme bio` or auto",
    misaligned_example: "spaCy drops spans whose offsets do not match tokens",
    lone_surrogate: "half a surrogate pair at character 2; expected both halves",
    missing_extra: "matplotlib is not installed; get it with: pip install 'matplotlib'",
    missing_module_of_an_extra: "no_such_package is not installed; get it with: pip install",
    null_text: 'no "text" (it is null) and no "tokens"; expected "text" with a string',
    weights_of_pos: 'tag_acc = 0.5: [components.tagger] with attribute = "pos" has no such score',
    corpus_without_entities: "no labels: none of the 1 training documents has entities",
    threshold_of_find_threshold: "[ner] threshold must be a number from 0 to 1, or such numbers by",
    annotate_typo: "[ner] annotate must be a list of confidence",
    explain_without_component: "no component of spacy-bcrf among none; expected a pipeline with",
    explain_of_a_network: "ner: only the architectures spacy-bcrf.LinearChain.v1",
}


@pytest.mark.parametrize("mistake", MESSAGES, ids=lambda mistake: mistake.__name__)
def test_a_message_names_cause_and_remedy(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            message = mistake()
        except (ValueError, TypeError, ImportError) as error:
            message = str(error)
    assert MESSAGES[mistake] in message


def test_settings_of_code_are_saved(tmp_path):
    nlp = make_ner()
    nlp.get_pipe("ner").annotate = ["confidence"]
    nlp.get_pipe("ner").temperature = 2.0
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path).get_pipe("ner")
    assert loaded.annotate == ("confidence",) and loaded.temperature == 2.0


def test_a_package_of_a_pipeline_requires_ours():
    """pip then names what is missing, before spaCy's E002 can."""
    found = get_third_party_dependencies(make_ner().config)
    assert any(requirement.startswith("spacy-bcrf>=") for requirement in found)
