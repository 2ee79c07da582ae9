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
