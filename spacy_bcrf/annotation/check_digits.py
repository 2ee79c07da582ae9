"""Numbers whose check digits are right, and addresses of the internet."""

import re
from ipaddress import ip_address

_SEPARATORS = re.compile(r"[ \-]")
_DIGITS_OF_CARD = range(12, 20)


def is_card(word: str) -> bool:
    """Return whether a word has 12 to 19 digits that pass the check of Luhn (ISO/IEC 7812-1)."""
    digits = _SEPARATORS.sub("", word)
    if not (digits.isascii() and digits.isdigit() and len(digits) in _DIGITS_OF_CARD):
        return False
    from_right = [int(digit) for digit in reversed(digits)]
    doubled = (sum(divmod(2 * digit, 10)) for digit in from_right[1::2])
    return (sum(from_right[::2]) + sum(doubled)) % 10 == 0


def is_iban(word: str) -> bool:
    """Return whether a word is an IBAN whose check digits are right (ISO 13616, ISO 7064)."""
    text = _SEPARATORS.sub("", word).upper()
    if not re.fullmatch(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}", text, re.ASCII):
        return False
    return int("".join(str(int(character, 36)) for character in text[4:] + text[:4])) % 97 == 1


def is_ip(word: str) -> bool:
    """Return whether a word is an address of version 4 or 6."""
    try:
        ip_address(word)
    except ValueError:
        return False
    return True
