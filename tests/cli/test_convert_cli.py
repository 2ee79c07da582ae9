"""The command `python -m spacy bcrf convert` for column formats."""

import lzma
from typing import get_args

import pytest
import spacy
from commands import command
from spacy.tokens import DocBin
from spacy_commands import run_spacy

from spacy_bcrf.annotation.misaligned import find_misaligned
from spacy_bcrf.cli import convert_cli
from spacy_bcrf.corpora.counts import MAX_REPORTS

run = command("convert")
GOOD = "EU\tB-ORG\nrejects\tO\n\nPeter\tI-PER\n"
CONLLU = "1\tHi\t_\tINTJ\tUH\t_\t_\t_\t_\tNE=O\n\n"


def load(path):
    return list(DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab))


@pytest.fixture
def folder(here):
    (here / "good.conll").write_text(GOOD)
    (here / "more.tsv.xz").write_bytes(lzma.compress(GOOD.encode()))
    (here / "ud.conllu").write_text(CONLLU)
    return here


@pytest.mark.slow
def test_a_good_file_from_spacys_command_line(folder):
    assert run_spacy("bcrf", "convert", "good.conll", "out/good.spacy") == (
        "out/good.spacy: 2 sentences read = 2 in 2 docs; 2 spans = 2 entities; 3 tokens; "
        "entity tags in the scheme bio, 1 of them repaired; 2 docs with unknown spaces\n"
        "next: python -m spacy bcrf debug out/good.spacy\n"
    )
    assert [ent.label_ for doc in load("out/good.spacy") for ent in doc.ents] == ["ORG", "PER"]


def test_a_malformed_file(folder):
    (folder / "bad.conll").write_text(GOOD + "oops\n")
    problem = "bad.conll:5: 1 column; expected 2, separated by tabs, as in line 1"
    result = run("bad.conll", "bad.spacy", exit_code=1)
    assert result.stdout == "" and result.stderr.startswith(
        f"{problem}\nbad.spacy: not written, because 1 of 2 sentences have a problem; "
        "`convert --skip-malformed` leaves them out: "
    )
    assert not list(folder.glob("*bad.spacy*")) and not list(folder.glob(".*"))
    (folder / "bad.spacy").write_bytes(b"")
    skipped = run("bad.conll", "bad.spacy", "--skip-malformed")
    assert skipped.exit_code == 0
    assert skipped.stderr == f"Note: bad.spacy will be replaced\n{problem}\n"
    assert skipped.stdout.startswith(
        "bad.spacy: 2 sentences read = 1 in 1 doc + 1 left out (1 malformed); "
    )


MALFORMED = {
    "columns": (
        ["EU\tB-ORG", "Bonn\tI-ORG"],
        ["\tO", "a\tI", "a\tb\tO", "a\tZ-ORG", "a\tB-"],
        "x.conll",
    ),
    "conllu": (
        [f"1\tEU\t_\t_\t_\t_\t_\t_\t_\tNER={tag}" for tag in ("B-ORG", "I-ORG")],
        [
            "1\t\t_\t_\t_\t_\t_\t_\t_\t_",
            "2\ta\t_\t_\t_\t_\t_\t_\t_\t_",
            "1\ta\t_\tNOON\t_\t_\t_\t_\t_\t_",
            "1-2\ta\t_\t_\t_\t_\t_\t_\t_\t_",
            "1\ta\t_\t_\t_\t_\t_\t_\t_\tNER=O-X",
        ],
        "x.conllu",
    ),
}


@pytest.mark.parametrize("format", MALFORMED)
def test_malformed_sentences_are_skipped_named_and_counted(folder, format):
    good, bad, name = MALFORMED[format]
    sentences = [good[0]]
    for line in bad:
        sentences += [f"# newdoc id = 1\n{line}", good[1]]
    (folder / name).write_text("\n\n".join(sentences) + "\n")
    result = run(name, "o.spacy", "--skip-malformed", "-n", 0)
    lines = result.stderr.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [
        f"{name}:{4 + 5 * i}" for i in range(len(bad))
    ]
    assert "11 sentences read = 6 in 6 docs + 5 left out (5 malformed)" in result.stdout
    # The sentence after a skipped one starts the document in its place.
    assert [[ent.text for ent in doc.ents] for doc in load("o.spacy")] == [["EU"]] + [
        [good[1].split("\t")[format == "conllu"]]
    ] * 5
    stopped = run(name, "stopped.spacy", "--strict", exit_code=1)
    assert stopped.stderr.startswith(lines[0])


def test_only_the_first_malformed_sentences_are_reported(folder):
    bad = "".join(f"EU\tZ-{i}\n\n" for i in range(MAX_REPORTS + 5))
    (folder / "bad.conll").write_text(GOOD + bad)
    result = run("bad.conll", "o.spacy", "--skip-malformed")
    assert f"+ {MAX_REPORTS + 5} left out (" in result.stdout
    assert result.stderr.splitlines()[MAX_REPORTS:] == ["and 5 more problems"]


def test_a_folder_is_no_file(folder):
    (folder / "data").mkdir()
    for name in ("a.txt.gz", "b.conll", "c.conll", "LICENSE"):
        (folder / "data" / name).touch()
    for args in ((), ("--format", "columns")):
        result = run("data", "o.spacy", *args, exit_code=1)
        assert result.stderr == "data: is a folder; expected files, for instance data/*.conll\n"


def test_several_files_and_options(folder):
    run("good.conll", "more.tsv.xz", "all.spacy", "--n-sents", "0", "-s", "bio")
    assert [len(list(doc.sents)) for doc in load("all.spacy")] == [2, 2]
    run("good.conll", "o.spacy", "--word-column", "-1", "--ent-column", "0")
    assert [token.text for token in load("o.spacy")[0]] == ["B-ORG", "O"]
    run("good.conll", "o.spacy", "--tag-column", "2", "--ent-column", "0")
    assert [token.tag_ for token in load("o.spacy")[0]] == ["B-ORG", "O"]
    run("ud.conllu", "o.spacy", "--tag", "xpos", "--ent-key", "NE")
    (token,) = load("o.spacy")[0]
    assert (token.tag_, token.pos_, token.ent_iob_) == ("UH", "INTJ", "O")
    result = run("ud.conllu", "new.spacy", "--ent-key", "NERR", exit_code=1)
    assert (
        "no word has an entity tag under the key 'NERR' (see `convert --ent-key`)" in result.stderr
    )
    assert not (folder / "new.spacy").exists()
    result = run("ud.conllu", "o.spacy", "--ent-complete", "--lang", "ja")
    assert load("o.spacy")[0][0].ent_iob_ == "O" and "unknown spaces" not in result.output


def test_the_extension_the_content_or_the_option_decides_the_format(folder):
    (folder / "more.tsv.xz").rename(folder / "data.annotated.xz")
    result = run("data.annotated.xz", "o.spacy")
    assert result.stderr == (
        "data.annotated.xz: is read as columns, by its content (see `convert --format`)\n"
    )
    (folder / "text.annotated").write_text("words\n")
    result = run("text.annotated", "new.spacy", exit_code=1)
    assert result.stderr == (
        "text.annotated: unknown extension '.annotated', and content; expected one of .conllu "
        ".jsonl .ndjson .json .csv .conll .iob .iob2 .bio .tsv .txt .ann .arrow .feather .parquet, "
        "or `convert --format` conllu, conll2012, webanno, iob, prodigy, label-studio, jsonl, csv, "
        "columns, brat\n"
    )
    names = result.stderr.partition("`convert --format` ")[2].strip().split(", ")
    assert {"auto", *names} == {*get_args(convert_cli.Format)}
    run("data.annotated.xz", "o.spacy", "--format", "columns")


def test_the_next_step_has_the_language(folder):
    assert run("good.conll", "o.spacy", "--lang", "de").step == (
        "python -m spacy bcrf debug o.spacy"
    )


def test_raw_text_is_named(folder):
    problem = (
        "{0}: seems to be raw text, because its lines have no columns of tags; expected annotation "
        "(a format of `convert --format`), or for raw text `init --names LABEL=FILE --train {0}`\n"
    )
    text = "Ann left for Paris on Monday.\nBob stayed in Berlin all the week.\nIt was fine today.\n"
    (folder / "raw.txt").write_text(text)
    assert run("raw.txt", "o.spacy", exit_code=1).stderr == problem.format("raw.txt")
    init = command("init")("-o", "c.cfg", "-t", "raw.txt", exit_code=1)
    assert init.stderr == problem.format("raw.txt")
    assert not list(folder.glob("train.spacy"))
    # A row of other columns among tags is still that.
    for name, text, line in ("row.txt", "EU\tO\noops\n", 2), ("word.conll", "EU\n", 1):
        (folder / name).write_text(text)
        assert run(name, "o.spacy", exit_code=1).stderr.startswith(f"{name}:{line}: 1 column;")


@pytest.mark.parametrize(
    "text",
    [
        "Ann\nBob\n",  # a word a line
        "Ann\tPER\nleft\nfor\nParis\tLOC\nsoon\n",  # empty tags left out
        "Ann NNP PER\nleft VBD\nfor\nParis LOC\n",  # ragged, bare labels
        "PER\tw[0]=Ann\tw[1]=left\tcap\nO\tw[0]=left\tw[-1]=Ann\tlow\tx\n",  # CRFsuite's
    ],
)
def test_annotation_in_other_columns_is_no_raw_text(folder, text):
    (folder / "odd.txt").write_text(text)
    stderr = run("odd.txt", "o.spacy", exit_code=1).stderr
    assert "raw text" not in stderr and stderr.startswith("odd.txt:")


def test_a_guess_of_the_columns_is_printed(folder):
    (folder / "uner.iob2").write_text("1\tin\tO\t-\tann\n2\tRome\tB-LOC\t-\tann\n")
    result = run("uner.iob2", "o.spacy")
    assert result.stderr == (
        "uner.iob2: words in column 2, entity tags in column 3, by content "
        "(`convert --word-column`, --ent-column)\n"
    )
    assert [(ent.text, ent.label_) for ent in load("o.spacy")[0].ents] == [("Rome", "LOC")]
    # What the user says stands, and the other column is still found by content.
    result = run("uner.iob2", "o.spacy", "--ent-column", 3)
    assert (
        load("o.spacy")[0][1].text == "Rome" and "uner.iob2: words in column 2, by" in result.stderr
    )
    result = run("uner.iob2", "o.spacy", "--word-column", 3, exit_code=1)
    assert "1: 5 columns; column 3 is chosen for the word and the entity tag" in result.stderr
    run("uner.iob2", "o.spacy", "--word-column", 5, "--ent-column", 3)
    assert load("o.spacy")[0][0].text == "ann"


def test_all_malformed_places_are_listed_at_once(folder):
    (folder / "a.conll").write_text("EU\tO\noops\n\nEU\tZ-X\n\n\tO\n\nis\tO\n")
    (folder / "b.conll").write_text("EU\tO\n\nEU\n")
    result = run("a.conll", "b.conll", "o.spacy", exit_code=1)
    places = [line.partition(": ")[0] for line in result.stderr.splitlines()]
    assert places == ["a.conll:2, b.conll:3", "a.conll:4", "a.conll:6", "o.spacy"]
    assert not (folder / "o.spacy").exists()


def test_malformed_files_do_not_hide_each_other(folder):
    (folder / "a.conll").write_text("EU\tO\noops\n")
    (folder / "b.conll").write_text("EU\n")
    (folder / "c.conll").write_text("\n")
    (folder / "d.conll").write_bytes(b"M\xe4rz\tO\n")
    (folder / "e.conll").write_text("EU\tZ-X\n")
    files = [f"{name}.conll" for name in "abcde"]
    result = run(*files, "o.spacy", exit_code=1)
    places = [line.partition(": ")[0] for line in result.stderr.splitlines()]
    assert places == ["a.conll:2", "b.conll:1", "c.conll", "d.conll:1", "e.conll:1", "o.spacy"]
    assert not (folder / "o.spacy").exists()
    # An empty file is an error, also if malformed sentences are skipped.
    result = run("c.conll", "good.conll", "o.spacy", "--skip-malformed", exit_code=1)
    assert result.stderr == "c.conll: no records; expected at least one\n"


def test_overlapping_entities_by_content(folder):
    (folder / "nested.tsv").write_text(
        "#\thttp://a.de\n1\tUni\tB-ORG\tO\n2\tOslo\tI-ORG\tB-LOC\n3\tBonn\tB-LOC\tO\n"
    )
    result = run("nested.tsv", "o.spacy")
    assert "entity tags in column 3 and -1, by content" in result.stderr
    assert (
        "1 of 3 spans overlap longer ones and are left out, such as nested.tsv:2" in result.stderr
    )
    (doc,) = load("o.spacy")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Uni Oslo", "ORG"), ("Bonn", "LOC")]
    result = run("nested.tsv", "o.spacy", "--spans-key", "sc")
    assert "overlap longer" not in result.stderr
    (doc,) = load("o.spacy")
    spans = [(span.text, span.label_) for span in doc.spans["sc"]]
    assert spans == [("Uni Oslo", "ORG"), ("Oslo", "LOC"), ("Bonn", "LOC")]


def test_a_malformed_word_is_left_out_alone(folder):
    (folder / "tweets.conll").write_text("@ann\tO\n\tO\nEU\tB-ORG\noops\n\n\tO\n\nhi\tO\n")
    result = run("tweets.conll", "o.spacy", "--drop-words", "--skip-malformed")
    assert [[token.text for token in doc] for doc in load("o.spacy")] == [["@ann", "EU"], ["hi"]]
    # A sentence of no other words is skipped.
    assert "3 sentences read = 2 in 2 docs + 1 left out (1 malformed)" in result.stdout
    assert result.stdout.endswith("; 2 malformed words left out\n")
    places = [line.partition(": ")[0] for line in result.stderr.splitlines()]
    assert places == ["tweets.conll:2, tweets.conll:6", "tweets.conll:4"]


@pytest.mark.parametrize(
    "name, row", [("l.conll", "{}\tO\n"), ("l.conllu", "1\t{}" + "\t_" * 8 + "\n")]
)
def test_a_sentence_that_is_not_utf8_is_skipped(folder, name, row):
    words = ("gut", "M\xe4rz", "ja")
    (folder / name).write_bytes("\n".join(map(row.format, words)).encode("latin1"))
    message = f"{name}:3: byte 0xe4 at column {2 + 2 * (name == 'l.conllu')} is not UTF-8"
    message += " (iconv -f ENCODING -t UTF-8 converts a file)"
    assert message in run(name, "o.spacy", exit_code=1).stderr
    result = run(name, "o.spacy", "--skip-malformed")
    assert result.stderr == f"{message}\n" and "+ 1 left out (1 malformed)" in result.stdout
    assert [doc.text.strip() for doc in load("o.spacy")] == ["gut", "ja"]


@pytest.mark.parametrize(
    "args, message",
    [
        (["nowhere.conll", "o.spacy"], "nowhere.conll: cannot be read: No such file or directory"),
        (["good.conll", "nowhere.conll", "o.spacy"], "nowhere.conll: cannot be read: No such file"),
        (["latin1.conll", "o.spacy"], "latin1.conll:1: byte 0xe4 at column 2 is not UTF-8"),
        (["cut.conll.xz", "o.spacy"], "cut.conll.xz: broken or truncated .xz file"),
        (["good.conll", "-f", "conllu", "o.spacy"], "good.conll:1: 2 columns; expected 10"),
        (["good.conll", "o.json"], "o.json: expected a file with the suffix .spacy"),
        (["good.conll", "o.spacy", "-s", "biluo"], "good.conll:1: "),
        (["good.conll", "good.conll/o.spacy"], "good.conll/o.spacy: cannot be written: "),
    ],
)
def test_bad_input_is_one_line_on_stderr(folder, args, message):
    (folder / "latin1.conll").write_bytes("M\xe4rz\tO\n".encode("latin1"))
    (folder / "cut.conll.xz").write_bytes((folder / "more.tsv.xz").read_bytes()[:-9])
    (folder / "good.conll").write_text("EU\tS-ORG\n")
    before = sorted(folder.iterdir())
    result = run(*args, exit_code=1)
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1 + ("o.spacy: not written, because" in result.stderr)
    assert result.stdout == ""
    assert sorted(folder.iterdir()) == before


def test_usage_errors_exit_with_2(folder):
    for args in (["good.conll"], ["good.conll", "o.spacy", "--format", "json"]):
        run(*args, exit_code=2)


def test_spans_key(folder):
    run("good.conll", "out.spacy", "--spans-key", "chunks")
    docs = load("out.spacy")
    found = [[(span.text, span.label_) for span in doc.spans["chunks"]] for doc in docs]
    assert found == [[("EU", "ORG")], [("Peter", "PER")]]
    assert not any(doc.has_annotation("ENT_IOB") for doc in docs)


def test_spans_key_with_missing_tags(folder):
    (folder / "part.conll").write_text("EU\tB-NP\nrejects\t_\n\nno\t_\n")
    run("part.conll", "out.spacy", "--spans-key", "chunks")
    assert [token.text for token in load("out.spacy")[0] if token._.allowed_labels] == ["rejects"]
    args = ("part.conll", "out.spacy", "--spans-key", "chunks", "--ent-complete")
    run(*args)
    (folder / "none.conll").write_text("no\t_\n")
    run("none.conll", "out.spacy", "--spans-key", "chunks")
    assert "chunks" not in load("out.spacy")[0].spans


ROW = "1\tAda\t_\tPROPN\t_\t_\t_\t_\t_\t{}\n2\tran\t_\tVERB\t_\t_\t_\t_\t_\t{}\n"
MISC = [("SpaceAfter=No|name=B-PER", "name=O"), ("NE=B-PER", "NE=O"), ("B-PER", "O")]


@pytest.mark.parametrize("values", MISC)
def test_entity_tags_under_any_key_of_misc(folder, values):
    (folder / "e.conllu").write_text(ROW.format(*values))
    result = run("e.conllu", "o.spacy")
    assert "in MISC (see `convert --ent-key`)" in result.stderr
    assert [(ent.text, ent.label_) for ent in load("o.spacy")[0].ents] == [("Ada", "PER")]


def test_several_keys_of_misc(folder):
    (folder / "e.conllu").write_text(ROW.format("A=B-PER|B=B-X", "A=O"))
    result = run("e.conllu", "o.spacy", exit_code=1)
    assert result.stderr == "e.conllu: entity tags under A and B; expected `convert --ent-key`\n"


def test_numbers_are_no_words(folder):
    (folder / "x.conll").write_text("1\tAda\tNNP\t_\n2\tleft\tVBD\t_\n")
    result = run("x.conll", "o.spacy", exit_code=1)
    assert result.stderr.startswith("x.conll: column 1 has numbers, not words")
    run("x.conll", "o.spacy", "--word-column", 2, "--tag-column", 3)
    assert [token.tag_ for token in load("o.spacy")[0]] == ["NNP", "VBD"]


WEBANNO = """#FORMAT=WebAnno TSV 3.3
#T_SP=webanno.custom.NamedEntity|identifier|value


#Text=Ada lives in New York.
1-1\t0-3\tAda\t_\tPER\t
1-2\t4-9\tlives\t_\t_\t
1-3\t10-12\tin\t_\t_\t
1-4\t13-16\tNew\t*[1]\tLOC[1]\t
1-5\t17-21\tYork\t*[1]|*[2]\tLOC[1]|NAME[2]\t
1-6\t21-22\t.\t_\t_\t
"""


def test_webanno(folder):
    (folder / "w.tsv").write_text(WEBANNO)
    result = run("w.tsv", "o.spacy", "--spans-key", "sc")
    assert result.stderr == "w.tsv: is read as webanno, by its content (see `convert --format`)\n"
    (doc,) = load("o.spacy")
    assert doc.text == "Ada lives in New York."
    spans = [(span.text, span.label_) for span in doc.spans["sc"]]
    assert spans == [("Ada", "PER"), ("New York", "LOC"), ("York", "NAME")]


def test_parts_of_tokens_of_webanno(folder):
    """Such a sentence was once left out."""
    rows = "1-1\t5-12\tNhc\U0001f600-12\t_\t_\t\n1-1.1\t11-13\t12\t_\tNUM\t\n"
    rows = rows.replace("5-12", "5-13")
    text = "\n".join(WEBANNO.splitlines()[:3]) + f"\n#Text=Nhc\U0001f600-12 H.\n{rows}"
    text += "1-2\t14-16\tH.\t_\t_\t\n1-2.1\t14-15\tH\t_\tSEX[2]\t\n"
    text += "\n#Text=Ada\n2-1\t17-20\tAda\t_\tPER\t\n"
    (folder / "w.tsv").write_text(text)
    run("w.tsv", "o.spacy")
    doc, _ = load("o.spacy")
    assert [token.text for token in doc] == ["Nhc\U0001f600-12", "H."]
    assert find_misaligned(doc) == [(5, 7, "NUM"), (8, 9, "SEX")]
    run("w.tsv", "split.spacy", "--tokenizer", "auto", "--lang", "es")
    doc, _ = load("split.spacy")
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("12", "NUM"), ("H", "SEX")]
    (folder / "w.tsv").write_text(text.replace("11-13\t12", "11-13\t13"))
    assert "w.tsv:6: '1-1.1" in run("w.tsv", "o.spacy", exit_code=1).stderr


def test_a_malformed_line_of_webanno_has_one_place(folder):
    (folder / "w.tsv").write_text(WEBANNO.replace("1-3\t10-12\tin\t_\t_\t", "1-3\t10-12"))
    stderr = run("w.tsv", "o.spacy", exit_code=1).stderr
    assert "w.tsv:8: '1-3\\t10-12'; expected a whole token with 5 columns" in stderr
    assert "1 left out record whose spans are not counted" in stderr


@pytest.mark.parametrize("name", ["d.jsonl", "d.txt", "d.conllu"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf16_with_its_mark_is_named_once(folder, name, encoding):
    mark = "" if encoding == "utf-16" else "\ufeff"
    text = mark + '{"text": "Ada left", "spans": []}\n' * 30
    (folder / name).write_bytes(text.encode(encoding))
    assert run(name, "o.spacy", exit_code=1).stderr == (
        f"{name}: is UTF-16; iconv -f UTF-16 -t UTF-8 converts it\n"
    )


@pytest.mark.parametrize("name", ["d.jsonl", "d.txt", "d.conllu", "d.ann"])
def test_a_binary_file_is_named_once(folder, name):
    (folder / name).write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 9)
    (folder / "d.txt").touch()
    stderr = run(name, "o.spacy", exit_code=1).stderr
    assert stderr == f"{name}: is binary; expected a UTF-8 text\n"


def test_a_converted_file_is_sent_on(folder):
    DocBin().to_disk(folder / "c.spacy")
    stderr = run("c.spacy", "o.spacy", exit_code=1).stderr
    assert "c.spacy: is converted already; `spacy bcrf debug c.spacy` counts" in stderr


def test_an_open_string_has_one_at(folder):
    (folder / "a.jsonl").write_text('{"text": "Ada\n')
    stderr = run("a.jsonl", "o.spacy", exit_code=1).stderr
    assert "no JSON: Unterminated string starting at column 10" in stderr


@pytest.mark.parametrize(
    "text, label",
    [
        ("Ada|B-PER Lee|I-PER ran|O\n", "PER"),
        ("Ada|NNP|B-PER Lee|NNP|I-PER ran|VBD|O\n", "PER"),
        ("Ada\tPER\nLee\tPER\nran\tO\nand\tO\n", "PER"),
        ("Ada\tb-PER\nLee\ti-PER\nran\to\n", "PER"),
        ("Ada\tB\nLee\tI\nran\tO\n", "ENTITY"),
    ],
)
def test_tags_of_other_forms(folder, text, label):
    (folder / "t.iob").write_text(text)
    run("t.iob", "o.spacy")
    assert [(ent.text, ent.label_) for ent in load("o.spacy")[0].ents] == [("Ada Lee", label)]


@pytest.mark.parametrize("tag", ["B-PER|B-NAME", "B-O", "B-PER|O"])
def test_several_tags_in_a_column_are_refused(folder, tag):
    (folder / "t.tsv").write_text(f"Ada\t{tag}\nran\tO\n")
    assert f"'{tag}' is no entity tag" in run("t.tsv", "o.spacy", exit_code=1).stderr


def test_content_wins_over_an_extension_of_columns(folder):
    (folder / "x.txt").write_text('{"text": "Ada left", "entities": [[0, 3, "PER"]]}\n' * 2)
    (folder / "y.conll").write_text(ROW.format("NE=B-PER", "NE=O"))
    for name, format in (("x.txt", "jsonl"), ("y.conll", "conllu")):
        (folder / "o.spacy").unlink(missing_ok=True)
        result = run(name, "o.spacy")
        assert result.stderr.startswith(f"{name}: is read as {format}, by its content")
        assert [(ent.text, ent.label_) for ent in load("o.spacy")[0].ents] == [("Ada", "PER")]
    assert load("o.spacy")[0][0].pos_ == "PROPN"
    # Chosen columns, a column of entity tags, and CoNLL-X are no CoNLL-U.
    run("y.conll", "o.spacy", "--word-column", 2, "--tag-column", 4, "--ent-column", 0)
    assert [token.tag_ for token in load("o.spacy")[0]] == ["PROPN", "VERB"]
    (folder / "y.conll").write_text(ROW.format("PER", "O"))
    assert "entity tags in column -1" in run("y.conll", "o.spacy").stderr
    (folder / "y.conll").write_text(ROW.format("_", "_").replace("PROPN", "NNP"))
    assert "expected `convert --word-column`" in run("y.conll", "o.spacy", exit_code=1).stderr


@pytest.mark.parametrize(
    "name, text",
    [("l.iob", "Ada|b-per ran|o\n"), ("l.conllu", ROW.format("NE=b-per", "NE=o"))],
)
def test_entity_tags_in_lower_case(folder, name, text):
    (folder / name).write_text(text)
    run(name, "o.spacy")
    assert [(ent.text, ent.label_) for ent in load("o.spacy")[0].ents] == [("Ada", "per")]


def test_a_line_of_a_text_is_no_row_of_columns(folder):
    """Labels alone need an O beside them, unless the caller names their column."""
    (folder / "prose.txt").write_text("Ann went home today.\n")
    result = run("prose.txt", "o.spacy", exit_code=1)
    assert "prose.txt:1: 'today.' is no entity tag" in result.stderr
    assert not (folder / "o.spacy").exists()
    (folder / "labels.txt").write_text("Ann PER\nParis LOC\n")
    run("labels.txt", "o.spacy", "--ent-column", 2)
    assert [ent.label_ for ent in load("o.spacy")[0].ents] == ["PER", "LOC"]


def test_a_malformed_sentence_is_refused_beside_records_too(folder):
    (folder / "bad.conll").write_text("a\tO\nb\n\n" + GOOD)
    (folder / "many.jsonl").write_text('{"text": "Ada", "spans": []}\n' * 20)
    result = run("many.jsonl", "bad.conll", "o.spacy", exit_code=1)
    assert "o.spacy: not written, because 1 of 23 records have a problem" in result.stderr
    run("many.jsonl", "bad.conll", "o.spacy", "--skip-malformed")
    assert len(load("o.spacy")) == 22
    # Columns do not make more bad records acceptable.
    (folder / "bad.jsonl").write_text('{"text": "Ada", "spans": []}\n' * 8 + '{"text": 1}\n')
    (folder / "many.conll").write_text(GOOD * 20)
    run("bad.jsonl", "many.conll", "o.spacy", exit_code=1)


def test_a_column_without_entity_tags_is_one_error(folder):
    rows = "".join(f"Kano{i}\tB-LOC\nis\tO\n\n" for i in range(30))
    (folder / "dev.txt").write_text(rows)
    columns = "--word-column", 2, "--ent-column", 1
    result = run("dev.txt", "x.spacy", *columns, exit_code=1)
    assert result.stderr == "dev.txt: column 1 has no entity tags, column -1 has\n"
