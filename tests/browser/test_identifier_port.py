"""Identifiers in JavaScript are those of Python, for right and wrong numbers of all countries."""

import json
import random
from collections.abc import Iterator

import pytest
import spacy
from browser_pipelines import IDENTIFIERS, make_texts
from compare_texts import run_node
from test_export import needs_node

from spacy_bcrf.annotation.identifiers import REGIONS, Identifiers
from spacy_bcrf.browser.export import export

phonenumbers = pytest.importorskip("phonenumbers", reason="needs the extra identifiers")
pytest.importorskip("stdnum", reason="needs the extra identifiers")

NUMBERS = [
    *("534-82-5849", "2 280022266 626 95", "98206730517", "YTXUAV31M01E005Y", "64123213H"),
    *("X-2506115N", "57012520424", "030.912.211-21", "NPLN031113HBCHOY17", "3230 7020 5244"),
    *("NLFCS0341F", "922132207801201017", "211112-7096212", "040956-262R", "00130120-8268"),
    *("130103-0290", "101079 00751", "34.10.59-982.69", "2271031392576", "756.0494.1449.61"),
    *("8637083E", "1222130TA", "208 016 3078", "21214030812", "IE2320210N", "ES23220413G"),
    *("RO869595511", "BG211211328", "HU00031101", "FI19459903", "BG0980427318", "ESJ23916554"),
    *("HR42182120490", "CZ26322137", "EE818132335", "DK46133129", "EL30203023", "SI50460579"),
    *("DE164167941", "LV16100190400", "CZ120102208", "MT72808263", "PL3339102801"),
    *("SK7390222026", "PT227440943", "LU76128467", "BE028003207", "CY02232722E", "ATU09476761"),
    *("FRA8200067015", "FR6M655510105", "IE0210003EM", "IT66301029998", "LT729012088117"),
    *("LT759364915", "NL200110056B86", "NL22160B23", "SE301199973101", "CZ0241130175"),
]
"""A right one of each form, see `_NATIONAL`."""


def make_phones(r: random.Random) -> Iterator[str]:
    """Yield numbers of all countries as they are written at home and abroad."""
    formats = phonenumbers.PhoneNumberFormat
    for region in sorted(phonenumbers.SUPPORTED_REGIONS):
        for kind in (0, 1):  # of the network and mobile
            number = phonenumbers.example_number_for_type(region, kind)
            if number is None:
                continue
            national = phonenumbers.format_number(number, formats.NATIONAL)
            abroad = phonenumbers.format_number(number, formats.INTERNATIONAL)
            dialled = phonenumbers.format_out_of_country_calling_number(number, r.choice(REGIONS))
            yield from (national, abroad, abroad.replace("+", "00"), dialled, f"(+{abroad[1:]}")
            yield phonenumbers.format_number(number, formats.E164)
    for code in phonenumbers.COUNTRY_CODES_FOR_NON_GEO_REGIONS:
        number = phonenumbers.example_number_for_non_geo_entity(code)
        yield phonenumbers.format_number(number, formats.INTERNATIONAL)


def change(text: str, r: random.Random) -> str:
    i, kind = r.randrange(len(text)), r.random()
    if kind < 0.6:
        same = "0123456789" if text[i].isdigit() else "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
        return text[:i] + (r.choice(same) if text[i].isalnum() else text[i]) + text[i + 1 :]
    return text[:i] + r.choice("0123456789 -./()+٣４𝟓") + text[i + (kind < 0.8) :]


@needs_node
def test_javascript_finds_the_identifiers_of_python(tmp_path):
    r = random.Random(0)
    nlp = spacy.blank("en")
    nlp.add_pipe("bcrf_identifiers", config={"regions": [*REGIONS, "CA", "JE", "AR", "JP"]})
    export(nlp, str(tmp_path / "model.bcrf"))
    right = [*NUMBERS, *IDENTIFIERS, *make_phones(r)]
    every = [text for number in NUMBERS for text in (change(number, r) for _ in range(60))]
    every += [change(text, r) for text in right]
    texts = [*right, *every, *(" ".join(r.sample(every, 8)) for _ in range(300))]
    texts += make_texts(300, identifiers=True)
    (tmp_path / "texts.jsonl").write_text("\n".join(map(json.dumps, texts)))
    found = run_node("identifiers.mjs", tmp_path / "model.bcrf", tmp_path / "texts.jsonl")
    finder = Identifiers(nlp.get_pipe("bcrf_identifiers").finder.regions)
    assert len(found) == len(texts) > 7000
    for text, places in zip(texts, found, strict=True):
        units = [len(text[:i].encode("utf-16-le")) // 2 for i in range(len(text) + 1)]
        wanted = [[units[start], units[end], label] for start, end, label in finder.find(text)]
        assert (text, places) == (text, wanted)
    for number in NUMBERS:
        assert "NATIONAL_ID" in [label for *_, label in finder.find(number)], number
