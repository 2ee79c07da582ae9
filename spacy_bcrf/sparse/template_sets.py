"""Feature templates for common tasks."""

# The chunking templates of CRFsuite (example/chunking.py).
CRFSUITE_CHUNKING = [
    "w[-2..2]",
    "w[-1..0]|w[0..1]",
    "p[-2..2]",
    "p[-2..1]|p[-1..2]",
    "p[-2..0]|p[-1..1]|p[0..2]",
]

CHUNKING = [
    *CRFSUITE_CHUNKING,
    "w[-1..0]|p[-1..0]",
    "lower[-1..1]",
    "prefix(1..4)[0]",
    "suffix(1..4)[0]",
    "brief[-1..1]",
    "character[0]",
]

# The part-of-speech features of Sun et al.: word unigrams and bigrams, affixes, character classes,
# and the lowercased word with digits as `#`.
POS = [
    "w[-2..2]",
    "w[-1..0]|w[0..1]",
    "digits[-1..1]",
    "prefix(1..5)[0]",
    "suffix(1..5)[0]",
    "character[0]",
]

# The biomedical features of Sun et al.: word unigrams and bigrams, substrings under ten characters,
# and morphology. With part-of-speech tags, templates over `p` can be added.
SAPO_BIOMEDICAL = [
    "w[-2..2]",
    "w[-1..0]|w[0..1]",
    "digits[-1..1]",
    "substring(1..9)[0]",
    "prefix(2..5)[-1..1]",
    "suffix(2..5)[-1..1]",
    "brief[-1..1]",
    "brief[-1..0]|brief[0..1]",
    "character[-1..1]",
]

# Words in lower case too.
BIOMEDICAL = [*SAPO_BIOMEDICAL, "lower[-2..2]"]

# Entities of news and web text: words, affixes and shapes of the neighbours too.
NER = [
    "w[-2..2]",
    "w[-1..0]|w[0..1]",
    "lower[-2..2]",
    "prefix(1..5)[-1..1]",
    "suffix(1..5)[-1..1]",
    "brief[-2..2]",
    "brief[-1..0]|brief[0..1]",
    "shape[-1..1]",
    "character[-1..1]",
]

# Social media: substrings, because user names, hashtags and misspellings repeat parts of words.
SOCIAL = [*NER, "substring(2..4)[0]"]

# The tokens of SplitTokenizer: signs and parts of words are tokens, so that windows are wider.
SPLIT = [
    *SOCIAL,
    "lower[-4..-3]",
    "lower[3..4]",
    "lower[-3..-1]|lower[-2..0]",
    "brief[-3..-1]|brief[-2..0]|brief[-1..1]",
    "field[0]",
    "field[0]|lower[-1]",
    "field[0]|lower[0]",
    "field[0]|lower[1]",
    "field[0]|brief[0]",
]

# Characters, their bigrams and trigrams, for `bcrf_segmenter`.
SEGMENTATION = [
    "w[-2..2]",
    "w[-2..1]|w[-1..2]",
    "w[-1]|w[0]|w[1]",
]

# The clusters of `clusters = {"brown": FILE}`: their prefixes generalize over words of little text.
BROWN = ["cluster.brown(4,6,10,20)[-1..1]"]

SETS = {
    "crfsuite-chunking": CRFSUITE_CHUNKING,
    "chunking": CHUNKING,
    "pos": POS,
    "biomedical": BIOMEDICAL,
    "sapo-biomedical": SAPO_BIOMEDICAL,
    "ner": NER,
    "social": SOCIAL,
    "split": SPLIT,
    "segmentation": SEGMENTATION,
    "pos-brown": [*POS, *BROWN],
    "ner-brown": [*NER, *BROWN],
    "chunking-brown": [*CHUNKING, *BROWN],
    "social-brown": [*SOCIAL, *BROWN],
    "split-brown": [*SPLIT, *BROWN],
}


def get_templates(name: str) -> list[str]:
    """Return the templates of a set. Raises ValueError listing the sets if there is none."""
    if name not in SETS:
        raise ValueError(f"unknown template set {name!r}; expected one of {', '.join(SETS)}")
    return list(SETS[name])
