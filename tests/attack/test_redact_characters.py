"""A sample of all characters, see `redact_characters`."""

from tests.attack.redact_characters import check_characters, find_characters


def test_nothing_of_a_found_name_is_left():
    check_characters([*find_characters(151), *"\u037aéßŉΰǅİΣςᾳⒶ㎏x각가किÿ\u1b41\U0001134b"])
