"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

from spacy.cli._util import Opt

PipeName = Annotated[
    str | None, Opt("--pipe", "-p", help="Name of the component (default: the only one)")
]
GpuId = Annotated[int, Opt("--gpu-id", "-g", help="GPU ID or -1 for CPU")]
TargetFolder = Annotated[Path | None, Opt("--output", "-o", help="Folder to save the pipeline to")]
Inplace = Annotated[
    bool, Opt("--inplace", help="Change MODEL in place of --output: only its config.cfg")
]
