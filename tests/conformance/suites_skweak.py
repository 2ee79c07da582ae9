"""skweak's tests of its aggregators, with our model of sources."""

from tests.conformance.suites import Suite

SUITES = [
    Suite(
        "skweak",
        "bcrf.chain.votes",
        ("tests/test_aggregation.py",),
        plugin="shim_skweak",
        needs=("skweak", "pandas"),
        not_applicable={
            r".*::test_(combi|hmm3|multilabel_mv2?):": "it needs the pipeline en_core_web_md",
            r".*::test_multilabel_hmm: assert": (
                "it asks for probability 0.999 of the only vote; ours is the prior precision, 0.85"
            ),
            r".*::test_hmm2?: assert \d+ == ": (
                "it asks for certainty of the votes of one source; ours leaves them more doubt"
            ),
            r".*NotImplementedError": "labels of several chains that exclude each other",
        },
    )
]
