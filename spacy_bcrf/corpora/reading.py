"""`Reading`: the options of the readers of annotation, and the log of what they leave out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bcrf.io.json_objects import Item, Problem
from spacy_bcrf.annotation.tag_forms import STANDARD, TagForm

from .counts import CorpusCounts, ProblemLog
from .entity_tag_reader import EntityTagReader
from .record import Ignored, Record


@dataclass
class Reading:
    """The options of `convert` that concern readers, and counts and problems of all files.

    entity_tags: its scheme is the same in all files. labels: the only valid ones, None for any.
    tag_names: names of tags by id, empty if unknown. unspaced: whether the language has no spaces.
    For the other options, see `convert`. advance: receives numbers of bytes.
    """

    entity_tags: EntityTagReader
    labels: frozenset[str] | None = None
    tag_names: Sequence[str] = ()
    spans_key: str | None = None
    n_sents: int = 1
    unspaced: bool = False
    tag: str = "upos"
    ent_key: str | None = None
    word_column: int | None = None
    tag_column: int = 0
    ent_columns: Sequence[int] | None = None
    drop_words: bool = False
    report: Callable[[str], object] = lambda message: None
    advance: Callable[[int], object] = lambda n_bytes: None
    counts: CorpusCounts = field(default_factory=CorpusCounts)
    problems: ProblemLog = field(default_factory=ProblemLog)

    def skip(self, places: Sequence[str], n_spans: int | None, problem: Problem) -> None:
        """Leave out records with a problem. n_spans: None if unknown."""
        self.counts.skip(places, n_spans, problem.reason)
        self.problems.add(f"{', '.join(places)}: {problem}", len(places))

    def report_form(self, path: Path, form: TagForm) -> None:
        """Report a form of entity tags that is not the usual one."""
        if form != STANDARD and form.kind != "plain":
            self.report(f"{path}: entity tags are read as {form}")

    def read_items(
        self,
        items: Iterable[Item],
        read_record: Callable[[dict[str, Any], str], Record],
        count_spans: Callable[[dict[str, Any]], int | None],
    ) -> Iterator[Record]:
        """Yield the records of objects, given a reader of one and a counter for invalid ones."""
        for place, value in items:
            if isinstance(value, Problem):
                self.skip([place], value.n_spans, value)
                continue
            try:
                record = read_record(value, place)
            except Problem as problem:
                self.skip([place], count_spans(value), problem)
            except Ignored as reason:
                self.counts.ignored[str(reason)] += 1
                self.counts.ignored_spans += count_spans(value) or 0
            else:
                yield record
