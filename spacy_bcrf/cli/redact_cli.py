"""`python -m spacy bcrf redact`"""

from __future__ import annotations

import secrets
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from spacy.cli._util import Arg, Opt, setup_gpu
from spacy.language import Language
from spacy.tokens import Doc

from bcrf.chain.potentials import counted
from spacy_bcrf.privacy.replacer import Style
from spacy_bcrf.readers.doc_files import check_corpus

from .annotate_cli import FAILED_DOCUMENTS
from .errors import spacy_command
from .options import GpuId, PipeName, PromiseName
from .paths import check_output_file, print_note, print_notes, write_json_lines, write_report
from .pieces import read_key, read_pieces, write_piece

if TYPE_CHECKING:
    from spacy_bcrf.pipeline.settings import Control
    from spacy_bcrf.privacy.redact import Redacted
    from spacy_bcrf.privacy.vault import OpenVault

MOST = 0.5
"""The replaced share of the characters above which a note says so."""
SHOWN = 10
"""Most failed texts with a note each."""
END_SECONDS = 5.0
"""Longest time for the last words of a stream."""

Texts = Annotated[
    list[str] | None,
    Arg(
        help="Files, folders, globs and URLs: .txt, .json, .jsonl, .csv, .tsv, .html, .md, .log, "
        ".parquet; also .spacy with --output X.jsonl"
    ),
]
Output = Annotated[
    Path | None,
    Opt(
        "--output",
        "-o",
        help="Folder, or file of the input's suffix: files keep their format. Or .jsonl: id, text "
        "and replaced spans of each text",
    ),
]
StyleName = Annotated[
    Style,
    Opt(
        help="label: [PERSON]. surrogate: other words of the same form. mask: Xxx ##. numbered: "
        "[PERSON_1]. shifted: dates move by days, others as surrogate"
    ),
]
KeyFile = Annotated[
    Path | None, Opt(help="File with a secret: equal surrogates, and an encrypted vault")
]
VaultFile = Annotated[
    Path | None, Opt(help="With --style numbered: file of the originals, for `restore`")
]
Fields = Annotated[
    list[str] | None,
    Opt(help="Field of JSON, CSV or Parquet to redact, such as user.name. Repeatable"),
]
MaxLag = Annotated[
    int | None,
    Opt(help="With --stream: most tokens that wait; then uncertain spans are replaced", min=1),
]


def redact_cli(
    model: Annotated[str, Arg(help="Trained pipeline with a promise of recall")],
    texts: Texts = None,
    output: Output = None,
    style: StyleName = "label",
    threshold: Annotated[float | None, Opt(help="Least probability (default: promise's)")] = None,
    promise: PromiseName = None,
    key: KeyFile = None,
    vault: VaultFile = None,
    fields: Fields = None,
    text_column: Annotated[str, Opt(help="Column or key of the text")] = "text",
    id_column: Annotated[str, Opt(help="Column or key of the id (none: file and line)")] = "id",
    lines: Annotated[
        bool, Opt("--lines", help="A .txt file has a text in each line (default: is one text)")
    ] = False,
    n_process: Annotated[int, Opt("--n-process", "-n", help="Processes", min=1)] = 1,
    report: Annotated[Path | None, Opt(help="Leaks of gold spans in TEXTS, .html or .json")] = None,
    stream: Annotated[
        bool, Opt("--stream", help="Read one text from stdin as it arrives, and write it to stdout")
    ] = False,
    max_lag: MaxLag = None,
    pipe: PipeName = None,
    gpu_id: GpuId = -1,
) -> str | None:
    """
    Replace the spans of a recall promise in texts, and their further occurrences.
    The same command resumes a run that was stopped.
    With --report, it measures what the output has of the gold spans of a .spacy corpus and of the
    found strings, by label, character and document, and the reached recall beside the promised one.
    With --stream, it writes a text as it arrives, equal to the redacted whole text except repeats
    of found strings: it replaces and labels them by what it has found before. With --style shifted,
    its dates move by other days.
    No software finds all personal data. Read a sample of the output.
    """
    from spacy_bcrf.corpora.texts import TextColumns
    from spacy_bcrf.privacy.redact_files import KEPT
    from spacy_bcrf.privacy.vault import OpenVault

    _check_choices(threshold, promise, vault, style, stream, texts, output, report)
    if style == "numbered" and vault is None:
        print_note("without --vault, nobody can undo --style numbered")
    secret = None if key is None else read_key(key)
    chosen: Any = {"style": style, "threshold": threshold, "promise": promise}
    setup_gpu(gpu_id, silent=True)
    if stream:
        _redact_stdin(model, pipe, OpenVault(vault, secret), max_lag=max_lag, key=secret, **chosen)
        return None
    if max_lag is not None:
        raise ValueError("--max-lag needs --stream: with TEXTS, no token waits")
    if texts is None or output is None:
        raise ValueError("expected TEXTS and --output, or --stream")
    inputs = [path for path in map(Path, texts) if path.exists()]
    if output.suffix and not output.is_dir():
        check_output_file(output, " ".join(KEPT), *inputs, key, vault)
    if report is not None:
        check_output_file(report, ".html .json", *inputs, key, output, vault)
        opened = OpenVault(vault, secret)
        return _redact_gold(model, pipe, Path(texts[0]), output, report, opened, secret, **chosen)
    columns = TextColumns(text_column, id_column, whole_files=not lines)
    more = {
        "vault": vault,
        "vault_key": secret,
        "columns": columns,
        "fields": fields,
        "n_processes": n_process,
    }
    return _redact_files(model, pipe, texts, output, key=secret, **chosen, **more)


def _check_choices(
    threshold: float | None,
    promise: str | None,
    vault: Path | None,
    style: Style,
    stream: bool,
    *files: object,
) -> None:
    if threshold is not None and promise is not None:
        raise ValueError("expected --threshold or --promise, got both")
    if vault is not None and style != "numbered":
        raise ValueError("--vault needs --style numbered: other styles cannot be undone")
    if stream and any(file is not None for file in files):
        raise ValueError(
            "--stream takes no TEXTS, --output and --report: it redacts stdin to stdout"
        )


def _redact_files(
    model: str, pipe: str | None, texts: list[str], output: Path, **options: Any
) -> str:
    from spacy_bcrf.privacy.redact_files import redact_files
    from spacy_bcrf.promises.control import ASSUMPTION

    counts, failures = redact_files(model, texts, output, pipe=pipe, report=print_note, **options)
    threshold, promise = options["threshold"], options["promise"]
    _show_counts(counts, output, _name_rule(threshold, promise))
    print_notes([ASSUMPTION] * (threshold is None))
    if failures:
        print_notes(f"text {one.id}: {one.reason}. It is not written" for one in failures[:SHOWN])
        typer.echo(f"{counted(len(failures), 'text')} failed, and not written", err=True)
        raise typer.Exit(FAILED_DOCUMENTS)
    gold = output.with_name(f"gold-{output.stem}.jsonl")
    gold_run = "redact", model, "GOLD.spacy", "--output", gold
    chosen = {"threshold": threshold, "promise": promise, "pipe": pipe}
    return spacy_command("bcrf", *gold_run, report="leaks.html", **chosen)


def _redact_gold(
    model: str,
    pipe: str | None,
    corpus: Path,
    output: Path,
    report: Path,
    opened: OpenVault,
    key: bytes | None,
    **chosen: Any,
) -> str:
    """Redact a gold corpus, and report the leaks."""
    from spacy_bcrf.corpora.time_limit import watch_tokenizer
    from spacy_bcrf.loading import load_pipeline, make_input, read_gold_docs
    from spacy_bcrf.privacy.recall_promise import choose_promise, note_unpromised
    from spacy_bcrf.privacy.redact import redact
    from spacy_bcrf.promises.control import ASSUMPTION
    from spacy_bcrf.promises.kinds import note_kinds
    from spacy_bcrf.promises.seen import note_trained

    check_corpus(corpus)
    nlp = load_pipeline(model)
    watch_tokenizer(nlp)
    threshold = chosen["threshold"]
    name, labeler, found = choose_promise(nlp, pipe, threshold, chosen["promise"], model)
    note_unpromised(labeler, found, print_note)
    gold = read_gold_docs(nlp, corpus)
    options: Any = {"key": key or secrets.token_bytes(32), "vault": opened.vault, **chosen}
    docs = (make_input(nlp, doc) for doc in gold)
    redacted = list(redact(nlp, docs, name, **options))
    opened.save()
    counts: Counter[str] = Counter()
    for one in redacted:
        counts.update(one.counts())
    records = ({"id": i, **one.to_json(opened.vault)} for i, one in enumerate(redacted))
    write_json_lines(output, records)
    rule = _name_rule(threshold, chosen["promise"])
    _show_counts(counts, output, rule)
    title = f"Leaks in {corpus}: {name} of {model}, {rule}"
    _write_leaks(nlp, name, gold, redacted, report, title, found)
    print_notes(note_trained(nlp, gold, str(corpus)))
    if threshold is None:
        print_notes(note_kinds(nlp, name, chosen["promise"], [doc.text for doc in gold]))
        print_notes([ASSUMPTION])
    return f"open {report}"


def _name_rule(threshold: float | None, promise: str | None) -> str:
    if threshold is not None:
        return f"threshold {threshold:g}"
    return "default promise" if promise is None else f"promise {promise!r}"


def _show_counts(n: Counter[str], output: Path, rule: str) -> None:
    """Print counts, and notes about found strings that stay and a large replaced share."""
    spans = counted(n["spans"], "replacement")
    typer.echo(f"{counted(n['texts'], 'text')} with {spans} written to {output}: {rule}")
    left = (
        f"found strings still stand at {counted(n['left'], 'place')}: where they are improbable, "
        "and in fields, names and markup that stay"
    )
    print_notes([left] * bool(n["left"]))
    share = n["replaced"] / max(1, n["replaced"] + n["characters"] - n["written"])
    most = f"{share:.0%} of the characters are replaced: promise less, or give a higher --threshold"
    print_notes([most] * (share > MOST))


def _write_leaks(
    nlp: Language,
    name: str,
    gold: Sequence[Doc],
    redacted: Sequence[Redacted],
    report: Path,
    title: str,
    promise: Control,
) -> None:
    """Measure the leaks of gold spans and the reached recall, write them and print them.

    Copies of a text count once.
    """
    from spacy_bcrf.loading import make_examples
    from spacy_bcrf.privacy.leaks import measure_leaks
    from spacy_bcrf.promises.control import measure_promises, show_reached
    from spacy_bcrf.promises.seen import drop_copies, find_first, note_fitted
    from spacy_bcrf.serve.pages import render

    labeler: Any = nlp.get_pipe(name)
    print_notes(drop_copies(gold)[1])
    first = find_first(gold)
    gold, redacted = [gold[i] for i in first], [redacted[i] for i in first]
    leaks = measure_leaks(gold, redacted, spans_key=labeler.codec.settings.get("spans_key"))
    examples = make_examples(nlp, name, gold)
    promises = measure_promises(labeler, examples, promise)
    reached = list(map(show_reached, promises))
    print_notes(note_fitted(promise, gold))
    page = partial(render, "redaction.html", title=title, report=leaks, reached=reached)
    write_report(report, {".html": page}, {**leaks.to_json(), "promises": promises})
    typer.echo("\n".join([*leaks.lines(), *reached, f"{report}: {leaks!r}"]))


def _redact_stdin(
    model: str, pipe: str | None, opened: OpenVault, key: bytes | None, **options: Any
) -> None:
    """Replace the spans of a recall promise in the standard input, which is one text.

    options: see `RedactionStream`. At bad UTF-8, a signal, or a piece that takes the tokenizer more
    than SECONDS, it finishes the text before.
    """
    from spacy_bcrf.corpora.time_limit import (
        SECONDS,
        TookTooLongError,
        time_limit,
        watch_tokenizer,
    )
    from spacy_bcrf.loading import load_pipeline
    from spacy_bcrf.privacy.redact_stream import RedactionStream
    from spacy_bcrf.promises.control import ASSUMPTION

    nlp = load_pipeline(model)
    watch_tokenizer(nlp)
    key = key or secrets.token_bytes(32)
    stream = RedactionStream(nlp, pipe, key=key, vault=opened.vault, **options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # kill ends it as Ctrl-C does
    try:
        for piece in read_pieces(sys.stdin.buffer):
            with time_limit(SECONDS):
                new = stream.feed(piece)
            opened.save()
            write_piece(new)
    except TookTooLongError as error:
        raise ValueError(f"a piece of standard input {error}; the text ends before it") from None
    finally:
        try:
            with time_limit(END_SECONDS):
                rest, report = stream.close()
        except TookTooLongError:
            raise ValueError("the last word is too long, and is not written") from None
        opened.save()
        write_piece(rest)
        if report.redacted.text[-1:] not in ("", "\n"):
            typer.echo(err=True)  # messages start on a line of their own
    redacted, late, forced = report
    typer.echo(counted(len(redacted.spans), "replacement"), err=True)
    notes = [
        (len(redacted.left), "found strings still stand at {:,} places, where they are improbable"),
        (len(late), "{:,} repeats were written before their string was found or became probable"),
        (forced, "{:,} uncertain spans were replaced, because their tokens waited for --max-lag"),
    ]
    print_notes([note.format(n) for n, note in notes if n])
    print_notes([ASSUMPTION] * (options["threshold"] is None))
