"""Phrases that read as translated, in pages and sources: CONTRIBUTING.md asks for plain English.

Only patterns that need no judgement are here. Each names what to write, and has a sentence that it
finds.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import bcrf
import spacy_bcrf

ROOT = Path(__file__).resolve().parent.parent
UNITS = (
    "addresses|bytes|candidates|characters|columns|documents|entities|files|GB|GiB|KB|KiB|lines|MB|"
    "MiB|million|numbers|phrases|pieces|requests|rounds|rows|samples|sentences|sequences|spans|"
    "steps|texts|times|tokens|units|votes|weights|words|ms|ns|us|s"
)
ONE = "column|matrix|name|number|phrase|process|record|step|text|value|word"
THINGS = (
    "second|minute|hour|day|batch|call|character|component|core|document|edge|entity|feature|file|"
    "iteration|label|layer|line|message|node|page|part|pass|process|record|request|row|run|sample|"
    "sentence|sequence|shard|source|span|step|tag|text|token|unit|word"
)
PATTERNS = {
    "start a glossary entry with a noun phrase": (
        r"^(?:[-*] )?`?\w+`?(?:, `?\w+`?)*: (?:of|by|to|from|under|at|beyond|within)"
        r" (?:the|an?|all|each|its|their|these|one|two)\b",
        "starts: of the sequences",
    ),
    "per": (
        rf"\b(?:{UNITS}) an? (?:{THINGS})\b|\b(?:an?|one) (?:{ONE}) an? (?:{THINGS})\b",
        "20 words a second",
    ),
    "name the annotation, the prediction or the meaning": (
        r"\bsa(?:y|ys|id|ying) of\b|\bwhat (?:is|was) said\b|\bas (?:it|they) says?\b"
        r"|\bwhat (?:[\w`]+ ){1,4}says?\b",
        "what the pipeline says of further texts",
    ),
    "except": (
        r"\bbut (?:for|those|that of|the last|the first)\b",
        "all records, but for the last one",
    ),
    "this many, this number of": (
        r"\b(?<!as )(?<!ever )so (?:many|few)\b",
        "so many documents",
    ),
    "put the subject first": (
        r"(?:^|[.;:] )Of (?:the|an?|all|each|two|both|several|such|which|those|these|\w+ing)\b",
        "Of overlapping spans the one with the largest weight stays.",
    ),
    "repeat the noun": (
        r"\bthose (?:of|that|which|who|with|in|where|whose|under|without)\b"
        r"|\b(?:as|is|are|than|like|to|equals?) that of\b|\bof which\b|\bas they are\b",
        "The labels are those of the prompt.",
    ),
    "its own, separate": (
        r"\b(?:an?|of) \w+ of (?:its|their|his|your) own\b",
        "a chain of its own",
    ),
    "one semicolon at most": (
        r"(?:[^.;]|\.\S)*;(?:[^.;]|\.\S)*;(?:[^.;]|\.\S)*\.(?=\s|$)",
        "It reads; it writes; it ends.",
    ),
}
OF_SOURCES = (
    "start a glossary entry with a noun phrase",
    "name the annotation, the prediction or the meaning",
    "except",
    "this many, this number of",
    "put the subject first",
)
"""The patterns of comments, docstrings and messages. The others have true uses there."""
MOST_WORDS = 25
"""Of a sentence, up to a colon or a semicolon, and without brackets."""

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *ROOT.glob("bcrf/*.md"),  # the tests of the source distribution have no package beside them
    *sorted(ROOT.glob("docs/*.md")),
    *sorted(ROOT.glob("models/*/card.md")),
    *sorted(ROOT.glob("assets/*/README.md")),
]


def blocks_of_page(text: str) -> Iterator[str]:
    """Yield paragraphs, items of lists and cells of tables, without code and captions."""
    text = re.sub(r"^(```|\$\$).*?\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "`x`", text))
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        if not line or line.startswith(("|", "#", "*")) or re.match(r" *(?:-|\d+\.) ", line):
            yield " ".join(paragraph)
            paragraph = []
        if line.startswith("|"):
            yield from (cell.strip() for cell in line.split("|"))
        elif line and not re.match(r"\*[^*\s]", line):
            paragraph.append(line.strip())


def blocks_of_source(text: str) -> Iterator[str]:
    """Yield paragraphs of docstrings, messages and comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (" ".join(part.split()) for part in re.split(r"\n\s*\n", node.value))
    comments = re.findall(r"^\s*# .*\n(?:^\s*# .*\n)*|\S  # .*", text, re.MULTILINE)
    yield from (" ".join(re.sub(r"^.*?# ", "", x, flags=re.MULTILINE).split()) for x in comments)


def find_phrases(blocks: Iterable[str]) -> Iterator[str]:
    """Yield each phrase with what to write instead, and each sentence that is too long."""
    for block in blocks:
        for advice, (pattern, _) in PATTERNS.items():
            for found in re.finditer(pattern, block):
                yield f"{advice}: {found.group()}"
        for clause in re.split(r"(?<=[.?!:;])\** ", re.sub(r" ?\([^()]*\)", "", block)):
            if len(re.findall(r"\S*\w\S*", clause)) > MOST_WORDS:
                yield f"more than {MOST_WORDS} words: {clause}"


@pytest.mark.parametrize("advice", PATTERNS)
def test_each_pattern_finds_its_example(advice):
    _, example = PATTERNS[advice]
    assert [found.partition(":")[0] for found in find_phrases([example])] == [advice]


def test_plain_sentences_pass():
    plain = """
        A page names a file. It takes 1.5 us per word; a list of so-called names costs more.

        | `a`; `b`; `c` | 0 of 200, of all labels |

        *A caption. one thread; medians; 3 rounds.*
    """
    assert not list(find_phrases(blocks_of_page(re.sub(r"^ +", "", plain, flags=re.MULTILINE))))


@pytest.mark.parametrize("package", [bcrf, spacy_bcrf], ids=lambda package: package.__name__)
def test_the_sources_are_in_plain_english(package):
    found = [
        f"{path}: {phrase}"
        for path in sorted(Path(package.__file__).parent.rglob("*.py"))
        for phrase in find_phrases(blocks_of_source(path.read_text("utf8")))
        if phrase.startswith(OF_SOURCES)
    ]
    assert not found


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_is_in_plain_english(page):
    assert not list(find_phrases(blocks_of_page(page.read_text("utf8"))))
