"""The command `python -m spacy bcrf scores`, and `init --scores`."""

import json

import pytest
import spacy
from commands import command
from spacy.cli._util import app as spacy_app
from spacy.tokens import Doc, DocBin
from spacy.util import load_config
from typer.testing import CliRunner

from spacy_bcrf.scores.foreign_tagger import ForeignTagger

run = command("scores")
init = command("init")
report = command("report")
WORDS = ["Ann", "Smith", "left", "Rome"]


@pytest.fixture
def corpus(tmp_path):
    vocab = spacy.blank("en").vocab
    docs = [
        Doc(vocab, [*WORDS, str(i)], ents=["B-PER", "I-PER", "O", "B-LOC", "O"]) for i in range(12)
    ]
    path = tmp_path / "train.spacy"
    DocBin(docs=docs).to_disk(path)
    return path


@pytest.fixture
def spans(tmp_path):
    path = tmp_path / "spans.jsonl"
    of_text = [
        {"start": 0, "end": 9, "label": "PERSON", "score": 0.9},
        {"start": 15, "end": 19, "label": "GPE", "score": 0.8},
    ]
    records = [{"text": " ".join([*WORDS, f"{i} "]), "spans": of_text} for i in range(11)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["PER", "OTHER"], "has no label O, which means no entity; its labels are PER, OTHER"),
        (["O", "[PAD]", "B-PER"], "[PAD] may mean no entity"),
    ],
)
def test_a_classifier_without_a_clear_o_is_an_error(labels, message, tmp_path):
    config = {"id2label": dict(enumerate(labels))}
    (tmp_path / "tagger").mkdir()
    (tmp_path / "tagger/config.json").write_text(json.dumps(config))
    found = init("-o", tmp_path / "out", "--scores", tmp_path / "tagger", exit_code=1)
    assert message in " ".join(found.output.split())
    assert not (tmp_path / "out").exists()


def test_a_config_with_scores_trains(corpus, spans, tmp_path):
    from spacy.cli.train import train

    config = tmp_path / "new" / "config.cfg"
    labels = "PERSON=PER,GPE=LOC"
    found = init("-o", config, "--train", corpus, "--scores", spans, "--labels", labels)
    assert "scores: learning starts from the source's decoding of LOC, PER" in found.stdout
    (source,) = load_config(config)["components"]["ner"]["model"]["scores"]
    assert source["@misc"] == "spacy-bcrf.SpanScores.v1"
    files = [config.parent / f"{part}.spacy" for part in ("train", "dev")]
    first = run(config, *files)
    assert "source: 12 texts, 60 tokens, 5 without scores, 0 texts failed" in first.stdout
    assert f"python -m spacy train {config}" in first.step
    # The second one reads the file alone: a killed command goes on.
    assert run(config, *files).stdout == first.stdout
    train(config, tmp_path / "out", overrides={"training.max_steps": 2})
    nlp = spacy.load(tmp_path / "out" / "model-last")
    doc = nlp(Doc(nlp.vocab, [*WORDS, "0"]))
    assert [(e.text, e.label_) for e in doc.ents] == [("Ann Smith", "PER"), ("Rome", "LOC")]
    output = tmp_path / "report.json"
    report(tmp_path / "out/model-last", files[1], "-o", output, "-o", output.with_suffix(".html"))
    sources = json.loads(output.read_text())["sources"]
    assert [(row["source"], row["how"]) for row in sources] == [
        ("source", "argmax"),
        ("source", "decoded"),
    ]
    assert all(row["f"] == 1 for row in sources)
    assert "Sources alone" in output.with_suffix(".html").read_text()


def test_training_with_a_wrong_source_names_it_without_a_traceback(corpus, spans, tmp_path):
    config = tmp_path / "new" / "config.cfg"
    init("-o", config, "--train", corpus, "--scores", spans)
    good = spans.read_text()
    for content in (good + '{"text": "Ann"}\n', good.replace("0.9", '"0.9"', 1), None):
        spans.write_text(content) if content else spans.unlink()
        arguments = ["train", str(config), "--output", str(tmp_path / "out")]
        found = CliRunner().invoke(spacy_app, arguments)
        assert isinstance(found.exception, SystemExit)  # another one has a traceback
        assert "scores 'source': " in found.output
        assert "spans.jsonl:" in found.output


def test_spans_that_cut_tokens_are_counted(corpus, spans, tmp_path):
    config = tmp_path / "new" / "config.cfg"
    spans.write_text(spans.read_text().replace('"start": 15', '"start": 16'))
    init("-o", config, "--train", corpus, "--scores", spans)
    with pytest.warns(UserWarning, match="the span 16 to 19 'ome' GPE cuts tokens of 'Rome'"):
        found = run(config, corpus)
    assert ", 11 spans cut tokens; kept in" in found.stdout


def test_a_lone_surrogate_is_an_error(corpus, spans, tmp_path):
    spans.write_text(spans.read_text().replace("PERSON", "\\ud83d", 1))
    for more in ([], ["--train", corpus]):
        found = init("-o", tmp_path / "new" / "x.cfg", "--scores", spans, *more, exit_code=1)
        assert 'spans.jsonl:1: "label" has half of a surrogate pair' in found.output


def test_labels_without_a_common_one_are_noted(corpus, spans, tmp_path):
    found = init("-o", tmp_path / "new" / "config.cfg", "--train", corpus, "--scores", spans)
    assert "no label of the source is one of the corpus" in found.stdout
    assert "GPE, PERSON" in found.stdout


def test_without_a_corpus_a_pipeline_decodes_and_nothing_is_learned(spans, tmp_path):
    output = tmp_path / "model"
    found = init("-o", output, "--scores", spans, "--labels", "GPE=LOC", "-l", "en")
    assert found.step and found.step.endswith("--labels GPE=LOC --lang en")
    assert "Nothing was learned: no corpus was given" in found.stdout
    nlp = spacy.load(output)
    doc = nlp(Doc(nlp.vocab, [*WORDS, "0"]))
    assert [(e.text, e.label_) for e in doc.ents] == [("Ann Smith", "PERSON"), ("Rome", "LOC")]
    assert not nlp("No span is known of this text").ents


def test_a_pipeline_replaces_no_folder(spans, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    for more in ([], ["--force"]):
        found = init("-o", tmp_path / "mine", "--scores", spans, *more, exit_code=1)
        assert "mine: expected a new or empty folder" in " ".join(found.output.split())
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes"]


def test_training_finds_the_scores_of_a_corpus_with_sentences(spans, tmp_path):
    config = tmp_path / "config.cfg"
    source = {"name": "a", "@misc": "spacy-bcrf.SpanScores.v1", "path": str(spans)}
    source["cache"] = str(tmp_path / "scores.sqlite")
    nlp = spacy.blank("en")
    model = {"@architectures": "spacy-bcrf.ScoreHead.v1", "scores": [source]}
    nlp.add_pipe("bcrf_ner", config={"model": model})
    nlp.config.to_disk(config)
    doc = Doc(nlp.vocab, WORDS, sent_starts=[True, False, False, False])
    DocBin(docs=[doc]).to_disk(tmp_path / "a.spacy")
    run(config, tmp_path / "a.spacy")
    tagger = ForeignTagger(source)
    tagger.source.load = lambda: pytest.fail("scored again")
    tagger.find([Doc(nlp.vocab, WORDS)])


def test_a_pipeline_names_its_missing_source(spans, tmp_path):
    init("-o", tmp_path / "model", "--scores", spans)
    nlp = spacy.load(tmp_path / "model")
    spans.unlink()
    with pytest.raises(ValueError, match=r"scores 'source': .*spans\.jsonl: no such file"):
        nlp("Ann left")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--labels", "A=B"], "--scores, which is not given"),
        ([], "expected --train, or --scores alone"),
        (["--scores", "nothing"], "nothing: expected the folder of a token classifier"),
        (
            ["--scores", "SPANS", "--labels", "PERSON"],
            "--labels PERSON: expected a pair such as",
        ),
        (["--scores", "SPANS", "--labels", "X=Y"], "the source has no X"),
        (["--scores", "SPANS", "--train", "TRAIN", "--encoder", "cnn"], "cnn reads none"),
    ],
)
def test_wrong_options(arguments, message, corpus, spans, tmp_path):
    given = {"SPANS": spans, "TRAIN": corpus}
    found = init("-o", tmp_path / "x.cfg", *(given.get(a, a) for a in arguments), exit_code=1)
    assert message in " ".join(found.output.split())
    assert not (tmp_path / "x.cfg").exists()


def test_configs_without_scores_or_cache(corpus, spans, tmp_path):
    config = tmp_path / "new" / "config.cfg"
    init("-o", config, "--train", corpus)
    assert "no component has the setting scores" in run(config, corpus, exit_code=1).output
    init("-o", tmp_path / "model", "--scores", spans)
    found = run(tmp_path / "model", corpus, exit_code=1)
    assert "has no cache. Set it to a file" in found.output
