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
  and runs offline
    test_promises_of_docs.py::test_the_package_opens_no_connection
  A text that is too long is an error
    cli/test_review_cli.py::test_a_text_that_is_too_long_names_its_line
  probability of an entity | exact
    pipeline/test_confidence.py::test_annotations_of_entities_equal_enumeration
  n-best, entropy, samples | yes, exact
    pipeline/test_confidence.py::test_nbest_entities_equal_enumeration
  (docs/spans.md) | yes, exact
    pipeline/test_overlapping.py::test_answers_equal_an_enumeration
  best label sequence of the text | yes
    chain/test_search.py::test_viterbi_is_enumerated
  guarantee of precision or recall | yes
    promises/test_control.py::test_promise_is_kept_on_new_documents
  probability of a span | exact
    pipeline/test_confidence.py::test_annotations_of_entities_equal_enumeration
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
  A damaged file is a `ValueError`
    attack/test_model_files.py::test_other_bytes_are_refused
  Actions and the base image have pinned digests
    test_release.py::test_actions_and_images_are_pinned_by_digest_and_tools_by_version
  The workflow `audit` checks the requirements of all extras
    test_release.py::test_each_week_an_audit_reads_the_requirements_of_all_extras_that_users_install
  uses PyPI's trusted publishing
    test_release.py::test_the_workflow_builds_each_platform_and_publishes_tags
docs/active-learning.md
  A score is the exact posterior probability
    cli/test_rank_cli.py::test_predictions_have_scores_and_alternatives
  skips and counts texts that cannot be read
    cli/test_rank_cli.py::test_skip_bad
  prints the number of skipped texts
    cli/test_rank_cli.py::test_near_duplicates_are_left_out_and_counted
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
  reports each record that it cannot read
    corpora/test_convert_records.py::test_a_bad_record_is_reported_skipped_and_counted
  A span that still cuts tokens stays gold
    corpora/test_make_doc.py::test_a_span_that_cuts_a_token_stays_gold_beside_the_tokens
  Training learns neither the span nor O
    pipeline/test_scorers.py::test_training_learns_neither_it_nor_o
  candidates find it if they cover its characters
    pipeline/test_scorers.py::test_promises_count_it
  other tags are errors
    corpora/test_shapes.py::test_tags_that_are_refused
  `ner_manual` is complete annotation
    corpora/test_convert_records.py::test_prodigys_manual_interface
  a yes or no about a span is partial
    corpora/test_convert_records.py::test_prodigys_binary_interface
  its first annotation that is not cancelled
    corpora/test_convert_records.py::test_the_ground_truth_of_label_studio
  marks the tokens of their fragments as missing
    corpora/test_overlapping_data.py::test_brat_standoff
  a `.txt` without `.ann` counts as ignored
    corpora/test_overlapping_data.py::test_brat_counts_texts_and_annotation_alone
docs/benchmarks.md
  Initialization keeps no documents in memory
    pipeline/component_suite.py::test_initialize_keeps_no_document
  at most 64 MB per component
    linear/test_word_cache.py::test_the_cache_stays_bounded
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
  A killed command resumes
    cli/test_scores_cli.py::test_a_config_with_scores_trains
  In training, the text has no scores
    scores/test_foreign_tagger.py::test_a_text_that_fails_is_an_error_and_in_training_silent_and_counted
  A text that is not in the file has no scores
    scores/test_span_sources.py::test_spans_of_json_lines
  If the folder of a source is missing, an error names it
    cli/test_scores_cli.py::test_a_pipeline_names_its_missing_source
  A classifier without a label O is an error
    cli/test_scores_cli.py::test_a_classifier_without_a_clear_o_is_an_error
  Missing weights are an error
    scores/test_token_classifiers.py::test_missing_weights_are_an_error
  must have the labels that the chain learned with
    layers/test_score_head.py::test_a_loaded_pipeline_needs_the_labels_that_it_learned_with
  their probabilities add up
    layers/test_score_head.py::test_several_labels_of_one_of_ours_add_up_and_no_more
  training starts near the source's decoding
    layers/test_score_head.py::test_learning_starts_from_the_source_and_goes_on
  then in the folder of the pipeline
    layers/test_score_head.py::test_a_source_moves_with_the_pipeline_or_by_one_override
  A span covers all tokens that it touches
    scores/test_span_sources.py::test_probabilities_of_spans
  A span without a score gets 0.95
    scores/test_span_sources.py::test_spans_of_json_lines
docs/browser.md
  Tokens, tags and spans equal Python's
    browser/test_export.py::test_javascript_repeats_the_output_of_python
  candidates equal the whole text's
    browser/test_export.py::test_a_stream_at_random_cuts_equals_the_whole_text
  Probabilities differ by at most 0.00001
    browser/test_export.py::test_javascript_repeats_the_output_of_python
  A probability differs by at most 0.0001
    browser/test_export.py::test_a_stream_at_random_cuts_equals_the_whole_text
  `export` refuses all else, and names it
    browser/test_export.py::test_what_needs_python_is_refused_by_name
  the redacted texts equal Python's
    browser/test_export.py::test_javascript_repeats_the_output_of_python
  without a network. Texts stay where they are
    test_promises_of_docs.py::test_the_javascript_opens_no_connection
docs/calibrate.md
  refuses only the documents of the fit
    promises/test_control.py::test_documents_of_the_calibration_are_refused
  and nothing of fewer than 10,000
    pipeline/test_held_out.py::test_share_of_words_that_is_held_out
  The maps change only the reported confidences
    pipeline/test_platt_scaling.py::test_confidences_of_entities_are_mapped_and_predictions_stay
  at most about 20,000 words
    pipeline/test_held_out.py::test_share_of_words_that_is_held_out
  Documents with a rare label or an open annotation are learned
    pipeline/test_held_out.py::test_partial_and_rare_annotation_is_learned
  so the best labeling stays the same
    pipeline/test_confidence.py::test_the_temperature_changes_no_prediction
  refuses predictions that are all right or all wrong
    cli/test_calibrate_cli.py::test_wrong_input_changes_nothing
  Groups with fewer than 50 predictions share a map
    pipeline/test_platt_scaling.py::test_small_groups_and_unknown_ones_share_a_map
  hold_out = false
    pipeline/test_held_out.py::test_all_is_learned_on_request
  About 80% of the predictions with confidence 0.8
    pipeline/test_held_out.py::test_probabilities_of_new_documents_are_right_after_training
  use the posteriors at the temperature
    pipeline/test_platt_scaling.py::test_confidences_of_entities_are_mapped_and_predictions_stay
docs/chain.md
  needs only NumPy
    test_imports.py::test_the_engine_imports_numpy_and_the_standard_library
  results have the same type
    chain/inference_suite.py::test_the_chain_in_single_precision
  A score of `-inf` forbids a tag or a transition
    chain/test_search.py::test_viterbi_is_enumerated
  The error names the shape, or the index of the first bad sequence
    chain/test_potentials.py::test_invalid_arrays_are_named
  zero only if all probability is on that set
    chain/test_crf.py::test_partial_loss_and_gradient_are_enumerated
  `nbest` is exact
    chain/test_nbest.py::test_nbest_is_enumerated
  with the same distribution over labelings
    chain/inference_suite.py::test_the_chain_has_the_marginals_of_the_inference
docs/choose-model.md
  need the same language, tokenizer, vectors
    cli/test_combine_cli.py::test_pipelines_that_do_not_fit_are_refused
  temperature 1 and no threshold, promise or map
    cli/test_combine_cli.py::test_what_was_fitted_to_a_part_goes
  maximize the likelihood of development documents
    cli/test_combine_cli.py::test_the_likelihood_is_stationary_at_the_weights
docs/commands.md
  No command replaces its input
    cli/test_command_ends.py::test_an_input_is_not_replaced
  or a file of a pipeline, and
    cli/test_command_ends.py::test_the_files_of_a_pipeline_are_not_replaced
  a config only with `--force`
    cli/test_command_ends.py::test_a_config_is_replaced_by_force_alone
  An output folder must be new or empty
    cli/test_command_ends.py::test_a_pipeline_is_not_saved_among_other_files
  a note names it
    cli/test_command_ends.py::test_a_note_names_a_file_that_is_replaced_before_the_work_begins
  No training starts after these minutes
    cli/test_tune_cli.py::test_the_time_ends_the_search
  texts of other formats replace equal ones of .spacy
    cli/test_init_cli.py::test_several_files_of_which_the_new_annotation_stays
docs/components.md
  No component emits an invalid
    pipeline/test_ner.py::test_predictions_obey_all_constraints
  A preset entity stays
    pipeline/test_ner.py::test_a_preset_entity_with_an_unknown_label_stays
  so each loads the bytes of the other
    layers/test_cnn.py::test_bytes_and_copies
  Outputs differ by rounding
    layers/test_cnn.py::test_equals_spacys_layers
  `convert` repairs gold tags that the scheme forbids
    corpora/test_entity_tag_reader.py::test_invalid_tags_are_repaired_and_counted
  as unannotated, and warns
    pipeline/test_ner.py::test_infeasible_gold_gives_one_warning_and_no_gradient
  behind `bcrf_identifiers` keeps its entities
    pipeline/test_identifier_component.py::test_identifiers_stay_and_the_chain_finds_the_rest
docs/confidence.md
  computes the exact posterior probability
    pipeline/test_confidence.py::test_annotations_of_entities_equal_enumeration
  None for a tag that the model does not know
    pipeline/test_confidence.py::test_annotations_describe_preset_tags
  keep them.
    pipeline/test_confidence.py::test_serialized_documents_keep_their_confidences
  are hard constraints, as in prediction
    pipeline/test_confidence.py::test_queries_ignore_or_keep_preset_entities
  the later one wins
    pipeline/test_confidence.py::test_the_later_of_two_components_sets_the_confidence
  uses a CRF with the same potentials
    pipeline/test_confidence.py::test_a_head_without_probabilities_has_those_of_a_crf
docs/distill.md
  the same command resumes
    cli/test_distill_cli.py::test_a_killed_run_goes_on
  learns the marginals of the teacher
    cli/test_distill_cli.py::test_the_student_is_sparse_and_has_the_teachers_probabilities
  their weights sum to at most 1
    weak/test_vote_marginals.py::test_votes_with_too_much_weight
docs/drift.md
  with probability 5% at most
    promises/test_monitor.py::test_equal_documents_raise_few_alarms_and_others_many
  contains no text
    cli/test_redact_monitor.py::test_a_watch_in_steps
  the guarantee no longer covers the new documents
    promises/test_monitor.py::test_drift_breaks_a_promise_and_names_the_documents_needed
  exits with code 3 at an alarm
    cli/test_redact_monitor.py::test_a_watch_in_steps
docs/faq.md
  summed over all labelings of the rest
    pipeline/test_confidence.py::test_entity_candidates_equal_enumeration
  the same with more threads
    kernels/test_threads.py::test_the_number_of_threads_changes_no_bit
  load nothing from a network
    test_promises_of_docs.py::test_the_package_opens_no_connection
  keeps the entities of the first as constraints
    pipeline/test_ner.py::test_components_with_other_labels_keep_each_others_entities
  emits an invalid BIO, BILUO or BIES sequence
    pipeline/test_ner.py::test_predictions_obey_all_constraints
  writes the exact posterior of each entity
    pipeline/test_confidence.py::test_annotations_of_entities_equal_enumeration
  finds it, with a guarantee for new documents
    promises/test_control.py::test_promise_is_kept_on_new_documents
  no suggester, and the same span group
    pipeline/test_overlapping.py::test_scores_follow_the_contract_of_spancat
docs/first-model.md
  every tenth document to `dev.spacy`
    cli/test_init_cli.py::test_documents_are_held_out_if_there_is_no_dev_part
docs/from-sklearn-crfsuite.md
  Labelings equal CRFsuite's
    cli/test_migrate_crfsuite.py::test_the_module_has_equal_labelings_and_marginals
  continues as the one in memory
    interfaces/test_sklearn.py::test_a_saved_model_goes_on_as_the_one_in_memory
  The old arguments work unchanged
    interfaces/test_sklearn.py::test_arguments_without_effect
  so `partial_fit` refuses them
    interfaces/test_sklearn.py::test_partial_fit_refuses_what_it_cannot_do_and_changes_nothing
  It runs without spaCy and CRFsuite
    interfaces/test_sklearn.py::test_neither_spacy_nor_torch_is_imported
  as in CRFsuite: `c1`
    interfaces/test_sklearn.py::test_the_objective_is_minimal
  have no effect
    interfaces/test_sklearn.py::test_arguments_without_effect
  maximizes the likelihood of the known ones
    interfaces/test_sklearn.py::test_partial_labels_teach_the_known_ones
  if you give one of its arguments other than `max_iterations`
    interfaces/test_sklearn.py::test_an_argument_of_lbfgs_chooses_it
docs/heads.md
  transition scores stay zero
    chain/test_unstructured.py::test_is_the_crf_without_transitions
  No component emits a labeling that the scheme forbids
    layers/test_decoding.py::test_a_decoder_obeys_the_constraints
  The result is exact, also for overlapping spans
    pipeline/test_span_decoder.py::test_spans_have_the_largest_sum_of_all_sets
  set no options of the head
    test_project.py::test_a_config_is_short_and_takes_any_head
  save such changes
    pipeline/test_span_decoder.py::test_the_decoder_is_saved
  also for overlapping spans
    pipeline/test_span_decoder.py::test_overlapping_spans_fit_into_the_layers_of_their_label
  forgets a fitted t
    pipeline/test_held_out.py::test_the_threshold_of_the_decoder_for_f_is_half_of_the_f_that_it_reaches
docs/label-errors.md
  resumes with the next fold
    cli/test_audit_cli.py::test_finished_folds_are_not_trained_again
  Copies and near copies of a text share a fold
    cli/test_audit_cli.py::test_copies_share_a_fold
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
  at most 256 tags
    linear/test_second_order.py::test_wrong_settings_and_pairs_are_refused
  one step per document, for any batch size
    pipeline/test_linear_chain.py::test_weights_do_not_depend_on_the_batch_size
  It ignores the optimizer of the training config
    pipeline/test_linear_chain.py::test_a_chain_ignores_the_optimizer_of_the_config
  mean field of the objective, else from a CRF
    pipeline/test_linear_chain.py::test_probabilities_come_from_the_inference_of_the_objective
docs/long-documents.md
  It never truncates a text or drops tokens
    cli/test_annotate_cli.py::test_a_long_document_is_not_cut
  never a truncated result
    cli/test_text_docs.py::test_a_text_that_takes_too_long_is_named
  memory of inference are linear
    pipeline/test_segmenter.py::test_memory_is_linear
  lists such a document in `errors.jsonl`
    cli/test_annotate_cli.py::test_failed_documents_are_listed
docs/mathematics.md
  It never returns an invalid one
    layers/test_decoding.py::test_a_decoder_obeys_the_constraints
  missing annotation teaches nothing
    chain/inference_suite.py::test_losses_are_not_negative_and_zero_without_annotation
  it never becomes negative
    linear/test_learner.py::test_the_losses_of_bregman_chains_are_never_negative
  At convergence, it has the same marginals
    chain/test_bregman.py::test_at_convergence_the_chain_has_the_marginals
  for all entities of a text, exactly
    chain/test_span_posteriors.py::test_posteriors_are_enumerated
  the value is an upper bound
    chain/test_bregman.py::test_an_unconverged_value_is_an_upper_bound
  with the same limit
    chain/test_bregman.py::test_over_relaxation_converges_faster
docs/migrate.md
  names the section and writes nothing
    cli/test_migrate_cli.py::test_what_cannot_be_migrated_is_refused
  Outputs are equal up to rounding
    pipeline/test_accelerate.py::test_outputs_stay
  no suggester, exact probabilities
    pipeline/test_overlapping.py::test_answers_equal_an_enumeration
docs/new-labels.md
  annotates the new labels only
    training/test_extend.py::test_a_new_label_beside_an_old_one
  has none of the new tags
    training/test_extend.py::test_a_tag_replaces_any_old_tag
  skips a document with missing annotation
    training/test_extend.py::test_documents_that_teach_nothing_are_named
  The component keeps its temperature
    cli/test_extend_cli.py::test_the_temperature_stays
  so `extend` removes them
    training/test_extend.py::test_promise_and_calibration_are_removed_and_the_rate_is_set
  Entities with old labels are kept as gold
    training/test_extend.py::test_annotation_of_old_labels_wins_over_the_old_model
  Rehearsal does not constrain labels that you add
    pipeline/test_rehearsal.py::test_a_later_label_is_not_taught
  on the same documents teach the old labels
    cli/test_extend_cli.py::test_old_labels_keep_their_probabilities
  Its O means "none of the new labels"
    training/test_extend.py::test_a_new_label_beside_an_old_one
docs/other-libraries.md
  `ner.nbest`: exact
    pipeline/test_confidence.py::test_nbest_entities_equal_enumeration
docs/partial-annotation.md
  only if the annotation decides whether it is correct
    promises/test_judged.py::test_calibration_promises_and_scores_judge_the_same_predictions
  has the same options and keeps them
    readers/test_split_corpus.py::test_sentences_keep_partial_annotation
  and a warning names them
    pipeline/test_partial_annotation.py::test_contradictions_give_a_warning_and_no_gradient
  A prediction that a span or label excludes is wrong
    pipeline/test_partial_annotation.py::test_a_prediction_is_wrong_if_no_allowed_set_has_it
  It warns about a label if
    cli/test_debug_files.py::test_labels_without_any_o_give_a_warning
  with any head except mean field
    pipeline/test_partial_annotation.py::test_mean_field_refuses_partial_annotation
  For such a corpus, `init` sets it
    cli/test_init_cli.py::test_entities_without_o_set_the_ratio
  an empty label allows all
    pipeline/test_partial_annotation.py::test_gold_allows_exactly_the_sets_that_the_annotation_allows
  O means "none of these labels"
    pipeline/test_partial_annotation.py::test_gold_allows_exactly_the_sets_that_the_annotation_allows
docs/pipelines.md
  needs other versions than the installed ones
    pipeline/test_callbacks.py::test_a_pipeline_warns_of_versions_that_it_does_not_fit
  only denies the labels that it annotates
    models/test_shipped_corpora.py::test_a_corpus_keeps_its_own_labels
  since its build reads no test part
    test_promises_of_docs.py::test_the_clinical_pipeline_reads_no_test_part
docs/processors.md
  The result does not depend on the number of threads
    kernels/test_threads.py::test_the_number_of_threads_changes_no_bit
  An unknown or unavailable one is an error
    kernels/test_instruction_sets.py::test_an_unknown_instruction_set_is_an_error
docs/promises.md
  `control` stores nothing and prints the number that it needs
    promises/test_control.py::test_too_few_documents_name_how_many_are_needed
  count documents with equal texts once
    promises/test_control.py::test_copies_of_a_document_count_once
  `control` stores nothing.
    cli/test_control_cli.py::test_without_a_promise_a_table_is_printed
  needs a far lower threshold
    promises/test_control.py::test_a_covered_promise_has_a_higher_threshold
  59 documents without an error promise 95%
    promises/test_control.py::test_documents_have_exact_p_values
  refuses the documents that the temperature was fitted on
    promises/test_control.py::test_documents_of_the_calibration_are_refused
  warns if the calibrated probabilities are wrong
    promises/test_control.py::test_documents_of_another_source_are_doubted
  it succeeds in at least half of all draws
    promises/test_control.py::test_estimated_documents_suffice_in_half_of_the_cases
  n promises share the risk equally
    promises/test_control.py::test_labels_with_their_own_promise_share_the_error
  that hold simultaneously
    promises/test_control.py::test_a_table_of_promises_holds_at_once
  find a gold span if they cover its words
    promises/test_control.py::test_a_covered_span_is_found_by_any_candidates
  it drops predictions below the threshold
    promises/test_control.py::test_threshold_drops_uncertain_entities_but_no_preset_ones
  writes all spans from the threshold on
    promises/test_control.py::test_recall_control_writes_candidates
  keeps spans from a threshold on, with the promise above
    promises/test_verify.py::test_probabilities_are_right_and_promises_are_kept
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
  A file without private data stays the same bytes
    cli/test_redact_files.py::test_a_file_without_private_data_is_the_same
  A text that is JSON stays JSON
    cli/test_redact_files.py::test_a_text_that_is_json_stays_json
  Unknown ones stay and are counted
    privacy/test_restore.py::test_bent_placeholders_are_found_and_unknown_ones_stay
  numbers become numbers again
    privacy/test_documents.py::test_numbers_are_numbers_again
  another one is an error
    cli/test_redact_files.py::test_a_folder_is_restored_with_its_own_vault
  and the exit code is 3
    cli/test_redact_monitor.py::test_a_text_that_fails_is_named_and_ends_with_3
  a time of day becomes a surrogate
    privacy/test_restore.py::test_what_is_more_than_a_date_is_a_surrogate
  replaces each found string everywhere in the document
    privacy/test_redact.py::test_each_string_is_replaced_wherever_it_occurs
  this holds across runs
    cli/test_redact_monitor.py::test_a_key_gives_equal_surrogates
  The comparison ignores case, accents
    privacy/test_redact.py::test_other_forms_of_a_found_string_are_replaced
  `--key` encrypts it
    privacy/test_restore.py::test_an_encrypted_vault
  Names of fields and HTML ids stay
    privacy/test_documents.py::test_json_keeps_its_structure
  returns the spans of `redact`, with further occurrences
    privacy/test_presidio.py::test_a_promise_finds_its_candidates_and_further_occurrences
  All other fields are dropped
    cli/test_redact_monitor.py::test_other_fields_of_records_are_dropped
  replace each character except blanks
    privacy/test_redact.py::test_marks_and_symbols_are_replaced_and_the_form_is_kept
  the same person in the second one
    privacy/test_restore.py::test_one_person_has_one_number
  So is a later `redact` into the folder without it
    cli/test_redact_files.py::test_a_folder_is_restored_with_its_own_vault
docs/reference.md
  Each command is a function of the same name
    cli/test_thin.py::test_a_command_calls_the_function_of_its_name_and_no_other_command
docs/reliability.md
  The same command resumes a killed run
    cli/test_annotate_killed.py::test_killed_at_ten_points
  `--redo` annotates only these shards again
    cli/test_annotate_cli.py::test_a_damaged_shard_is_named_and_redone
  is in the output once or in `errors.jsonl` once
    cli/test_annotate_cli.py::test_failed_documents_are_listed
  Memory stays below 600 MiB
    attack/test_memory.py::test_inputs_that_would_fill_the_memory
  ends on SIGTERM, even if clients stall
    attack/test_clients.py::test_a_server_ends_while_clients_hold_half_a_request
  No result of `bcrf.chain` is NaN
    attack/test_sums_beyond_the_type.py::test_no_result_is_nan
  A damaged component is a `ValueError` that names its folder
    attack/test_model_files.py::test_the_error_names_the_folder_or_the_file
  No form of a found name stands in the output
    attack/test_redact_characters.py::test_nothing_of_a_found_name_is_left
  `restore` undoes numbered placeholders
    privacy/test_restore.py::test_originals_come_back_for_any_text_and_at_any_cut
  releases no part of a candidate above the threshold
    privacy/test_redact_stream.py::test_max_lag_keeps_no_part_of_a_long_name
  No label or text runs a script in a page
    cli/test_review_page.py::test_texts_and_labels_do_nothing
  Weights of a sparse chain have a checksum
    attack/test_model_files.py::test_each_flipped_bit_is_noticed
  up to 64 MB per component
    linear/test_word_cache.py::test_the_cache_stays_bounded
  `annotate` names a damaged, missing or cut shard
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
  skips predictions without gold annotation
    judging/test_evaluation.py::test_entities_agree_with_spacy
  The bootstrap draws documents
    judging/test_resampling.py::test_documents_are_drawn_as_a_whole
docs/review.md
  Each decision takes one key
    cli/test_review_page.py::test_each_decision_takes_one_key
  without server and network
    cli/test_review_cli.py::test_a_page_loads_nothing
  The page keeps decisions on which they agree
    cli/test_review_page.py::test_two_annotators_side_by_side
docs/scale-reference.md
  A shard has at most 1,000 documents
    cli/test_annotate_cli.py::test_records_of_one_shard_are_bounded_by_all_their_characters
  all shards of a run have the same columns
    cli/test_annotate_cli.py::test_parquet_columns_of_json_lines
  a second run in the same folder
    cli/test_annotate_cli.py::test_two_runs_cannot_share_a_folder
  an input that changes during the run
    cli/test_annotate_cli.py::test_an_input_that_changes_during_the_run_is_refused
  `annotate` loses no value
    cli/test_annotate_cli.py::test_parquet_columns_of_json_lines
  a component fails on a document
    cli/test_annotate_cli.py::test_a_failing_component_fails_only_its_documents
  the run continues with the next line
    cli/test_annotate_cli.py::test_reading_goes_on_after_a_bad_line
  `annotate` annotates the readable part
    cli/test_annotate_cli.py::test_the_rest_of_a_file_that_cannot_be_read_is_counted
  A document takes longer than 60 s
    cli/test_annotate_cli.py::test_a_document_that_takes_too_long_fails_alone
  Finished shards stay
    cli/test_annotate_cli.py::test_a_full_disk_stops_and_the_next_run_goes_on
  After three deaths
    cli/test_annotate_killed.py::test_documents_that_end_workers_are_set_aside
  annotates only this shard again
    cli/test_annotate_cli.py::test_a_damaged_shard_is_named_and_redone
  `annotate` refuses links, devices
    cli/test_annotate_cli.py::test_links_in_the_output_are_not_followed
  The same folder with another input, model or option
    cli/test_annotate_cli.py::test_a_different_run_is_refused
  devices, and a second run
    cli/test_annotate_cli.py::test_an_endless_device_is_no_input
docs/scale.md
  the same command resumes
    cli/test_annotate_killed.py::test_killed_at_ten_points
  `annotate` never cuts a document
    cli/test_annotate_cli.py::test_a_long_document_is_not_cut
  Every document is in the output once
    cli/test_annotate_cli.py::test_failed_documents_are_listed
  `meta` keeps all other columns
    cli/test_annotate_cli.py::test_rows_have_ids_offsets_probabilities_and_meta
  a free actor takes its shard
    cli/test_annotate_ray.py::test_a_worker_and_then_a_node_die
  Memory does not grow with the number of documents
    cli/test_annotate_cli.py::test_strings_of_the_input_stay_only_during_the_warm_up
  adds the N best labelings
    cli/test_annotate_cli.py::test_alternatives
  `--dropped` the predictions below a threshold
    cli/test_annotate_cli.py::test_dropped_predictions_of_a_precision_promise
docs/segmentation.md
  The text never changes
    pipeline/test_segmenter.py::test_the_text_is_unchanged_and_every_word_has_a_tag
  `cut` returns them as lists
    pipeline/test_segmenter.py::test_cut_finds_the_words_of_documents
  it makes no documents
    pipeline/test_segmenter.py::test_cut_makes_no_documents_for_a_chain_over_characters
  Training skips a word that begins or ends within a character
    pipeline/test_segmenter.py::test_gold_words_become_spans_of_characters
  still teaches its boundaries
    pipeline/test_segmenter.py::test_an_untagged_word_allows_all_labels_within_its_boundaries
  No word contains whitespace
    pipeline/test_segmenter.py::test_words_keep_spaces
  returns a Doc of words for the later components
    pipeline/test_segmenter.py::test_later_components_receive_words
docs/serving.md
  The head has more than 64 KiB
    attack/test_limited_heads.py::test_a_head_has_a_size
  The head or the body takes more than 10 s
    attack/test_limited_heads.py::test_a_head_has_a_time
  The server stops reading it
    attack/test_memory.py::test_a_server_reads_no_more_of_a_body_than_it_takes
  so it answers the other requests
    cli/test_serve_cli.py::test_a_text_that_takes_too_long_and_one_that_fails_harm_no_other
  renders one page at a time and refuses others
    cli/test_serve_cli.py::test_texts_wait_for_one_page_at_most
  refuses requests that the browser marks as cross-site
    cli/test_serve_cli.py::test_requests_from_pages_of_other_sites_are_refused
  The body is no JSON with a text
    cli/test_serve_cli.py::test_a_bad_body_is_named
  more than 1,000 texts
    cli/test_serve_cli.py::test_a_request_beyond_those_that_wait_is_refused
  If exactly one component has a promise of recall
    cli/test_serve_cli.py::test_redacted_events
  the caches of 64 MB per component are full
    linear/test_word_cache.py::test_the_cache_stays_bounded
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
  with the exact probability of each span
    pipeline/test_overlapping.py::test_answers_equal_an_enumeration
  So all queries are exact
    pipeline/test_overlapping.py::test_answers_equal_an_enumeration
  spans that no layer can hold
    pipeline/test_overlapping.py::test_spans_that_no_layer_holds_are_named_and_the_others_learned
  spans that cross a sentence start
    pipeline/test_overlapping.py::test_exclusive_labels_train_and_spans_cross_no_sentence_start
  Preset spans of the group stay
    pipeline/test_overlapping.py::test_preset_spans_stay_and_condition_the_others
  An unknown label is an error
    cli/test_overlapping_cli.py::test_an_exclusive_label_without_spans_is_named
  As spaCy's `spancat`, it writes
    pipeline/test_overlapping.py::test_scores_follow_the_contract_of_spancat
docs/streaming.md
  it never retracts anything
    pipeline/test_stream.py::test_equals_the_whole
  `max_lag=8` bounds the lag
    pipeline/test_stream.py::test_max_lag
  All streams equal the whole text
    pipeline/test_stream.py::test_equals_the_whole
  and an error gives the reason
    pipeline/test_stream.py::test_components_that_cannot_stream
  emits no character of a span that
    privacy/test_redact_stream.py::test_no_span_of_the_whole_text_leaks
  removes all other fields that can contain text
    privacy/test_litellm.py::test_no_other_text_of_a_chunk_passes
  it first writes the redacted rest of its input
    cli/test_redact_monitor.py::test_a_stopped_stream_writes_the_rest
  The report lists them as `late`
    privacy/test_redact_stream.py::test_repeats
  Other tokenizers cannot stream text
    annotation/test_text_stream.py::test_unknown_tokenizer
  the status is 501 with the reason
    cli/test_serve_cli.py::test_redacted_events
  keeps it under a promise of recall
    pipeline/test_stream.py::test_max_lag_keeps_the_promise
  hold as for whole texts
    pipeline/test_stream.py::test_equals_the_whole
  refuses the bytes of `/v1/messages`
    privacy/test_litellm.py::test_no_other_text_of_a_chunk_passes
  within 0.0001 of their middle
    pipeline/test_stream.py::test_equals_the_whole
  Spans are final if they stay the best
    pipeline/test_stream.py::test_equals_the_whole
  The same holds for `order = 2`
    pipeline/test_stream.py::test_components_that_cannot_stream
docs/torch.md
  the labelings of 10,000 random sequences equal `decode`
    interfaces/test_onnx.py::test_ten_thousand_cases
  equal pytorch-crf's, so you change only the import
    interfaces/test_torch.py::test_a_model_of_pytorch_crf_on_real_text
  with the exact gradients
    interfaces/test_torch.py::test_gradients_of_losses
  A saved `state_dict` loads unchanged
    interfaces/test_torch.py::test_a_model_of_pytorch_crf_on_real_text
  an error with the sequence and the step
    interfaces/test_torch.py::test_bad_input_is_named
  A second derivative is an error
    interfaces/test_torch.py::test_second_derivatives_are_refused
  compute float16 and bfloat16 in float32
    interfaces/test_torch.py::test_half_precision_becomes_float32
  Marginals differ by less than 1e-5
    interfaces/test_onnx.py::test_long_texts_keep_their_digits
  Tags of padding are -100
    interfaces/test_onnx.py::test_labelings_and_marginals_are_equal
  of all labelings that the other tags allow
    interfaces/test_torch.py::test_log_likelihood_and_gradients_are_those_of_enumeration
  All of pytorch-crf's tests pass
    conformance/test_conformance.py::test_no_published_case_failed
  Such a token stays in the sequence
    interfaces/test_torch.py::test_log_likelihood_and_gradients_are_those_of_enumeration
  merge into one model
    interfaces/test_onnx.py::test_an_encoder_and_a_crf_become_one_model
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
  A label that is neither yours nor mapped is a flaw
    cli/test_aggregate_cli.py::test_bad_configs
  One error names the flaws of all files
    cli/test_aggregate_cli.py::test_one_run_names_the_flaws_of_all_files
  repairs missing or wrong offsets
    cli/test_aggregate_cli.py::test_answers_of_language_models_as_they_are
  and never confirm each other
    chain/test_votes.py::test_copies_count_once
  An entity needs a vote on each of its tokens
    chain/test_votes.py::test_an_entity_has_a_vote_on_each_of_its_tokens
  the source did not see it
    chain/test_votes.py::test_tokens_that_a_source_did_not_see_and_uncertain_votes
  with the largest expected F
    weak/test_place_model.py::test_the_threshold_raises_expected_f
  adds spans where no source has one
    weak/test_repeats.py::test_a_phrase_is_found_again_whatever_its_first_word
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


def test_the_javascript_opens_no_connection():
    files = [*ROOT.glob("js/src/*.js"), *ROOT.glob("js/worker.js")]
    assert files
    for file in files:
        found = re.findall(
            r"\bfetch\(|XMLHttp|WebSocket|EventSource|sendBeacon", file.read_text("utf8")
        )
        assert not found, file


def test_the_clinical_pipeline_reads_no_test_part():
    folder = ROOT / "models/es_bcrf_clinical"
    texts = [path.read_text("utf8") for path in (folder / "project.yml", folder / "convert.py")]
    assert all("meddocan" in text or "MEDDOCAN" in text for text in texts)
    assert not any(re.search(r"\btest\b", text) for text in texts)
