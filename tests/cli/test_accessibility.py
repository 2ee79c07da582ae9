"""Every page of the commands and of the site passes axe-core: light, dark, on a phone of 390 px.

`npm install axe-core` in a folder that BCRF_AXE names, by default node in the home folder.
BCRF_SITE names the folder of the site, by default build/site. BCRF_SCREENSHOTS names a folder for
pictures of the pages of the commands.
"""

import base64
import json
import os
import re
from pathlib import Path

import pytest
import spacy
from commands import command
from sentences import make_docs, repeat
from spacy.tokens import DocBin
from spacy.training import Example
from tiny_training import train

from spacy_bcrf.serve.pages.lattice_page import typed_text_page

AXE = Path(os.environ.get("BCRF_AXE", Path.home() / "node"), "node_modules/axe-core/axe.min.js")
SITE = Path(os.environ.get("BCRF_SITE", Path(__file__).parents[2] / "build/site"))
PAGES = ("report", "against", "review", "overlap", "suspects", "audit", "explain", "monitor")
PAGES += ("redact", "serve")
MODES = ("light", "dark", "phone", "dark phone")
PIPE = ("-p", "ner")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not AXE.exists(), reason="needs axe-core by npm in BCRF_AXE"),
]


@pytest.fixture(scope="module")
def pages(pipeline, tmp_path_factory):
    """A folder with every page, of a tiny model and a corpus with errors."""
    folder = tmp_path_factory.mktemp("pages")
    model, dev = pipeline / "model", pipeline / "dev.spacy"
    many, texts, safe = folder / "many.spacy", folder / "texts.txt", folder / "safe"
    nlp = spacy.blank("xx")
    DocBin(docs=repeat(make_docs(nlp.vocab), 20)).to_disk(many)
    texts.write_text("Ann saw Rome .\nBob saw Kiel , a place with a long name .\n" * 20)
    nlp.add_pipe("bcrf_ner", "ner")
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in make_docs(nlp.vocab)])
    nlp.to_disk(folder / "sparse")
    command("control")(model, many, *PIPE, "--recall", "0.8", "-o", safe)
    command("report")(safe, dev, *PIPE, "-o", folder / "report.html")
    against = ("--against", folder / "sparse")
    command("report")(model, dev, *PIPE, *against, "-o", folder / "against.html")
    command("review")(model, texts, *PIPE, "-o", folder / "review.html")
    command("audit")(dev, model, *PIPE, "-o", folder / "a.jsonl", "--page", folder / "audit.html")
    suspects = ("--suspects", folder / "a.jsonl", "-o", folder / "suspects.html")
    command("review")(model, dev, *PIPE, *suspects)
    command("explain")(folder / "sparse", "--text", "Ann saw Rome .", "-o", folder / "explain.html")
    drift = ("--reference", many, "--page", folder / "monitor.html")
    command("monitor")(safe, texts, *PIPE, *drift, exit_code=3)
    leaks = ("-o", folder / "r.jsonl", "--report", folder / "redact.html")
    command("redact")(model, dev, *PIPE, "--threshold", "0.5", *leaks)
    page = typed_text_page(spacy.load(folder / "sparse"), ["ner"], "Ann saw Rome .")
    (folder / "serve.html").write_text(page)
    (folder / "overlap.html").write_text(_with_overlaps((folder / "review.html").read_text()))
    return folder


def _with_overlaps(page):
    """Return a page of review whose first document has nested and crossing spans."""
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    changed = json.loads(data) | {"overlap": True}
    changed["documents"][0]["spans"] = [
        [0, 3, 0, 0.9, True],
        [0, 2, 1, 0.8, True],
        [1, 4, 0, 0.4, False],
    ]
    changed["labels"] = [changed["labels"][0], "L" * 600, *changed["labels"][2:]]  # it wraps
    return page.replace(data, json.dumps(changed))


@pytest.fixture(params=MODES)
def mode(request, driver):
    scheme = "dark" if "dark" in request.param else "light"
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    is_phone = "phone" in request.param
    size = {"width": 390, "height": 844} if is_phone else {"width": 1200, "height": 1000}
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {**size, "deviceScaleFactor": 1, "mobile": is_phone}
    )
    return request.param


def find_violations(driver):
    """Return impact, rule and some places of each finding of axe-core on a page."""
    driver.execute_script(AXE.read_text(encoding="utf8"))
    found = driver.execute_async_script(
        "const done = arguments[0];"
        "axe.run({resultTypes: ['violations']}).then(found => done(found.violations))"
    )
    return [
        (
            rule["impact"],
            rule["id"],
            [(n["html"][:200], n["failureSummary"][:400]) for n in rule["nodes"][:3]],
        )
        for rule in found
    ]


@pytest.mark.skipif(not SITE.is_dir(), reason="needs the site: `make docs`, or BCRF_SITE")
def test_axe_finds_nothing_on_the_site(mode, driver):
    pages = sorted(SITE.glob("*.html"))
    assert pages
    found = {}
    driver.set_script_timeout(300)
    driver.get(pages[0].as_uri())
    driver.execute_script("localStorage.clear()")  # it keeps the colours of another mode
    for page in pages:
        driver.get(page.as_uri())
        violations = find_violations(driver)
        found |= {page.name: violations} if violations else {}
    assert not found, json.dumps(found, indent=1)


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(name, mode, pages, driver):
    driver.get((pages / f"{name}.html").as_uri())
    if name in ("review", "suspects", "overlap"):
        driver.find_element("tag name", "body").send_keys("j")
    driver.execute_script("for (const d of document.querySelectorAll('details')) d.open = true")
    if folder := os.environ.get("BCRF_SCREENSHOTS"):
        whole = driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
        Path(folder, f"{name} {mode}.png").write_bytes(base64.b64decode(whole["data"]))
    violations = find_violations(driver)
    assert not violations, json.dumps(violations)
    width = driver.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert width <= 0, f"the page is {width} px wider than the screen"
    assert not driver.get_log("browser")
