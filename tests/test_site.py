"""The documentation site from disk, as `make docs` writes it."""

from pathlib import Path

import pytest

SITE = Path(__file__).parents[1] / "build/site"

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
    ("spaCy NER confidence score", "how-do-i-get-a-confidence-score-from-spacy-ner"),
    ("Presidio score is always 0.85", "why-is-the-presidio-score-always-085"),
    ("GLiNER cuts long texts", "gliner-cuts-long-texts-what-happens-here"),
    ("CRF on top of BERT", "how-do-i-put-a-crf-on-top-of-bert"),
    ("pytorch-crf half precision", "pytorch-crf-half-precision-onnx-speed"),
    ("pytorch-crf ONNX", "pytorch-crf-half-precision-onnx-speed"),
    ("pytorch-crf speed", "pytorch-crf-half-precision-onnx-speed"),
    ("add a label without forgetting", "how-do-i-add-a-label-without-forgetting-catastrophic-forgetting"),
    ("spancat alternative", "is-there-an-alternative-to-spancat-for-nested-entities"),
    ("nested entities", "is-there-an-alternative-to-spancat-for-nested-entities"),
    ("python-crfsuite faster", "python-crfsuite-is-slow-what-is-faster"),
    ("merge labels of language models", "how-do-i-merge-labels-of-language-models-or-annotators"),
    ("NER offline", "does-ner-run-offline-in-an-air-gapped-network"),
    ("air-gapped", "does-ner-run-offline-in-an-air-gapped-network"),
    ("I-PER after O", "my-model-predicts-i-per-after-o"),
    ("threshold for 95% recall", "which-threshold-gives-95-recall"),
    ("catastrophic forgetting", "how-do-i-add-a-label-without-forgetting-catastrophic-forgetting"),
    ("aggregation_strategy", "which-aggregation_strategy-merges-sub-words-into-entities"),
    ("usaddress", "can-it-run-a-usaddress-model"),
]
"""What people type, and the title of its answer in the questions and answers."""


@pytest.mark.parametrize("words, title", SEARCHES)
def test_the_search_finds_the_answer_to_what_people_type(words, title, driver):
    driver.get((SITE / "index.html").as_uri())
    driver.find_element("css selector", ".md-search__input").send_keys(words)
    driver.implicitly_wait(20)
    links = driver.find_elements("css selector", ".md-search-result__link")
    driver.implicitly_wait(0)
    found = [link.get_attribute("href").partition("?")[0] for link in links]
    first = [link.rpartition("/")[2] for link in found]
    assert any(link.startswith("faq.html") for link in first[:5]), first


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
