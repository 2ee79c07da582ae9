"""What tests repeat thousands of times, at less cost: the set-up of pipelines and commands."""

from functools import cache
from typing import ClassVar

import catalogue
import typer.testing
from spacy.lang.en import English, EnglishDefaults
from spacy.lang.xx import MultiLanguage
from srsly import msgpack


class NoExceptions(MultiLanguage.Defaults):
    """The language "xx" without emoticons, which take half of the time of a new pipeline."""

    tokenizer_exceptions: ClassVar[dict[str, list[dict]]] = {}


class FewExceptions(EnglishDefaults):
    """English without emoticons and abbreviations, which take nine tenths of the time."""

    tokenizer_exceptions: ClassVar[dict[str, list[dict]]] = {}


class WholeEnglish(English):
    """English as it is, for tests of its tokenizer."""

    Defaults = EnglishDefaults


class EntryPointsByGroup:
    """The installed entry points. Each group is searched once."""

    def __init__(self, search) -> None:
        self.select = cache(search)


class Decoders:
    """The functions of a registry. It is searched when it grows, not for each array."""

    def __init__(self, registry) -> None:
        self._find = cache(lambda size: registry.get_all())

    def get_all(self):
        return self._find(len(catalogue.REGISTRY))


def make_light() -> None:
    """Make all pipelines of this process light, and build the commands once."""
    MultiLanguage.Defaults = NoExceptions
    English.Defaults = FewExceptions
    search = catalogue.AVAILABLE_ENTRY_POINTS.select
    catalogue.AVAILABLE_ENTRY_POINTS = EntryPointsByGroup(search)
    msgpack.msgpack_decoders = Decoders(msgpack.msgpack_decoders)
    # A runner builds all commands for each call.
    typer.testing._get_command = cache(typer.testing._get_command)
