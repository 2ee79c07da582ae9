"""The command `python -m spacy bcrf aggregate`."""

import json
import re
from pathlib import Path

import pytest
import spacy
from commands import command
from spacy.tokens import Doc, DocBin, Span

from spacy_bcrf.corpora.formats.votes import Flaws
from spacy_bcrf.weak.sources import read_sources

run = command("aggregate")
ROOT = Path(__file__).parents[2]
DRUGS, ILLS = ["aspirin", "ibuprofen", "codeine"], ["headache", "fever", "Wilson disease"]
TEXTS = [f"She took {drug} for {ill} ." for drug in DRUGS for ill in ILLS]
TEXTS += ["Wilson disease (WD) is rare. Many have WD.", "Nothing here."]
CONFIG = """
[aggregate]
labels = ["DRUG", "ILL"]

[sources]

[sources.llm]
annotations = "llm.jsonl"

[sources.llm.map]
MED = "DRUG"
ANY = ["DRUG", "ILL"]
AGE = []

[sources.rules]
patterns = "rules.jsonl"

[sources.list]
gazetteer = "drugs.txt"
label = "DRUG"
silence = "denies"
"""


def span(text, phrase, label):
    return {"start": text.index(phrase), "end": text.index(phrase) + len(phrase), "label": label}


@pytest.fixture
def folder(here):
    (here / "texts.txt").write_text("\n".join(TEXTS))
    (here / "sources.cfg").write_text(CONFIG)
    (here / "drugs.txt").write_text("\n".join(DRUGS))
    patterns = [
        {"label": "ILL", "pattern": [{"LOWER": "wilson"}, {"LOWER": "disease"}]},
        *({"label": "ILL", "pattern": ill} for ill in ILLS[:2]),
    ]
    (here / "rules.jsonl").write_text("\n".join(map(json.dumps, patterns)))
    answers = [
        {
            "text": text,
            "spans": [
                *(span(text, drug, "MED") for drug in DRUGS if drug in text),
                *(span(text, ill, "ANY") for ill in ILLS if ill in text),
                {**span(text, text.split()[0], "AGE")},
            ],
        }
        for text in TEXTS[:-1]
    ]
    (here / "llm.jsonl").write_text("\n".join(map(json.dumps, answers)))
    return here


def entities(path):
    docs = DocBin().from_disk(path).get_docs(spacy.blank("en").vocab)
    return [[(ent.text, ent.label_) for ent in doc.ents] for doc in docs]


def test_sources_of_all_kinds_are_merged(folder):
    result = run("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en", "--shard", 4)
    assert result.step == "python -m spacy bcrf init --train out --output config.cfg --lang en"
    found = [ents for i in range(3) for ents in entities(folder / f"out/{i:06d}.spacy")]
    assert len(found) == len(TEXTS)
    assert found[0] == [("aspirin", "DRUG"), ("headache", "ILL")]
    assert found[2] == [("aspirin", "DRUG"), ("Wilson disease", "ILL")]
    # The abbreviation has no vote.
    assert found[-2] == [("Wilson disease", "ILL"), ("WD", "ILL"), ("WD", "ILL")]
    assert found[-1] == []
    values = json.loads((folder / "out/sources.json").read_text())
    assert values["n_docs"] == len(TEXTS)
    (drug, ill) = values["figures"]["llm"]
    assert (drug["precision"]["n"], ill["label"]) == (9, "ILL")
    assert drug["precision"]["low"] < drug["precision"]["value"] <= drug["precision"]["high"]
    page = (folder / "out/sources.html").read_text()
    assert "Sources of texts.txt" in page and "repeats" in page
    command("distill")("out", "-o", "student", "-l", "en", "--passes", 20)
    doc = spacy.load("student")("They took codeine for fever .")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("codeine", "DRUG"), ("fever", "ILL")]


def test_the_worked_example(here):
    (here / "assets").symlink_to(ROOT / "assets")
    page = (ROOT / "docs/weak-supervision.md").read_text("utf8")
    shown = page[: page.index("## Sources")]
    for block in re.findall(r"```(?:json|text|ini)\n(.*?)```", shown, re.DOTALL):
        files = "".join(path.read_text("utf8") for path in (ROOT / "assets/weak").iterdir())
        assert all(f"{line}\n" in files for line in block.splitlines())
    commands = re.findall(r"python -m spacy bcrf (\w+) (.*)", shown)
    assert [name for name, _ in commands] == ["aggregate", "distill"]
    for name, options in commands:
        command(name)(*options.split())
    doc = spacy.load("student")("Hepatitis was treated with penicillin.")
    assert [(ent.text, ent.label_) for ent in doc.ents][-1] == ("penicillin", "DRUG")


def test_a_killed_run_goes_on(folder):
    options = ("texts.txt", "-s", "sources.cfg", "-l", "en", "--shard", 4, "--work", "votes")
    run(*options, "-o", "once")
    (folder / "votes/000001.npz").unlink()
    result = run(*options, "-o", "again")
    assert "votes: has votes of 2 shards already" in result.stdout
    once, again = ((folder / name / "sources.json").read_text() for name in ("once", "again"))
    assert json.loads(once) == {**json.loads(again), "n_reused": 0}
    (folder / "drugs.txt").write_text("aspirin")
    result = run(*options, "-o", "third", exit_code=1)
    assert (folder / "votes").exists()
    assert "was started differently: files list was" in " ".join(result.stderr.split())


def test_a_corrected_config_starts_anew(folder):
    options = ("texts.txt", "-s", "sources.cfg", "-l", "en", "-o", "out", "--shard", 10)
    config = folder / "sources.cfg"
    text = (folder / "llm.jsonl").read_text()
    last = json.dumps({"text": TEXTS[-1], "spans": [span(TEXTS[-1], "here", "PLACE")]})
    (folder / "llm.jsonl").write_text(f"{text}\n{last}")
    result = run(*options, exit_code=1)
    assert "nobody mapped its label 'PLACE'" in " ".join(result.stderr.split())
    assert list((folder / ".out.votes").rglob("*.spacy"))  # the same command would go on from them
    config.write_text(CONFIG.replace("AGE = []", "AGE = []\nPLACE = []"))
    run(*options)
    mapped = (folder / "out/000000.spacy").read_bytes()
    config.write_text(CONFIG)
    result = run(*options[:-3], "skipped", *options[-2:], "--skip-malformed")
    notes = " ".join(result.stderr.split())
    assert "llm.jsonl: left out 1 spans or records: nobody mapped the label 'PLACE'" in notes
    assert (folder / "skipped/000000.spacy").read_bytes() == mapped
    assert (folder / "out/sources.json").exists() and not (folder / ".out.votes").exists()


def test_a_pipeline_can_be_a_package(folder, monkeypatch):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "DRUG", "pattern": "aspirin"}])
    package = folder / "site/tiny_drugs"
    package.mkdir(parents=True)
    nlp.to_disk(package / "en_tiny_drugs-1")
    meta = {"lang": "en", "name": "tiny_drugs", "version": "1"}
    (package / "meta.json").write_text(json.dumps(meta))
    (package / "__init__.py").write_text(
        "from spacy.util import load_model_from_init_py\n"
        "def load(**options): return load_model_from_init_py(__file__, **options)\n"
    )
    (folder / "site/tiny_drugs-1.dist-info").mkdir()
    (folder / "site/tiny_drugs-1.dist-info/METADATA").write_text("Name: tiny_drugs\nVersion: 1\n")
    monkeypatch.syspath_prepend(folder / "site")
    config = CONFIG.replace('gazetteer = "drugs.txt"', 'pipeline = "tiny_drugs"')
    (folder / "sources.cfg").write_text(config.replace('label = "DRUG"\n', ""))
    run("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en")
    values = json.loads((folder / "out/sources.json").read_text())
    assert values["figures"]["list"][0]["precision"]["n"] == 3


def test_span_groups_of_documents_and_gold(folder):
    vocab = spacy.blank("en").vocab
    docs = []
    for i in range(20):
        doc = Doc(vocab, words=["a", "b", "c", "d"])
        doc.spans["one"] = [Span(doc, 1, 3, "DRUG")]
        doc.spans["two"] = [Span(doc, 1, 3, "DRUG")] if i % 2 else []
        doc.spans["wrong"] = [Span(doc, 3, 4, "DRUG")]
        doc.spans["seen"] = [Span(doc, 0, 2)]
        doc.set_ents([Span(doc, 1, 3, "DRUG")])
        docs.append(doc)
    DocBin(docs=docs, store_user_data=True).to_disk("texts.spacy")
    groups = "".join(f'[sources.{name}]\nspans = "{name}"\n' for name in ("one", "two", "wrong"))
    (folder / "groups.cfg").write_text(
        f'[aggregate]\nlabels = ["DRUG"]\n[sources]\n{groups}\n[sources.part]\nspans = "two"\n'
        'regions = "seen"\n'
    )
    run("texts.spacy", "-s", "groups.cfg", "-o", "out", "--gold", "texts.spacy")
    assert entities(folder / "out/000000.spacy") == [[("b c", "DRUG")]] * 20
    values = json.loads((folder / "out/sources.json").read_text())
    assert values["figures"]["wrong"][0]["precision"]["true"] == 0
    assert values["figures"]["two"][0]["recall"]["true"] == 0.5
    assert "true precision" in (folder / "out/sources.html").read_text()


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('MED = "DRUG"\n', "", "source 'llm': nobody mapped its label 'MED'; expected MED = "),
        ('MED = "DRUG"', 'MED = "X"', "[sources.llm] 'X' is none of the labels DRUG, ILL"),
        ('gazetteer = "drugs.txt"', "", "[sources.list] expected one of annotations, pipeline"),
        ('label = "DRUG"', "", "[sources.list] gazetteer = 'drugs.txt' needs label"),
        ('silence = "denies"', 'silence = "no"', 'expected "abstains" or "denies"'),
        ('silence = "denies"', "weight = 2", "[sources.list] weight: expected one of"),
        ('silence = "denies"', 'regions = "x"', "regions: expected one of gazetteer, label, map,"),
        ('"llm.jsonl"', '"llm.jsonl"\nlabel = "DRUG"', "label: expected one of annotations, annot"),
        ("llm.jsonl", "none.jsonl", "[sources.llm]"),
        ('MED = "DRUG"', "MED = 5", "[sources.llm] map: MED = 5: expected a label or a list"),
        ('"ILL"]\nAGE', "3]\nAGE", "[sources.llm] map: ANY = ['DRUG', 3]: expected a label"),
        ("AGE = []", "AGE = null", "[sources.llm] map: AGE = None: expected a label or a list"),
        ('"rules.jsonl"', "5", "[sources.rules] patterns = 5: expected a string"),
        ("[sources]\n", "[sources]\nb = 5\n", "[sources.b] = 5: expected a section"),
        ("labels =", "names =", "expected [aggregate] labels ="),
        ("labels = [", 'labels = ["ILL", ', "expected each of [aggregate] labels once, got"),
    ],
)
def test_bad_configs(folder, old, new, message):
    (folder / "sources.cfg").write_text(CONFIG.replace(old, new))
    result = run("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en", exit_code=1)
    assert message in " ".join(result.stderr.split())
    assert not (folder / "out").exists()


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"label": "ILL"}', "expected {"),
        ('{"pattern": "x"}', "expected {"),
        ("[1]", "expected an object, got [1]"),
        ("not JSON", "no JSON"),
        ('{"label": "ILL", "pattern": [{"LOWER": {"REGEX": "("}}]}', "is no pattern for spaCy's"),
        ('{"label": "ILL", "pattern": [{"NOPE": 1}]}', "The attribute NOPE is not supported"),
    ],
)
def test_bad_patterns(folder, line, message):
    (folder / "rules.jsonl").write_text(f'{{"label": "ILL", "pattern": "x"}}\n{line}')
    result = run("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en", exit_code=1)
    shown = " ".join(result.stderr.split())
    assert "[sources.rules] rules.jsonl:2: " in shown and message in shown


def test_folders_of_documents(folder):
    """Once, documents in folders of a folder were texts, and texts beside documents lost."""
    doc = spacy.blank("en")("She took aspirin for fever")
    doc.spans["one"] = [Span(doc, 2, 3, "DRUG")]
    (folder / "docs/sub").mkdir(parents=True)
    DocBin(docs=[doc], store_user_data=True).to_disk(folder / "docs/sub/a.spacy")
    (folder / "groups.cfg").write_text(
        '[aggregate]\nlabels = ["DRUG"]\n[sources]\n[sources.one]\nspans = "one"\n'
    )
    run("docs", "-s", "groups.cfg", "-o", "out")
    assert entities(folder / "out/000000.spacy") == [[("aspirin", "DRUG")]]
    (folder / "docs/more.txt").write_text("Fever is back")
    result = run("docs", "-s", "groups.cfg", "-o", "mixed", exit_code=1)
    message = "docs: has .spacy files and 1 others, such as docs/more.txt; expected one folder"
    assert message in " ".join(result.stderr.split())


def test_lists_of_labels(folder):
    """Once, a list was a vote for its alphabetically first label."""
    records = [
        {"text": text, "spans": [span(text, "aspirin", ["DRUG", "ILL"])]}
        for text in (f"{x} aspirin {x}" for x in "abcdefgh")
    ]
    (folder / "llm.jsonl").write_text("\n".join(map(json.dumps, records)))
    (folder / "texts.txt").write_text("\n".join(record["text"] for record in records))
    (folder / "rules.jsonl").write_text(json.dumps({"label": "ILL", "pattern": "aspirin"}))
    config = CONFIG.split("[sources.list]")[0]
    (folder / "sources.cfg").write_text(config)
    result = run("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en")
    assert entities(folder / "out/000000.spacy") == [[("aspirin", "ILL")]] * 8
    assert "overlap" not in result.stderr


def write_answers(folder, *records):
    (folder / "llm.jsonl").write_text("\n".join(map(json.dumps, records)))


def test_a_text_answered_twice_is_two_votes_of_one_source(folder):
    """Once, an error. A span of one of two answers has half of the weight."""
    first, both = "She took aspirin for headache .", span(TEXTS[0], "aspirin", "DRUG")
    assert TEXTS[0] == first
    write_answers(
        folder,
        {"text": first, "spans": [both, span(first, "headache", "ILL")]},
        {"text": first, "spans": [both]},
    )
    _, (llm, *_) = read_sources(folder / "sources.cfg", spacy.blank("en"))
    (found,) = llm.find([spacy.blank("en")(first)])
    assert [tuple(vote) for vote in found.votes] == [(2, 3, "DRUG", 1.0), (4, 5, "ILL", 0.5)]


def test_answers_of_language_models_as_they_are(folder):
    """JSON in text, spans without offsets or with wrong ones, an object of labels."""
    answer = 'Sure!\n```json\n[{"text": "aspirin", "label": "DRUG"}]\n``` Anything else?'
    wrong = {"text": "fever", "start": 0, "end": 5, "label": "ILL"}
    write_answers(
        folder,
        {"text": TEXTS[0], "spans": answer},
        {"text": TEXTS[1], "spans": [wrong]},
        {"text": TEXTS[2], "spans": '{"DRUG": ["aspirin"], "ILL": []}'},
        {"text": "aspirin or aspirin", "spans": [{"text": "aspirin", "label": "DRUG"}]},
    )
    config, nlp = folder / "sources.cfg", spacy.blank("en")
    with pytest.raises(ValueError, match=r"llm.jsonl:4: .*'aspirin' occurs 2 times; .*occurrences"):
        read_sources(config, nlp)
    everywhere = CONFIG.replace('"llm.jsonl"', '"llm.jsonl"\noccurrences = "all"')
    config.write_text(everywhere)
    flaws = Flaws()
    _, (llm, *_) = read_sources(config, nlp, flaws)
    found = llm.find([*nlp.pipe([*TEXTS[:3], "aspirin or aspirin"])])
    votes = [[tuple(vote)[:3] for vote in each.votes] for each in found]
    assert votes == [
        [(2, 3, "DRUG")],
        [(4, 5, "ILL")],
        [(2, 3, "DRUG")],
        [(0, 1, "DRUG"), (2, 3, "DRUG")],
    ]
    assert "4 spans had no or wrong offsets" in flaws.notes()[0]


def test_one_run_names_the_flaws_of_all_files(folder):
    """Once, the first flaw of the first file."""
    cut = {"start": 9, "end": 12, "label": "DRUG"}
    whole = span(TEXTS[0], "headache", "ILL")
    write_answers(folder, {"text": TEXTS[0], "spans": [cut, whole]}, {"text": TEXTS[1]})
    (folder / "second.jsonl").write_text("no JSON")
    section = '\n[sources.second]\nannotations = "second.jsonl"\nannotator = ""\n'
    (folder / "sources.cfg").write_text(CONFIG + section)
    command = "texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en"
    result = run(*command, exit_code=1)
    for part in ("3 flaws", "llm.jsonl:1: span 9:12 'asp'", "llm.jsonl:2: no", "second.jsonl:1:"):
        assert part in " ".join(result.stderr.split())
    (folder / "sources.cfg").write_text(CONFIG)
    notes = " ".join(run(*command, "--skip-malformed").stderr.split())
    assert "llm.jsonl: left out 1 spans or records: cut tokens" in notes
    assert "llm.jsonl: left out 1 spans or records: no annotation" in notes
    flaws = Flaws("expand", skip=True)
    _, (llm, *_) = read_sources(folder / "sources.cfg", spacy.blank("en"), flaws)
    (found,) = llm.find([spacy.blank("en")(TEXTS[0])])
    assert [vote.start for vote in found.votes] == [2, 4]


@pytest.mark.parametrize(
    "answer, expected",
    [
        ('No AGE [] found. Result: [{"text": "aspirin", "label": "DRUG"}]', ["aspirin"]),
        ('See [1]: {"spans": [{"text": "aspirin", "label": "DRUG"}], "n": 1}', ["aspirin"]),
        ('{"DRUG": ["aspirin"], "ILL": ["headache"]}', ["aspirin", "headache"]),
        ('Nothing: {"DRUG": []}', []),
        ('DRUG: ["aspirin"]\nILL: []', "expected a list of objects in the answer, got .'aspirin'"),
        ('{"DRUG": "aspirin"}', "expected a list of objects in the answer, got .'DRUG': 'asp"),
        ('{"DRUG": ["aspirin"]} {"ILL": ["headache"]}', "expected one list of spans .* got 2:"),
        ("none", "the answer has no JSON list or object: 'none'"),
        ("[" * 9999, "the answer has no JSON list or object"),
    ],
)
def test_no_span_of_an_answer_is_lost_in_silence(folder, answer, expected):
    """Once, the first JSON value was the answer: "[]" in a sentence was a vote for O."""
    write_answers(folder, {"text": TEXTS[0], "spans": answer})
    config, nlp = folder / "sources.cfg", spacy.blank("en")
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=f"llm.jsonl:1: {expected}"):
            read_sources(config, nlp)
    else:
        _, (llm, *_) = read_sources(config, nlp)
        doc = nlp(TEXTS[0])
        (found,) = llm.find([doc])
        assert [doc[vote.start : vote.end].text for vote in found.votes] == expected


def test_ends_of_tokens_count_too(folder):
    """Once, equal starts sufficed: a vote for "yz" became one for "y"."""
    nlp = spacy.blank("en")
    write_answers(
        folder, {"text": "xyzw", "tokens": ["x", "yz", "w"], "spans": [span("xyzw", "yz", "ILL")]}
    )
    _, (llm, *_) = read_sources(folder / "sources.cfg", nlp)
    doc = Doc(nlp.vocab, words=["x", "y", "zw"], spaces=[False] * 3)
    with pytest.raises(ValueError, match=r"llm.jsonl:1: span 1:3 'yz' .*record 3"):
        llm.find([doc])


def test_votes_do_not_depend_on_the_tokens_of_documents(folder):
    """Once, an error that blamed the file of the votes for the tokens of gold documents."""
    nlp, text = spacy.blank("en"), "Wilson-type fever"
    write_answers(folder, {"text": text, "spans": [span(text, "fever", "ILL")]})
    _, (llm, *_) = read_sources(folder / "sources.cfg", nlp)
    doc = Doc(nlp.vocab, words=["Wilson-type", "fever"], spaces=[True, False])
    assert [tuple(vote)[:3] for vote in llm.find([doc])[0].votes] == [(1, 2, "ILL")]
    assert [vote.start for vote in llm.find([nlp(text)])[0].votes] == [3]


TWICE = {"text": "aspirin and aspirin", "spans": [], "regions": [{"start": 0, "end": 7}]}


@pytest.mark.parametrize("nested", [False, True])
def test_regions_of_json_lines(folder, nested):
    text, nlp = TWICE["text"], spacy.blank("en")
    record = {"text": text, "annotations": [{**TWICE, "annotator": "a"}]} if nested else TWICE
    (folder / "llm.jsonl").write_text(json.dumps(record))
    labels, (llm, *_) = read_sources(folder / "sources.cfg", nlp)
    votes, _ = llm.vote([nlp(text)], labels)
    assert votes.looked.tolist() == [True, False, False]


@pytest.mark.parametrize(
    "regions, message",
    [
        (5, "the regions of '' must be a list of objects"),
        ([5], "the regions of '' must be a list of objects"),
        ([{"start": 0, "end": 3}], "cuts tokens of 'aspirin'; expected 0:7"),
        ([{"start": 0}], '"end" of a span must be an integer'),
    ],
)
def test_bad_regions(folder, regions, message):
    (folder / "llm.jsonl").write_text(json.dumps(TWICE | {"regions": regions}))
    result = run("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en", exit_code=1)
    shown = " ".join(result.stderr.split())
    assert "llm.jsonl:1: " in shown and message in shown


def test_the_tokenizer_fits_the_votes(folder):
    text = "aspirin500mg"
    record = {"text": text, "spans": [span(text, "aspirin", "MED")]}
    (folder / "texts.txt").write_text(text)
    (folder / "llm.jsonl").write_text(json.dumps(record))
    options = ("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en")
    refused = " ".join(run(*options, exit_code=1).stderr.split())
    assert "llm.jsonl:1: span 0:7" in refused and "a tokenizer that fits" in refused
    step = run(*options, "--tokenizer", "split").step
    options = "--lang en --tokenizer split"
    assert step == f"python -m spacy bcrf init --train out --output config.cfg {options}"
    assert entities(folder / "out/000000.spacy") == [[("aspirin", "DRUG")]]
    command("distill")("out", "-o", "student", "-l", "en", "--tokenizer", "split")
    assert [token.text for token in spacy.load("student")(text)] == ["aspirin", "500", "mg"]


@pytest.mark.parametrize("silence", ["abstains", "denies"])
def test_texts_of_a_source_that_are_no_documents(folder, silence):
    other = {"text": "She took aspirin.", "spans": [span("She took aspirin.", "aspirin", "MED")]}
    with (folder / "llm.jsonl").open("a") as file:
        file.write("\n" + json.dumps(other))
    config = CONFIG.replace('"llm.jsonl"', f'"llm.jsonl"\nsilence = "{silence}"')
    (folder / "sources.cfg").write_text(config)
    options = ("texts.txt", "-s", "sources.cfg", "-l", "en", "--work", "votes")
    for output in ("out", "resumed"):
        notes = " ".join(run(*options, "-o", output).stderr.split())
        assert (
            "llm: 1 of its texts are no documents here, and left out, such as llm.jsonl:11" in notes
        )
    assert "llm: its map drops 10 spans" in notes


def test_a_map_that_drops_everything_and_an_empty_file(folder):
    config = CONFIG.split("[sources.rules]")[0].replace(
        '"DRUG"\nANY = ["DRUG", "ILL"]', "[]\nANY = []"
    )
    (folder / "sources.cfg").write_text(config)
    options = ("texts.txt", "-s", "sources.cfg", "-o", "out", "-l", "en")
    message = " ".join(run(*options, exit_code=1).stderr.split())
    assert "proposes a span in 11 documents (llm); their maps drop 29 spans" in message
    (folder / "llm.jsonl").write_text("")
    message = " ".join(run(*options, exit_code=1).stderr.split())
    assert "[sources.llm] llm.jsonl has no record" in message


def test_sources_that_tell_little(folder):
    empty = '[aggregate]\nlabels = ["ILL"]\n[sources]\n[sources.one]\npatterns = "none.jsonl"\n'
    (folder / "none.jsonl").write_text(json.dumps({"label": "ILL", "pattern": "absent"}))
    (folder / "empty.cfg").write_text(empty)
    result = run("texts.txt", "-s", "empty.cfg", "-o", "out", "-l", "en", exit_code=1)
    assert "no source proposes a span in 11 documents (one)" in " ".join(result.stderr.split())
    assert not (folder / "out").exists()
    rules = [{"label": "ILL", "pattern": x} for x in (*ILLS, "disease", "Nothing")]
    (folder / "rules.jsonl").write_text("\n".join(map(json.dumps, rules)))
    for name in ("copy", "other"):
        empty += f'[sources.{name}]\npatterns = "rules.jsonl"\n'
    (folder / "few.cfg").write_text(empty)
    result = run("texts.txt", "-s", "few.cfg", "-o", "few", "-l", "en")
    notes = " ".join(result.stderr.split())
    assert "one: no span, it abstains" in notes
    assert "copy: 4 spans overlap another one of it; the one with the largest weight stays" in notes
