"""Export of a trained pipeline to one file, which `js/` runs in a browser.

The file: `MAGIC`; the format version and the least version of a reader, uint16; the sizes of header
and body and the CRC-32 of both, uint32; the header, JSON; the body, the sections that the header
lists. All numbers are little-endian. A name that ends with .gz is that of a compressed file.
"""

import gzip
import json
import struct
import unicodedata
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.symbols import IDS  # type: ignore[import-not-found]

from bcrf import __version__
from bcrf.io.atomic import replacing
from spacy_bcrf.annotation.folding import UNIT
from spacy_bcrf.pipeline.identifier_recognizer import IdentifierRecognizer
from spacy_bcrf.pipeline.sequence_labeler import SequenceLabeler

from .characters import find_casefolds, find_properties
from .component import describe_component, shorten_promise
from .identifier_rules import describe_identifiers
from .patterns import to_javascript
from .sections import Sections
from .tokenizer import describe_tokenizer

MAGIC = b"BCRF\r\n\x1a\n"
VERSION = LEAST_READER = 3
META = ("lang", "name", "version", "description", "license", "author", "url", "notes")
"""What the file has of `nlp.meta`."""


def export(nlp: Language, output: str | Path, *, pipes: Sequence[str] = ()) -> int:
    """Write a pipeline of sparse linear chains to a file. RETURNS its size in bytes.

    pipes: components, in the order of the pipeline; by default all that are enabled.

    ValueError names the tokenizer, component or setting that a browser cannot run.
    """
    if unknown := [name for name in pipes if name not in nlp.pipe_names]:
        raise ValueError(
            f"no component {unknown[0]!r} is enabled; expected pipe to be one of "
            f"{', '.join(nlp.pipe_names)}"
        )
    output, sections = Path(output), Sections()
    header = {
        "spacy_bcrf": __version__,
        "unicode": unicodedata.unidata_version,
        "meta": {key: nlp.meta[key] for key in META if nlp.meta.get(key)},
        "promises": {
            name: {title: shorten_promise(one) for title, one in by_title.items()}
            for name, by_title in nlp.meta.get("promises", {}).items()
        },
        "tokenizer": describe_tokenizer(nlp.tokenizer),
        "properties": find_properties(),
        "casefolds": find_casefolds(),
        "unit": to_javascript(UNIT),
        "symbols": IDS,
        "components": _describe_components(nlp, pipes or nlp.pipe_names, sections),
        "tables": sections.tables,
        "sections": sections.kinds,
    }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    content = text + b"".join(sections.parts)
    sizes = len(text), len(content) - len(text), zlib.crc32(content)
    data = MAGIC + struct.pack("<HHIII", VERSION, LEAST_READER, *sizes) + content
    with replacing(output) as part:
        part.write_bytes(gzip.compress(data, mtime=0) if output.suffix == ".gz" else data)
    return output.stat().st_size


def _describe_components(
    nlp: Language, pipes: Sequence[str], sections: Sections
) -> list[dict[str, Any]]:
    components, writers = [], dict[str, Any]()
    for name, pipe in nlp.pipeline:
        if name not in pipes:
            continue
        if isinstance(pipe, IdentifierRecognizer):
            _check_writers(pipe, "entities", writers)
            components.append(describe_identifiers(pipe, sections))
        elif isinstance(pipe, SequenceLabeler):
            _check_writers(pipe, pipe.codec.what, writers)
            components.append(describe_component(pipe, sections, list(writers)))
        else:
            raise ValueError(
                f"[{name}] {type(pipe).__name__} needs Python; expected bcrf_ner, bcrf_tagger, "
                "bcrf_spans, bcrf_chunker and bcrf_identifiers. Name those to export by pipes, or "
                "--pipe"
            )
        writers[components[-1]["writes"]] = pipe
    if not components:
        raise ValueError("there are no components to export")
    return components


def _check_writers(pipe: Any, what: str, writers: dict[str, Any]) -> None:
    """Raise ValueError if an earlier component writes the same, except identifiers."""
    earlier = writers.get(what)
    if earlier is not None and not isinstance(earlier, IdentifierRecognizer):
        raise ValueError(
            f"[{pipe.name}] keeps what {earlier.name} writes to {what}, which a browser does not; "
            "export one of both"
        )
