"""Suites of CRFsuite's Python libraries. Their source distributions have the tests."""

from tests.conformance.suites import Suite

SUITES = [
    Suite(
        "sklearn-crfsuite",
        "bcrf.sklearn.CRF",
        ("tests/test_crf.py", "tests/test_metrics.py"),
        plugin="shim_sklearn_crfsuite",
        needs=("sklearn_crfsuite", "sklearn"),
        not_applicable={r".*\[.*arow\]": "AROW has no counterpart, and `fit` says so"},
    ),
    Suite(
        "python-crfsuite",
        "bcrf.sklearn.CRF, reading models",
        ("tests/test_itemsequence.py", "tests/test_tagger.py"),
        plugin="shim_python_crfsuite",
        needs=("pycrfsuite",),
        not_applicable={
            r".*test_dump|.*test_info|.*test_append": "dump files; weights are attributes of CRF",
            r".*test_tag_probability": "the probability of a labeling: `chain` has it",
            r".*test_dicts": "it lists a feature with the value 0, which changes nothing",
        },
    ),
]
