"""Pipeline components: codecs, training on gold, prediction, posterior queries, calibration."""
