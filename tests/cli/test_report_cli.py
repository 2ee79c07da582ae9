"""The command `python -m spacy bcrf report`."""

import json
import re
import shutil

import pytest
import spacy
from commands import command
from sentences import make_docs, repeat
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from spacy.vocab import Vocab
from tiny_training import network, train

from spacy_bcrf.judging.folds import fit_sparse_chain
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

run = command("report")


def write(path, docs):
    DocBin(docs=docs).to_disk(path)


@pytest.fixture
def corpus(here, pipeline):
    """The current folder with `model`, a link to the trained pipeline, and `dev.spacy`."""
    (here / "model").symlink_to(pipeline / "model")
    shutil.copy(pipeline / "dev.spacy", here)
    return here


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    """A pipeline without probabilities: rules for two persons and a place."""
    nlp = spacy.blank("xx")
    words = (("PERSON", "Ann"), ("PERSON", "Bob"), ("LOC", "Rome"))
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": label, "pattern": word} for label, word in words])
    folder = tmp_path_factory.mktemp("rules") / "rules"
    nlp.to_disk(folder)
    return folder


def read(path):
    return json.loads(path.read_text(encoding="utf8"))


def test_entities(corpus):
    args = ("model", "dev.spacy", "--pipe", "ner")
    output = run(*args, "-o", "report.html", "-o", "report.json").output
    report = read(corpus / "report.json")
    # The pipeline predicts the sentences without errors; 3 of 9 have swapped labels.
    assert report["documents"] == 9 and report["labels"] == ["LOC", "PERSON"]
    every, *by_label = report["scores"]["exact"]
    assert [row["label"] for row in by_label] == ["LOC", "PERSON"]
    for row in (every, *by_label):
        for name in ("precision", "recall", "f"):
            score = row[name]
            assert score["value"] == pytest.approx(2 / 3, abs=1e-6)
            assert score["low"] < score["value"] < score["high"]
    assert report["scores"]["boundaries"][0]["f"] == {"value": 1, "low": 1, "high": 1}
    assert report["outcomes"]["LOC"] == {
        "correct": 6,
        "type": 3,
        "boundary": 0,
        "missing": 0,
        "spurious": 0,
    }
    assert report["calibration"][0]["n"] == 18
    confusions = {(e["kind"], e["gold"], e["predicted"], e["count"]) for e in report["errors"]}
    assert confusions == {("type", "PERSON", "LOC", 3), ("type", "LOC", "PERSON", 3)}
    example = report["certain"][0]
    place = example["gold"]["start"] - example["offset"]
    assert example["context"][place:].split()[0] in {"Ann", "Rome", "Oslo", "Kiel"}
    certainties = [e["predicted"]["probability"] for e in report["certain"]]
    assert certainties == sorted(certainties, reverse=True)
    assert len(report["certain"]) + len(report["uncertain"]) == 6
    assert "9 documents, F 66.67 (" in output
    page = (corpus / "report.html").read_text(encoding="utf8")
    assert page.count("<script") == 1 and "http" not in page.split("</head>")[1]
    # Both are seeded.
    run(*args, "-o", "again.json")
    assert read(corpus / "again.json") == report


def test_copies_of_a_document_count_once(corpus):
    write("copies.spacy", list(DocBin().from_disk("dev.spacy").get_docs(Vocab())) * 2)
    reports = []
    for name in ("dev.spacy", "copies.spacy"):
        run("model", name, "--pipe", "ner", "-o", "report.json")
        reports.append(read(corpus / "report.json"))
    first, second = reports
    assert second["scores"] == first["scores"] and second["documents"] == 9
    assert not first["notes"] and second["notes"][0].startswith("9 of 18 documents are copies")


def test_probabilities_are_those_of_the_component(corpus):
    run("model", "dev.spacy", "--pipe", "ner", "-o", "report.json")
    report = read(corpus / "report.json")
    config = {"components": {"ner": {"annotate": ["confidence"]}}}
    doc = spacy.load("model", config=config)("Ann saw Rome .")
    example = next(e for e in report["certain"] + report["uncertain"] if e["document"] == 0)
    (ent,) = (ent for ent in doc.ents if ent.start_char == example["predicted"]["start"])
    assert ent._.confidence == pytest.approx(example["predicted"]["probability"], abs=1e-5)
    (candidates,) = spacy.load("model").get_pipe("ner").entity_candidates([doc], 1e-6)
    found = {(c.span.start_char, c.span.end_char, c.span.label_): c[1] for c in candidates}
    gold = example["gold"]
    p = found[gold["start"], gold["end"], gold["label"]]
    assert p == pytest.approx(gold["probability"], abs=1e-5)


def test_against_rules(corpus, rules):
    run(
        *("model", "dev.spacy", "--pipe", "ner", "--against", rules),
        *("-o", "report.html", "-o", "report.json"),
    )
    report = read(corpus / "report.json")
    against = report["against"]
    assert against["calibration"] == [] and len(report["calibration"]) == 3
    assert any("gives no probabilities" in note for note in report["notes"])
    counts = against["agreement"]["counts"]
    # Rules find 2 of 3 persons and 1 of 3 places; on the 3 swapped sentences both err.
    assert counts == {"both": 5, "one": 7, "other": 0, "none": 6}
    shown = against["agreement"]["examples"]["one"]
    assert len(shown) == 7 and all(example["kind"] == "missing" for example in shown)
    # Rules have no probabilities.
    assert all(example["gold"]["probability"] is None for example in shown)
    difference = against["differences"][0]["recall"]
    assert difference["value"] == pytest.approx(7 / 18, abs=1e-6)
    assert difference["low"] > 0 and 0 < difference["p"] <= 0.1
    assert against["outcomes"]["LOC"]["missing"] == 4
    assert "F against the other" in (corpus / "report.html").read_text(encoding="utf8")


def test_a_pipeline_against_itself(corpus):
    run(
        *("model", "dev.spacy", "--pipe", "ner", "--against", "model"),
        *("-o", "report.json"),
    )
    against = read(corpus / "report.json")["against"]
    assert len(against["calibration"]) == 3
    for row in against["differences"]:
        assert row["f"] == {"value": 0, "low": 0, "high": 0, "p": 1}


def test_tags(corpus):
    nlp = spacy.blank("xx")
    docs = make_docs(nlp.vocab, tags="NVNP")
    docs[0][1].tag_ = "N"
    docs[1][3].tag_ = ""
    write("tags.spacy", docs)
    output = run(
        *("model", "tags.spacy", "--pipe", "tagger"),
        *("-o", "report.json", "-o", "report.html"),
    ).output
    report = read(corpus / "report.json")
    rows = {row["label"]: row for row in report["scores"]["exact"]}
    assert rows[None]["recall"]["value"] == pytest.approx(34 / 35, abs=1e-6)
    assert rows["V"]["precision"]["value"] == pytest.approx(8 / 9, abs=1e-6)
    assert rows["N"]["recall"]["value"] == pytest.approx(18 / 19, abs=1e-6)
    assert any("1 prediction of tagger" in note for note in report["notes"])
    page = (corpus / "report.html").read_text(encoding="utf8")
    assert "Token accuracy" in page and "Partial matches" not in page
    assert "F 97.14" in output


CHAIN = {
    "@architectures": "spacy-bcrf.LinearChain.v1",
    "templates": ["w[0]", "w[-1]"],
    "objective": "crf",
    "feature_dropout": 0.0,
}
FACTORIES = {
    "bcrf_ner": ("ents_p", "ents_r", "ents_f"),
    "bcrf_tagger": ("tag_acc", "tag_acc", "tag_acc"),
    "bcrf_chunker": ("spans_chunks_p", "spans_chunks_r", "spans_chunks_f"),
    "bcrf_segmenter": ("tagged_token_p", "tagged_token_r", "tagged_token_f"),
}


@pytest.mark.parametrize("factory", FACTORIES)
def test_scores_agree_with_spacy(here, factory):
    tokenizer = {"@tokenizers": "spacy-bcrf.CharTokenizer.v1"}
    config = {"nlp": {"tokenizer": tokenizer}} if factory == "bcrf_segmenter" else {}
    nlp = spacy.blank("xx", config=config)
    nlp.add_pipe(factory, config={"model": CHAIN})
    docs = []
    for i, words in enumerate(("ab ba c", "ba ab cc", "c ab", "cc c ba")):
        n_words = len(words.split())
        doc = Doc(nlp.vocab, words.split(), [True] * (n_words - 1) + [False])
        doc.set_ents([Span(doc, i, i + 1, label="AB"[i % 2]) for i in range(0, len(doc), 2)])
        doc.spans["chunks"] = [Span(doc, 0, 2, label="XY"[i % 2])]
        for token in doc:
            token.tag_ = "NV"[(len(token) + i) % 2]
        docs.append(doc)
    make = nlp.make_doc
    fit_sparse_chain(nlp, [Example(make(doc.text), doc) for doc in docs[:3]], 1)
    nlp.to_disk("model")
    write("dev.spacy", docs)
    expected = nlp.evaluate([Example(make(doc.text), doc) for doc in docs])
    run("model", "dev.spacy", "--against", "model", "-o", "report.json")
    every = read(here / "report.json")["scores"]["exact"][0]
    found = [every[name]["value"] for name in ("precision", "recall", "f")]
    assert found == pytest.approx([expected[key] for key in FACTORIES[factory]], abs=1e-6)
    assert 0 < found[2] < 1


def test_the_report_judges_what_the_component_writes(corpus):
    nlp = spacy.load("model")
    nlp.get_pipe("ner").threshold = 1.0
    nlp.to_disk("careful")
    run("careful", "dev.spacy", "--pipe", "ner", "-o", "report.json")
    report = read(corpus / "report.json")
    assert report["scores"]["exact"][0]["predicted"] == 0
    assert report["scores"]["exact"][0]["precision"]["value"] is None
    assert report["outcomes"]["LOC"]["missing"] == 9
    (nearly,) = report["nearly_found"][:1]
    assert nearly["gold"]["probability"] > 0.5


def test_other_tokens_are_reported(corpus):
    """`report` predicts on the tokens of the pipeline, and `review` on those of the corpus."""
    vocab = spacy.blank("xx").vocab
    ents = ["B-PERSON", "O", "O"]
    doc = Doc(vocab, words=["Ann", "saw", "Rome."], spaces=[True, True, False], ents=ents)
    docs = [*make_docs(vocab), doc]
    write("dev.spacy", docs)
    result = run("model", "dev.spacy", "--pipe", "ner", "-o", "report.json")
    note = "1 document has other tokens in dev.spacy. "
    assert [x for x in read(corpus / "report.json")["notes"] if x.startswith(note)]
    assert f"Note: {note}" in result.stderr
    page = command("review")("model", "dev.spacy", "-p", "ner", "-o", "page.html").stdout
    predicted = read(corpus / "report.json")["scores"]["exact"][0]["predicted"]
    assert predicted == 20 and "10 docs, 19 predicted spans" in page


def test_damaged_files_of_spacy_are_named(corpus):
    shutil.copytree("model", "damaged")
    for name in ("meta.json", "vocab/strings.json"):
        path = corpus / "damaged" / name
        data = path.read_bytes()
        path.write_bytes(data[:9])
        result = run("damaged", "dev.spacy", "--pipe", "ner", "-o", "r.html", exit_code=1)
        assert result.stderr.startswith(f"damaged/{name}: the pipeline cannot be loaded: ")
        path.write_bytes(data)
    (corpus / "damaged/config.cfg").unlink()
    result = run("damaged", "dev.spacy", "--pipe", "ner", "-o", "r.html", exit_code=1)
    assert result.stderr == "damaged: is no pipeline: it has no config.cfg\n"


def test_one_document(corpus):
    (doc,) = make_docs(spacy.blank("xx").vocab)[:1]
    write("one.spacy", [doc])
    run(
        *("model", "one.spacy", "--pipe", "ner", "--against", "model"),
        *("-o", "report.json", "-o", "report.html"),
    )
    report = read(corpus / "report.json")
    assert report["scores"]["exact"][0]["f"] == {"value": 1, "low": None, "high": None}
    assert report["against"]["differences"][0]["f"]["p"] is None
    assert any("One document" in note for note in report["notes"])
    page = (corpus / "report.html").read_text(encoding="utf8")
    assert "One document: no p-values." in page and "No errors." in page


def test_texts_and_labels_are_escaped(here):
    nlp = spacy.blank("xx")
    nlp.add_pipe("bcrf_ner", "ner", config={"model": network()})
    label, word = "<script>alert(1)</script>", "</style><b>'\"&amp;$x"
    docs = [
        Doc(nlp.vocab, words=[word, "is"], ents=[f"B-{label}", "O"]),
        Doc(nlp.vocab, words=["is", word], ents=["B-LOC", "O"]),
    ]
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs], 5)
    name = '<img src=x onerror="alert(1)">'
    nlp.to_disk(here / name)
    docs.append(Doc(nlp.vocab, words=["is", word], ents=["O", f"B-{label}"]))
    write("dev.spacy", docs)
    run(name, "dev.spacy", "--against", name, "-o", "report.html")
    page = (here / "report.html").read_text(encoding="utf8")
    body, script = page.split("<body>")[1].split("<script>")
    assert not re.search(r"<(script|img|b>'|style)", body) and "alert" not in script
    assert "&lt;script&gt;alert(1)" in body and "&lt;/style&gt;&lt;b&gt;" in body
    assert page.count("</style>") == 1


@pytest.fixture
def others(corpus, rules):
    """Wrong inputs: corpora and pipelines."""
    vocab = spacy.blank("xx").vocab
    docs = make_docs(vocab)
    for doc in docs:
        doc.set_ents([])
    write("nothing.spacy", docs)
    write("other-labels.spacy", [Doc(vocab, words=["Ann"], ents=["B-ANIMAL"])])
    spacy.blank("xx").to_disk("blank")
    (corpus / "trained").mkdir()
    spacy.blank("xx").to_disk("trained/model-best")
    nlp = spacy.blank("xx")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "ANIMAL", "pattern": "Ann"}])
    nlp.to_disk("animals")
    shutil.copytree(rules, "rules")
    (corpus / "text.txt").write_text("Ann")
    return corpus


@pytest.mark.parametrize(
    "args, message",
    [
        (("model", "other-labels.spacy"), "have the labels ANIMAL, but the component has"),
        (("model", "nothing.spacy"), "none of the 9 documents has entities"),
        (("rules", "dev.spacy"), "rules: no component of spacy-bcrf among entity_ruler"),
        (("missing", "dev.spacy"), "missing: the pipeline cannot be loaded"),
        (("trained", "dev.spacy"), "trained/model-best is a pipeline of `spacy train`"),
        (("model", "text.txt"), "expected a .spacy file"),
        (("model", "missing.spacy"), "found no such file"),
        (("model", "dev.spacy", "--against", "blank"), "blank: predicts no entities on dev.spacy"),
        (("model", "dev.spacy", "--against", "animals"), "animals: predicts the labels ANIMAL on"),
        (("model", "dev.spacy", "--against", "gone"), "gone: the pipeline cannot be loaded"),
        (("model", "dev.spacy", "-o", "report.pdf"), "report.pdf: expected a file with the suffix"),
        (("model", "dev.spacy", "-o", "dev.spacy"), "dev.spacy: would replace the input dev.spacy"),
    ],
)
def test_wrong_input_writes_nothing(others, args, message):
    before = sorted(others.iterdir())
    result = run(*args, "--pipe", "ner", "-o", "report.html", exit_code=1)
    assert message in result.output
    assert "Traceback" not in result.output
    assert sorted(others.iterdir()) == before


@pytest.mark.slow
def test_the_page_fits_a_phone(corpus, driver):
    run("model", "dev.spacy", "--pipe", "ner", "--against", "model", "-o", "report.html")
    phone = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    driver.get((corpus / "report.html").as_uri())
    driver.execute_script("document.querySelectorAll('details').forEach(x => x.open = true)")
    width = driver.execute_script("return document.documentElement.scrollWidth")
    assert width == 390
    # The content security policy lets the style sheet through.
    font = driver.execute_script("return getComputedStyle(document.body).fontSize")
    assert font == "15px"
    # The names of all rows of a table start at the same place.
    left = "[...table.querySelectorAll('th:first-child')].map(x => getComputedStyle(x).paddingLeft)"
    tables = "[...document.querySelectorAll('table')]"
    found = driver.execute_script(f"return {tables}.map(table => {left})")
    assert found and all(len(set(of_table)) == 1 for of_table in found)
    assert not driver.get_log("browser")


def predict_nothing(self, docs, **_):
    for doc in docs:
        doc.set_ents([])
        yield doc


def test_promised_and_reached(corpus, monkeypatch):
    """All entities of the documents are found, and a third of them has the wrong label."""
    docs = repeat(make_docs(spacy.blank("xx").vocab), 20)
    write("many.spacy", docs)
    for unit, name in (("span", "a"), ("document", "b")):
        promise = ("--recall", "0.8", "--label", "LOC=0.85", "--unit", unit)
        command("control")("model", "many.spacy", "--pipe", "ner", *promise, "-o", name)
        args = (name, "dev.spacy", "--pipe", "ner", "-o", "r.json", "-o", "r.html")
        output = run(*args).output
        first, second = read(corpus / "r.json")["promises"]
        assert (first["labels"], first["promised"], first["unit"]) == (["LOC"], 0.85, unit)
        assert second["labels"] == ["PERSON"] and second["documents"] == 9
        assert second["reached"] == pytest.approx(2 / 3)
        assert second["low"] < 2 / 3 < second["high"]
        per = " a document" if unit == "document" else ""
        assert f"recall 0.8{per} promised, 0.667 reached" in output
        page = (corpus / "r.html").read_text(encoding="utf8")
        assert "<h2>Promises</h2>" in page and f"<td>recall 0.8{per}</td>" in page
    assert second["low"] == pytest.approx(0.2993, abs=1e-4)
    # Entities that a document has are certain, so `report` measures before it predicts.
    with monkeypatch.context() as patch:
        patch.setattr(SequenceLabeler, "pipe", predict_nothing)
        assert "recall 0.8 a document promised, 0.667 reached" in run(*args).output
    tags = [Doc(spacy.blank("xx").vocab, words=["Ann"], ents=["B-LOC"])]
    write("few.spacy", tags)
    run("b", "few.spacy", "--pipe", "ner", "-o", "r.json")
    assert read(corpus / "r.json")["promises"][1]["reached"] is None


def test_the_error_of_a_calibrated_model(corpus):
    output = run("model", "dev.spacy", "--pipe", "ner", "-o", "r.json").output
    row = read(corpus / "r.json")["calibration"][0]
    assert 0 < row["expected_error"] < row["error"]
    assert f"calibration error {row['error']:.3f}, of perfectly calibrated probabilities " in output


def test_markdown_for_a_model_card(corpus):
    run("model", "dev.spacy", "--pipe", "ner", "-o", "report.md")
    page = (corpus / "report.md").read_text(encoding="utf8")
    assert "9 documents of dev.spacy, entities" in page
    assert "| label | gold | precision | recall | F |" in page
    assert re.search(r"^\| PERSON \| 9 \| 66\.7 \(\d+\.\d to \d+\.\d\) \|", page, re.MULTILINE)
    assert "The expected calibration error of the probabilities is 0." in page
