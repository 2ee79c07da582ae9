"""Documents of formats: their structure stays, and their texts are redacted as plain texts are."""

import csv
import html
import io
import json
import random
import re
import time
from html.parser import HTMLParser

import numpy as np
import pytest
import spacy
from markdown_it import MarkdownIt
from spacy.tokens import Doc

from spacy_bcrf.corpora.formats.tables import read_texts
from spacy_bcrf.corpora.texts import TextColumns
from spacy_bcrf.judging.folds import train_sparse_chain
from spacy_bcrf.privacy.documents import change_texts, read_document
from spacy_bcrf.privacy.file_parts import read_sources
from spacy_bcrf.privacy.nodes import double_quotes
from spacy_bcrf.privacy.occurrences import Region
from spacy_bcrf.privacy.redact import Redactor, redact, replace_texts
from spacy_bcrf.privacy.replacer import Replacer
from spacy_bcrf.privacy.restore import restore
from spacy_bcrf.privacy.vault import Vault

NAMES = ["Ann Lee", "Bob Ray", "Eve Müller", "Ida O'Fox"]
ODD = ['"q"', "a\\b", "é", "\U0001f600", "<x", "&", "&amp;", "5 > 3", "1.", "so", "will see", "#1"]
ODD += ["[1]", "it's", "`x", "a|b", "_z_", "%20", "{", "}", ",", ";", "  ", "*", "(y)", "!", "\\n"]


@pytest.fixture(scope="module")
def nlp():
    vocab = spacy.blank("xx").vocab
    docs = []
    for name in NAMES:
        for words in (["saw", *name.split(), "."], [*name.split()], [*name.split(), "left", "it"]):
            ents = ["O"] * len(words)
            at = words.index(name.split()[0])
            ents[at : at + 2] = ["B-PER", "I-PER"]
            docs.append(Doc(vocab, words=words, ents=ents))
    for text in ["it will see so", "and so it is .", *ODD]:
        docs.append(
            Doc(vocab, words=text.split() or ["so"], ents=["O"] * max(1, len(text.split())))
        )
    return train_sparse_chain(docs, ["PER"])


def make_text(rng, odd=ODD):
    words = rng.choices(odd, k=rng.randrange(4))
    words.insert(rng.randrange(len(words) + 1), rng.choice(NAMES))
    return " ".join(words) if rng.random() < 0.9 else rng.choice(odd)


def read(nlp, source, kind, fields=None, style="label", vault=None):
    redactor = Redactor(nlp, None, Replacer(style, b"key", vault), threshold=0.3)
    document = read_document(source, kind, fields)
    (found,) = redactor.redact_documents([redactor.read(document)])
    for span in found.spans:
        part = found.text[span.start : span.end]
        assert "PER" in part or style != "label"
    return found.text


def leaves(nlp, texts):
    """The names that stay in plain texts, by text."""
    found = redact(nlp, map(nlp.make_doc, texts), threshold=0.3)
    return {
        text: [name for name in NAMES if name in one.text]
        for text, one in zip(texts, found, strict=True)
    }


def check(nlp, pairs):
    """Compare texts with the same ones of redacted sources, by the names that stay."""
    allowed = leaves(nlp, list(dict.fromkeys(text for text, _ in pairs)))
    for before, after in pairs:
        stay = [name for name in NAMES if name in after and name not in allowed[before]]
        assert not stay, (before, after)


# JSON


def make_json(rng, depth=0):
    kind = rng.randrange(7 if depth < 4 else 3)
    if kind == 0:
        return rng.choice([None, True, False, 0, -1.5e-7, 12345678901234567890, "", 3])
    if kind < 3:
        return make_text(rng)
    if kind == 3:
        return json.dumps(make_json(rng, depth + 2), ensure_ascii=rng.random() < 0.5)
    values = [make_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 4:
        return values
    keys = rng.sample(["a", "b.c", "Ann Lee", 'k"', "é", "", "\n"], len(values))
    return dict(zip(keys, values, strict=True))


def flatten(value, path=()):
    """Paths and values of JSON. JSON in strings is part of it."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            value = json.loads(value)
            path = (*path, "json")
        except ValueError:
            pass
    if isinstance(value, dict):
        yield (*path, "{}"), None
        for key, each in value.items():
            yield from flatten(each, (*path, key))
    elif isinstance(value, list):
        yield (*path, len(value)), None
        for i, each in enumerate(value):
            yield from flatten(each, (*path, i))
    else:
        yield path, value


def test_json_keeps_its_structure(nlp):
    rng = random.Random(0)
    n_replaced, checked = 0, []
    for _ in range(300):
        value = make_json(rng)
        source = json.dumps(value, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 2]))
        new = read(nlp, source, ".json")
        old, found = list(flatten(value)), list(flatten(json.loads(new)))
        assert [path for path, _ in old] == [path for path, _ in found]
        pairs = [(a, b) for (_, a), (_, b) in zip(old, found, strict=True)]
        assert all(a == b for a, b in pairs if not isinstance(a, str))
        checked += [(a, b) for a, b in pairs if isinstance(a, str)]
        n_replaced += new.count("[PER]")
    assert n_replaced > 200
    check(nlp, checked)


def test_numbers_become_strings_and_the_rest_stays():
    source = '{ "a" :\t5551234, "a": [1, "caf\\u00e9 5551234 \\/"], "n": 5551234e0 }'
    new = change_texts(source, lambda text: text.replace("5551234", 'X "'), ".json")
    assert new == '{ "a" :\t"X \\"", "a": [1, "caf\\u00e9 X \\" /"], "n": "X \\"e0" }'
    nested = json.dumps({"x": json.dumps({"n": 5551234, "y": "5551234"})})
    new = change_texts(nested, lambda text: text.replace("5551234", "[N]"), ".json")
    assert json.loads(json.loads(new)["x"]) == {"n": "[N]", "y": "[N]"}


def test_fields_of_json():
    source = '{"user": {"name": "Ann", "mail": "Ann"}, "name": ["Ann", {"x": "Ann"}], "o": "Ann"}'
    document = read_document(source, ".json", ["user.name", "name"])
    assert document.text == "Ann\nAnn\nAnn"
    new = document.write([(a, b, "B") for a, b in document.texts]).source
    assert json.loads(new)["user"] == {"name": "B", "mail": "Ann"} and new.endswith('"o": "Ann"}')


def test_what_is_no_json_is_an_error_that_names_it():
    for source in ("{", '{"a": "\n"}', "[" * 100_000, ""):
        with pytest.raises(ValueError, match="no JSON"):
            read_document(source, ".json")
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        read_document("{}\nAnn", ".jsonl")
    assert read_document("{ Ann").is_plain and not read_document('{"a": "Ann"}').is_plain


# CSV


def test_csv_keeps_its_cells(nlp):
    rng, checked = random.Random(1), []
    for _ in range(300):
        n, sign = rng.randrange(1, 4), rng.choice(",;|\t")
        rows = [[make_text(rng) for _ in range(n)] for _ in range(rng.randrange(1, 4))]
        rows[-1][0] = rng.choice([rows[-1][0], "a\nb Ann Lee", '""', json.dumps({"a": "Bob Ray"})])
        file = io.StringIO(newline="")
        quoting = rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        writer = csv.writer(
            file, delimiter=sign, quoting=quoting, lineterminator=rng.choice(["\n", "\r\n"])
        )
        writer.writerows([[f"Ann Lee {i}" for i in range(n)], *rows])
        new = read(nlp, file.getvalue(), ".tsv" if sign == "\t" else ".csv")
        header, *found = csv.reader(io.StringIO(new, newline=""), delimiter=sign, strict=True)
        assert header == [f"Ann Lee {i}" for i in range(n)]
        assert [len(row) for row in found] == [n] * len(rows)
        for row in zip(rows, found, strict=True):
            checked += zip(*row, strict=True)
    check(nlp, checked)


def test_columns_of_csv_and_wrong_csv():
    source = 'a,b,c\nAnn,"Ann, ""x""",Ann\n'
    assert read_document(source, ".csv", ["b"]).text == 'Ann, "x"'
    with pytest.raises(ValueError, match="2 fields under a header of 3"):
        read_document("a,b,c\nAnn,Bob\n", ".csv", ["b"])
    for bad in ('a\n"Ann\n', 'a\n"Ann"x\n'):
        with pytest.raises(ValueError, match="no CSV: row 2"):
            read_document(bad, ".csv")
    new = change_texts("a,b\nAnn,1\n", lambda text: "[A,B]", ".csv")
    assert list(csv.reader(new.splitlines()))[1] == ["[A,B]", "[A,B]"]


@pytest.mark.parametrize("sign", [",", "\t"])
def test_a_cell_gets_quotes_if_its_new_text_needs_them(sign):
    rng = random.Random(8)
    olds = ["Ann", "Ann met Ann", 'so "Ann"', '{"a": "Ann Ann"}', '{"a": 5551234}', '"Ann, ""x"""']
    for _ in range(200):
        cells = [rng.choices(olds, k=2) for _ in range(2)]
        source = "\n".join(["", f"a{sign}b", *map(sign.join, cells), ""])
        new = rng.choice(["1 Main St, Berlin", 'a "b"', "a\tb", "a\r\nb", "[A_1]", '"'])
        document = read_document(source, ".csv" if sign == "," else ".tsv")
        places = [m.span() for m in re.finditer("Ann|5551234", document.text)]
        written = document.write([(*place, new) for place in places])
        _, header, *rows = csv.reader(
            io.StringIO(written.source, newline=""), delimiter=sign, strict=True
        )
        assert header == ["a", "b"]
        for old_row, row in zip(cells, rows, strict=True):
            for old, cell in zip(old_row, row, strict=True):
                old = 'Ann, "x"' if old[0] == '"' else old
                if old[0] == "{":
                    old, cell = str(json.loads(old)["a"]), json.loads(cell)["a"]
                assert cell == old.replace("Ann", new).replace("5551234", new)
        for start, end in written.places:
            part = written.source[start:end]
            escaped = json.dumps(new)[1:-1]
            assert part in (f(x) for x in (new, escaped) for f in (str, double_quotes))
        back = document.write([(*place, document.text[slice(*place)]) for place in places])
        assert "5551234" in source or back.source == source


def test_restored_cells_have_their_number_of_fields():
    vault = Vault(["ADDRESS"])
    vault.replace("1 Main St, Berlin", "ADDRESS", {})
    new = restore("a,b\nx,[ADDRESS_1]\n", vault, ".csv").text
    assert new == 'a,b\nx,"1 Main St, Berlin"\n'


def test_blank_rows_before_a_header_are_skipped(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"\n\r\nname,text\nAnn,so\n")
    texts = [item.text for item in read_sources(path, {path: 0}, TextColumns(), int)]
    assert texts == ["\n\r\nname,text\n", "\n\r\nname,text\nAnn,so\n"]
    (record,) = read_texts(path, TextColumns(), int)
    assert record.text == "so" and record.place == f"{path}:4"


# HTML and Markdown


class Structure(HTMLParser):
    """The tags of a page with the names of their attributes, and its texts."""

    def __init__(self, source):
        super().__init__()
        self.tags, self.texts, self.values = [], [""], []
        self.feed(source)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))
        self.values += [value for _, value in attrs if value]
        self.texts.append("")

    def handle_endtag(self, tag):
        self.tags.append(tag)
        self.texts.append("")

    def handle_comment(self, data):
        self.tags.append("!")
        self.texts += [data, ""]

    def handle_data(self, data):
        self.texts[-1] += data


def encode(rng, text):
    """Escape a text, some of its characters as references."""
    return "".join(
        f"&#{ord(x)};" if rng.random() < 0.05 else html.escape(x, quote=rng.random() < 0.5)
        for x in text
    )


def make_html(rng):
    parts = ["<!DOCTYPE html>\n<html lang=en><body class='Ann Lee'>"]
    for _ in range(rng.randrange(1, 5)):
        text = encode(rng, make_text(rng))
        tag = rng.choice(["p", "div", "td", "b", "h1", "script type='application/json'", "style"])
        if " " in tag or tag == "style":
            text = json.dumps({"a": rng.choice(NAMES)})
        parts += [rng.choice(["", "\n", "<br/>", "<hr>", "<!-- Bob Ray -->", "&nbsp;"])]
        title = rng.choice(["", " title='Ann Lee'", ' alt="Bob&#32;Ray"', " data-x=1 checked"])
        link = ' <a href="https://x.org/?a=1&amp;n=Ann%20Lee#z">Bob <i>Ray</i></a>'
        link = rng.choice(["", link]) if tag in "pdivtd" else ""
        parts.append(f"<{tag}{title}>{text}{link}</{tag.split()[0]}>")
    return "".join([*parts, "</body></html>"])


def test_html_keeps_its_tags(nlp):
    rng, checked = random.Random(2), []
    for _ in range(300):
        source = make_html(rng)
        old, new = Structure(source), Structure(read(nlp, source, ".html"))
        assert new.tags == old.tags
        checked += zip(old.texts, new.texts, strict=True)
        for before, after in zip(old.values, new.values, strict=True):
            assert before == after or "PER" in after
    check(nlp, checked)
    new = read(
        nlp, "<p>I saw <b>Ann</b> Lee .</p><a href='mailto:Ann Lee'>Ann&#32;Lee</a>", ".html"
    )
    assert new == ("<p>I saw <b>[PER]</b> [PER] .</p><a href='mailto:%5BPER%5D'>[PER]</a>")


def make_markdown(rng):
    blocks = []
    for _ in range(rng.randrange(1, 6)):
        text = make_text(rng, [x for x in ODD if x not in ("`x", "<x", "*", "_z_", "\\n", "#1")])
        blocks.append(
            rng.choice(
                ["{}", "# {}", "- {}\n- so", "> {}", "**{}** so", "1. {}", "*{}*, it"]
            ).format(text)
        )
        blocks.append(
            rng.choice(
                [
                    "[Ann Lee](https://x.org/a_(b) 'Bob Ray') so",
                    "`Ann Lee` and `` ` ``",
                    "```py\nAnn Lee\n# Bob Ray\n```",
                    "| a | Ann Lee |\n|---|:-:|\n| Bob Ray | so |",
                    "<ann@lee.org> <b title='Ann Lee'>Bob Ray</b>",
                    "![Bob Ray][Ann Lee]\n\n[Ann Lee]: <x.png>",
                    "    Ann Lee",
                    "Ann Lee\n=======",
                    "---",
                    "Ann\\_Lee \\* Ann Lee",
                    "Ann Lee(so) [ ] Bob Ray:",
                ]
            )
        )
    return "\n\n".join(blocks) + "\n"


def parse_markdown(source):
    kinds, texts = [], []
    for token in MarkdownIt("commonmark").enable("table").parse(source):
        kinds.append((token.type, token.tag, token.nesting))
        for child in token.children or [token]:
            if child.type not in ("text", "text_special", "softbreak", "inline"):
                kinds.append((child.type, child.tag))
            texts.append(child.content)
    return kinds, "\n".join(texts)


def test_markdown_keeps_its_marks(nlp):
    rng = random.Random(3)
    for i in range(300):
        source = make_markdown(rng)
        new = read(nlp, source, ".md", style=("label", "mask")[i % 2])
        (old_kinds, _), (kinds, text) = parse_markdown(source), parse_markdown(new)
        assert kinds == old_kinds, (source, new)
        assert "Ann Lee" not in text or leaves(nlp, [source])[source]
    source = "[Ann](Ann) met Ann(so), `Ann` <Ann:x>\n"
    new = change_texts(source, lambda text: text.replace("Ann", "[PER]"), ".md")
    assert new == "[\\[PER\\]](%5BPER%5D) met \\[PER\\](so), `[PER]` <x-redacted:%5BPER%5D:x>\n"


@pytest.mark.parametrize(
    ("kind", "source", "expected"),
    [
        (".json", "5551234", '"[PER]"'),
        (".json", '["[]", "{}"]', '["[]", "{}"]'),
        (".html", "<![CDATA[Ann Lee]]>", "<![CDATA[[PER]]]>"),
        (".md", "<ann@lee.org>", "<x-redacted:%5BPER%5D>"),
        (".md", '---\nx: "Ann"\ny: Ann\n---\n', '---\nx: "[PER]"\ny: \\[PER\\]\n---\n'),
        (
            ".md",
            '---\nx: "Ann \\"Lee\\""\ny: "Ann" Lee\n---\n',
            '---\nx: "[PER]"\ny: \\[PER\\]\n---\n',
        ),
        (".md", "<http://lee.org/>", "<x-redacted:%5BPER%5D>"),
        (".md", "[x](http://y.org/a_(Ann))", "[\\[PER\\]](%5BPER%5D(%5BPER%5D))"),
        (".md", "Ann\\\nLee  \n\nso", "\\[PER\\]\\\n\\[PER\\]  \n\n\\[PER\\]"),
        (".log", 'Ann {"x": ""}', '[PER] {"x": ""}'),
    ],
)
def test_all_texts_replaced_keep_the_format(kind, source, expected):
    """Each text is one placeholder, and `restore` undoes them."""
    document, vault = read_document(source, kind), Vault(["PER"])
    parts = [part for place in document.texts for part in document.cut(*place)]
    assert document.write([(*part, "[PER]") for part in parts]).source == expected
    new = [(a, b, vault.replace(document.text[a:b], "PER", {})) for a, b in parts]
    back = restore(document.write(new).source, vault, kind).text
    assert back == (f'"{source}"' if source.isdigit() else source)  # `redact` marks numbers


def test_a_field_says_what_a_number_is():
    """A model reads short texts with a digit behind the name of their field, which stays."""
    nlp = spacy.blank("en")
    pattern = [{"LOWER": "tel"}, {"ORTH": ":"}, {"ORTH": "12"}, {"ORTH": "34"}]
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PHONE", "pattern": pattern}])
    assert nlp("tel: 12 34").ents
    source = '{"tel": "12 34", "n": {"tel": ["12 34", "so"]}, "m": "12 34", "tel 5": "so"}'
    document = read_document(source, ".json")
    assert document.intros == ["tel: ", "tel: ", "", "m: ", ""]
    assert read_document("tel;m\n12 34;so\n12 34\n", ".csv").intros == ["tel: ", "", "tel: "]
    assert read_document(json.dumps({"t": "1 so" * 99}), ".json").intros == [""]
    found = []
    for intro, (start, end) in zip(document.intros, document.texts, strict=True):
        doc = nlp(intro + document.text[start:end])
        spans = [Region(e.start_char, e.end_char, e.label_, 0.9) for e in doc.ents]
        found.append((doc, (spans, np.zeros(len(doc)))))
    new = replace_texts(document, found, Replacer("label"))
    assert json.loads(new.text) == {
        "tel": "[PHONE]",
        "n": {"tel": ["[PHONE]", "so"]},
        "m": "12 34",
        "tel 5": "so",
    }


@pytest.mark.parametrize(
    ("source", "kind", "intros"),
    [
        ('{"\\ud800": "34"}', ".json", [""]),  # spaCy cannot read half a pair of surrogates
        (json.dumps({"x" * 10**5: list(range(300))}), ".json", [""] * 300),  # else 30 MB
        ('"a\nb "," ",\n3,4,5,6\n', ".csv", ["a b: ", "", "", ""]),
    ],
)
def test_odd_names_of_fields(nlp, source, kind, intros):
    assert read_document(source, kind).intros == intros
    assert read(nlp, source, kind) == source


def test_labels_of_links_stay_equal(nlp):
    source = "[it][Ann Lee], so [ann lee] and [Ann Lee][].\n\n[Ann Lee]: x\n"
    document, found = read_document(source, ".md"), []
    for start, end in document.texts:
        doc = nlp.make_doc(document.text[start:end])
        spans = [Region(at, at + 3, "PER", 0.9) for at in [doc.text.find("Lee")] if at >= 0]
        found.append((doc, (spans, np.zeros(len(doc)))))
    new = replace_texts(document, found, Replacer("label")).text
    assert new == "[it][\\[PER\\]], so [\\[PER\\]] and [\\[PER\\]][].\n\n[\\[PER\\]]: x\n"


def test_new_addresses_keep_their_signs():
    def change(text):
        return text.replace("é@lee.org", "ö@x.org").replace("Ann", "B [C]")

    for source, kind in [
        ("<a href='mailto:é@lee.org?a=1&amp;b=Ann'>x</a>", ".html"),
        ("[x](mailto:é@lee.org?a=1&b=Ann) <mailto:é@lee.org?a=1&b=Ann>", ".md"),
    ]:
        expected = source.replace("é@lee.org", "ö@x.org").replace("Ann", "B%20%5BC%5D")
        assert change_texts(source, change, kind) == expected


def test_line_ends_of_markdown_do_not_matter():
    lines = ["```", "Ann|x", "```", "Ann", "===", "| Ann |", "|---|", "[Ann]: <Ann>", "---", "Ann"]
    source = "\n".join(lines)
    new = change_texts(source, lambda text: text.replace("Ann", "[P]"), ".md")
    assert new.startswith("```\n[P]|x\n```\n\\[P\\]\n===\n")
    returns = source.replace("\n", "\r\n")
    texts = read_document(source, ".md").text, read_document(returns, ".md").text
    assert texts[0] == texts[1].replace("\r\n", "\n").replace("\r", "")
    crlf = change_texts(returns, lambda text: text.replace("Ann", "[P]"), ".md")
    assert crlf == new.replace("\n", "\r\n")


MANY = 20_000
LONG = {
    "a tag of letters": (".html", f"<p {'a' * MANY}>Ann</p>"),
    "a tag of signs": (".html", f"<p {chr(34) * MANY}{'= ' * MANY}>Ann</p>"),
    "runs of ticks": (".md", " ".join("`" * n for n in range(1, 300))),
    "a run of ticks": (".md", "x" + "`" * 45_000),
    "a fence without end": (".md", "`" * 45_000),
    "rules": (".md", "-" * 45_000 + "x"),
    "signs below": (".md", "a" + "_" * 45_000 + "b"),
    "comments": (".md", "<!--" * MANY),
    "blanks": (".md", "a" + " " * 45_000 + "b"),
}


@pytest.mark.parametrize("name", LONG)
def test_long_marks_take_no_long_time(name):
    kind, source = LONG[name]
    begin = time.process_time()
    read_document(source, kind)
    assert time.process_time() - begin < 3


def test_names_of_attributes_need_no_value():
    source = """<p hidden title="Ann"alt='Ann' = x=Ann y / z = Ann>Ann</p>"""
    new = change_texts(source, lambda text: text.replace("Ann", "B"), ".html")
    assert new == source.replace("x=Ann", 'x="B"').replace("z = Ann", 'z = "B"').replace("Ann", "B")


@pytest.mark.parametrize(
    ("kind", "source"),
    [(".html", "<p>[1] <b>Ann Lee</b> left</p>"), (".md", "\\[1\\] **Ann Lee** left")],
)
def test_what_follows_json_is_read_apart(kind, source):
    """The blank behind JSON is in no text, so words behind it would be glued to its last value."""
    document = read_document(source, kind)
    texts = [document.text[start:end].strip() for start, end in document.texts]
    assert texts == ["1", "Ann Lee left"]


def test_lines_of_a_log(nlp):
    source = '10:33 it Ann Lee "ok"\r\n{"n": "Bob Ray"}\n10:34 got {"n": ["Ann Lee", 3]}\n\nAnn Lee'
    new = read(nlp, source, ".log")
    expected = source.replace("Ann Lee", "[PER]").replace("Bob Ray", "[PER]")
    assert new == expected


def test_json_of_a_log_line_stands_behind_brackets():
    for head in ("[INFO] ", "10:33 [a] {b} [[", "x{", "[1] ", '{"a": 2} '):
        source = f'{head}{{"name": "Ann", "id": 5}} \r\n'
        new = change_texts(source, lambda x: x.replace("Ann", 'B "C"').replace("5", "N"), ".log")
        assert new == f'{head}{{"name": "B \\"C\\"", "id": "N"}} \r\n'
    begin = time.process_time()
    read_document("[" * 50_000 + "]\n" + "{" * 50_000 + "}", ".log")
    assert time.process_time() - begin < 5


def test_numbered_placeholders_of_a_format_are_undone(nlp):
    rng = random.Random(4)
    rows = io.StringIO(newline="")
    csv.writer(rows).writerows(
        [["a", "b"], ["Ann Lee", 'x, "PER_1" Ann Lee'], ["[PER_2]", "Bob Ray"]]
    )
    cases = [
        (".csv", rows.getvalue()),
        (".html", "<p>Ann Lee, <i>Ann</i> Lee [PER_1] &lt; PER_1</p>"),
    ]
    cases += [(".md", "**Ann Lee** \\[PER_1\\] [Bob Ray](x) `Ann Lee` *PER*_1\n")]
    for _ in range(100):
        cases.append(
            (".json", json.dumps({"t": [make_text(rng), "[PER_1] x", {"PER_1": "per_2"}]}))
        )
    for kind, source in cases:
        vault = Vault(["PER"])
        new = read(nlp, source, kind, style="numbered", vault=vault)
        assert "Ann Lee" not in new or kind == ".json"
        back = restore(new, vault, kind).text
        assert back == source or (kind == ".md" and parse_markdown(back) == parse_markdown(source))


def read_page(source):
    page = Structure(source)
    return page.tags, page.texts, page.values


@pytest.mark.parametrize(
    ("kind", "make", "parse"),
    [
        (
            ".json",
            lambda rng: json.dumps(make_json(rng)),
            lambda text: [*flatten(json.loads(text))],
        ),
        (".html", make_html, read_page),
        (".md", make_markdown, parse_markdown),
    ],
)
def test_undone_documents_have_the_same_texts(nlp, kind, make, parse):
    """Escapes may differ, such as `&#32;`."""
    rng = random.Random(5)
    for _ in range(40):
        source, vault = make(rng), Vault(["PER"])
        new = read(nlp, source, kind, style="numbered", vault=vault)
        assert parse(restore(new, vault, kind).text) == parse(source)


def test_numbers_are_numbers_again(nlp):
    """Also a number of which a part was found, and the same digits as a string."""
    vault = Vault(["PER"])
    for kind, source in [
        (".json", '{"a": [-5.5e3, "-5.5e3", {"b": "{\\"n\\": -5.5e3}"}], "c": -5.5e3}'),
        (".log", 'so {"a": -5.5e3}\n'),
        (".csv", 'a\n"{""n"": -5.5e3}"\n'),
        (".md", 'so `{"n": -5.5e3}`\n\n```\n[-5.5e3]\n```\n'),
    ]:
        document, found = read_document(source, kind), []
        for intro, (start, end) in zip(document.intros, document.texts, strict=True):
            doc, at = nlp.make_doc(intro + document.text[start:end]), len(intro)
            spans = [Region(at + 1, at + 4, "PER", 0.9)] if "5.5" in doc.text else []
            found.append((doc, (spans, np.ones(len(doc)))))
        new = replace_texts(document, found, Replacer("numbered", vault=vault)).text
        assert "5" not in re.sub(r"PER_[\d.]+", "", new)
        assert restore(new, vault, kind).text == source
    assert restore("PER_1 is it", vault).text == "-5.5e3 is it"


def test_a_further_occurrence_is_found_in_another_text(nlp):
    source = json.dumps(["saw Ann Lee .", "so is Lee", {"z": "LEE"}])
    new = json.loads(read(nlp, source, ".json"))
    assert new[0] == "saw [PER] ." and new[1].endswith("[PER]") and new[2] == {"z": "[PER]"}
    assert leaves(nlp, ["so is Ann Lee"]) == {"so is Ann Lee": []}
