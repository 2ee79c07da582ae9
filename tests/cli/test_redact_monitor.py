"""The commands `redact` and `monitor`."""

import json
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict

import numpy as np
import pytest
import spacy
import srsly
from commands import command
from sentences import make_docs, repeat
from spacy.tokens import DocBin
from spacy.util import registry

from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.judging.report import report
from spacy_bcrf.privacy.redact import redact as redact_docs
from spacy_bcrf.promises.kinds import note_kinds, watch_kind

redact, monitor, control = command("redact"), command("monitor"), command("control")
restore = command("restore")
PIPE = ("-p", "ner")


class FailingScores:
    """A source that knows Ann, and fails for texts with "bad"."""

    labels, identity = ["O", "B-PERSON"], "1"

    def load(self):
        return self

    def __call__(self, docs):
        if any("bad" in doc.text for doc in docs):
            raise KeyError("a bad text")
        return [
            np.log([[0.01, 0.99] if t.text == "Ann" else [0.99, 0.01] for t in d]) for d in docs
        ]


registry.misc.register("test.FailingScores.v1", func=FailingScores)


@pytest.fixture
def folder(pipeline, here):
    shutil.copytree(pipeline, here, dirs_exist_ok=True)
    docs = make_docs(spacy.blank("xx").vocab)
    DocBin(docs=[*docs, *repeat(docs, 8)]).to_disk("many.spacy")
    DocBin(docs=docs * 20).to_disk("copies.spacy")
    (here / "new.txt").write_text("Ann saw Rome .\n\nBob saw Kiel .\n")
    (here / "empty.txt").write_text("")
    return here


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf8").splitlines()]


def test_other_fields_of_records_are_dropped(folder):
    record = {"id": 7, "text": "Ann saw Rome .", "author": "Ann", "meta": {"by": "Bob"}}
    (folder / "a.jsonl").write_text(json.dumps(record) + "\n")
    redact("model", "a.jsonl", *PIPE, "--threshold", "0.5", "-o", "out.jsonl")
    (line,) = read(folder / "out.jsonl")
    assert {*line} <= {"id", "text", "spans", "vault"} and line["id"] == 7
    assert "Ann" not in json.dumps(line) and "Bob" not in json.dumps(line)


def test_redacted_texts_of_a_promise(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    result = redact("safe", "new.txt", *PIPE, "-o", "out.jsonl", "--lines")
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


def test_texts_of_another_kind_than_a_shipped_promise(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    nlp = spacy.load("safe")
    promise = srsly.json_loads(srsly.json_dumps(asdict(nlp.get_pipe("ner").control)))
    docs = list(DocBin().from_disk("many.spacy").get_docs(nlp.vocab))
    nlp.meta["promises"] = {"ner": {"mails": promise, "chats": promise}}
    watches = {kind: watch_kind(nlp, "ner", promise, docs) for kind in ("mails", "chats")}
    nlp.meta["watches"] = {"ner": watches}
    nlp.to_disk("shipped")
    lines = [json.dumps({"text": doc.text}) for doc in docs]
    (folder / "like.jsonl").write_text("\n".join(lines))
    (folder / "unlike.txt").write_text("\n".join(f"it is {i} , it is" * 9 for i in range(90)))
    args = (*PIPE, "--lines", "-o", "out.jsonl")
    unlike = "Note: the texts are unlike the documents of the promise"
    assert unlike not in redact("shipped", "like.jsonl", *args).stderr
    assert f"{unlike} mails or chats: it" in redact("shipped", "unlike.txt", *args).stderr
    result = redact("shipped", "unlike.txt", *args, "--promise", "chats")
    assert f"{unlike} chats: it may not hold. Measure with --report" in result.stderr
    assert unlike not in redact("shipped", "unlike.txt", *args, "--threshold", "0.5").stderr
    # With another temperature, the component no longer keeps these promises.
    nlp.get_pipe("ner").temperature = 2.0
    assert note_kinds(nlp, "ner", None, ["a"] * 90) == []


def test_a_text_of_which_little_is_left(folder):
    result = redact("model", "new.txt", *PIPE, "--threshold", "1e-9", "-o", "out.jsonl")
    assert "% of the characters are replaced: promise less, or give a higher" in result.stderr
    result = redact("model", "new.txt", *PIPE, "--threshold", "0.5", "-o", "out.jsonl", "--lines")
    assert "of the characters are replaced" not in result.stderr


def test_a_key_gives_equal_surrogates(folder):
    (folder / "key").write_text("secret\n")
    args = ("model", "new.txt", *PIPE, "--threshold", "0.5", "--lines", "--style", "surrogate")
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
    assert "<script" not in page and "0 of 18 (0.0 to 33.6%)" in page
    redact(*args, "--report", "leaks.json")
    leaks = json.loads((folder / "leaks.json").read_text())["leaks"]
    assert [leak["label"] for leak in leaks] == [None, "LOC", "PERSON"]


def test_copies_count_once_in_the_leakage_report(folder):
    outputs = "-o", "new.jsonl", "--report", "copies.json"
    result = redact("model", "copies.spacy", *PIPE, "--threshold", "0.5", *outputs)
    assert "documents are copies: they have the text of an earlier one. Each" in result.stderr
    DocBin(docs=make_docs(spacy.blank("xx").vocab)).to_disk("once.spacy")
    once = redact("model", "once.spacy", *PIPE, "--threshold", "0.5", *outputs)
    assert result.stdout.splitlines()[-1] == once.stdout.splitlines()[-1]


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
    result = redact(*args, "other.json", "--threshold", "0.5")
    assert "written to out.jsonl: threshold 0.5\n" in result.stdout
    assert json.loads((folder / "other.json").read_text())["promises"] == []


def test_the_leakage_report_judges_the_chosen_promise(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    nlp = spacy.load("safe")
    promise = asdict(nlp.get_pipe("ner").control)
    promise |= {"values": (0.6, 0.6), "thresholds": (1.0, 1.0), "fitted_on": ()}
    nlp.meta["promises"] = {"ner": {"chats": srsly.json_loads(srsly.json_dumps(promise))}}
    nlp.to_disk("shipped")
    args = (*PIPE, "-o", "out.jsonl", "--promise", "chats")
    result = redact("shipped", "dev.spacy", *args, "--report", "leaks.json")
    (row,) = json.loads((folder / "leaks.json").read_text())["promises"]
    assert (row["promise"], row["reached"]) == ("recall 0.6", 0)
    assert "LOC, PERSON: recall 0.6 promised, 0.000 reached" in result.stdout
    assert "that `control` was fitted on" not in result.stderr
    redact("shipped", "dev.spacy", *args, "--report", "leaks.html")
    page = (folder / "leaks.html").read_text(encoding="utf8")
    assert "ner of shipped, promise" in page and "<p>LOC, PERSON: recall 0.6" in page
    result = redact("shipped", "new.txt", *args)
    assert "written to out.jsonl: promise 'chats'\n" in result.stdout
    assert result.step.endswith("--promise chats --pipe ner")


def test_the_only_component_with_a_promise_is_taken(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    redact("safe", "new.txt", "-o", "out.jsonl", "--lines")
    assert read(folder / "out.jsonl")[0]["text"] == "[PERSON] saw [LOC] ."
    result = redact("model", "new.txt", "-o", "new.jsonl", exit_code=1)
    # What cannot redact in any way is not named.
    assert result.stderr.startswith("[ner] has no promise of recall: run `control` with --recall")
    assert "tagger" not in result.stderr
    nlp = spacy.blank("xx")
    for name, factory in (("tagger", "bcrf_tagger"), ("ner", "bcrf_ner"), ("other", "bcrf_ner")):
        nlp.add_pipe(factory, name).add_label("X")
    assert repr(nlp.get_pipe("other")).endswith(", 1 label>")
    with pytest.raises(ValueError, match=r"expected pipe to be one of ner, other$"):
        next(redact_docs(nlp, [], threshold=0.5))


@pytest.mark.parametrize(
    "args, message",
    [
        (("new.txt",), "[ner] has no promise of recall: run `control` with --recall"),
        (("new.txt", "--threshold", "2"), "--threshold must be above 0 and at most 1, got 2"),
        (("new.txt", "--threshold", "0.5", "-p", "tagger"), "it predicts token.tag"),
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


def test_a_text_that_fails_is_named_and_ends_with_3(folder):
    """A source of scores fails for one text: it is not written, the others are."""
    config = {"@misc": "test.FailingScores.v1", "name": "x"}
    model = {"@architectures": "spacy-bcrf.ScoreHead.v1", "scores": [config]}
    nlp = spacy.blank("xx")
    ner = nlp.add_pipe("bcrf_ner", "ner", config={"model": model})
    ner.add_label("PERSON")
    nlp.initialize()
    nlp.to_disk("scored")
    (folder / "t.txt").write_text("Ann left\nAnn bad left\n")
    result = redact(
        "scored", "t.txt", "-o", "out.jsonl", "--threshold", "0.3", "--lines", exit_code=3
    )
    assert [one["text"] for one in read(folder / "out.jsonl")] == ["[PERSON] left"]
    assert "1 text failed" in result.stderr and "bad" not in result.stderr
    assert "text t.txt:2: scores 'x': the source fails for a text: KeyError" in result.stderr


def test_a_text_file_is_one_text_and_columns_have_names(folder):
    (folder / "mail.txt").write_text("Ann saw Rome .\n\nSo ANN left .\n")
    (folder / "t.csv").write_text("nr,body\n7,Ann saw Rome .\n")
    redact("model", "mail.txt", *PIPE, "--threshold", "0.5", "-o", "out.jsonl")
    (mail,) = read(folder / "out.jsonl")
    assert mail["text"].startswith("[PERSON] saw [LOC] .\n\nSo ") and "mail.txt" in mail["id"]
    args = ("t.csv", *PIPE, "--threshold", "0.5", "--text-column", "body", "--id-column", "nr")
    redact("model", *args, "-o", "out.jsonl")
    (row,) = read(folder / "out.jsonl")
    assert (row["id"], row["text"]) == ("7", "[PERSON] saw [LOC] .")


def test_numbered_placeholders_are_undone(folder):
    args = ("model", "new.txt", *PIPE, "--threshold", "0.5", "--lines", "--style", "numbered")
    redact(*args, "-o", "out.jsonl", "--vault", "v.json")
    redact(*args, "-o", "again.jsonl", "--vault", "v.json")
    assert read(folder / "out.jsonl") == read(folder / "again.jsonl")
    assert [one["text"] for one in read(folder / "out.jsonl")] == [
        "[PERSON_1] saw [LOC_1] .",
        "[PERSON_2] saw [LOC_2] .",
    ]
    assert (folder / "v.json").stat().st_mode & 0o777 == 0o600
    result = restore("v.json", "out.jsonl", "-o", "back.jsonl")
    assert "4 placeholders restored from the vault " in result.stderr
    assert " of 2 LOC, 2 PERSON" in result.stderr
    assert read(folder / "back.jsonl")[0]["text"] == "Ann saw Rome ."
    result = restore("v.json", "--stream", stdin=b"Dear person_1, [LOC_9]")
    assert (
        result.stdout == "Dear Ann, [LOC_9]"
        and "1 placeholder without an original" in result.stderr
    )
    wrong = redact("model", "new.txt", *PIPE, "-o", "x.jsonl", "--vault", "v.json", exit_code=1)
    assert "--vault needs --style numbered" in wrong.stderr
    assert "new.txt: is no vault" in restore("new.txt", "--stream", exit_code=1).stderr
    assert "expected FILE and --output, or --stream" in restore("v.json", exit_code=1).stderr


def test_a_watch_in_steps(folder):
    control("model", "many.spacy", *PIPE, "--recall", "0.8", "-o", "safe")
    (folder / "other.txt").write_text("zzz yyy xxx www vvv uuu ttt .\n" * 60)
    (folder / "same.jsonl").write_text('{"text": "Ann saw Rome ."}\n' * 9)
    args = ("safe", *PIPE, "--state", "watch.json")
    first = monitor(*args, "same.jsonl", "--reference", "copies.spacy", "--page", "page.html")
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
