"""Labels of foreign taggers: prefixes, merged labels, and the tags of ours that they score."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

OUTSIDE = "O"
_PREFIXED = re.compile("([BILUES])[-_](.+)")
# Prefixes of foreign labels that stand for a prefix of ours, the best first. "" is a plain label.
_STANDS_FOR = {
    "B": ("B", "", "I", "U", "S"),
    "I": ("I", "", "B"),
    "L": ("L", "E", "I", "", "B"),
    "U": ("U", "S", "B", "", "I"),
}
_STANDS_FOR |= {"E": _STANDS_FOR["L"], "S": _STANDS_FOR["U"], "": ("",)}


def split_label(label: str) -> tuple[str, str]:
    """Return the prefix of a label, "" without one, and its name."""
    match = _PREFIXED.fullmatch(label)
    return (match[1], match[2]) if match else ("", label)


class Merge:
    """Foreign labels under our names.

    names: our name by foreign name; "O" or "" for a label that is none of ours. Several foreign
    names of one of ours lose their prefixes: the surname after a given name starts no new PERSON.

    labels: the merged labels. Raises ValueError for a name that the source does not have.
    """

    def __init__(self, labels: Sequence[str], names: Mapping[str, str]) -> None:
        foreign = {split_label(label)[1] for label in labels}
        if unknown := sorted(names.keys() - foreign):
            raise ValueError(
                f"labels: the source has no {', '.join(unknown)}; it has "
                f"{', '.join(sorted(foreign))}"
            )
        of_name = defaultdict(set)
        for name in foreign:
            of_name[names.get(name, name)].add(name)
        groups: dict[str, list[int]] = defaultdict(list)
        for i, label in enumerate(labels):
            prefix, name = split_label(label)
            ours = names.get(name, name) or OUTSIDE
            plain = not prefix or ours == OUTSIDE or len(of_name[ours]) > 1
            groups[ours if plain else f"{prefix}-{ours}"].append(i)
        self.labels = list(groups)
        self._groups = list(groups.values())

    def apply(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the log-probabilities of the merged labels."""
        if all(group == [i] for i, group in enumerate(self._groups)):
            return values
        several = [i for i, group in enumerate(self._groups) if len(group) > 1]
        merged = values[:, [group[0] for group in self._groups]]
        members = np.zeros((values.shape[1], len(several)), dtype="float32")
        for k, i in enumerate(several):
            members[self._groups[i], k] = 1
        with np.errstate(divide="ignore"):  # all far below the others
            merged[:, several] = np.log(np.exp(values) @ members)
        return merged


def match_tags(labels: Sequence[str], tags: Sequence[str]) -> NDArray[np.int64]:
    """Return the foreign label (T,) of each of our tags, by index, -1 for none.

    With BILUO tags, valid labelings have the sum of the scores of the source's valid labeling,
    whatever its scheme: U and B have the score of B in BIO, L and I that of I.
    """
    found = {_unify(label): i for i, label in reversed([*enumerate(labels)])}
    matches = []
    for tag in tags:
        prefix, name = split_label(tag)
        names = (f"{p}-{name}" if p else name for p in _STANDS_FOR[prefix])
        matches.append(next((found[each] for each in names if each in found), -1))
    return np.array(matches, dtype="int64")


def _unify(label: str) -> str:
    prefix, name = split_label(label)
    return f"{prefix}-{name}" if prefix else name


def find_names(labels: Sequence[str]) -> list[str]:
    """Return the sorted names of the labels without prefixes, and without O."""
    return sorted({split_label(label)[1] for label in labels} - {OUTSIDE})
