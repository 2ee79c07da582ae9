"""`python -m spacy bcrf restore`"""

import sys
from pathlib import Path
from typing import Annotated

import typer
from spacy.cli._util import Arg, Opt

from bcrf.chain.potentials import counted
from bcrf.io.atomic import replacing
from bcrf.io.text import text_suffix

from .paths import check_output_file, print_note, print_notes


def restore_cli(
    vault: Annotated[Path, Arg(help="Vault of `redact --style numbered`")],
    file: Annotated[
        Path | None,
        Arg(help="File or folder of `redact`"),
    ] = None,
    output: Annotated[
        Path | None, Opt("--output", "-o", help="File or new folder to write")
    ] = None,
    key: Annotated[Path | None, Opt(help="File with the secret of an encrypted vault")] = None,
    stream: Annotated[
        bool, Opt("--stream", help="Read one text from stdin as it arrives, and write it to stdout")
    ] = False,
) -> None:
    """
    Put the originals in place of the placeholders that `redact --style numbered` wrote.
    Also finds placeholders that a language model bent, such as person_1. Unknown ones stay.
    """
    from spacy_bcrf.privacy.restore import (
        Restorer,
        reading,
        restore,
        restore_folder,
        restore_parquet,
    )
    from spacy_bcrf.privacy.vault import Vault

    from .pieces import read_key, read_pieces, write_piece

    if stream == (file is not None and output is not None):
        raise ValueError("expected FILE and --output, or --stream")
    known = Vault.load(vault, None if key is None else read_key(key))
    if file is None or output is None:
        restorer = Restorer(known)
        for piece in read_pieces(sys.stdin.buffer):
            write_piece(restorer.feed(piece))
        write_piece(restorer.close()[0])
        n, n_unknown = restorer.n_restored, restorer.n_unknown
    elif file.is_dir():
        n = n_unknown = 0
        for one in restore_folder(file, output, known, print_note):
            n, n_unknown = n + one.n_restored, n_unknown + one.n_unknown
    else:
        check_output_file(output, file.suffix or ".txt", file, vault, key)
        with replacing(output) as part:
            if file.suffix == ".parquet":
                _, n, n_unknown = restore_parquet(file, part, known)
            else:
                with reading(file, known) as text:
                    new, n, n_unknown = restore(text, known, text_suffix(file))
                part.write_bytes(new.encode())
    typer.echo(f"{counted(n, 'placeholder')} restored from the {known!r}", err=True)
    unknown = f"{counted(n_unknown, 'placeholder')} without an original in the vault stay as is"
    print_notes([unknown] * bool(n_unknown))
