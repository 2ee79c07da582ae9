"""Small trained pipelines of every kind that a browser runs, and texts of odd characters."""

import random
import re
from collections.abc import Iterator

import pytest
import spacy
from spacy.language import Language
from spacy.symbols import IDS
from spacy.tokens import Doc, Span
from spacy.training import Example

WORDS = [
    *[
        "Ann",
        "Bob",
        "left",
        "Enron",
        "for",
        "Houston",
        ",",
        "Texas",
        ".",
        "He",
        "met",
        "Dr.",
        "O'Neil",
        "at",
        "12",
        "Main",
        "St.",
        "on",
        "Monday",
        "!",
    ],
    *[
        "x-ray",
        "nhc-1506",
        "Número",
        "über",
        "İstanbul",
        "4111111111111111",
        "a@b.co",
        "Mark",
        "Twain",
        "main",
        "st.",
    ],
    *("agent", "Cannot"),
]
ODD = [
    *"İIıŞßſKÅǅⅷ²³½①٣४௧𝟘𝐀😀ﬁΣσς",  # noqa: RUF001
    *"\u0301\u200d\u200b\ufeff\u00a0\u2003\u3000\x1c\x85\t\n\r\x0b ",
    *("\U0001f469\u200d\U0001f4bb", "🇩🇪", "ΑΣ.", "\r\n", "  ", "&amp;", "&#38;", "&notit;"),
    *("&lt", "192.168.0.1", "::1", "fe80::1%eth0", "http://x.y/z", "www.ſ.de", "don't"),  # noqa: RUF001
    *("GB82WEST12345698765432", "10km", "gonna", "C++", ":)", "a.m.", "U.S.A.", "x-y", "--"),
    *("...", "1,000", "\u2019s", "한국어", "กำ", "&#x80;", "&#0;"),
]
IDENTIFIERS = [
    *("+44 161 496 0118", "0161 496 0118", "Tel. 555 0118 12", "00 49 30 1234567", "2025-02-11"),
    *("4111 1111 1111 1111", "GR16 0110 1250 0000 0001 2300 695", "078-05-1121", "65 929 970 489"),
    *("https://a.example/b?c=1.", "a.b'c@d-e.example", "user=ann.lee", "@bob_1", "10.0.0.1", "::1"),
    *("3c:22:fb:9a:01:d4", "123e4567-e89b-12d3-a456-426614174000", "PASSWORD = 't0p-S3cret'"),
    *(
        "-----BEGIN PRIVATE KEY-----\nab c\n-----END PRIVATE KEY-----",
        "AKIAZ7QXW3RT5YHNB2LM",
        "12 ",
    ),
    *("0161 496 0118/0161 496 0119", "943 476 5919", "\U0001f469 call 555 0118 1", "DE 136695976"),
    *(
        "+44 131 496 0733",
        "07911123456",
        "\u0660\u0667911123456",
        "07\u066911123456",
        "0612345678",
        "(0)131 496 0733",
    ),
    *("My password is Harbour!Seal48.", "passcode 558 213", "session=s%3Aq8Zt1", "PIN: 4471"),
    *(
        "postgres://ann_rw:T0ps@db.example:5432/a",
        "https://ann:T0ps@b.example/",
        "pk.eyJhbGciOiJI.eyJzdWIiOiIx",
    ),
    *("api-key: abcdef", "ap\u0131-key: \u0130abcdef", "٠١٦١ ٤٩٦ ٠١١٨", "12345678Z"),
]
PHRASES = ["Mark Twain", "Ann", "main st.", "LOC agent", "Houston , Texas"]
CLUSTERS = {"Ann": "0110", "left": "10", "enron": "011", "x-ra": "00"}
OF_DOCUMENT = [
    *("w[-2..2]", "tag[-1..1]", "tag[-1..0]|lower[0..1]", "position[0]", "field[0]", "repeated[0]"),
    *("elsewhere.tag[0]", "elsewhere_after.lower[0]", "gazetteer.names[-1..1]", "exact.names[0]"),
    *("partial.names[0]", "cluster.brown(1,2)[0]", "cluster.brown[0]", "compound.brown(2)[0]"),
    *("frequency[0]", "core[0]", "substring(2..3)[0]", "identifier[0]"),
]
LISTS = {"gazetteers": {"names": PHRASES}, "clusters": {"brown": CLUSTERS}}
ADDRESS = {
    "@tokenizers": "spacy-bcrf.PatternTokenizer.v1",
    "pattern": r"&amp;|&#38;|[#&]|\(*\w[^\s,;#&()]*",
}


def _model(templates="ner", **options):
    architecture = {"@architectures": "spacy-bcrf.LinearChain.v1", "objective": "crf"}
    return {"model": {**architecture, "templates": templates, **options}}


def _tokenizer(name):
    return {"@tokenizers": f"spacy-bcrf.{name}.v1"}


SPANS = {"spans_key": "sc"}
KINDS = {
    "bio": ({"ner": {"scheme": "BIO", **_model()}}, None),
    "split": ({"ner": {"scheme": "BILUO", **_model("social")}}, _tokenizer("SplitTokenizer")),
    "characters": (
        {"ner": {"scheme": "BIES", **_model(["w[-2..2]"])}},
        _tokenizer("CharTokenizer"),
    ),
    "address": ({"ner": {"scheme": "BIO", **_model(["address[-1..1]", "w[-1..1]"])}}, ADDRESS),
    "document": ({"tagger": _model("pos"), "ner": _model(OF_DOCUMENT, **LISTS)}, None),
    "second order": (
        {"tagger": _model("pos", order=2), "ner": {"scheme": "BIO", **_model(order=2)}},
        None,
    ),
    "layers": (
        {
            "spans": {
                "scheme": "BIO",
                "layers": 2,
                "exclusive": [["PER", "LOC"]],
                **SPANS,
                **_model(),
            }
        },
        None,
    ),
    "decoder f": ({"ner": _model(decoder="f")}, None),
    "layers f": ({"spans": {"layers": 2, **SPANS, **_model(decoder="f")}}, None),
    "two passes": ({"ner": _model(two_pass=True)}, None),
    "identifiers": (
        {
            "identifiers": {},
            "ner": _model(["w[-1..1]", "ent_type[-2..1]"]),
        },
        _tokenizer("SplitTokenizer"),
    ),
    "chunker": ({"chunker": {"scheme": "BIO", **SPANS, **_model(objective="perceptron")}}, None),
}
"""Components by name with their configs, and the tokenizer."""


def train(kind: str) -> Language:
    pipes, tokenizer = KINDS[kind]
    if "identifiers" in pipes:
        pytest.importorskip("phonenumbers", reason="needs the extra identifiers")
    nlp = spacy.blank("en", config={"nlp": {"tokenizer": tokenizer}} if tokenizer else {})
    for name, config in pipes.items():
        nlp.add_pipe(f"bcrf_{name}", name=name, config=config)
    gold = list(make_gold(spacy.blank("en", vocab=nlp.vocab), flat=kind == "chunker"))
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in gold]
    if "identifiers" in pipes:  # a label of both
        nlp.get_pipe("ner").add_label("PHONE_NUMBER")
    nlp.initialize(lambda: examples)
    for name, pipe in nlp.pipeline:
        if name == "identifiers":
            continue
        for example in examples:
            predicted = nlp.make_doc(example.reference.text)
            if "identifiers" in pipes:
                predicted = nlp.get_pipe("identifiers")(predicted)
            found = Example(predicted, example.reference)
            if name != "tagger":
                tags = found.get_aligned("TAG", as_string=True)
                for token, tag in zip(predicted, tags, strict=True):
                    token.tag_ = tag or "N"
            pipe.update([found])
    return nlp


def make_gold(nlp: Language, flat: bool, n: int = 40) -> Iterator[Doc]:
    r = random.Random(1)
    for _ in range(n):
        text = " ".join(r.choice(WORDS) for _ in range(r.randrange(3, 25)))
        doc = nlp.make_doc(text.replace(" ", " \n ", r.random() < 0.3))
        ents = []
        for token in doc:
            if token.text in ("Ann", "Bob", "He"):
                ents.append(Span(doc, token.i, token.i + 1, label="PER"))
            elif token.text in ("Enron", "Houston", "Texas", "Main"):
                ents.append(Span(doc, token.i, token.i + 1, label="LOC"))
            token.tag_ = "N" if token.text[0].isupper() else "V" if token.is_alpha else "X"
        doc.ents = ents
        longer = [doc[s.start : s.end + 2] for s in ents if s.end + 2 <= len(doc)]
        phrases = [Span(doc, s.start, s.end, label="PHR") for s in longer if not s[-1].is_space]
        doc.spans["sc"] = ents if flat else [*ents, *phrases[::2]]
        yield doc


def make_texts(n: int, seed: int = 7, identifiers: bool = False) -> list[str]:
    """Return texts of words, of odd characters, of any code points and of spaCy's symbols."""
    r = random.Random(seed)
    symbols = sorted(filter(None, IDS))

    def piece(words: float) -> str:
        kind = r.random()
        if identifiers and r.random() < 0.3:
            return r.choice(IDENTIFIERS)
        if kind < words:
            return r.choice(WORDS)
        if kind < words + 0.35:
            return r.choice(ODD)
        if kind > 0.97:
            return r.choice(symbols).title()
        most = r.choice([0x250, 0x3000, 0xD800, 0x110000])
        return chr((code := r.randrange(most)) + 0x800 * (0xD800 <= code < 0xE000))

    texts = ["", " ", "\n", "a", "\u00a0", " a ", "\n a \n", "a  b", "   "]
    while len(texts) < n:
        words = r.choice([0.4, 0.9])
        joined = r.choice(["", " ", " ", "  "])
        texts.append(joined.join(piece(words) for _ in range(r.randrange(1, 40))))
    return texts


def make_forms(n: int) -> list[str]:
    """Return texts with a name in several forms, such as `ann_lee` of a user name."""
    r = random.Random(0)
    names = ["Bob Houston", "Ann O'Neil", "Bob A. Texas", "Enron", "Ann Éire", "A. Enron"]
    texts = []
    for name in r.choices(names, k=n):
        forms = [re.sub("[ .]+", r.choice("_.- ") * r.randrange(2), name) for _ in range(5)]
        texts.append(f"He met {name} , {' , '.join(forms)} and {forms[0].lower()} .")
    return texts
