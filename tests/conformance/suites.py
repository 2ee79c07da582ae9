"""Suites of other libraries: where their tests are, and what takes the place of the library.

Each module suites_*.py here has `SUITES`, a list. Nothing of a suite is in this clone: its tests
come from an installed package, or from a folder of checkouts.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results"
SKIPPED = "the library skips it"


class MissingError(Exception):
    """The source of a suite, or a module that it needs, is not here."""


@dataclass(frozen=True)
class Suite:
    """The tests of one library, for a part of ours.

    name: of the library, and of its folder among the checkouts.
    subject: what of ours takes its place.
    tests: files or folders, relative to the source; may select one case, as pytest does.
    plugin: a module in this folder that pytest imports first. It puts ours in the library's place.
    package: an installed package whose folder is the source; None if the tests need a checkout.
        Such a suite runs in CI, if the package is installed.
    needs: further modules, without which the suite is skipped.
    options: further options of pytest.
    not_applicable: the reason why failed cases do not apply, by a regular expression that the
        start of the case's name and error matches, such as
        "tests.test_crf.TestInit::test_full: KeyError: 'x'".
    """

    name: str
    subject: str
    tests: tuple[str, ...]
    plugin: str | None = None
    package: str | None = None
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    not_applicable: Mapping[str, str] = field(default_factory=dict)

    def source(self, checkouts: Path | None) -> Path:
        """Return the folder of the tests. Raises MissingError naming what is missing."""
        for module in self.needs:
            if find_spec(module) is None:
                raise MissingError(f"{module} is not installed")
        if checkouts and (checkouts / self.name).is_dir():
            return (checkouts / self.name).resolve()
        if self.package is None:
            raise MissingError(f"no folder {self.name} among the checkouts, see --sources")
        spec = find_spec(self.package)
        if spec is None or not spec.submodule_search_locations:
            raise MissingError(f"{self.package} is not installed")
        return Path(spec.submodule_search_locations[0])


@dataclass(frozen=True)
class Report:
    """What became of the cases of a suite.

    not_applicable: the cases of each reason. failed: the first line of the error of each case.
    """

    name: str
    subject: str
    version: str
    passed: int
    not_applicable: dict[str, list[str]]
    failed: dict[str, str]

    @property
    def apart(self) -> int:
        """The number of cases that do not apply."""
        return sum(map(len, self.not_applicable.values()))

    def lost(self, before: Report) -> int:
        """Return how many cases passed before and do not now, nor does the library skip them.

        A change of our code must not make a case not applicable. 0 for another version.
        """
        skipped = (cases for why, cases in self.not_applicable.items() if why.startswith(SKIPPED))
        left = self.passed + sum(map(len, skipped))
        return max(0, before.passed - left) if self.version == before.version else 0

    def write(self, folder: Path) -> None:
        """Write the report to a file that has the name of the suite."""
        text = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        (folder / f"{self.name}.json").write_text(f"{text}\n", encoding="utf8")

    @classmethod
    def read(cls, path: Path) -> Report:
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf8")))


def find_suites() -> dict[str, Suite]:
    """Import the modules of suites. Return each suite by name."""
    modules = sorted(HERE.glob("suites_*.py"))
    found = [importlib.import_module(f"tests.conformance.{path.stem}").SUITES for path in modules]
    return {suite.name: suite for suites in found for suite in suites}


def run(suite: Suite, checkouts: Path | None = None) -> Report:
    """Run a suite in a process of its own.

    Raises MissingError if its source is missing, RuntimeError with the output if pytest fails.
    """
    source = suite.source(checkouts)
    with tempfile.TemporaryDirectory() as folder:
        xml = Path(folder) / "cases.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir"]
        command += [str(source), "-c", os.devnull, "--junitxml", str(xml), *suite.options]
        if suite.plugin:
            command += ["-p", suite.plugin]
        # The folder of the plugins comes first. A library may have a package `tests` of its own.
        path = [str(HERE), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        # The tests of a checkout are those of the library in it, not of an installed version.
        path[1:1] = [str(source / "src"), str(source)] if (source / ".git").exists() else []
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        tests = [str(source / test) for test in suite.tests]
        done = subprocess.run(
            [*command, *tests], cwd=folder, env=environment, capture_output=True, text=True
        )
        if done.returncode not in (0, 1) or not xml.exists():
            raise RuntimeError(f"{suite.name}: pytest failed\n{done.stdout}{done.stderr}")
        cases = list(ElementTree.parse(xml).getroot().iter("testcase"))
    return _sort(suite, _find_version(suite, source), cases)


def _sort(suite: Suite, version: str, cases: list[ElementTree.Element]) -> Report:
    passed, not_applicable, failed = 0, dict[str, list[str]](), dict[str, str]()
    for case in cases:
        name = f"{case.get('classname')}::{case.get('name')}"
        found = next(
            (child for child in case if child.tag in ("failure", "error", "skipped")), None
        )
        message = "" if found is None else (found.get("message") or found.tag).splitlines()[0]
        error = f"{name}: {message}"
        reasons = [r for start, r in suite.not_applicable.items() if re.match(start, error)]
        if found is None:
            passed += 1
        elif found.tag == "skipped" or reasons:
            reason = reasons[0] if reasons else f"{SKIPPED}: {message}"
            not_applicable.setdefault(reason, []).append(name)
        else:
            failed[name] = message
    return Report(suite.name, suite.subject, version, passed, not_applicable, failed)


def _find_version(suite: Suite, source: Path) -> str:
    """Return the version of an installed package, or the commit of a checkout."""
    if (source / ".git").exists():
        git = ["git", "-C", str(source), "log", "-1", "--format=%h, %cs"]
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    try:
        return version(suite.package or suite.name)
    except PackageNotFoundError:
        return "unknown"
