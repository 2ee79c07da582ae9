"""Libraries of figures: their tests with our evaluation, and their figures of one output.

test_figures.py compares the figures. Its suite of conlleval needs the folder conlleval with the
script conlleval.pl, which seqeval has among its tests.
"""

from tests.conformance.suites import HERE, Suite

NOTHING = "it calls nothing of ours: the library's own classes and checks"

SUITES = [
    Suite(
        "seqeval",
        "spacy_bcrf.judging.evaluation, annotation.schemes",
        ("tests",),
        plugin="shim_seqeval",
        needs=("seqeval",),
        not_applicable={
            r".*nothing of ours": NOTHING,
            r".*ValueError: token .* is not valid in BI": (
                "tags that the scheme forbids are an error; seqeval leaves out their entities"
            ),
            r".*test_iob1_tokens": "IOB1 that is not valid is read as conlleval reads it",
            r".*IOE": "there is no scheme IOE",
            r".*test_invalid_scheme\[sequences0": "`I` without `B` is IOB1",
            r".*is not a tag": "what is not a tag is an error, not a warning",
            r".*DID NOT WARN": "an undefined figure is NaN, without a warning",
            r".*(beta|bad_average)": "an option of seqeval's: ours is F1",
            r".*(test_value_error|test_length)": (
                "it compares lengths of tags; ours compares the spans of one document"
            ),
        },
    ),
    Suite(
        "nervaluate",
        "spacy_bcrf.judging.evaluation, annotation.schemes",
        ("tests",),
        plugin="shim_nervaluate",
        needs=("nervaluate",),
        not_applicable={
            r".*nothing of ours": NOTHING,
            r".*a least overlap": "a least overlap: ours pairs the spans with the largest overlap",
        },
    ),
    *(
        Suite(
            name,
            "spacy_bcrf.judging.evaluation, same figures",
            tuple(f"{HERE}/test_figures.py::test_{case}" for case in cases),
            package=package,
        )
        for name, package, cases in (
            ("seqeval-figures", "seqeval", ("seqeval",)),
            ("nervaluate-figures", "nervaluate", ("nervaluate",)),
            ("conlleval", None, ("conlleval", "conlleval_agrees_with_report_and_evaluate")),
        )
    ),
]
