"""Annotation in the shapes of public corpora: it is read, or an error names the field."""

import json

import pytest
import spacy

from bcrf.io.text import CorpusError
from spacy_bcrf.corpora.convert import convert
from spacy_bcrf.readers.doc_files import read_docs

TEXT = "Ada Lovelace met Bob in Rome"
SPANS = [("Ada Lovelace", "PER"), ("Rome", "LOC")]
ADA = {"start": 0, "end": 12}
ROME = {"start": 24, "end": 28}
WORDS = TEXT.split()
TAGS = ["B-PER", "I-PER", "O", "O", "O", "B-LOC"]
ROWS = "Ada {0}\nLovelace {1}\nleft O\n\nRome {2}\nfell O\n"


def read(folder, name, content, **options):
    """Convert a file. Return the spans of all documents, and what was reported."""
    path, reports = folder / name, []
    path.write_text(content if isinstance(content, str) else json.dumps(content), newline="")
    output = folder / "out.spacy"
    counts = convert([path], output, report=reports.append, **options)
    docs = list(read_docs(output, spacy.blank("xx").vocab))
    assert sum(len(doc.ents) for doc in docs) == counts.entities
    return [(ent.text, ent.label_) for doc in docs for ent in doc.ents], reports


@pytest.mark.parametrize(
    "tags",
    [
        ("B_PER", "I_PER", "B_LOC"),
        ("B:PER", "I:PER", "B:LOC"),
        ("PER-B", "PER-I", "LOC-B"),
        ("PER_B", "PER_E", "LOC_S"),
        ("B_PER", "E_PER", "S_LOC"),
        ("B-PER", "M-PER", "S-LOC"),
        ("BPER", "IPER", "BLOC"),
        ("B\N{EN DASH}PER", "I\N{EN DASH}PER", "B\N{EN DASH}LOC"),
        ("b-PER", "i-PER", "b-LOC"),
        ("PER", "PER", "LOC"),
    ],
)
@pytest.mark.parametrize("name", ["x.conll", "x.jsonl"])
def test_forms_of_tags(tmp_path, name, tags):
    records = [{"tokens": ["Ada", "Lovelace", "left"], "ner_tags": [*tags[:2], "O"]}]
    records.append({"tokens": ["Rome", "fell"], "ner_tags": [tags[2], "O"]})
    lines = "".join(json.dumps(record) + "\n" for record in records)
    content = ROWS.format(*tags) if name == "x.conll" else lines
    spans, reports = read(tmp_path, name, content)
    assert spans == SPANS
    is_usual = "-" in (tags[0][1], *tags[0][:1]) or tags[0] == "PER"
    assert bool(reports) == (not is_usual)


@pytest.mark.parametrize(
    "tags, labels",
    [
        (("B_cell", "B_cell", "T_cell"), ["B_cell", "T_cell"]),
        (("E-MAIL", "E-MAIL", "PHONE"), ["E-MAIL", "PHONE"]),
    ],
)
def test_labels_that_look_like_tags(tmp_path, tags, labels):
    assert [label for _, label in read(tmp_path, "x.conll", ROWS.format(*tags))[0]] == labels


@pytest.mark.parametrize(
    "tags, message",
    [
        (("B-PER", "I-PER", "LOC"), "'LOC' is no entity tag"),
        (("B_PER", "I_PER", "LOC"), "'LOC' is no entity tag"),
        (("B-PER,B-LOC", "O", "B-LOC"), "'B-PER,B-LOC' is no entity tag"),
        (("B-PER", "OTHER", "B-LOC"), "'OTHER' is no entity tag"),
    ],
)
def test_tags_that_are_refused(tmp_path, tags, message):
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, "x.conll", ROWS.format(*tags))


@pytest.mark.parametrize("tags", [["OTHER", "PER"], ["NN", "VB"], ["0", "B_PER"], ["B", "E"]])
def test_tags_without_an_o_are_no_entities(tmp_path, tags):
    with pytest.raises(CorpusError, match=r"is not a tag; expected O or one of"):
        read(tmp_path, "x.jsonl", {"tokens": ["Ada", "left"], "tags": tags})


@pytest.mark.parametrize(
    "fields",
    [
        {"label": {"PER": {"Ada Lovelace": [[0, 11]]}, "LOC": {"Rome": [[24, 27]]}}},
        {"entities": {"0": {**ADA, "label": "PER"}, "1": {**ROME, "label": "LOC"}}},
        {"entities": {"start": [0, 24], "end": [12, 28], "label": ["PER", "LOC"]}},
        {"entities": {"PER": [ADA], "LOC": [ROME]}},
        {"entities": {"PER": [ADA], "LOC": [ROME], "ORG": []}},
        {"label": json.dumps([[0, 12, "PER"], [24, 28, "LOC"]])},
        {"label": json.dumps([{**ADA, "labels": ["PER"]}, {**ROME, "labels": ["LOC"]}])},
        {"tokens": WORDS, "ner_tags": str(TAGS)},
        {"tokens": WORDS, "ner_tags": " ".join(TAGS)},
        {"spans": [[0, 12, "PER"], [24, 28, "LOC"]]},
        {"spans": [{**ADA, "type": "PER"}, {**ROME, "type": "LOC"}]},
        {"annotation": [["PER", 0, 12], ["LOC", 24, 28]], "prediction": None},
        {"tokens": [{"text": word, "ner": tag} for word, tag in zip(WORDS, TAGS, strict=True)]},
    ],
    ids=str,
)
def test_shapes_of_spans(tmp_path, fields):
    for text in (TEXT, None) if "tokens" in fields else (TEXT,):
        record = {key: value for key, value in {"text": text, **fields}.items() if value}
        assert read(tmp_path, "x.jsonl", json.dumps(record)) == (SPANS, [])


PRESIDIO = [
    {"entity_type": label, "entity_value": value, "start_position": a, "end_position": b}
    for label, value, a, b in (("PER", "Ada Lovelace", 0, 12), ("LOC", "Rome", 24, 28))
]


@pytest.mark.parametrize(
    "record",
    [
        {"full_text": TEXT, "masked": "{{name}}", "spans": PRESIDIO, "metadata": {"Id": [1]}},
        {"full_text": TEXT, "spans": PRESIDIO, "tokens": WORDS, "tags": TAGS, "template_id": 3},
        {
            "documentName": "a.txt",
            "document": TEXT,
            "tokens": [
                {"text": "Ada Lovelace", **ADA, "token_start": 0, "entityLabel": "PER"},
                {"text": "Rome", **ROME, "token_start": 5, "entityLabel": "LOC"},
            ],
            "relations": [],
        },
        {"id": 1, "data": TEXT, "label": [[0, 12, "PER"], [24, 28, "LOC"]]},
        {"words": WORDS, "ner": TAGS},
        {"text": WORDS, "labels": TAGS},
        {"tokens": WORDS, "entities": [{"type": "PER", "start": 0, "end": 2}, ["LOC", 5, 6]]},
        {"tokens": WORDS, "ner": [[0, 1, "PER"], [5, 5, "LOC"]]},
    ],
    ids=lambda record: ",".join(record),
)
@pytest.mark.parametrize("indent", [None, 2])
def test_texts_of_other_tools(tmp_path, record, indent):
    assert read(tmp_path, "x.json", json.dumps(record, indent=indent)) == (SPANS, [])


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"annotation": {"ner": {"PER": [[0, 3]]}}}, '"annotation.ner": "PER" is not at'),
        ({"annotations": {"entities": [[0, 3, "PER"]]}}, '"annotations" is not read'),
        ({"results": {"ner": {"spans": [[0, 3, "PER"]]}}}, '"results.ner" is not read'),
        ({"entities": {"PER": [[0, 3]]}}, '"entities" is not read'),
        ({"entities": {"PER": ["Ada"]}}, '"entities" is not read'),
        ({"label": "PER"}, '"label" is not read'),
        ({"label": 3}, '"label" is not read'),
        ({"label": {"PER": {"Bob": [[0, 2]]}}}, '"label.PER": "Bob" is not at \\[0, 2\\]'),
        ({"entities": {"start": [0], "end": [3], "label": []}}, "lists of different lengths"),
        ({"my_spans": '[[0, 3, "PER"]]'}, '"my_spans" is not read'),
        ({"iob": "B-PER O"}, '"iob" is not read'),
        ({"word_labels": "B-PER,O,O"}, '"word_labels" is not read'),
        ({"x": {"y": {"start": 0, "end": 3}}}, '"x.y" is not read'),
        ({"meta": {"entities": [{"start": 0, "end": 3, "label": "PER"}]}}, '"meta" is not read'),
        ({"tokens": ["Ada"], "fine_tags": [1]}, '"fine_tags" is not read'),
        ({"tokens": [{"text": "Ada", "ner": "B-PER", "iob": "B"}]}, "tokens have ner and iob"),
        ({"spans": [{**ADA, "label": "B-PER"}, {**ROME, "label": "B-LOC"}]}, "is the tag B-PER"),
    ],
    ids=str,
)
def test_annotation_in_other_shapes_is_named(tmp_path, fields, message):
    text = None if "tokens" in fields else TEXT
    with pytest.raises(CorpusError, match=message):
        read(tmp_path, "x.jsonl", {"text": text, **fields})


def test_fields_that_are_no_annotation(tmp_path):
    more = {"id": "S-12", "title": "O B-PER", "meta": {"ids": [1, 2]}, "note": "[1] see below"}
    with pytest.raises(CorpusError, match='"title" is not read'):
        read(tmp_path, "x.jsonl", {"text": TEXT, **more})
    assert read(tmp_path, "y.jsonl", {"text": TEXT, **more, "title": "[O"}) == ([], [])


def test_tags_of_a_record_have_the_form_of_the_file(tmp_path):
    one = {"tokens": ["Ada"], "ner_tags": ["B_PER"]}
    two = {"tokens": ["Ada", "Lee"], "ner_tags": ["B_PER", "I_PER"]}
    lines = "".join(json.dumps(record) + "\n" for record in (one, two))
    assert read(tmp_path, "x.jsonl", lines)[0] == [("Ada", "PER"), ("Ada Lee", "PER")]


@pytest.mark.parametrize("join", [" ", "\t"])
def test_comments_of_multiconer(tmp_path, join):
    content = f"# id 12-ab{join}domain=en\nada _ _ B-PER\nleft _ _ O\n\n# id 9{join}domain=en\n"
    assert read(tmp_path, "x.conll", content + "rome _ _ B-LOC\n")[0] == [
        ("ada", "PER"),
        ("rome", "LOC"),
    ]


@pytest.mark.parametrize(
    "header", ["TOKEN\tNE-COARSE-LIT\tNE-NESTED", "word\tner\tlabel", "Token\tner_tags\tTag_2"]
)
def test_a_header_is_no_sentence(tmp_path, header):
    rows = "# hipe2022:language = en\nAda\tB-pers\tO\nleft\tO\tO\n"
    spans, reports = read(tmp_path, "x.tsv", f"{header}\n{rows}")
    assert spans == [("Ada", "pers")] and any("names of columns" in each for each in reports)


@pytest.mark.parametrize("name", ["x.conll", "x.conllu", "x.iob"])
def test_line_ends_of_carriage_returns_are_named(tmp_path, name):
    with pytest.raises(CorpusError, match=rf"{name}:1: has a carriage return; expected line feeds"):
        read(tmp_path, name, "Ada\tB-PER\rLee\tI-PER\r")


def test_a_region_without_labels_is_missing(tmp_path):
    region = {"type": "labels", "value": {**ADA, "text": "Ada Lovelace"}}
    rome = {"type": "labels", "value": {**ROME, "labels": ["LOC"]}}
    empty = {"type": "labels", "value": {"start": 17, "end": 20, "labels": []}}
    task = {"data": {"text": TEXT}, "annotations": [{"result": [region, rome, empty]}]}
    path = tmp_path / "x.json"
    path.write_text(json.dumps([task]))
    counts = convert([path], tmp_path / "out.spacy")
    (doc,) = read_docs(tmp_path / "out.spacy", spacy.blank("xx").vocab)
    assert "".join(token.ent_iob_ or "-" for token in doc) == "--O-OB"
    assert (counts.spans, counts.missing, counts.others["regions without labels"]) == (1, 3, 2)


def test_a_file_whose_spans_are_all_left_out_is_not_written(tmp_path):
    record = {"text": "王小明在上海", "label": {"name": {"王小明": [[0, 2]]}}}
    with pytest.raises(CorpusError, match="all spans are left out; expected another"):
        read(tmp_path, "x.jsonl", record)
    assert read(tmp_path, "x.jsonl", record, align="split")[0] == [("王小明", "name")]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.feather"])
@pytest.mark.parametrize("named", [True, False])
def test_parquet_and_arrow(tmp_path, name, named):
    pa = pytest.importorskip("pyarrow")
    feature = {"names": ["O", "B-PER"], "_type": "ClassLabel"}
    features = {"ner_tags": {"feature": feature, "_type": "Sequence"}}
    rows = [{"tokens": ["Ada", "left"], "ner_tags": [1, 0]}, {"tokens": ["Bob"], "ner_tags": [1]}]
    table = pa.Table.from_pylist(rows)
    if named:
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        table = table.replace_schema_metadata(metadata)
    path = tmp_path / name
    if name == "x.parquet":
        pytest.importorskip("pyarrow.parquet").write_table(table, path)
    else:
        new = pa.ipc.new_stream if name == "x.arrow" else pa.ipc.new_file
        with new(path, table.schema) as writer:
            writer.write_table(table)
    labels = None if named else ["O", "B-PER"]
    counts = convert([path], tmp_path / "out.spacy", labels=labels)
    docs = read_docs(tmp_path / "out.spacy", spacy.blank("xx").vocab)
    assert [(e.text, e.label_) for d in docs for e in d.ents] == [("Ada", "PER"), ("Bob", "PER")]
    assert (counts.records, counts.spans, counts.tokens) == (2, 2, 3)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(CorpusError, match=f"{name}: (cannot be read as|broken or truncated)"):
        convert([path], tmp_path / "out.spacy", labels=labels)


@pytest.mark.parametrize(
    "rows", ["Ada B PER\nLee I PER\nleft O O\n", "Ada\tB\tPER\nLee\tI\tPER\nleft\tO\t\n"]
)
def test_labels_apart_from_their_prefixes_are_named(tmp_path, rows):
    with pytest.raises(ValueError, match="the labels of entities are in column 3, apart from"):
        read(tmp_path, "x.txt", rows)
    assert read(tmp_path, "y.txt", "Ada B\nLee I\nleft O\n")[0] == [("Ada Lee", "ENTITY")]


def test_a_word_with_its_tag_on_each_line_is_no_sentence(tmp_path):
    with pytest.raises(CorpusError, match=r"x.iob:1: 1 column"):
        read(tmp_path, "x.iob", "Ada|B-PER\nLee|I-PER\n\nleft|O\n")


def test_entities_in_misc_that_are_no_tags_are_named(tmp_path):
    row = "1\tAda\t_\tPROPN\t_\t_\t_\t_\t_\tEntity=(1-person-giv:act-1-coref)\n"
    (note,) = read(tmp_path, "x.conllu", row)[1]
    assert note.endswith("x.conllu: Entity in MISC is not read; expected tags, NER=B-PER")


def test_the_language_before_each_word_of_wikiann_is_no_part_of_it(tmp_path):
    found, reports = read(tmp_path, "a.conll", "en:Ada B-PER\nen:met O\n\nen:: O\nen:Bob B-PER\n")
    assert found == [("Ada", "PER"), ("Bob", "PER")]
    assert any("'en:' before each word is left out" in report for report in reports)
    found, reports = read(tmp_path, "b.conll", "en:Ada B-PER\nde:met O\n\nmet: O\n")
    assert found == [("en:Ada", "PER")] and not any("before each" in report for report in reports)


def test_a_label_of_the_first_row_alone_may_be_the_name_of_a_column(tmp_path):
    rows = "Ada\tPER\nmet\tO\nBob\tPER\nin\tO\nit\tO\nwas\tO\n"
    found, reports = read(tmp_path, "a.tsv", f"Wort\tKategorie\n{rows}")
    assert any("'Kategorie' is the label of the first row alone" in report for report in reports)
    found, reports = read(tmp_path, "b.tsv", rows)
    assert found == [("Ada", "PER"), ("Bob", "PER")]
    assert not any("first row" in report for report in reports)


ONTONOTES = """#begin document (bc/cctv/00/cctv_0000); part 000
bc/cctv/00 0 0 Ada NNP (NP* - - - Bo (PERSON* (0
bc/cctv/00 0 1 Lovelace NNP *) - - - Bo *) 0)
bc/cctv/00 0 2 met VBD (VP* meet 01 1 Bo * (V*) -

bc/cctv/00 0 0 Rome NNP (NP*) - - - Bo (GPE) -

#end document
"""


def test_ontonotes(tmp_path):
    found, _ = read(tmp_path, "a.gold_conll", ONTONOTES, n_sents=0)
    assert found == [("Ada Lovelace", "PERSON"), ("Rome", "GPE")]
    for old, new in ("*) 0)", "(PERSON) 0)"), ("(GPE)", "*)"), ("Bo (GPE) -", "-"):
        with pytest.raises(CorpusError, match=r"is no entity in column 11; expected \(PERSON\*"):
            read(tmp_path, "a.gold_conll", ONTONOTES.replace(old, new))


def test_gold_and_predicted_tags_are_no_nested_entities(tmp_path):
    rows = "Ada B-PER B-PER .9\nmet O O .9\n\nRome B-LOC B-PER .7\n"
    with pytest.raises(CorpusError, match="entities of columns 2 and 3 are equal, as gold"):
        read(tmp_path, "a.conll", rows)
    found, _ = read(tmp_path, "a.conll", rows, ent_columns=[2])
    assert found == [("Ada", "PER"), ("Rome", "LOC")]


def test_the_place_behind_each_word_of_weibo_is_no_part_of_it(tmp_path):
    found, reports = read(tmp_path, "a.conll", "科0\tO\n北0\tB-GPE.NAM\n京1\tI-GPE.NAM\n")
    assert found == [("北 京", "GPE.NAM")]
    assert "the digit behind each word is left out, as in Weibo NER" in reports[-1]


def test_a_long_file_without_blank_lines_is_named(tmp_path):
    rows = "Ada\tB-PER\nmet\tO\n" * 101
    assert "no blank line, so all words are one sentence" in read(tmp_path, "a.tsv", rows)[1][0]
    assert not read(tmp_path, "a.tsv", rows[:160] + "\n" + rows[160:])[1]


def test_entity_tags_in_xpos_are_named(tmp_path):
    (note,) = read(tmp_path, "x.conllu", "1\tAda\t_\tPROPN\tB-PER\t_\t_\t_\t_\t_\n")[1]
    assert note.endswith("XPOS has entity tags; expected `convert --format columns`")


def test_signs_of_webanno_labels(tmp_path):
    head = "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.NamedEntity|value\n\n#Text=1 2 3\n"
    tags = ("ZIP\\_CODE[1]", "ZIP\\_CODE[1]", "A\\|B")
    rows = [f"1-{i}\t{2 * i - 2}-{2 * i - 1}\t{i}\t{tag}\t\n" for i, tag in enumerate(tags, 1)]
    found, _ = read(tmp_path, "x.tsv", head + "".join(rows))
    assert found == [("1 2", "ZIP_CODE"), ("3", "A|B")]


CSV = {
    "words of sentences": "Sentence #,Word,POS,Tag\nSentence: 1,Ada,NNP,B-PER\n"
    ",Lovelace,NNP,I-PER\n,met,VBD,O\nSentence: 2,Rome,NNP,B-LOC\n",
    "words with numbers": "sent_id,token,ner\n1,Ada,B-PER\n1,Lovelace,I-PER\n2,Rome,B-LOC\n",
    "words of Simple Transformers": "sentence_id;words;labels\n1;Ada;B-PER\n1;Lovelace;I-PER\n"
    "2;Rome;B-LOC\n",
    "texts with line ends": 'text,entities\r\n"\r\nAda Lovelace\r\nin Rome","[[2, 14, ""PER""], '
    '[19, 23, ""LOC""]]"\r\n',
    "words and blank rows": "word,tag\nAda,B-PER\nLovelace,I-PER\n\nRome,B-LOC\nfell,O\n",
    "lists": "tokens,ner_tags\n\"['Ada', 'Lovelace', 'left']\",\"['B-PER', 'I-PER', 'O']\"\n"
    "\"['Rome']\",\"['B-LOC']\"\n",
    "tuples": "id,text,entities\n"
    "1,Ada Lovelace met Bob in Rome,\"[(0, 12, 'PER'), (24, 28, 'LOC')]\"\n"
    "2,Nothing,[]\n",
    "objects": 'text,spans\nAda Lovelace left,"[{""start"": 0, ""end"": 12, ""label"": ""PER""}]"\n'
    'Rome,"[{""start"": 0, ""end"": 4, ""label"": ""LOC""}]"\n',
}


@pytest.mark.parametrize("name", CSV)
def test_csv(tmp_path, name):
    assert read(tmp_path, "x.csv", CSV[name])[0] == SPANS


def test_a_table_of_words_has_tags_and_sentences(tmp_path):
    (tmp_path / "x.csv").write_text(CSV["words of sentences"])
    (tmp_path / "x.tsv").write_text(CSV["words of sentences"].replace(",", "\t"))
    for name in ("x.csv", "x.tsv"):
        convert([tmp_path / name], tmp_path / "out.spacy")
        first, second = read_docs(tmp_path / "out.spacy", spacy.blank("xx").vocab)
        assert ([t.tag_ for t in first], second.text) == (["NNP", "NNP", "VBD"], "Rome ")
    with pytest.raises(ValueError, match="the header names the columns"):
        convert([tmp_path / "x.csv"], tmp_path / "out.spacy", word_column=3)
    _, reports = read(tmp_path, "y.csv", "word,tag\nAda,B-PER\nLovelace,I-PER\n")
    assert "all words are one sentence" in reports[0]


def test_a_malformed_row_of_csv_leaves_out_its_sentence(tmp_path):
    rows = "sent,word,ner\n1,Ada,B-PER\n1,Lovelace\n1,left,O\n2,Rome,B-LOC\n"
    with pytest.raises(CorpusError, match=r"x\.csv:3: 2 fields under a header of 3"):
        read(tmp_path, "x.csv", rows)
    assert read(tmp_path, "x.csv", rows, skip_malformed=True)[0] == [("Rome", "LOC")]


@pytest.mark.parametrize(
    "rows, message",
    [
        ("tokens,ner_tags\n\"['Ada' 'left']\",\"['B-PER' 'O']\"\n", '"tokens" must be a list'),
        ("text,label\nI like it,positive\n", '"label" is not read'),
        ("word,iob,type\nAda,B,PER\nleft,O,\n", "'iob' has prefixes alone, apart from 'type'"),
        ("name,age\nAda,36\n", "no column text, tokens, or word and tag among name, age"),
        ("Word^Tag\nAda^O\n", r"among word\^tag; expected a header, and a comma, ;, \| or tab"),
        ('text,label\n"Ada,x\n', "no CSV: unexpected end of data"),
    ],
)
def test_csv_without_readable_annotation(tmp_path, rows, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, "x.csv", rows)


def test_bigbio_and_ai4privacy(tmp_path):
    found = [
        {"offsets": [[0, 12]], "text": ["Ada Lovelace"], "type": "PER"},
        {"offsets": [[24, 28]], "text": ["Rome"], "type": "LOC"},
    ]
    assert read(tmp_path, "x.json", {"text": TEXT, "entities": found})[0] == SPANS
    record = {
        "source_text": TEXT,
        "target_text": "[PER] met Bob in [LOC]",
        "privacy_mask": [
            {**ADA, "label": "PER", "value": "Ada Lovelace"},
            {**ROME, "label": "LOC"},
        ],
        "span_labels": '[[0, 12, "PER"], [24, 28, "LOC"]]',
        "mbert_bio_labels": TAGS,
    }
    assert read(tmp_path, "y.json", record)[0] == SPANS
    found[0] = {"offsets": [[0, 3], [13, 16]], "text": ["Ada", "met"], "type": "PER"}
    with pytest.raises(CorpusError, match='"start" of a span must be an integer'):
        read(tmp_path, "z.json", {"text": TEXT, "entities": found})
