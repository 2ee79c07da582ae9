"""Libraries of figures. test_figures.py compares ours with theirs, on one output.

The folder conlleval has the script conlleval.pl, which seqeval's checkout has among its tests.
"""

from tests.conformance.suites import HERE, Suite

SUITES = [
    Suite(
        name,
        "spacy_bcrf.analysis.evaluation, same figures",
        (f"{HERE}/test_figures.py::test_{name}",),
        package=None if name == "conlleval" else name,
    )
    for name in ("seqeval", "nervaluate", "conlleval")
]
