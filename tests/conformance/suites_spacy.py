"""spaCy's own tests, with our components."""

from tests.conformance.suites import Suite

SUITES = [
    Suite(
        "spacy",
        "bcrf_ner, bcrf_tagger",
        tuple(
            f"tests/{path}"
            for path in (
                *("parser/test_ner.py", "parser/test_add_label.py", "pipeline/test_tagger.py"),
                *("pipeline/test_pipe_methods.py", "pipeline/test_initialize.py"),
                *("pipeline/test_pipe_factories.py", "pipeline/test_models.py"),
                *("pipeline/test_tok2vec.py", "pipeline/test_annotates_on_update.py"),
                *("serialize", "training", "test_language.py", "test_pickles.py"),
            )
        ),
        plugin="shim_spacy",
        package="spacy",
    ),
]
