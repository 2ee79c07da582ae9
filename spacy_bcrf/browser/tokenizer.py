"""The rules of a tokenizer, for `tokenizers.js`."""

import re
from collections.abc import Callable
from typing import Any

from spacy.attrs import ORTH  # type: ignore[import-not-found]
from spacy.tokenizer import Tokenizer  # type: ignore[import-not-found]
from spacy.vocab import Vocab

from spacy_bcrf.annotation import tokenizers

from .patterns import to_javascript


def describe_tokenizer(tokenizer: Any) -> list[tuple[str, dict[str, Any]]]:
    """Return the stages of a tokenizer. ValueError for a kind that a browser cannot run."""
    if type(tokenizer) is tokenizers.SplitTokenizer:
        before = describe_tokenizer(tokenizer.tokenizer)
        return [
            *before,
            ("parts", _parts("parts", tokenizers.part_pattern(tokenizer.capitals), of_tokens=True)),
        ]
    if type(tokenizer) is tokenizers.CharTokenizer:
        return [("parts", _parts("clusters", tokenizers.cluster_pattern()))]
    if type(tokenizer) is tokenizers.PatternTokenizer:
        starts, edges = _translate("pattern", tokenizer.pattern), _parts("edges", tokenizers.EDGES)
        return [("starts", {"pattern": starts, "edges": edges})]
    if type(tokenizer) is Tokenizer:
        return [("affixes", _describe_rules(tokenizer))]
    kind = type(tokenizer)
    raise ValueError(
        f"the tokenizer {kind.__module__}.{kind.__name__} needs Python; expected spaCy's "
        "Tokenizer, SplitTokenizer, CharTokenizer or PatternTokenizer"
    )


def _parts(name: str, pattern: re.Pattern[str], of_tokens: bool = False) -> dict[str, Any]:
    """Return the rules of a pattern with two groups, a word and its trailing space."""
    return {"pattern": _translate(name, pattern), "ofTokens": of_tokens}


def _describe_rules(tokenizer: Any) -> dict[str, Any]:
    readers = {
        "prefix": tokenizer.prefix_search,
        "suffix": tokenizer.suffix_search,
        "infix": tokenizer.infix_finditer,
        "token": tokenizer.token_match,
        "url": tokenizer.url_match,
    }
    rules = {text: [part[ORTH] for part in parts] for text, parts in tokenizer.rules.items()}
    # spaCy finds a case that affixes split, or that has a blank, in the tokens.
    affixes = (tokenizer.find_prefix, tokenizer.find_infix, tokenizer.find_suffix)
    plain = _without_cases(tokenizer)
    split = {
        text: [token.text for token in plain(text)]
        for text in rules
        if not tokenizer.faster_heuristics or " " in text or any(find(text) for find in affixes)
    }
    patterns = {name: _translate_method(name, method) for name, method in readers.items()}
    return {**patterns, "rules": rules, "split": split}


def _without_cases(tokenizer: Any) -> Tokenizer:
    names = ("prefix_search", "suffix_search", "infix_finditer", "token_match", "url_match")
    return Tokenizer(Vocab(), {}, **{name: getattr(tokenizer, name) for name in names})


def _translate_method(name: str, method: Callable[..., Any] | None) -> tuple[str, str] | None:
    if method is None:
        return None
    pattern = getattr(method, "__self__", None)
    if not isinstance(pattern, re.Pattern):
        raise ValueError(f"the tokenizer's {name} is no method of a regular expression")
    return _translate(name, pattern)


def _translate(name: str, pattern: re.Pattern[str]) -> tuple[str, str]:
    try:
        return to_javascript(pattern)
    except ValueError as error:
        raise ValueError(f"the tokenizer's {name}: {error}") from None
