"""The callback by which a packaged pipeline names the versions that it needs."""

import warnings

import pytest
from spacy.util import load_model_from_config
from thinc.api import Config

CONFIG = """
[nlp]
lang = "xx"
pipeline = []

[nlp.after_creation]
@callbacks = "spacy-bcrf.CheckVersions.v1"

[components]
"""


def load(*requirements):
    meta = {"lang": "xx", "name": "small", "version": "1.2", "requirements": list(requirements)}
    config = Config().from_str(CONFIG)
    return load_model_from_config(config, meta=meta, auto_fill=True)


def test_a_pipeline_warns_of_versions_that_it_does_not_fit():
    with pytest.warns(UserWarning, match=r"xx_small 1.2 needs spacy-bcrf<0.1, but \d"):
        load("spacy-bcrf<0.1")
    with pytest.warns(UserWarning, match="needs no-such-package>=2, but none is installed"):
        load("no-such-package>=2")


def test_a_pipeline_is_silent_where_the_versions_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load("spacy-bcrf>=0.1", "spacy>=3")
