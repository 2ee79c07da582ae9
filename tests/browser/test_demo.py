"""The demo in Chromium, from a file: it finds the spans of Python, and axe-core finds no fault."""

import json
import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("selenium")
from browser_pipelines import make_texts, train
from selenium import webdriver
from selenium.common.exceptions import WebDriverException

from spacy_bcrf.browser.export import export

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("BCRF_AXE", Path.home() / "node"), "node_modules/axe-core/axe.min.js")
sys.path.insert(0, str(ROOT / "docs/theme"))
SPANS = """
const [text, done] = arguments;
document.getElementById("text").value = text;
run().then(() => open()).then((pipeline) => {
  const found = pipeline.annotate(text).components;
  const spans = Object.values(found).flatMap((each) => each.spans);
  done(JSON.stringify(spans.map((x) => [...x.points, x.label]).sort((a, b) => a[0] - b[0])));
});
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    from demo import make_page

    folder = tmp_path_factory.mktemp("demo")
    nlp = train("identifiers")
    export(nlp, folder / "small.bcrf.gz")
    (folder / "index.html").write_text(make_page([folder / "small.bcrf.gz"]), "utf8")
    return nlp, (folder / "index.html").as_uri()


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    try:
        driver = webdriver.Chrome(options=options)
    except WebDriverException as error:
        pytest.skip(f"needs Chromium and its driver: {str(error)[:80]}")
    yield driver
    driver.quit()


def test_chromium_finds_the_spans_of_python(page, browser):
    nlp, address = page
    browser.get(address)
    for doc in nlp.pipe(make_texts(60, seed=3, identifiers=True)):
        wanted = [[ent.start_char, ent.end_char, ent.label_] for ent in doc.ents]
        assert json.loads(browser.execute_async_script(SPANS, doc.text)) == wanted


def test_the_keyboard_changes_the_view(page, browser):
    browser.get(page[1])
    browser.execute_async_script(SPANS, "Ann wrote to a@b.example")
    box = browser.find_element("css selector", "[name=view]:checked")
    box.send_keys("\ue014")  # the right arrow
    assert browser.find_element("id", "result").text == "[PER] wrote to [EMAIL_ADDRESS]"


@pytest.mark.skipif(not AXE.exists(), reason="needs axe-core by npm in BCRF_AXE")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(page, browser, scheme):
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.get(page[1])
    browser.execute_async_script(SPANS, "Ann left Enron.")
    browser.execute_script(AXE.read_text("utf8"))
    found = browser.execute_async_script("axe.run().then((x) => arguments[0](x.violations))")
    assert [(x["id"], x["nodes"][0]["html"]) for x in found] == []
