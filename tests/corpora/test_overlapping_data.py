"""Overlapping spans in files: layered columns, brat, JSON lines and Label Studio."""

import json
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.vocab import Vocab
from typer.testing import CliRunner

from spacy_bcrf.cli import app

GERMEVAL = """\
#\tde.wikipedia.org/wiki/Oslo [2014-05-09]
1\tUniversität\tB-ORG\tO
2\tOslo\tI-ORG\tB-LOC
3\twächst\tO\tO

#\tde.wikipedia.org/wiki/Bergen [2014-05-09]
1\t#\tO\tO
2\tBergen\tB-LOC\tB-LOC
"""


def convert(tmp_path: Path, *arguments: str):
    """Run `convert`. Return the result, and the spans of each document."""
    output = tmp_path / "out.spacy"
    result = CliRunner().invoke(app, ["convert", *arguments, str(output)])
    if not output.exists():
        return result, None
    docs = list(DocBin().from_disk(output).get_docs(spacy.blank("xx").vocab))
    return result, [
        [(span.text, span.label_) for span in doc.spans.get("sc", [])]
        if "sc" in doc.spans
        else None
        for doc in docs
    ]


def write(path: Path, text: str) -> str:
    path.write_text(text, encoding="utf8", newline="")
    return str(path)


def test_a_column_a_layer_as_in_germeval(tmp_path):
    file = write(tmp_path / "NER-de.tsv", GERMEVAL)
    columns = ["--word-column", "2", "--ent-column", "3", "--ent-column", "4"]
    result, spans = convert(tmp_path, file, *columns, "--spans-key", "sc")
    assert result.exit_code == 0, result.output
    assert spans == [[("Universität Oslo", "ORG"), ("Oslo", "LOC")], [("Bergen", "LOC")]]
    assert "2 docs" in result.output and "5 tokens" in result.output
    assert "4 spans = 3 entities + 1 repeated" in result.output
    # Without a span group, the longest of overlapping entities stays, as in all formats.
    result, spans = convert(tmp_path, file, *columns)
    assert result.exit_code == 0 and spans == [None, None]
    assert "4 spans = 2 entities + 1 repeated + 1 left out (1 overlap)" in result.output
    (tmp_path / "out.spacy").unlink()
    result, spans = convert(tmp_path, file, *columns, "--ent-column", "9", "--spans-key", "sc")
    assert result.exit_code == 1 and "column 9 for the entity tag does not exist" in result.output
    bad = write(tmp_path / "bad.tsv", GERMEVAL.replace("B-LOC\n3", "X-LOC\n3"))
    result, spans = convert(tmp_path, bad, *columns, "--spans-key", "sc")
    assert result.exit_code == 1 and spans is None
    assert "bad.tsv:3" in result.output and "'X-LOC'" in result.output


TEXT = "Oslo University\r\nand left or right arm"
ANN = (
    "T1\tORG 0 15\tOslo University\nT2\tLOC 0 4\tOslo\n"
    "T3\tBODY 21 25;35 38\tleft arm\nR1\tPart Arg1:T2 Arg2:T1\n#1\tNote T1\tx\n"
)


def test_brat_standoff(tmp_path):
    write(tmp_path / "a.txt", TEXT)
    file = write(tmp_path / "a.ann", ANN)
    result, spans = convert(tmp_path, file, "--spans-key", "sc", "--lang", "en")
    assert result.exit_code == 0, result.output
    assert spans == [[("Oslo", "LOC"), ("Oslo University", "ORG")]]
    (doc,) = DocBin(store_user_data=True).from_disk(tmp_path / "out.spacy").get_docs(Vocab())
    unknown = [token.text for token in doc if token._.allowed_labels]
    assert unknown == ["left", "arm"]
    assert "1 discontinuous entities left out" in result.output
    assert "2 relations, events, attributes and notes left out" in result.output
    (tmp_path / "out.spacy").unlink()
    result, spans = convert(tmp_path, file, "--lang", "en")
    assert result.exit_code == 0 and spans == [None]
    assert (
        "1 of 2 spans overlap longer ones and are left out, such as "
        f"{file}: 'Oslo' (tokens 0:1) LOC overlaps 'Oslo University' (tokens 0:2) ORG; "
        "`convert --spans-key sc` keeps both"
    ) in result.output
    (doc,) = DocBin().from_disk(tmp_path / "out.spacy").get_docs(Vocab())
    assert [token.text for token in doc if not token.ent_iob] == ["left", "arm"]
    (tmp_path / "out.spacy").unlink()
    for line, problem in (
        ("T9\tORG 0 4", "expected an entity such as"),
        ("T9\tORG 0 4\tBergen", "has the text 'Bergen', but 0 4 is 'Oslo'"),
        ("T9\tORG 30 400\tx", "a.ann:1"),
    ):
        write(tmp_path / "a.ann", line)
        result, spans = convert(tmp_path, file, "--spans-key", "sc")
        assert result.exit_code == 1 and spans is None
        assert problem in result.output
        assert result.output.count("a.ann") == 1  # the place, once
        assert "1 span = 1 in left out records" in result.output
    (tmp_path / "a.txt").unlink()
    result, spans = convert(tmp_path, file, "--spans-key", "sc")
    assert "a.txt: no such file; brat needs NAME.txt and NAME.ann" in result.output
    assert "1 of 1 records have a problem" in result.output


def test_brat_counts_texts_and_annotation_alone(tmp_path):
    for name in "abc":
        write(tmp_path / f"{name}.txt", TEXT)
        write(tmp_path / f"{name}.ann", ANN)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "b.ann").unlink()
    (tmp_path / "d.ann").write_text("")
    (tmp_path / "d.txt").write_bytes(b"\xff\x00")
    result, spans = convert(tmp_path, str(tmp_path))
    assert result.exit_code == 1 and spans is None
    assert "because 2 of 4 records have a problem; `convert --skip-malformed`" in result.output
    result, spans = convert(tmp_path, str(tmp_path), "--skip-malformed")
    assert result.exit_code == 0 and len(spans) == 1
    left_out = "1 ignored (1 text without .ann) + 2 left out (2 unreadable)"
    assert f"4 records read = 1 in 1 doc + {left_out}" in result.output


SPANS = [{"start": 0, "end": 15, "label": "ORG"}, {"start": 0, "end": 4, "label": "LOC"}]


@pytest.mark.parametrize("tool", ["jsonl", "label-studio"])
def test_json_with_overlapping_spans(tmp_path, tool):
    text = "Oslo University grows"
    records = [{"text": text, "spans": SPANS}]
    if tool == "label-studio":
        regions = [
            {
                "type": "labels",
                "value": {"start": s["start"], "end": s["end"], "labels": [s["label"]]},
            }
            for s in SPANS
        ]
        records = [{"data": {"text": text}, "annotations": [{"result": regions}]}]
    file = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    result, spans = convert(tmp_path, file, "--spans-key", "sc")
    assert result.exit_code == 0, result.output
    assert spans == [[("Oslo", "LOC"), ("Oslo University", "ORG")]]
    assert "2 spans = 2 entities; 3 tokens\n" in result.output


def test_incomplete_json_leaves_all_labels_open(tmp_path):
    records = [
        {"text": "Oslo University", "spans": SPANS, "complete": False},
        {"text": "no annotation"},
        {"text": "none", "spans": []},
    ]
    file = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, records)))
    _, spans = convert(tmp_path, file, "--spans-key", "sc")
    assert spans == [[("Oslo", "LOC"), ("Oslo University", "ORG")], None, []]
    nlp = spacy.blank("xx")
    (doc, _, _) = DocBin().from_disk(tmp_path / "out.spacy").get_docs(nlp.vocab)
    pipe = nlp.add_pipe("bcrf_spans")
    for label in ("LOC", "ORG"):
        pipe.add_label(label)
    gold = pipe.read_gold([spacy.training.Example(nlp.make_doc(doc.text), doc)])
    assert not gold.problems
    # LOC is known at "Oslo", ORG at both tokens.
    assert gold.tags.sum(axis=1).tolist() == [1, 5, 1, 1]


def test_brat_with_byte_order_marks(tmp_path):
    (tmp_path / "a.txt").write_text("Ada left", encoding="utf-8-sig")
    file = tmp_path / "a.ann"
    file.write_text("T1\tPER 1 4\tAda\n*\tEquiv T1 T1\n", encoding="utf-8-sig")
    result, spans = convert(tmp_path, str(file), "--spans-key", "sc")
    assert spans == [[("Ada", "PER")]]
    assert "1 relations, events, attributes and notes left out" in result.output


@pytest.mark.parametrize("line", ["t1\tPER 0 3\tAda", " T1\tPER 0 3\tAda", "PER 0 3\tAda"])
def test_brat_counts_no_malformed_line_as_a_note(tmp_path, line):
    write(tmp_path / "a.txt", "Ada left")
    result, spans = convert(tmp_path, write(tmp_path / "a.ann", line), "--spans-key", "sc")
    assert result.exit_code == 1 and spans is None
    assert f"a.ann:1: {line!r}; expected an entity such as" in result.output


def test_brat_cuts_entities_at_line_breaks_alone(tmp_path):
    write(tmp_path / "a.txt", "sit\namet or\u2028Ada")
    file = write(tmp_path / "a.ann", "T1\tPER 0 3;4 8\tsit amet\r\nT2\tPER 9 15\tor\u2028Ada\n")
    result, spans = convert(tmp_path, file, "--spans-key", "sc", "--lang", "en")
    assert spans == [[("sit\namet", "PER"), ("or\u2028Ada", "PER")]]
    assert "discontinuous" not in result.output
