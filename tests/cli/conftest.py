"""Commands in this process, a trained pipeline for them, and a browser for their pages."""

import shutil

import pytest
import spacy
from sentences import make_docs
from spacy.tokens import DocBin
from spacy.training import Example
from tiny_training import network, train


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A temporary folder, which is the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory):
    """A folder with `model`, a pipeline of tagger and entity recognizer, and `dev.spacy`.

    A third of the labels in `dev.spacy` differ from the training data.
    """
    folder = tmp_path_factory.mktemp("pipeline")
    nlp = spacy.blank("xx")
    for factory, name in (("bcrf_tagger", "tagger"), ("bcrf_ner", "ner")):
        nlp.add_pipe(factory, name, config={"model": network()})
    docs = make_docs(nlp.vocab)
    for doc in docs:
        for token, tag in zip(doc, ("N", "V", "N", "P"), strict=True):
            token.tag_ = tag
    train(nlp, [Example(nlp.make_doc(doc.text), doc) for doc in docs])
    nlp.to_disk(folder / "model")
    dev = make_docs(nlp.vocab, wrong=3)
    DocBin(docs=dev).to_disk(folder / "dev.spacy")
    return folder


@pytest.fixture(scope="module")
def driver():
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs the extra browser")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("needs Debian's packages chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1200,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(chromedriver))
    yield driver
    driver.quit()
