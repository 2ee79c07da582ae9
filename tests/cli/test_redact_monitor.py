"""The commands `redact` and `monitor`."""

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest
import spacy
from commands import command
from sentences import make_docs
from spacy.tokens import DocBin

from spacy_bcrf import analysis
from spacy_bcrf.analysis import report
from spacy_bcrf.analysis.cross_fitting import train_sparse_chain

redact, monitor, control = command("redact"), command("monitor"), command("control")
PIPE = ("-p", "ner")


@pytest.fixture
def folder(pipeline, here):
    shutil.copytree(pipeline, here, dirs_exist_ok=True)
    docs = make_docs(spacy.blank("xx").vocab) * 20
    DocBin(docs=docs).to_disk("many.spacy")
    (here / "new.txt").write_text("Ann saw Rome .\n\nBob saw Kiel .\n")
    (here / "empty.txt").write_text("")
    return here


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_redacted_texts_of_a_promise(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    result = redact("safe", "new.txt", *PIPE, "-o", "out.jsonl")
    assert "2 texts with 4 replacements written to out.jsonl" in result.stdout
    assert "Note: The promise holds for new documents from the same source" in result.stderr
    lines = read(folder / "out.jsonl")
    assert [line["text"] for line in lines] == ["[PERSON] saw [LOC] ."] * 2
    assert lines[0]["id"] == "new.txt:1" and lines[1]["id"] == "new.txt:3"
    assert {**lines[0]["spans"][1], "score": 0} == {
        "start": 13,
        "end": 18,
        "label": "LOC",
        "score": 0,
        "repeated": False,
    }


def test_a_text_of_which_little_is_left(folder):
    result = redact("model", "new.txt", *PIPE, "--threshold", "1e-9", "-o", "out.jsonl")
    assert "% of the characters are replaced: promise less, or give a higher" in result.stderr
    result = redact("model", "new.txt", *PIPE, "--threshold", "0.5", "-o", "out.jsonl")
    assert "of the characters are replaced" not in result.stderr


def test_a_key_gives_equal_surrogates(folder):
    (folder / "key").write_text("secret\n")
    args = ("model", "new.txt", *PIPE, "--threshold", "0.5", "--style", "surrogate")
    texts = []
    for key in (("--key", "key"), ("--key", "key"), ()):
        redact(*args, *key, "-o", "new.jsonl")
        texts.append([line["text"] for line in read(folder / "new.jsonl")])
    assert texts[0] == texts[1] != texts[2]
    assert "Ann" not in texts[0][0] and texts[0][0].split()[1] == "saw"
    redact(*args[:-1], "mask", "-o", "new.jsonl")
    assert read(folder / "new.jsonl")[0]["text"] == "Xxx saw Xxxx ."


def test_the_leakage_report(folder):
    args = ("model", "dev.spacy", *PIPE, "--threshold", "0.5", "-o", "out.jsonl")
    result = redact(*args, "--report", "leaks.html")
    line = "leaks.html: 0 of 9 documents with gold spans leak, at most 33.6%; found "
    line += "strings still stand at 0 places; "
    assert re.fullmatch(rf"{line}[\d.]+% of the other .* replaced", result.stdout.splitlines()[-1])
    page = (folder / "leaks.html").read_text(encoding="utf8")
    assert "<script" not in page and "0 of 18, 0.0% (0.0 to 33.6)" in page
    redact(*args, "--report", "leaks.json")
    leaks = json.loads((folder / "leaks.json").read_text())["leaks"]
    assert [leak["label"] for leak in leaks] == [None, "LOC", "PERSON"]


def test_the_leakage_report_has_promised_and_reached_recall(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    args = ("safe", "dev.spacy", *PIPE, "-o", "out.jsonl", "--report")
    result = redact(*args, "leaks.json")
    assert "% of the documents that `control` was fitted on are among these" in result.stderr
    (promise,) = json.loads((folder / "leaks.json").read_text())["promises"]
    assert (promise["promised"], promise["documents"]) == (0.8, 9)
    nlp = spacy.load("safe")
    expected = report(nlp, list(DocBin().from_disk("dev.spacy").get_docs(nlp.vocab)), "ner")
    assert promise == expected.values["promises"][0]
    line = f"LOC, PERSON: recall 0.8 promised, {promise['reached']:.3f} reached ("
    assert line in result.stdout
    redact(*args, "leaks.html")
    assert f"<p>{line}" in (folder / "leaks.html").read_text(encoding="utf8")
    redact(*args, "other.json", "--threshold", "0.5")
    assert json.loads((folder / "other.json").read_text())["promises"] == []


def test_the_only_component_with_a_promise_is_taken(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    redact("safe", "new.txt", "-o", "out.jsonl")
    assert read(folder / "out.jsonl")[0]["text"] == "[PERSON] saw [LOC] ."
    result = redact("model", "new.txt", "-o", "new.jsonl", exit_code=1)
    assert "[ner] has no promise of recall" in result.stderr
    assert "[tagger] a recall promise writes candidate spans" in result.stderr
    nlp = spacy.blank("xx")
    for name, factory in (("tagger", "bcrf_tagger"), ("ner", "bcrf_ner"), ("other", "bcrf_ner")):
        nlp.add_pipe(factory, name).add_label("X")
    assert repr(nlp.get_pipe("other")).endswith(", 1 label>")
    with pytest.raises(ValueError, match=r"expected --pipe to be one of ner, other$"):
        next(analysis.redact(nlp, [], threshold=0.5))


@pytest.mark.parametrize(
    "args, message",
    [
        (("new.txt",), "[ner] has no promise of recall: run `control` with --recall"),
        (("new.txt", "--threshold", "0"), "the threshold of LOC must be a number above 0"),
        (("new.txt", "--threshold", "0.5", "-p", "tagger"), "a recall promise writes candidate"),
        (("new.txt", "--threshold", "0.5", "--key", "empty"), "empty: is empty; expected a secret"),
        (("new.txt", "--threshold", "0.5", "--report", "x.html"), "expected a .spacy file"),
        (("dev.spacy", "--threshold", "0.5", "--report", "x.csv"), "suffix .html or .json"),
        (("no.txt", "--threshold", "0.5"), "no.txt"),
    ],
)
def test_wrong_input_of_redact_writes_nothing(folder, args, message):
    (folder / "empty").write_text("\n")
    pipe = () if "-p" in args else PIPE
    result = redact("model", *args, *pipe, "-o", "out.jsonl", exit_code=1)
    assert message in result.output and not (folder / "out.jsonl").exists()


def test_a_watch_in_steps(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    (folder / "other.txt").write_text("zzz yyy xxx www vvv uuu ttt .\n" * 60)
    (folder / "same.jsonl").write_text('{"text": "Ann saw Rome ."}\n' * 9)
    args = ("safe", *PIPE, "--state", "watch.json")
    first = monitor(*args, "same.jsonl", "--reference", "many.spacy", "--page", "page.html")
    line = json.loads(first.stdout)
    assert (line["file"], line["n_docs"], line["alarm"]) == ("same.jsonl", 9, False)
    assert "Ann" not in (folder / "watch.json").read_text()
    second = monitor(*args, "same.jsonl", "other.txt", "--page", "page.html", exit_code=3)
    lines = [json.loads(line) for line in second.stdout.splitlines()]
    assert [line["alarm"] for line in lines] == [False, True]
    assert "no longer rests on like documents: recall 0.8 of LOC, PERSON" in lines[1]["message"]
    assert "78 new documents differ" in second.stderr
    page = (folder / "page.html").read_text(encoding="utf8")
    assert "<script" not in page and "tokens a document" in page and "Drift of ner" in page
    assert "<thead><tr><th>measure</th><th>reference</th>" in page


@pytest.mark.parametrize(
    "args, message",
    [
        (("new.txt",), "a new watch needs --reference"),
        (("empty.txt", "--reference", "many.spacy"), "empty.txt: has no texts"),
        (
            ("new.txt", "--reference", "new.txt"),
            "reference has 2 documents with words; expected at",
        ),
        (("new.txt", "--state", "bad.json"), "bad.json: is no file of `monitor`"),
        (("new.txt", "--state", "text.json"), "text.json: is no file of `monitor`"),
        (("new.txt", "--state", "deep.json"), "deep.json: is no file of `monitor`"),
        (("new.txt", "--state", "bad.json", "--reference", "dev.spacy"), "goes on with its own"),
        (("new.txt", "--state", "new.txt", "--reference", "dev.spacy"), "would replace the input"),
        (("many.spacy", "--reference", "many.spacy", "--confidence", "2"), "between 0 and 1"),
    ],
)
def test_wrong_input_of_monitor(folder, args, message):
    (folder / "bad.json").write_text("{}")
    (folder / "text.json").write_text("a secret")
    (folder / "deep.json").write_text("[" * 100_000)
    result = monitor("model", *args, *PIPE, exit_code=1)
    assert message in result.output
    assert (folder / "bad.json").read_text() == "{}" and not result.stdout.startswith("{")


def test_a_stream(folder):
    train_sparse_chain(make_docs(spacy.blank("xx").vocab) * 8, ["PERSON", "LOC"]).to_disk("sparse")
    args = ("sparse", "--stream", "--threshold", "0.5")
    result = redact(*args, stdin=b"Ann saw Rome . Bob saw Kiel .\n")
    assert result.stdout == "[PERSON] saw [LOC] . [PERSON] saw [LOC] .\n"
    assert "4 replacements" in result.stderr
    result = redact(*args, stdin=b"Ann saw Rome . \xff Bob", exit_code=1)
    assert result.stdout == "[PERSON] saw [LOC] . "
    assert result.stderr.startswith("\nstandard input is not UTF-8: byte 0xff at 15\n")
    result = redact(*args, stdin=b"Ann \xc3", exit_code=1)
    assert "standard input is not UTF-8: byte 0xc3 at 4" in result.stderr
    assert "takes no TEXTS" in redact(*args, "-o", "out.jsonl", exit_code=1).stderr
    assert "expected TEXTS and --output, or --stream" in redact("model", exit_code=1).stderr
    wrong = redact("model", "new.txt", "-o", "x.jsonl", "--max-lag", "3", exit_code=1)
    assert "--max-lag needs --stream" in wrong.stderr


def test_a_stopped_stream_writes_the_rest(folder):
    train_sparse_chain(make_docs(spacy.blank("xx").vocab) * 8, ["PERSON", "LOC"]).to_disk("sparse")
    command = [sys.executable, "-m", "spacy", "bcrf", "redact", "sparse", "--stream"]
    process = subprocess.Popen(
        [*command, "--threshold", "0.5"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin and process.stdout
    process.stdin.write(b"Ann saw Rome . Bob sa")
    process.stdin.flush()
    found = process.stdout.read(1)  # it has read the text
    process.send_signal(signal.SIGTERM)
    found += process.stdout.read()
    assert process.wait(60) and found == b"[PERSON] saw [LOC] . [PERSON] sa"
