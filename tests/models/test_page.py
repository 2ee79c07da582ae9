"""The figures of a built wheel beside those of the page of pipelines."""

import json
import zipfile

from models.page import note_differences

PAGE = (
    "| pipeline | F on test | calibration error | words/s | MB | licence |\n"
    "| [en](#en) | 57.5 (54.2 to 60.9) | 0.110 | 71,705 | 0.0 | MIT |\n"
)


def test_a_build_says_what_differs_from_the_page(tmp_path):
    work, page = tmp_path / "en", tmp_path / "page.md"
    (work / "package/pipeline").mkdir(parents=True)
    (work / "package/en-1/dist").mkdir(parents=True)
    zipfile.ZipFile(work / "package/en-1/dist/en.whl", "w").close()
    meta = {"performance": {"speed": 71705}, "license": "MIT"}
    (work / "package/pipeline/meta.json").write_text(json.dumps(meta))
    page.write_text(PAGE)
    for f, expected in ((0.575, []), (0.581, ["en: F on test 58.1 (54.2 to 60.9); the page has"])):
        scores = [{"f": {"value": f, "low": 0.542, "high": 0.609}}]
        report = {"scores": {"exact": scores}, "calibration": [{"error": 0.11}]}
        (work / "report.json").write_text(json.dumps(report))
        assert [note[: len(expected[0])] for note in note_differences(work, page)] == expected
    page.write_text("")
    assert len(note_differences(work, page)) == 5
