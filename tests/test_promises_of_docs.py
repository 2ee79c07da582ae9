"""Sentences on which a user relies, each with the test that fails when the sentence is false.

A sentence that changes, or a test that goes, fails here: change both, or drop the sentence.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").is_dir(), reason="the pages are in the source tree, not in the package"
)
NO_CODE = {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "torch.load"}
PROMISES = [
    # page, a part of the sentence, and the test as file::function
    ("README.md", "with equal outputs", "pipeline/test_accelerate.py::test_outputs_stay"),
    ("README.md", "**Nothing is cut.**", "layers/test_cnn.py::test_a_long_document"),
    ("README.md", "equal to the whole text", "pipeline/test_stream.py::test_equals_the_whole"),
    ("README.md", "They learn from partial annotation", "pipeline/test_partial_annotation.py::"
     "test_every_objective_learns_from_partial_annotation"),
    ("README.md", "A promise holds for documents from the same source",
     "promises/test_control.py::test_promise_is_kept_on_new_documents"),
    ("SECURITY.md", "does not call `pickle`, `eval`, `exec`, `yaml.load` or `torch.load`",
     "test_promises_of_docs.py::test_the_package_runs_no_data_as_code"),
    ("SECURITY.md", "escape them, load nothing from a network, and have a content security policy",
     "cli/test_review_cli.py::test_a_page_loads_nothing"),
    ("SECURITY.md", "escape them", "cli/test_report_cli.py::test_texts_and_labels_are_escaped"),
    ("SECURITY.md", "give equal wheels and equal source distributions",
     "test_release.py::test_an_archive_has_equal_bytes_from_files_of_any_time_owner_and_mask"),
    ("docs/annotation-tools.md", "Each record that it reads is in a document, ignored or left out",
     "cli/test_convert_cli.py::test_malformed_sentences_are_skipped_named_and_counted"),
    ("docs/annotation-tools.md", "annotation under an unknown key or in an unknown shape",
     "corpora/test_shapes.py::test_annotation_in_other_shapes_is_named"),
    ("docs/annotation-tools.md", "a region of Label Studio without labels",
     "corpora/test_shapes.py::test_a_region_without_labels_is_missing"),
    ("docs/annotation-tools.md", "all spans of the input are left out | writes nothing",
     "corpora/test_shapes.py::test_a_file_whose_spans_are_all_left_out_is_not_written"),
    ("docs/annotation-tools.md", "count it as missed, unless the pipeline predicts exactly",
     "pipeline/test_scorers.py::test_a_span_that_cuts_tokens_is_missed_unless_found"),
    ("docs/bring-your-model.md", "Without `--train`, the pipeline learns nothing", "cli/test_scores"
     "_cli.py::test_without_a_corpus_a_pipeline_decodes_and_nothing_is_learned"),
    ("docs/bring-your-model.md", "another model never reads old scores", "scores/test_token_classif"
     "iers.py::test_all_files_that_the_model_names_are_a_part_of_its_identity"),
    ("docs/bring-your-model.md", "`ScoreHead` decodes exactly as the source",
     "layers/test_score_head.py::test_without_training_it_decodes_the_best_valid_labeling"),
    ("docs/bring-your-model.md", "It reads safetensors only",
     "scores/test_token_classifiers.py::test_pickled_weights_are_not_read"),
    ("docs/bring-your-model.md", "never runs Python code of the folder",
     "scores/test_token_classifiers.py::test_the_code_of_a_folder_never_runs"),
    ("docs/bring-your-model.md", "nothing is cut off",
     "scores/test_token_classifiers.py::test_a_long_text_is_read_in_windows_without_a_gap"),
    ("docs/faq.md", "summed over all labelings of the rest",
     "pipeline/test_confidence.py::test_entity_candidates_equal_enumeration"),
    ("docs/from-sklearn-crfsuite.md", "Labelings equal CRFsuite's", "cli/test_migrate_crfsuite.py::"
     "test_the_module_has_equal_labelings_and_marginals"),
    ("docs/from-sklearn-crfsuite.md", "continues as the one in memory",
     "interfaces/test_sklearn.py::test_a_saved_model_goes_on_as_the_one_in_memory"),
    ("docs/linear-chain.md", "most weights become exactly 0",
     "linear/test_learner.py::test_l1_makes_weights_exactly_zero"),
    ("docs/linear-chain.md", "never learns from posteriors on the first chain's training data",
     "sparse/test_two_pass.py::test_training_values_come_from_other_folds"),
    ("docs/long-documents.md", "It never truncates a text or drops tokens",
     "cli/test_annotate_cli.py::test_a_long_document_is_not_cut"),
    ("docs/mathematics.md", "It never returns an invalid one",
     "layers/test_decoding.py::test_a_decoder_obeys_the_constraints"),
    ("docs/mathematics.md", "missing annotation teaches nothing",
     "chain/inference_suite.py::test_losses_are_not_negative_and_zero_without_annotation"),
    ("docs/mathematics.md", "it never becomes negative",
     "linear/test_learner.py::test_the_losses_of_bregman_chains_are_never_negative"),
    ("docs/promises.md", "`control` stores nothing and prints the number that it needs",
     "promises/test_control.py::test_too_few_documents_name_how_many_are_needed"),
    ("docs/promises.md", "count documents with equal texts once",
     "promises/test_control.py::test_copies_of_a_document_count_once"),
    ("docs/redaction.md", "a word never is",
     "privacy/test_redact.py::test_surrogates_do_not_tell_which_digit_they_hide"),
    ("docs/redaction.md", "Equal words have equal surrogates",
     "privacy/test_redact.py::test_equal_words_in_other_forms_have_equal_surrogates"),
    ("docs/reliability.md", "The same command resumes a killed run",
     "cli/test_annotate_killed.py::test_killed_at_ten_points"),
    ("docs/report.md", "the figures equal `spacy evaluate`",
     "cli/test_report_cli.py::test_scores_agree_with_spacy"),
    ("docs/segmentation.md", "The text never changes",
     "pipeline/test_segmenter.py::test_the_text_is_unchanged_and_every_word_has_a_tag"),
    ("docs/serving.md", "The head has more than 64 KiB",
     "attack/test_limited_heads.py::test_a_head_has_a_size"),
    ("docs/serving.md", "The head or the body takes more than 10 s",
     "attack/test_limited_heads.py::test_a_head_has_a_time"),
    ("docs/spans.md", "learn nothing from it",
     "pipeline/test_overlapping.py::test_partial_annotation_restricts_only_its_own_chains"),
    ("docs/spans.md", "an error if another component writes the same group",
     "pipeline/test_overlapping.py::test_a_key_that_another_component_writes_is_named"),
    ("docs/streaming.md", "it never retracts anything",
     "pipeline/test_stream.py::test_equals_the_whole"),
    ("docs/torch.md", "the labelings of 10,000 random sequences equal `decode`",
     "interfaces/test_onnx.py::test_ten_thousand_cases"),
    ("docs/weak-supervision.md", "Several spans of a source with equal bounds and weights are one",
     "weak/test_aggregate.py::test_spans_with_equal_bounds_are_one_vote_for_alternatives"),
    ("docs/weak-supervision.md", "Copies of a source have one vote together",
     "weak/test_copies.py::test_a_group_of_copies_votes_as_its_original"),
]  # fmt: skip


@pytest.mark.parametrize("page, sentence, guard", PROMISES)
def test_each_promise_has_a_test(page, sentence, guard):
    text = " ".join((ROOT / page).read_text("utf8").split())
    assert sentence in text, f"{page} no longer says: {sentence}. Does {guard} guard another one?"
    file, name = guard.split("::")
    content = (ROOT / "tests" / file).read_text("utf8")
    assert re.search(rf"def {name}\b", content), f"{guard} is gone: {page} says: {sentence}"


def test_the_package_runs_no_data_as_code():
    for file in (file for name in ("bcrf", "spacy_bcrf") for file in (ROOT / name).rglob("*.py")):
        tree = ast.parse(file.read_text("utf8"))
        called = {ast.unparse(x.func) for x in ast.walk(tree) if isinstance(x, ast.Call)}
        assert not called & NO_CODE, file
