"""The documentation site from disk, as `make docs` writes it."""

import os
from pathlib import Path

import pytest

SITE = Path(os.environ.get("BCRF_SITE", Path(__file__).parents[1] / "build/site"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs `make docs`"),
]


def test_the_search_needs_no_server(driver):
    driver.get((SITE / "index.html").as_uri())
    driver.find_element("css selector", ".md-search__input").send_keys("overlapping entities")
    driver.implicitly_wait(20)
    links = driver.find_elements("css selector", ".md-search-result__link")
    driver.implicitly_wait(0)
    assert (SITE / "spans.html").as_uri() in [link.get_attribute("href") for link in links]
    assert not driver.get_log("browser")


SEARCHES = [
    ("spaCy NER confidence score", "faq"),
    ("Presidio score is always 0.85", "faq"),
    ("GLiNER cuts long texts", "faq"),
    ("CRF on top of BERT", "faq", "torch"),
    ("pytorch-crf half precision, ONNX, speed", "faq", "torch"),
    ("add a label without forgetting", "faq", "new-labels"),
    ("spancat alternative, nested entities", "faq", "spans"),
    ("python-crfsuite faster", "faq", "from-sklearn-crfsuite"),
    ("merge labels of language models", "faq", "distill"),
    ("NER offline, air-gapped", "faq"),
    ("I-PER after O", "faq"),
    ("threshold for 95% recall", "faq", "promises"),
    ("catastrophic forgetting", "faq", "new-labels"),
    ("aggregation_strategy", "faq"),
    ("usaddress", "faq", "from-sklearn-crfsuite"),
]
"""What people type, and the pages that answer it."""


@pytest.mark.parametrize("words, pages", [(words, pages) for words, *pages in SEARCHES])
def test_the_search_finds_the_answer_to_what_people_type(words, pages, driver):
    driver.get((SITE / "index.html").as_uri())
    driver.find_element("css selector", ".md-search__input").send_keys(words)
    driver.implicitly_wait(20)
    first = driver.find_element("css selector", ".md-search-result__link")
    assert Path(first.get_attribute("href").partition("?")[0]).stem in pages


def test_no_page_is_wider_than_a_phone(driver):
    size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wide = []
    for page in sorted(SITE.glob("*.html")):
        driver.get(page.as_uri())
        script = "return document.documentElement.scrollWidth"
        if driver.execute_script(script) > 390:
            wide.append(page.name)
    assert not wide
