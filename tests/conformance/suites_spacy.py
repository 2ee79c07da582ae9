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
        not_applicable={
            r".*(issue(1967|2179|3209|4725_1)|labels_from_BILUO|accept_blocked_token)": (
                "it asks for the moves of a transition system, or an option of its training"
            ),
            r".*(test_overwrite_token|test_ner_warns_no_lookups)": (
                "without labels, `nlp.initialize()` raises ValueError, also for entities"
            ),
            r".*replace_listeners_from_config": (
                "a second tagger without `overwrite` is an error: its output would never appear"
            ),
            r".*labels_added_implicitly": "labels outside of the component's are not added to it",
            r".*test_no_resize": "a trained `bcrf_tagger` takes new labels",
            r".*test_initialize_examples": "an empty corpus raises ValueError, not TypeError",
            r".*(batching_list\[tagger|listener_callback|test_label_smoothing)": (
                "it asks for the arrays of spaCy's layers; a head returns `Potentials`"
            ),
            r".*test_(ner|tagger|tok2vec)::test_.*(overfitting|incomplete_data)": (
                "it asks for a loss near 0, where a log-likelihood in float32 stays above"
            ),
            r".*test_config_interpolation": "the suite's plugin resolves the config's variables",
        },
    ),
]
