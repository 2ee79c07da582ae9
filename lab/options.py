"""Options of several benchmarks and experiments."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from bcrf.io.extras import require


def need(module: str, extra: str = "bench") -> Any:
    """Import a module. Without it, end the script with one line that names the extra."""
    try:
        return require(module, extra)
    except ImportError as error:
        sys.exit(str(error))


def add_options(parser: argparse.ArgumentParser, needs_corpora: bool = False) -> None:
    """Add the options of all benchmarks that read corpora and print a table."""
    add_corpora_option(parser, needs_corpora)
    add_csv_option(parser)


def add_corpora_option(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add --corpora, the folder of the development corpora. Default: BCRF_CORPORA."""
    corpora = os.environ.get("BCRF_CORPORA")
    parser.add_argument(
        "--corpora",
        type=Path,
        default=Path(corpora) if corpora else None,
        required=required and not corpora,
        metavar="DIR",
        help="folder of the development corpora (default: the environment variable BCRF_CORPORA)",
    )


def add_csv_option(parser: argparse.ArgumentParser) -> None:
    """Add the option of `print_table`."""
    parser.add_argument("--csv", type=Path, metavar="FILE", help="also write the table as CSV")
