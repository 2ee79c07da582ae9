"""The runner of other libraries' tests, and the page that it writes."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.page import PAGE, make_page, read_reports
from tests.conformance.suites import MissingError, Report, Suite, run

CASES = """
import pytest

def test_passes(): pass
def test_fails(): assert 1 == 2
@pytest.mark.parametrize("n", ["a.b", 2])
def test_is_other(n): raise KeyError("internal")
@pytest.mark.skip(reason="no network")
def test_is_skipped(): pass
"""


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    (tmp_path / "peer/tests").mkdir(parents=True)
    (tmp_path / "peer/tests/test_it.py").write_text(CASES)
    return tmp_path


def test_a_suite_is_sorted_and_printed(checkouts, tmp_path):
    suite = Suite(
        "peer",
        "ours",
        ("tests",),
        not_applicable={".*::test_is_.*'internal'": "it tests internals"},
    )
    report = run(suite, checkouts)
    assert (report.passed, report.version) == (1, "unknown")
    assert {reason: len(cases) for reason, cases in report.not_applicable.items()} == {
        "it tests internals": 2,
        "the library skips it: no network": 1,
    }
    assert list(report.failed) == ["tests.test_it::test_fails"]
    report.write(tmp_path)
    assert Report.read(tmp_path / "peer.json") == report
    # A case that no longer applies is lost, one that the library skips is not.
    assert [report.lost(replace(report, passed=n)) for n in (1, 2, 4)] == [0, 0, 2]
    assert report.lost(replace(report, passed=4, version="2")) == 0
    page = make_page([report])
    assert "| peer | unknown | `ours` | 1 | 3 | 1 |" in page
    assert "- it tests internals (2)" in page
    assert "- Failed: `test_it::test_fails`" in page


def test_what_is_missing_is_named(tmp_path):
    with pytest.raises(MissingError, match="no folder peer"):
        run(Suite("peer", "ours", ("tests",)), tmp_path)
    with pytest.raises(MissingError, match="no_such_package is not installed"):
        run(Suite("peer", "ours", ("tests",), package="no_such_package"))
    with pytest.raises(MissingError, match="no_such_module is not installed"):
        run(Suite("peer", "ours", ("tests",), needs=("no_such_module",)), tmp_path)


def test_a_broken_suite_is_an_error(checkouts):
    with pytest.raises(RuntimeError, match="peer: pytest failed"):
        run(Suite("peer", "ours", ("no_such_file.py",)), checkouts)


def test_the_page_has_the_last_results():
    assert PAGE.read_text(encoding="utf8") == make_page(read_reports())


def test_no_published_case_failed():
    assert not any(report.failed for report in read_reports())
