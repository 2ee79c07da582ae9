"""Feature templates over arrays: from the values of attributes to 64-bit feature keys."""

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .templates import Attribute, Template, TemplateError
from .word_cache import Bags, WordCache, WordFunction

Keys = NDArray[np.uint64]
Result = TypeVar("Result")


class Tokens(NamedTuple):
    """What features are extracted from: N tokens in B sequences.

    orths: (N,) hashes of the words.
    values: (N, A) values of the attributes in columns, 0 for a missing value.
    lengths: (B,) numbers of tokens of the sequences.
    text: returns the word of a hash; called for words that the cache does not have.
    listed: for each attribute that can have several values, the bags (N,) of the tokens' values.

    >>> import numpy as np
    >>> from bcrf.linear import Tokens, hash_text
    >>> words = {hash_text(word): word for word in ("Ann", "left")}
    >>> orths = np.array(list(words), "uint64")
    >>> tokens = Tokens(orths, np.zeros((2, 0), "uint64"), np.array([2], "int32"), words.get)
    >>> tokens.text(int(tokens.orths[0]))
    'Ann'
    """

    orths: Keys
    values: Keys
    lengths: NDArray[np.int32]
    text: Callable[[int], str]
    listed: Sequence[Bags] = ()


def hash_text(text: str) -> int:
    """Return 64 bits of a string, equal on each machine.

    >>> from bcrf.linear import hash_text
    >>> hex(hash_text("Ann"))
    '0x5e9686f41951f3de'
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


class TemplateFeatures:
    """Compiled templates, which turn tokens into feature keys.

    templates: see `parse_templates`.
    columns: the attributes of `Tokens.values`.
    of_word: attributes that depend on the word alone, and the functions that compute their values.
    listed: the attributes of `Tokens.listed`.
    hash_text: maps a string to 64 bits. Feature keys, and so saved chains, depend on it.

    Raises TemplateError for a template with another attribute.

    >>> import numpy as np
    >>> from bcrf.linear import Attribute, TemplateFeatures, Tokens, hash_text, parse_templates
    >>> suffix = {Attribute("suffix"): lambda word: [word[-2:]]}
    >>> templates = parse_templates(["tag[-1..0]", "suffix[0]"])
    >>> features = TemplateFeatures(templates, [Attribute("tag")], suffix)
    >>> words = {hash_text(word): word for word in ("Ann", "left")}
    >>> orths, tags = np.array(list(words), "uint64"), np.array([[1], [2]], "uint64")
    >>> tokens = Tokens(orths, tags, np.array([2], "int32"), words.__getitem__)
    >>> keys, starts = features.extract(tokens)
    >>> starts.tolist()
    [0, 3, 6]
    """

    def __init__(
        self,
        templates: Sequence[Template],
        columns: Sequence[Attribute],
        of_word: Mapping[Attribute, WordFunction] | None = None,
        listed: Sequence[Attribute] = (),
        hash_text: Callable[[str], int] = hash_text,
    ) -> None:
        of_word = of_word or {}
        self._functions, self._hash = list(of_word.values()), hash_text
        self.n_columns, self.n_of_word, self.n_listed = len(columns), len(of_word), len(listed)
        index = {attribute: k for k, attribute in enumerate([*columns, *of_word, *listed])}
        for template in templates:
            for part in template.parts:
                if part.attribute not in index:
                    known = ", ".join(map(str, index)) or "none"
                    raise TemplateError(
                        f"template {str(template)!r}: unknown attribute {part.attribute}; there "
                        f"are {known}"
                    )
        # The seed of each template and its parts, pairs of column and offset.
        self.compiled = [
            (hash_text(str(t)), [(index[p.attribute], p.offset) for p in t.parts])
            for t in templates
        ]
        self._extractor: Any = None
        self.forget_words()

    def forget_words(self) -> None:
        """Compute the values of words again, after a change of what their functions read."""
        self.words = WordCache(self._functions, self._hash)
        # The scores of word types that no thread uses, and the weights that they are sums of.
        self._word_scores: tuple[NDArray[np.float32], list[Any]] | None = None

    def extract(self, tokens: Tokens) -> tuple[Keys, NDArray[np.int64]]:
        """Extract feature keys, uint64, and starts int64 (N + 1,), one past the last token too."""
        if self._extractor is None:
            from bcrf.kernels.sparse import Extractor

            self._extractor = Extractor(self.compiled)
        return self._extractor.extract(self._arrays(tokens))

    def score(
        self,
        tokens: Tokens,
        dictionary: Any,
        weights: NDArray[np.float32],
        n_tags: int,
        n_chains: int = 1,
    ) -> NDArray[np.float32]:
        """Return the tag scores (N, T) of tokens under weights (rows, stride).

        dictionary: the `kernels.sparse.Dictionary` from feature keys to rows of weights.

        Keeps what the features of each word type add, until it gets another array of weights.
        """
        orths = np.ascontiguousarray(tokens.orths)
        options = dictionary, weights, n_tags, n_chains, orths
        return self.use_scores(weights, lambda kept: kept.score(*options, self._arrays(tokens)))

    def use_scores(self, weights: NDArray[np.float32], use: Callable[[Any], Result]) -> Result:
        """Return what `use` makes of the `kernels.sparse.WordScores` of these weights."""
        kept = self._word_scores
        if kept is None or kept[0] is not weights:
            kept = self._word_scores = weights, []
        # Without a lock: a fork beside a thread that holds it would wait for ever.
        idle = kept[1]
        try:
            scores = idle.pop()
        except IndexError:
            scores = self._compile_scores()
        try:
            return use(scores)
        finally:
            idle.append(scores)

    def read(self, words: list[str], tokens: Tokens, marks: Keys) -> Any:
        """Return tokens for a stream. words, marks: see `kernels.sparse.StreamTokens`."""
        from bcrf.kernels.sparse import StreamTokens

        orths = np.ascontiguousarray(tokens.orths)
        return StreamTokens(words, orths, self._arrays(tokens), np.ascontiguousarray(marks))

    def _arrays(self, tokens: Tokens) -> tuple[Any, ...]:
        """Return the extractor's arguments: columns, then bags: of words, then `listed`."""
        cells, bags = self.words.find(np.ascontiguousarray(tokens.orths), tokens.text)
        n_bags = self.n_of_word
        if tokens.listed:
            bags = _join(bags, cells, n_bags, tokens.listed)
            cells, n_bags = np.arange(len(tokens.orths), dtype="int32"), n_bags + self.n_listed
        return np.ascontiguousarray(tokens.values), cells, *bags, n_bags, tokens.lengths

    def _compile_scores(self) -> Any:
        from bcrf.kernels.sparse import WordScores

        return WordScores(self.compiled, self.n_columns + self.n_of_word)


def _join(words: Bags, types: NDArray[np.int32], n_words: int, listed: Sequence[Bags]) -> Bags:
    """Return (N, n_words + L) bags of each token's word type and of its L listed attributes.

    words: (types, n_words) bags; types: (N,) the tokens' word types; listed: L times (N,) bags.
    """
    by_type = types.astype("int64")[:, None] * n_words + np.arange(n_words)
    offsets = np.cumsum([len(words.values), *(len(bags.values) for bags in listed)])
    firsts = [bags.starts[:-1] + offset for bags, offset in zip(listed, offsets, strict=False)]
    sizes = [np.diff(bags.starts) for bags in listed]
    froms = np.column_stack([words.starts[:-1][by_type], *firsts]).ravel()
    counts = np.column_stack([np.diff(words.starts)[by_type], *sizes]).ravel()
    values = np.concatenate([words.values, *(bags.values for bags in listed)])
    starts = np.append(0, counts.cumsum()).astype("int64")
    # As `join_ranges`, whose starts are known here: this is a part of each prediction.
    at = np.repeat(froms - starts[:-1], counts) + np.arange(starts[-1])
    return Bags(starts, values[at])
