"""A browser without a window."""

import shutil
from typing import Any


def start_chromium(*arguments: str) -> Any:
    """Start a headless Chromium, a context manager of Selenium.

    Needs the extra `browser` and Debian's packages chromium and chromium-driver.
    """
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", *arguments):
        options.add_argument(argument)
    return webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
