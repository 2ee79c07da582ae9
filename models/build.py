"""Build the wheel of a pipeline that ships: check its corpora, and run its steps.

    python -m models.build [NAME...] [--corpora DIR] [--steps STEP...] [--output DIR]

NAME is a folder of models, by default each of them. The steps run in build/models/NAME. A step
whose inputs did not change is left out, so a build that was stopped goes on where it was. --corpora
names a folder of corpora, whose files may have the suffix .xz. Without it, Weasel downloads them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import srsly
from weasel.cli.assets import project_assets
from weasel.cli.run import project_run

from bcrf.io.text import CorpusError, find_file, open_decompressed
from lab import ROOT

MODELS = Path(__file__).parent
WORK = ROOT / "build/models"


def main(arguments: Sequence[str] | None = None) -> None:
    names = sorted(path.parent.name for path in MODELS.glob("*/project.yml"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    parser.add_argument("--corpora", "--vars.corpora", type=Path, metavar="DIR")
    parser.add_argument("--steps", nargs="+", default=["all"])
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR")
    args = parser.parse_args(arguments)
    if unknown := sorted({*args.names} - {*names}):
        parser.error(f"unknown pipeline {unknown[0]}; expected {', '.join(names)}")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    try:
        for name in args.names or names:
            build(MODELS / name, WORK / name, args.corpora, args.output.resolve(), args.steps)
    except (ValueError, OSError) as error:
        sys.exit(str(error))


def build(
    source: Path, work: Path, corpora: Path | None, output: Path, steps: Iterable[str]
) -> None:
    """Run steps of a pipeline. ValueError for a missing or changed corpus."""
    work.mkdir(parents=True, exist_ok=True)
    of_all, own = (srsly.read_yaml(path) for path in (MODELS / "steps.yml", source / "project.yml"))
    folder = WORK.parent / "corpora" if corpora is None else corpora.resolve()
    variables = {"corpora": folder, "models": MODELS.resolve(), "source": source.resolve()}
    project = {
        **own,
        "workflows": of_all["workflows"],
        "commands": [*own["commands"], *of_all["commands"]],
        "vars": {key: str(value) for key, value in variables.items()},
    }
    srsly.write_yaml(work / "project.yml", project)
    if corpora is None:
        project_assets(work, extra=True)
    check_corpora(folder, own["assets"])
    for step in steps:
        project_run(work, step)
    # Also where the steps had nothing to do: the folder may be new.
    for wheel in work.glob("package/*/dist/*.whl"):
        output.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, output)
        print(f"{output / wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB")


def check_corpora(folder: Path, assets: Iterable[dict[str, Any]]) -> None:
    """Raise ValueError naming the first file of a corpus that is missing or has another checksum.

    assets: of a project of Weasel, with `dest` in the folder and the MD5 of the decompressed file,
    or of the files of a folder in order of their paths. Those with `extra` may be missing:
    `description` says what the build loses.
    """
    for asset in assets:
        path = find_corpus(folder / asset["dest"].removeprefix("${vars.corpora}/"))
        source = asset.get("url") or asset.get("git", {}).get("repo") or asset["description"]
        if not path.exists() and asset.get("extra"):
            print(f"{path}: is missing: {asset['description']}")
            continue
        if not path.exists():
            raise CorpusError(f"{path}: the corpus is missing; it is {source}")
        digest = hashlib.md5(usedforsecurity=False)
        for block in read_blocks(path):
            digest.update(block)
        if digest.hexdigest() != asset["checksum"]:
            raise CorpusError(
                f"{path}: the corpus has changed: its MD5 is {digest.hexdigest()}, expected "
                f"{asset['checksum']}; restore it from {source}"
            )


def find_corpus(path: Path) -> Path:
    """Return a file or folder, or its compressed version, or the archive of the folder."""
    packed = (find_file(path), find_file(path.with_name(f"{path.name}.tar")))
    return next(filter(Path.exists, packed), path)


def read_blocks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file, or of all files of a folder or archive in order of their paths."""
    if path.is_dir():
        yield from (each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file())
    elif ".tar" in path.suffixes:
        with tarfile.open(path) as archive:
            for member in sorted(archive, key=lambda each: each.name):
                if file := archive.extractfile(member):
                    yield file.read()
    else:
        with open_decompressed(path) as stream:
            while block := stream.read(1 << 20):
                yield block


if __name__ == "__main__":
    main()
