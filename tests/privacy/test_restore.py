"""Numbered placeholders and their originals, and dates that move."""

import json
import random
from datetime import date

import numpy as np
import pytest
import spacy

from spacy_bcrf.privacy import vault as vault_module
from spacy_bcrf.privacy.dates import draw_days, shift_date
from spacy_bcrf.privacy.occurrences import Region
from spacy_bcrf.privacy.redact import replace_spans
from spacy_bcrf.privacy.replacer import Replacer
from spacy_bcrf.privacy.restore import restore
from spacy_bcrf.privacy.vault import Vault
from tests.attack.redact_undo import check_numbers, check_streams, check_texts

NLP = spacy.blank("xx")


def number(text, names, vault=None, label="PERSON"):
    """Redact each place of some names."""
    doc, spans = NLP.make_doc(text), []
    for name in names:
        start = text.index(name)
        spans.append(Region(start, start + len(name), label, 0.9))
    replacer = Replacer("numbered", vault=vault)
    return replace_spans(doc, spans, np.full(len(doc), 0.5), replacer).text


def test_one_person_has_one_number():
    text = "Ann Lee met Bob Ray. LEE and A. Lee left, Lee's car, ann lee; Bob stayed with Eve."
    new = number(text, ["Ann Lee", "Bob Ray", "A. Lee", "Eve"], vault := Vault())
    expected = "[PERSON_1] met [PERSON_2]. [PERSON_1.2] and [PERSON_1.3] left, [PERSON_1.4]'s car, "
    assert new == f"{expected}[PERSON_1.5]; [PERSON_2.2] stayed with [PERSON_3]."
    assert restore(new, vault) == (text, 8, 0)
    # In another document, a known name has its number, and a surname that of its own person.
    assert number("Ann Lee met Zoe.", ["Ann Lee", "Zoe"], vault) == "[PERSON_1] met [PERSON_4]."
    assert number("Tom Lee met Lee.", ["Tom Lee"], vault) == "[PERSON_5] met [PERSON_5.2]."
    # Nobody knows which of two persons a surname means.
    new = number("Ann Lee, Tom Lee, Lee, Lee", ["Ann Lee", "Tom Lee"], vault)
    assert new == "[PERSON_1], [PERSON_5], [PERSON_6], [PERSON_6]"
    assert number("Ann met Bob.", ["Ann", "Bob"]) == "[PERSON_1] met [PERSON_2]."
    # Initials alone, before and behind their names.
    new = number("A. and Ann Lee, Bob Ray and B. R.", ["A.", "Ann Lee", "Bob Ray", "B. R."])
    assert new == "[PERSON_1] and [PERSON_1.2], [PERSON_2] and [PERSON_2.2]"


def test_names_are_compared_only_with_names_that_share_a_word(monkeypatch):
    compared = []
    monkeypatch.setattr(vault_module, "_is_same", lambda *names: compared.append(names))
    letters, vault, known = "bdfgklmnprst", Vault(), {}
    names = [f"{a}an{b} {b}er{a}" for a in letters for b in letters]
    assert len({vault.replace(name, "PERSON", known) for name in names}) == len(names)
    assert not compared


def test_originals_come_back_for_any_text_and_at_any_cut():
    check_texts(500)
    check_streams(40)


def test_bent_placeholders_are_found_and_unknown_ones_stay():
    vault = Vault()
    number("Ann Lee, Lee", ["Ann Lee"], vault)
    for bent in (
        "[person_1]",
        "person_1",
        "[PERSON 1]",
        "[Person-1]",
        r"PERSON\_1",
        "[PERSON_1.9]",
    ):
        assert restore(f"**{bent}**'s", vault) == ("**Ann Lee**'s", 1, 0), bent
    assert restore("[PERSON_1.2]s [PERSON_7] PERSON_12", vault) == (
        "Lees [PERSON_7] PERSON_12",
        1,
        2,
    )
    assert restore("MY_PERSON_1, PERSON_1a, person 1", vault)[1:] == (0, 0)


def test_a_vault_is_a_private_file(tmp_path):
    vault, path = Vault(), tmp_path / "vault.json"
    number("Ann Lee 東 Lee", ["Ann Lee"], vault)
    for mode in (None, 0o644):
        if mode:
            path.chmod(mode)
        vault.save(path)
        assert path.stat().st_mode & 0o777 == 0o600 and [*tmp_path.iterdir()] == [path]
    loaded = Vault.load(path)
    assert repr(loaded) == repr(vault) == f"vault {vault.id} of 1 PERSON"
    assert restore("[PERSON_1.2]", loaded).text == "Lee"
    assert number("Lee Ann Lee", ["Ann Lee"], loaded).endswith("[PERSON_1]")
    values = json.loads(path.read_text())
    for wrong, message in [
        ({**values, "version": 2}, "a vault of version 2; expected 1"),
        ({**values, "format": "x"}, "is no vault"),
        ({**values, "placeholders": {"A": [1]}}, "is damaged"),
        ([], "is no vault"),
    ]:
        path.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=message):
            Vault.load(path)


def test_an_encrypted_vault(tmp_path):
    pytest.importorskip("cryptography")
    vault, path = Vault(), tmp_path / "vault.json"
    number("Ann Lee", ["Ann Lee"], vault)
    vault.save(path, b"secret")
    assert b"Ann" not in path.read_bytes() and b"PERSON" not in path.read_bytes()
    assert restore("[PERSON_1]", Vault.load(path, b"secret")).text == "Ann Lee"
    with pytest.raises(ValueError, match="the vault has another key, or is damaged"):
        Vault.load(path, b"other")
    with pytest.raises(ValueError, match="is encrypted; expected its `key`"):
        Vault.load(path)
    values = json.loads(path.read_text())
    for wrong, message in [
        ({k: v for k, v in values.items() if k != "salt"}, "is damaged, 'salt' is missing"),
        ({**values, "salt": 1}, "is damaged"),
        ({**values, "salt": "x"}, "is damaged"),
    ]:
        path.write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match=f"vault.json: the vault {message}"):
            Vault.load(path, b"secret")
    vault.save(path)
    with pytest.raises(ValueError, match="is not encrypted; leave out `key`"):
        Vault.load(path, b"secret")


def test_restored_json_stays_json():
    vault = Vault()
    number('the "Ann" said', ['"Ann"'], vault)
    lines = '{"text": "[PERSON_1] said", "n": [1, {"x": "person_1"}]}\n\n"PERSON_2"\n'
    new, *counts = restore(lines, vault, ".jsonl")
    lines = new.splitlines()
    first, last = json.loads(lines[0]), json.loads(lines[2])
    assert first == {"text": '"Ann" said', "n": [1, {"x": '"Ann"'}]} and last == "PERSON_2"
    assert counts == [2, 1]
    with pytest.raises(ValueError, match="line 2 is no JSON"):
        restore("{}\n{", vault, ".jsonl")


def test_restored_json_of_logs_and_texts_stays_json():
    vault = Vault()
    number('the "Ann" said', ['"Ann"'], vault)
    source = '{"text": "[PERSON_1] said"}'
    for kind in (".txt", ".log", ".md", ".markdown"):
        head, foot = {"t": ("", ""), "l": ("[INFO] ", "")}.get(kind[1], ("```\n", "\n```"))
        new, *counts = restore(f"{head}{source}{foot}", vault, kind)
        inner = new.removeprefix(head).removesuffix(foot)
        assert json.loads(inner) == {"text": '"Ann" said'} and counts == [1, 0]
        for bent in ("[PERSON_1]", "PERSON_1", "[person 1]"):
            new = restore(f"**{bent}** so, [PERSON_7]\n", vault, kind)
            assert new == ('**"Ann"** so, [PERSON_7]\n', 1, 1), (kind, bent)
    assert restore("<b x='[PERSON_1]'>\\[PERSON_1\\]", vault, ".md").text == (
        """<b x='&quot;Ann&quot;'>"Ann\""""
    )


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        ("2020-02-27", "2020-03-08"),
        ("2020-02-27T10:15", None),
        (" 2020-02-27\n", " 2020-03-08\n"),
        ("10.11.12.13", None),
        ("Smith 03/04/2020", None),
        ("3/4/2020 - 5/6/2020", None),
        ("12 May Street, Dublin", None),
        ("May 12, Ann Lee", None),
        ("27.02.2020", "08.03.2020"),
        ("27. 2. 20", "8. 3. 20"),
        ("2/27/2020", "3/8/2020"),
        ("02/27/99", "03/09/99"),
        ("27/02/2020", "08/03/2020"),
        ("February 27, 2020", "March 8, 2020"),
        ("Feb. 27th", "Mar. 8th"),
        ("the 31st of", None),
        ("23rd of February, 2019", "5th of March, 2019"),
        ("27-Feb-2020", "8-Mar-2020"),
        ("27 FEB 2020", "8 MAR 2020"),
        ("27. Februar 2020", "8. März 2020"),
        ("27 de febrero de 2020", "8 de marzo de 2020"),
        ("30 February 2020", None),
        ("99/99/2020", None),
        ("Ann Lee", None),
        ("1987", None),
    ],
)
def test_dates_move_in_their_format(text, moved):
    assert shift_date(text, 10) == moved


def test_what_is_more_than_a_date_is_a_surrogate():
    replacer, plain = Replacer("shifted", b"key"), Replacer("surrogate", b"key")
    for text in (
        "Smith 03/04/2020",
        "3/4/2020 - 5/6/2020",
        "12 May Street, Dublin",
        "3/4/2020 12:30",
    ):
        assert replacer.replace(text, "X") == plain.replace(text, "X")
    # Without `begin`, as in Presidio, dates move too.
    assert replacer.replace("03/04/2020", "X") not in (
        "03/04/2020",
        plain.replace("03/04/2020", "X"),
    )


def test_a_document_moves_all_its_dates_by_the_same_days():
    replacer = Replacer("shifted", b"key")
    replacer.begin("one document")
    moved = [date.fromisoformat(replacer.replace(x, "DATE")) for x in ("2020-01-05", "2020-03-01")]
    assert (moved[1] - moved[0]).days == 56 and moved[0] != date(2020, 1, 5)
    assert replacer.replace("Ann", "PERSON") == Replacer("surrogate", b"key").replace("Ann", "X")
    replacer.begin("another document")
    assert replacer.replace("2020-01-05", "DATE") != moved[0].isoformat()
    rng = random.Random(0)
    days = {draw_days(rng.randbytes(32)) for _ in range(20_000)}
    assert min(days) == -365 and max(days) == 365 and 0 not in days


def test_different_numbers_have_different_surrogates():
    check_numbers(10_000)
