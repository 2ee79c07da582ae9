"""`redact` over all letters, marks, numbers and symbols of Unicode, with its output measured.

    python -m tests.attack.redact_characters [--step N]

A name with each character is found once and stands five times, in other forms. No form of it may
stand in the output, in any style, unless the result counts it.
"""

from __future__ import annotations

import argparse
import sys
import unicodedata
from collections.abc import Iterable

import numpy as np
import spacy
from spacy.tokens import Doc

from spacy_bcrf.privacy.occurrences import Region
from spacy_bcrf.privacy.redact import Redacted, replace_spans
from spacy_bcrf.privacy.replacer import STYLES, Replacer

REPLACERS = [Replacer(style, b"key") for style in STYLES]
VOCAB = spacy.blank("xx").vocab


def find_characters(step: int = 1) -> list[str]:
    """Return every n-th letter, mark, number and symbol of Unicode."""
    every = map(chr, range(sys.maxunicode + 1))
    kinds = ("L", "M", "N", "So")
    return [x for x in every if unicodedata.category(x).startswith(kinds)][::step]


def plain(text: str) -> str:
    """Return a text in the form in which names are compared."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(x for x in folded if unicodedata.category(x) not in ("Cf", "Mn")).strip()


def find_rest(one: Redacted) -> list[str]:
    """Return the parts of a redacted text that are not replaced."""
    ends = [0, *(span.end for span in one.spans)]
    starts = [*(span.start for span in one.spans), len(one.text)]
    return [one.text[end:start] for end, start in zip(ends, starts, strict=True)]


def find_leaks(character: str) -> list[str]:
    """Return what is wrong with the redacted texts of a character."""
    wrong = []
    for name in (character, f"Q{character}z"):
        forms = [name, name.upper(), unicodedata.normalize("NFD", name), name.casefold()]
        words = [*forms, f"\u200b{name[0]}\u00ad{name[1:]}\u202c"]
        doc = Doc(VOCAB, words=[x for word in words for x in (word, ",")])
        found = [Region(0, len(name), "B", 0.9)]
        for replacer in REPLACERS:
            one = replace_spans(doc, found, np.full(len(doc), 0.5), replacer)
            new = one.text[one.spans[0].start : one.spans[0].end]
            # One letter, such as x, is in masks and labels by chance.
            texts = [one.text] if len(plain(name)) > 1 else find_rest(one)
            if plain(name) and any(plain(name) in plain(x) for x in texts) and not one.left:
                wrong.append(f"{replacer.style}: {name!a} stands in {one.text!a}")
            if replacer.style == "surrogate" and plain(new) == plain(name) != "":
                wrong.append(f"{replacer.style}: {name!a} stayed")
            if replacer.style != "label" and len(new) < len(name):
                wrong.append(f"{replacer.style}: {name!a} became {new!a}")
            if replacer.style == "surrogate" and any(
                y.isupper() and x.islower() for x, y in zip(new, name, strict=False)
            ):
                wrong.append(f"{name!a} has the surrogate {new!a}")
    return wrong


def check_characters(characters: Iterable[str]) -> None:
    """AssertionError with the first leaks."""
    wrong = [each for character in characters for each in find_leaks(character)]
    assert not wrong, f"{len(wrong):,} leaks:\n" + "\n".join(wrong[:20])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--step", type=int, default=1)
    characters = find_characters(parser.parse_args().step)
    check_characters(characters)
    print(f"{len(characters):,} characters in {len(STYLES)} styles: nothing is left")


if __name__ == "__main__":
    main()
