"""Sentences on which a user relies, each with the test that fails when the sentence is false.

A line of PROMISES is a page, a part of a sentence in it, or the test as file::function.

A sentence that changes, or a test that goes, fails here: change both, or drop the sentence.
"""

import ast
import re
from configparser import ConfigParser
from importlib.metadata import requires
from pathlib import Path

import pytest

import bcrf
import spacy_bcrf

ROOT = Path(__file__).resolve().parents[1]
FILES = [x for y in (bcrf, spacy_bcrf) for x in Path(y.__file__).parent.rglob("*.py")]
pytestmark = pytest.mark.skipif(
    not (ROOT / "docs").is_dir(), reason="the pages are in the source tree, not in the package"
)
IMPORTS = (ast.Import, ast.ImportFrom)
CLIENTS = {
    "socket",
    "ssl",
    "http.client",
    "urllib",
    "urllib.request",
    "requests",
    "httpx",
    "aiohttp",
}
NO_CODE = {"eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "torch.load"}
PROMISES = """\
README.md
  with equal outputs
    pipeline/test_accelerate.py::test_outputs_stay
  **Nothing is cut.**
    layers/test_cnn.py::test_a_long_document
  equal to the whole text
    pipeline/test_stream.py::test_equals_the_whole
  They learn from partial annotation
    pipeline/test_partial_annotation.py::test_every_objective_learns_from_partial_annotation
  A promise holds for documents from the same source
    promises/test_control.py::test_promise_is_kept_on_new_documents
  The base install needs only spaCy 3.8
    test_promises_of_docs.py::test_the_base_install_needs_spacy
SECURITY.md
  does not call `pickle`, `eval`, `exec`, `yaml.load` or `torch.load`
    test_promises_of_docs.py::test_the_package_runs_no_data_as_code
  escape them, load nothing from a network, and have a content security policy
    cli/test_review_cli.py::test_a_page_loads_nothing
  escape them
    cli/test_report_cli.py::test_texts_and_labels_are_escaped
  give equal wheels and equal source distributions
    test_release.py::test_an_archive_has_equal_bytes_from_files_of_any_time_owner_and_mask
  Only the page `/docs` of `serve` differs
    cli/test_serve_cli.py::test_every_page_has_a_policy_without_inline_handlers
docs/annotation-tools.md
  Each record that it reads is in a document, ignored or left out
    cli/test_convert_cli.py::test_malformed_sentences_are_skipped_named_and_counted
  annotation under an unknown key or in an unknown shape
    corpora/test_shapes.py::test_annotation_in_other_shapes_is_named
  a region of Label Studio without labels
    corpora/test_shapes.py::test_a_region_without_labels_is_missing
  all spans of the input are left out | writes nothing
    corpora/test_shapes.py::test_a_file_whose_spans_are_all_left_out_is_not_written
  count it as missed, unless the pipeline predicts exactly
    pipeline/test_scorers.py::test_a_span_that_cuts_tokens_is_missed_unless_found
  at most five of a kind, and counts all
    corpora/test_convert_records.py::test_spans_left_out_for_one_reason_are_named_five_times
  more than a tenth of the records, it writes nothing
    cli/test_convert_records_cli.py::test_more_than_a_tenth_of_the_records_with_a_problem
  leaves out the sentence, `--drop-words` only the line
    cli/test_convert_cli.py::test_a_malformed_word_is_left_out_alone
  `--strict` accepts no problem at all
    cli/test_convert_records_cli.py::test_a_span_that_cuts_a_token
  keeps the longest, or the first of equal length
    corpora/test_make_doc.py::test_the_longest_of_overlapping_entities_stays
  Fragments with only white space between them are one entity
    corpora/test_overlapping_data.py::test_brat_cuts_entities_at_line_breaks_alone
  `convert` merges answers about the same text
    corpora/test_convert_records.py::test_prodigys_answers_are_merged_across_files
  leaves out a span of only white space
    corpora/test_make_doc.py::test_white_space_at_an_edge_is_trimmed
  leaves out both, and marks the tokens as missing
    corpora/test_make_doc.py::test_an_entity_that_is_rejected_too_is_left_out
  stay only under `language`
    corpora/test_tokenization.py::test_only_the_language_keeps_tokens_of_a_text
docs/bring-your-model.md
  Without `--train`, the pipeline learns nothing
    cli/test_scores_cli.py::test_without_a_corpus_a_pipeline_decodes_and_nothing_is_learned
  Another model never reads old scores
    scores/test_token_classifiers.py::test_all_files_that_the_model_names_are_a_part_of_its_identity
  `ScoreHead` decodes exactly as the source
    layers/test_score_head.py::test_without_training_it_decodes_the_best_valid_labeling
  It reads safetensors only
    scores/test_token_classifiers.py::test_pickled_weights_are_not_read
  never runs Python code of the folder
    scores/test_token_classifiers.py::test_the_code_of_a_folder_never_runs
  nothing is cut off
    scores/test_token_classifiers.py::test_a_long_text_is_read_in_windows_without_a_gap
  Only `spacy bcrf scores` writes the cache
    scores/test_foreign_tagger.py::test_neither_training_nor_prediction_writes_the_file
  same text and different spans are an error
    scores/test_span_sources.py::test_records_of_one_text_agree
docs/browser.md
  Tokens, tags and spans equal Python's
    browser/test_export.py::test_javascript_repeats_the_output_of_python
  candidates equal the whole text's
    browser/test_export.py::test_a_stream_at_random_cuts_equals_the_whole_text
docs/calibrate.md
  refuses only the documents of the fit
    promises/test_control.py::test_documents_of_the_calibration_are_refused
  and nothing of fewer than 10,000
    pipeline/test_held_out.py::test_share_of_words_that_is_held_out
  The maps change only the reported confidences
    pipeline/test_platt_scaling.py::test_confidences_of_entities_are_mapped_and_predictions_stay
docs/chain.md
  needs only NumPy
    test_imports.py::test_the_engine_imports_numpy_and_the_standard_library
  results have the same type
    chain/inference_suite.py::test_the_chain_in_single_precision
docs/choose-model.md
  need the same language, tokenizer, vectors
    cli/test_combine_cli.py::test_pipelines_that_do_not_fit_are_refused
docs/distill.md
  the same command resumes
    cli/test_distill_cli.py::test_a_killed_run_goes_on
docs/drift.md
  with probability 5% at most
    promises/test_monitor.py::test_equal_documents_raise_few_alarms_and_others_many
docs/faq.md
  summed over all labelings of the rest
    pipeline/test_confidence.py::test_entity_candidates_equal_enumeration
  the same with more threads
    kernels/test_threads.py::test_the_number_of_threads_changes_no_bit
  load nothing from a network
    test_promises_of_docs.py::test_the_package_opens_no_connection
docs/from-sklearn-crfsuite.md
  Labelings equal CRFsuite's
    cli/test_migrate_crfsuite.py::test_the_module_has_equal_labelings_and_marginals
  continues as the one in memory
    interfaces/test_sklearn.py::test_a_saved_model_goes_on_as_the_one_in_memory
docs/linear-chain.md
  most weights become exactly 0
    linear/test_learner.py::test_l1_makes_weights_exactly_zero
  never learns from posteriors on the first chain's training data
    sparse/test_two_pass.py::test_training_values_come_from_other_folds
  If weights overflow, training stops with an error
    pipeline/test_sparse_cli.py::test_a_rate_too_high_stops_training_and_keeps_the_best_model
  A saved pipeline keeps its templates
    pipeline/test_linear_chain.py::test_a_saved_model_keeps_the_templates_of_a_named_set
  saved pipeline contains the files
    pipeline/test_linear_chain.py::test_a_saved_model_contains_its_files
docs/long-documents.md
  It never truncates a text or drops tokens
    cli/test_annotate_cli.py::test_a_long_document_is_not_cut
  never a truncated result
    cli/test_text_docs.py::test_a_text_that_takes_too_long_is_named
docs/mathematics.md
  It never returns an invalid one
    layers/test_decoding.py::test_a_decoder_obeys_the_constraints
  missing annotation teaches nothing
    chain/inference_suite.py::test_losses_are_not_negative_and_zero_without_annotation
  it never becomes negative
    linear/test_learner.py::test_the_losses_of_bregman_chains_are_never_negative
docs/migrate.md
  names the section and writes nothing
    cli/test_migrate_cli.py::test_what_cannot_be_migrated_is_refused
  Outputs are equal up to rounding
    pipeline/test_accelerate.py::test_outputs_stay
docs/partial-annotation.md
  only if the annotation decides whether it is correct
    promises/test_judged.py::test_calibration_promises_and_scores_judge_the_same_predictions
docs/promises.md
  `control` stores nothing and prints the number that it needs
    promises/test_control.py::test_too_few_documents_name_how_many_are_needed
  count documents with equal texts once
    promises/test_control.py::test_copies_of_a_document_count_once
  `control` stores nothing.
    cli/test_control_cli.py::test_without_a_promise_a_table_is_printed
  needs a far lower threshold
    promises/test_control.py::test_a_covered_promise_has_a_higher_threshold
docs/redaction.md
  a word never is
    privacy/test_redact.py::test_surrogates_do_not_tell_which_digit_they_hide
  Equal words have equal surrogates
    privacy/test_redact.py::test_equal_words_in_other_forms_have_equal_surrogates
  of the same script, with the same length
    privacy/test_redact.py::test_marks_and_symbols_are_replaced_and_the_form_is_kept
  move by the same 1 to 365 days
    privacy/test_restore.py::test_a_document_moves_all_its_dates_by_the_same_days
  initials and other case name the same person
    privacy/test_restore.py::test_one_person_has_one_number
  all texts equal the original ones
    privacy/test_restore.py::test_originals_come_back_for_any_text_and_at_any_cut
  Only its owner can read the vault
    privacy/test_restore.py::test_a_vault_is_a_private_file
  The same command resumes a stopped run
    cli/test_redact_files.py::test_killed_at_any_moment
docs/reference.md
  Each command is a function of the same name
    cli/test_thin.py::test_a_command_calls_the_function_of_its_name_and_no_other_command
docs/reliability.md
  The same command resumes a killed run
    cli/test_annotate_killed.py::test_killed_at_ten_points
  `--redo` annotates only these shards again
    cli/test_annotate_cli.py::test_a_damaged_shard_is_named_and_redone
docs/report.md
  the figures equal `spacy evaluate`
    cli/test_report_cli.py::test_scores_agree_with_spacy
  is correct if its boundaries and its label equal gold
    judging/test_evaluation.py::test_each_kind_of_error
  with at most one prediction
    judging/test_evaluation.py::test_the_best_partner_wins
  both pipelines use the same samples
    cli/test_report_cli.py::test_a_pipeline_against_itself
docs/scale-reference.md
  A shard has at most 1,000 documents
    cli/test_annotate_cli.py::test_records_of_one_shard_are_bounded_by_all_their_characters
  all shards of a run have the same columns
    cli/test_annotate_cli.py::test_parquet_columns_of_json_lines
  a second run in the same folder
    cli/test_annotate_cli.py::test_two_runs_cannot_share_a_folder
  an input that changes during the run
    cli/test_annotate_cli.py::test_an_input_that_changes_during_the_run_is_refused
docs/scale.md
  the same command resumes
    cli/test_annotate_killed.py::test_killed_at_ten_points
  `annotate` never cuts a document
    cli/test_annotate_cli.py::test_a_long_document_is_not_cut
docs/segmentation.md
  The text never changes
    pipeline/test_segmenter.py::test_the_text_is_unchanged_and_every_word_has_a_tag
  `cut` returns them as lists
    pipeline/test_segmenter.py::test_cut_finds_the_words_of_documents
docs/serving.md
  The head has more than 64 KiB
    attack/test_limited_heads.py::test_a_head_has_a_size
  The head or the body takes more than 10 s
    attack/test_limited_heads.py::test_a_head_has_a_time
docs/spans.md
  learn nothing from it
    pipeline/test_overlapping.py::test_partial_annotation_restricts_only_its_own_chains
  an error if another component writes the same group
    pipeline/test_overlapping.py::test_a_key_that_another_component_writes_is_named
  at most 4.
    pipeline/test_overlapping.py::test_a_label_has_at_most_four_chosen_layers
  so that a token has at most one of them
    pipeline/test_overlapping.py::test_labels_of_an_exclusive_group_share_a_chain
  `combine` needs pipelines with the same `layers`
    cli/test_combine_cli.py::test_parts_of_other_layers_are_refused
docs/streaming.md
  it never retracts anything
    pipeline/test_stream.py::test_equals_the_whole
  `max_lag=8` bounds the lag
    pipeline/test_stream.py::test_max_lag
docs/torch.md
  the labelings of 10,000 random sequences equal `decode`
    interfaces/test_onnx.py::test_ten_thousand_cases
  equal pytorch-crf's, so you change only the import
    interfaces/test_torch.py::test_a_model_of_pytorch_crf_on_real_text
  with the exact gradients
    interfaces/test_torch.py::test_gradients_of_losses
docs/weak-supervision.md
  Several spans of a source with equal bounds and weights are one
    weak/test_aggregate.py::test_spans_with_equal_bounds_are_one_vote_for_alternatives
  Copies of a source have one vote together
    weak/test_copies.py::test_a_group_of_copies_votes_as_its_original
  The same command resumes
    cli/test_aggregate_cli.py::test_a_killed_run_goes_on
  a note counts records without one
    cli/test_aggregate_cli.py::test_texts_of_a_source_that_are_no_documents
  Several answers on equal texts share one vote
    cli/test_aggregate_cli.py::test_a_text_answered_twice_is_two_votes_of_one_source
  the chain finds entities that no source has
    weak/test_aggregate.py::test_a_student_finds_entities_where_sources_only_abstain
"""


def read_promises():
    """Yield page, part of a sentence, and the test as file::function."""
    page = sentence = ""
    for line in PROMISES.splitlines():
        if not line.startswith(" "):
            page = line
        elif not line.startswith("    "):
            sentence = line.strip()
        else:
            yield page, sentence, line.strip()


@pytest.mark.parametrize("page, sentence, guard", read_promises())
def test_each_promise_has_a_test(page, sentence, guard):
    text = " ".join((ROOT / page).read_text("utf8").split())
    assert sentence in text, f"{page} no longer says: {sentence}. Does {guard} guard another one?"
    file, name = guard.split("::")
    content = (ROOT / "tests" / file).read_text("utf8")
    assert re.search(rf"def {name}\b", content), f"{guard} is gone: {page} says: {sentence}"


def test_the_package_runs_no_data_as_code():
    for file in FILES:
        tree = ast.parse(file.read_text("utf8"))
        called = {ast.unparse(x.func) for x in ast.walk(tree) if isinstance(x, ast.Call)}
        assert not called & NO_CODE, file


def test_the_package_opens_no_connection():
    for file in FILES:
        imports = [x for x in ast.walk(ast.parse(file.read_text("utf8"))) if type(x) in IMPORTS]
        names = {getattr(x, "module", None) or x.names[0].name for x in imports}
        assert not names & CLIENTS, file


def test_the_base_install_needs_spacy():
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    needed = re.findall(r"^[\w-]+", setup["options"]["install_requires"], re.MULTILINE)
    of_spacy = {re.split(r"\W", name)[0] for name in requires("spacy") or ()}
    assert needed[0] == "spacy" and set(needed[1:]) <= of_spacy
