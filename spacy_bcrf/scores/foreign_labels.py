"""Labels of foreign taggers: prefixes, merged labels, and the tags of ours that they score."""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

OUTSIDE = "O"
_PREFIXED = re.compile("([BILUESM])[-_](.+)")
_SUFFIXED = re.compile("(.+)[-_]([BILUESM])")
# Names of sub-words that are no part of a text, of padding and of later sub-words.
_NO_ENTITY = re.compile(r"\[.*\]|<.*>|PAD|X")
# Prefixes of foreign labels that stand for a prefix of ours, the best first. "" is a plain label.
_STANDS_FOR = {
    "B": ("B", "", "I", "U", "S"),
    "I": ("I", "M", "", "B"),
    "L": ("L", "E", "I", "M", "", "B"),
    "U": ("U", "S", "B", "", "I"),
}
_STANDS_FOR |= {"M": _STANDS_FOR["I"], "E": _STANDS_FOR["L"], "S": _STANDS_FOR["U"], "": ("",)}


def split_label(label: str) -> tuple[str, str]:
    """Return the prefix of a label, "" without one, and its name."""
    match = _PREFIXED.fullmatch(label)
    return (match[1], match[2]) if match else ("", label)


def join_label(prefix: str, name: str) -> str:
    """Return a label that `split_label` splits. A plain name that looks like another gets I."""
    return f"{prefix or 'I'}-{name}" if prefix or _PREFIXED.fullmatch(name) else name


def split_labels(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Return the prefix and the name of each label of a source.

    E-MAIL is a plain name, unless other labels have prefixes of MAIL. The same holds for B-DAY if
    PHONE, without a prefix, is a label too. PER-B and PER-I have suffixes if all labels do.
    """
    ends = [_SUFFIXED.fullmatch(label) for label in labels]
    suffixes = Counter(end[1] for end in ends if end)
    if suffixes.total() == len({*labels} - {OUTSIDE}) and max(suffixes.values(), default=0) > 1:
        return [(end[2], end[1]) if end else ("", OUTSIDE) for end in ends]
    pairs = [split_label(label) for label in labels]
    names = Counter(name for prefix, name in pairs if prefix)
    all_have = all(prefix or name == OUTSIDE for prefix, name in pairs)
    return [
        pair if names[pair[1]] > 1 or (all_have and pair[0] not in ("E", "L", "M")) else ("", label)
        for pair, label in zip(pairs, labels, strict=True)
    ]


def find_unclear(labels: Sequence[str], names: Mapping[str, str]) -> tuple[list[str], bool]:
    """Return labels of a source that may mean no entity, and whether it has a label O.

    names: our name by foreign name; a label in it is clear. Without O, all others are unclear.
    """
    pairs = split_labels(labels)
    foreign = list(dict.fromkeys(name for _, name in pairs))
    ours = {names.get(name, name) or OUTSIDE for name in foreign}
    others = [name for name in foreign if name not in names and name != OUTSIDE]
    if OUTSIDE not in ours:
        return others or foreign, False
    return [x for x in others if ("", x) in pairs and _NO_ENTITY.fullmatch(x)], True


class Merge:
    """Foreign labels under our names.

    names: our name by foreign name; "O" or "" for a label that is none of ours. Several foreign
    names of one of ours lose their prefixes: the surname after a given name starts no new PERSON.

    foreign: the labels of the source. labels: the merged labels. extended: the foreign labels, and
    those of `labels` that have several. columns: the place of each merged label in `extended`.
    Raises ValueError for a name that the source does not have.
    """

    def __init__(self, labels: Sequence[str], names: Mapping[str, str]) -> None:
        pairs = split_labels(labels)
        foreign = {name for _, name in pairs}
        if unknown := sorted(names.keys() - foreign):
            raise ValueError(
                f"labels: the source has no {', '.join(unknown)}; it has "
                f"{', '.join(sorted(foreign))}"
            )
        of_name = defaultdict(set)
        for name in foreign:
            of_name[names.get(name, name)].add(name)
        groups: dict[str, list[int]] = defaultdict(list)
        for i, (prefix, name) in enumerate(pairs):
            ours = names.get(name, name) or OUTSIDE
            plain = not prefix or ours == OUTSIDE or len(of_name[ours]) > 1
            groups[join_label("" if plain else prefix, ours)].append(i)
        self.foreign = list(labels)
        self.labels = list(groups)
        self._groups = list(groups.values())
        self._several = [k for k, group in enumerate(self._groups) if len(group) > 1]
        self.extended = [*labels, *(f"our {self.labels[k]}" for k in self._several)]
        self.columns = [group[0] for group in self._groups]
        for place, k in enumerate(self._several, len(labels)):
            self.columns[k] = place

    def apply(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the log-probabilities of the merged labels from the foreign ones."""
        return self.extend(values)[:, self.columns]

    def extend(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the log-probabilities of `extended` from the foreign labels."""
        with np.errstate(invalid="ignore"):  # all minus infinity
            sums = [np.logaddexp.reduce(values[:, self._groups[k]], axis=1) for k in self._several]
        return np.column_stack([values, *sums])


def match_tags(labels: Sequence[str], tags: Sequence[str]) -> NDArray[np.int64]:
    """Return the foreign label (T,) of each of our tags, by index, -1 for none.

    With BILUO tags, valid labelings have the sum of the scores of the source's valid labeling,
    whatever its scheme: U and B have the score of B in BIO, L and I that of I.
    """
    pairs = [split_label(label) for label in labels]
    found = {pair: i for i, pair in reversed([*enumerate(pairs)])}
    matches = []
    for tag in tags:
        prefix, name = split_label(tag)
        options = ((p, name) for p in _STANDS_FOR[prefix])
        matches.append(next((found[pair] for pair in options if pair in found), -1))
    return np.array(matches, dtype="int64")


def find_names(labels: Sequence[str]) -> list[str]:
    """Return the sorted names of the labels without prefixes, and without O."""
    return sorted({split_label(label)[1] for label in labels} - {OUTSIDE})
