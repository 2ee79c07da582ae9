"""spaCy's set-up of a pipeline, which tests repeat thousands of times, at less cost."""

from functools import cache
from typing import ClassVar

import catalogue
from spacy.lang.xx import MultiLanguage


class NoExceptions(MultiLanguage.Defaults):
    """The language "xx" without emoticons, which take half of the time of a new pipeline."""

    tokenizer_exceptions: ClassVar[dict[str, list[dict]]] = {}


class EntryPointsByGroup:
    """The installed entry points. Each group is searched once."""

    def __init__(self, search) -> None:
        self.select = cache(search)


def make_light() -> None:
    """Make all pipelines of this process light."""
    MultiLanguage.Defaults = NoExceptions
    search = catalogue.AVAILABLE_ENTRY_POINTS.select
    catalogue.AVAILABLE_ENTRY_POINTS = EntryPointsByGroup(search)
