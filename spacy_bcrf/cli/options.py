"""Arguments and options that several commands have."""

from pathlib import Path
from typing import Annotated

from spacy.cli._util import Arg, Opt

Model = Annotated[str, Arg(help="Trained pipeline: a folder, or the name of a package")]
Gold = Annotated[Path, Arg(help="Annotated documents outside of the training data, .spacy")]
TrainingConfig = Annotated[Path, Arg(help="Training config", exists=True, dir_okay=False)]
Code = Annotated[Path | None, Opt("--code", "-c", help="Python file with registered functions")]
PipeName = Annotated[str | None, Opt("--pipe", "-p", help="Component (default: the only one)")]
PipeNames = Annotated[
    list[str] | None, Opt("--pipe", "-p", help="Component. Repeatable (default: all of spacy-bcrf)")
]
GpuId = Annotated[int, Opt("--gpu-id", "-g", help="GPU ID or -1 for CPU")]
Seed = Annotated[int, Opt("--seed", help="Random seed", min=0)]
Lang = Annotated[str, Opt("--lang", "-l", help="Language of tokenizer and of spaces between words")]
Work = Annotated[
    Path | None,
    Opt(help="Folder that keeps finished parts (default: beside the output until the end)"),
]
NewFolder = Annotated[
    Path, Opt("--output", "-o", help="New folder to save the pipeline to", show_default=False)
]
TargetFolder = Annotated[Path | None, Opt("--output", "-o", help="Folder to save the pipeline to")]
Inplace = Annotated[bool, Opt("--inplace", help="Change settings in MODEL, in place of --output")]
Plot = Annotated[Path | None, Opt("--plot", help="File of the diagram to draw, .png")]
Passes = Annotated[int, Opt("--passes", help="Passes over the documents", min=1)]
