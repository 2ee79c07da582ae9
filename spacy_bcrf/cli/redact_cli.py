"""`python -m spacy bcrf redact`"""

import secrets
import signal
import sys
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

import typer
from spacy.cli._util import Arg, Opt
from spacy.language import Language

from bcrf.io.text import explain_utf8

from .errors import spacy_command
from .options import GpuId, PipeName
from .paths import check_corpus, check_output_file, print_notes, write_json_lines, write_report

Style = Literal["label", "surrogate", "mask"]
MOST = 0.5
"""The replaced share of the characters above which a note says so."""


def redact_cli(
    model: Annotated[str, Arg(help="Trained pipeline with a promise of recall")],
    texts: Annotated[Path | None, Arg(help=".txt, .jsonl, .csv, .tsv, .parquet or .spacy")] = None,
    output: Annotated[Path | None, Opt("--output", "-o", help="JSON lines to write")] = None,
    style: Annotated[
        Style, Opt(help="label: [PERSON]. surrogate: other words of the same form. mask: Xxx ##")
    ] = "label",
    threshold: Annotated[float | None, Opt(help="Least probability (default: promise's)")] = None,
    key: Annotated[Path | None, Opt(help="File with a secret, for equal surrogates")] = None,
    report: Annotated[Path | None, Opt(help="Leaks of gold spans in TEXTS, .html or .json")] = None,
    stream: Annotated[
        bool, Opt("--stream", help="Read one text from stdin as it arrives, and write it to stdout")
    ] = False,
    max_lag: Annotated[
        int | None,
        Opt(help="With --stream: most tokens that wait; then uncertain spans are replaced", min=1),
    ] = None,
    pipe: PipeName = None,
    gpu_id: GpuId = -1,
) -> str | None:
    """
    Replace the spans of a recall promise in texts, and their further occurrences.
    Writes one JSON object for each text, with its id, the new text, and the replaced spans.
    With --report, it measures what the output has of the gold spans of a .spacy corpus and of the
    found strings, by label, character and document, and the reached recall beside the promised one.
    With --stream, it writes a text as it arrives, equal to the redacted whole text but for repeats
    of found strings: it replaces them, and labels them, by what it has found before.
    No software finds all personal data. Read a sample of the output.
    """
    from spacy_bcrf.analysis.control.thresholds import ASSUMPTION, measure_promises, show_reached
    from spacy_bcrf.analysis.loading import make_examples, make_input, note_fitted
    from spacy_bcrf.analysis.redact import Redacted, find_promise, measure_leaks, redact

    from .labeler import load_labeler, read_gold
    from .pages import render
    from .text_docs import read_text_records

    options: Any = {"style": style, "threshold": threshold, "key": _read_key(key)}
    check = partial(find_promise, threshold=threshold)
    if stream:
        if not (texts is output is report is None):
            raise ValueError(
                "--stream takes no TEXTS, --output and --report: it redacts stdin to stdout"
            )
        nlp, name, _ = load_labeler(model, pipe, gpu_id, check=check)
        _redact_stdin(nlp, name, max_lag=max_lag, **options)
        return None
    if texts is None or output is None:
        raise ValueError("expected TEXTS and --output, or --stream")
    if max_lag is not None:
        raise ValueError("--max-lag needs --stream: with TEXTS, no token waits")
    check_output_file(output, ".jsonl .json", texts, key)
    check_output_file(report, ".html .json", texts, key, output)
    if report is not None:
        check_corpus(texts)
    nlp, name, labeler = load_labeler(model, pipe, gpu_id, check=check)
    names = ", ".join(sorted({*labeler.labels} - {*check(name, labeler).labels}))
    print_notes([f"no promise for {names}: not replaced. Give --threshold"] * bool(names))
    gold = read_gold(nlp, texts) if report is not None else []
    kept: list[Redacted] = []
    n: Counter[str] = Counter()

    def replace() -> Iterator[dict[str, Any]]:
        given: Iterable[Any] = ((i, make_input(nlp, doc)) for i, doc in enumerate(gold))
        if report is None:
            given = ((record.id, doc) for record, doc in read_text_records(texts, nlp))
        ids, docs = tee(given)  # `redact` reads a batch ahead
        redacted = redact(nlp, (doc for _, doc in docs), name, **options)
        for (text_id, _), found in zip(ids, redacted, strict=True):
            n.update(texts=1, spans=len(found.spans), left=len(found.left))
            n["replaced"] += sum(region.end - region.start for region in found.regions)
            n["written"] += sum(span.end - span.start for span in found.spans)
            n["characters"] += len(found.text)
            if report is not None:
                kept.append(found)
            yield {"id": text_id, **found.to_json()}
        if not n["texts"]:
            raise ValueError(f"{texts}: has no texts")

    write_json_lines(output, replace())
    typer.echo(f"{n['texts']:,} texts with {n['spans']:,} replacements written to {output}")
    left = f"found strings still stand at {n['left']:,} places, where they are improbable"
    print_notes([left] * bool(n["left"]))
    share = n["replaced"] / max(1, n["replaced"] + n["characters"] - n["written"])
    most = f"{share:.0%} of the characters are replaced: promise less, or give a higher --threshold"
    print_notes([most] * (share > MOST))
    if report is not None:
        leaks = measure_leaks(gold, kept, spans_key=labeler.codec.settings.get("spans_key"))
        title = f"Leaks of {name} of {model} in {texts}"
        examples = make_examples(nlp, name, gold)
        promises = [] if threshold is not None else measure_promises(labeler, examples)
        reached = list(map(show_reached, promises))
        print_notes(note_fitted(labeler, gold) if promises else ())
        page = partial(render, "redaction.html", title=title, report=leaks, reached=reached)
        write_report(report, {".html": page}, {**leaks.to_json(), "promises": promises})
        typer.echo("\n".join([*leaks.lines(), *reached, f"{report}: {leaks!r}"]))
    print_notes([ASSUMPTION] * (threshold is None))
    if report is not None:
        return f"open {report}"
    gold_run = "redact", model, "GOLD.spacy", "--output", output.with_name(f"gold-{output.name}")
    return spacy_command("bcrf", *gold_run, report="leaks.html", threshold=threshold, pipe=pipe)


def _read_key(path: Path | None) -> bytes:
    secret = secrets.token_bytes(32) if path is None else path.read_bytes().strip()
    if not secret:
        raise ValueError(f"{path}: is empty; expected a secret, such as 32 random characters")
    return secret


def _redact_stdin(nlp: Language, pipe: str, **options: Any) -> None:
    """Replace the spans of a recall promise in the standard input, which is one text.

    options: see `RedactionStream`. At bad UTF-8 or a signal, it finishes the text before.
    """
    from spacy_bcrf.analysis.control.thresholds import ASSUMPTION
    from spacy_bcrf.analysis.redact_stream import RedactionStream

    stream = RedactionStream(nlp, pipe, **options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # kill ends it as Ctrl-C does
    try:
        for piece in _read(sys.stdin.buffer):
            _write(stream.feed(piece))
    finally:
        rest, report = stream.close()
        _write(rest)
        if report.redacted.text[-1:] not in ("", "\n"):
            typer.echo(err=True)  # messages start on a line of their own
    redacted, late, forced = report
    typer.echo(f"{len(redacted.spans):,} replacements", err=True)
    notes = [
        (len(redacted.left), "found strings still stand at {:,} places, where they are improbable"),
        (len(late), "{:,} repeats were written before their string was found or became probable"),
        (forced, "{:,} uncertain spans were replaced, because their tokens waited for --max-lag"),
    ]
    print_notes([note.format(n) for n, note in notes if n])
    print_notes([ASSUMPTION] * (options["threshold"] is None))


def _read(file: BinaryIO) -> Iterator[str]:
    """Yield the text as it arrives. ValueError naming the first byte that is no UTF-8."""
    decoder, n = getincrementaldecoder("utf8")(), 0
    read: Any = getattr(file, "read1", file.read)
    part = b" "
    while part:
        n += len(part := read(1 << 16))
        try:
            yield decoder.decode(part, final=not part)
        except UnicodeDecodeError as error:
            yield error.object[: error.start].decode()
            raise ValueError(f"standard input {explain_utf8(error, n)}") from None


def _write(text: str) -> None:
    if text:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
