"""`migrate` makes our components of a stock training config."""

import pickle
from io import StringIO

import pytest
import spacy
from commands import command
from spacy.tokens import Doc, DocBin
from spacy.util import load_config, load_config_from_str
from spacy_commands import run_spacy, train

migrate = command("migrate")
ENTITIES = ["B-PER", "I-PER", "O", "B-LOC"]


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    """A filled config of spaCy with a shared tok2vec, and a corpus."""
    folder = tmp_path_factory.mktemp("stock")
    path = folder / "stock.cfg"
    run_spacy("init", "config", path, "--lang", "xx", "--pipeline", "tagger,ner,spancat")
    path.write_text(path.read_text().replace("width = 96", "width = 8"))
    words = ["Ann", "Lee", "in", "Rome"]
    doc = Doc(spacy.blank("xx").vocab, words, tags=["N", "N", "P", "N"], ents=ENTITIES)
    doc.spans["sc"] = list(doc.ents)
    DocBin(docs=[doc] * 3, store_user_data=True).to_disk(folder / "corpus.spacy")
    return path


def edit(path, output, old, new):
    """Write the config with one replacement."""
    assert old in path.read_text()
    output.write_text(path.read_text().replace(old, new))
    return output


@pytest.mark.slow
def test_a_stock_config_trains_after_migration(stock, tmp_path):
    new = tmp_path / "new.cfg"
    output = migrate(stock, "--output", new, "--head", "CRF").output
    assert "[components.ner] ner -> bcrf_ner" in output
    assert "[components.spancat] spancat -> bcrf_spans" in output
    assert "[components.spancat] without" in output and "threshold" in output
    assert "compiled layers" in output and "spacy_bcrf.accelerate(nlp)" in output
    before, after = (load_config(path, interpolate=False) for path in (stock, new))
    for name in ("tagger", "ner", "spancat"):
        pipe, old = after["components"].pop(name), before["components"].pop(name)
        assert pipe["model"]["tok2vec"] == old["model"]["tok2vec"]
        assert pipe["model"]["head"] == {"@layers": "spacy-bcrf.CRF.v1"}
    shared = after["components"]["tok2vec"]["model"]
    for part, name in ("embed", "MultiHashEmbed"), ("encode", "MaxoutWindowEncoder"):
        assert shared[part].pop("@architectures") == f"spacy-bcrf.{name}.v1"
        del before["components"]["tok2vec"]["model"][part]["@architectures"]
    weights = after["training"].pop("score_weights")
    old = before["training"].pop("score_weights")
    assert {key: value for key, value in weights.items() if value} == {
        key: value for key, value in old.items() if value
    }
    assert after == before

    overrides = {f"paths.{part}": str(stock.parent / "corpus.spacy") for part in ("train", "dev")}
    overrides |= {"training.max_steps": 60, "training.eval_frequency": 60, "training.dropout": 0.0}
    train(new, tmp_path / "out", overrides, log := StringIO())
    assert "SPANS_SC_F" in log.getvalue() and "SPANS_CHUN" not in log.getvalue()
    nlp = spacy.load(tmp_path / "out/model-last")
    doc = nlp("Ann Lee in Rome")
    assert [token.tag_ for token in doc] == ["N", "N", "P", "N"]
    assert [span.text for span in doc.ents] == ["Ann Lee", "Rome"]
    assert [span.text for span in doc.spans["sc"]] == ["Ann Lee", "Rome"]


def test_labels_of_transitions_are_left_out(stock, tmp_path):
    section = "[initialize.components]\n"
    labels = section + '\n[initialize.components.ner]\nlabels = ["U-PER"]\n'
    path = edit(stock, tmp_path / "labels.cfg", section, labels)
    output = tmp_path / "out.cfg"
    assert "[initialize.components.ner] without labels" in migrate(path, "-o", output).output
    assert load_config(output)["initialize"]["components"] == {"ner": {}}


@pytest.mark.parametrize(
    "old, new, problem",
    [
        ("moves = null", 'moves = ["O"]', "[components.ner] moves = ['O']: bcrf_ner has no"),
        ('neg_prefix = "!"', 'neg_prefix = "~"', "[components.tagger] neg_prefix = '~'"),
        ("spacy.ngram_suggester.v1", "mine.v1", "[components.spancat] suggester = 'mine.v1'"),
        (
            "spacy.TransitionBasedParser.v2",
            "mine.v1",
            "[components.ner.model] @architectures = 'mine.v1'",
        ),
        ('factory = "ner"', 'source = "en_core_web_sm"', "trained weights cannot be migrated"),
        (
            "L2 = 0.01",
            "L2 = ${components.ner.model.hidden_width}",
            "components.ner.model.hidden_width",
        ),
    ],
)
def test_what_cannot_be_migrated_is_refused(stock, tmp_path, old, new, problem):
    path = edit(stock, tmp_path / "wrong.cfg", old, new)
    output = migrate(path, "-o", tmp_path / "new.cfg", exit_code=1).output
    assert problem in output and str(path) in output
    assert not (tmp_path / "new.cfg").exists()


def test_a_config_without_a_stock_component(tmp_path):
    text = '[nlp]\nlang = "xx"\npipeline = ["x"]\n[components]\n[components.x]\nfactory = "parser"'
    load_config_from_str(text).to_disk(tmp_path / "parser.cfg")
    output = migrate(tmp_path / "parser.cfg", "-o", tmp_path / "new.cfg", exit_code=1).output
    assert "no factory ner, tagger or spancat; found x (parser)" in output
    wrong = "-o", tmp_path / "new.cfg", "--head", "crf"
    assert "is not one of 'CRF'" in migrate(tmp_path / "parser.cfg", *wrong, exit_code=2).output


def test_options_of_the_other_source_are_errors(stock, tmp_path):
    model = tmp_path / "model.crfsuite"
    model.write_bytes(b"lCRF")
    for args, message in {
        (model, "--head", "CRF"): "model.crfsuite is a model of CRFsuite: --head, --code and",
        (model, "--force"): "model.crfsuite is a model of CRFsuite: --head, --code and",
        (model, "--lang", "qq"): "unknown language 'qq'; expected a code of spaCy, or xx",
        (stock, "--lang", "de"): "stock.cfg is no model of CRFsuite: its config has the language",
    }.items():
        assert message in migrate(*args, "--output", tmp_path / "out", exit_code=1).output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["old.joblib", "old"])
def test_a_pickle_is_not_read_and_the_way_around_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(pickle.dumps({"a": 1}))
    output = migrate(path, "-o", tmp_path / "new.cfg", exit_code=1).output
    assert f"{name}: is a pickle" in output and "shutil.copy(crf.modelfile.name" in output
