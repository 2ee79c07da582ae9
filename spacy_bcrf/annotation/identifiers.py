"""Identifiers in texts: what check digits, libraries or an unmistakable form decide.

A text is read in chunks: a word with a digit or a sign such as `@`, and up to MOST_WORDS - 1 words
behind it that single spaces join as in `0161 496 0118`. An identifier is within a chunk, except a
private key. So a stream can find the identifiers of the whole text. A chunk of MOST_WORDS may
go on: only identifiers that begin in its first words count, and the next chunk begins behind these.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from bcrf.io.extras import require

from .check_digits import is_card, is_iban, is_ip

LABELS = (
    *("EMAIL_ADDRESS", "URL", "IP_ADDRESS", "MAC_ADDRESS", "CREDIT_CARD", "IBAN_CODE"),
    *("PHONE_NUMBER", "NATIONAL_ID", "UUID", "KEY", "USERNAME"),
)
REGIONS = (
    *("US", "GB", "IE", "AU", "NZ", "IN", "ZA", "DE", "AT", "CH", "FR", "BE", "NL", "ES", "PT"),
    *("IT", "SE", "DK", "NO", "FI", "PL"),
)
"""Countries whose numbers are found without the code of the country."""

MOST_WORDS = 12
FIRST_WORDS = 4
"""An identifier has at most MOST_WORDS - FIRST_WORDS + 1 words, as many as an IBAN."""
BEFORE = 32
"""Characters before an identifier that may say what it is, such as `Tel. `."""
LONGEST_KEY = 8192
"""Characters of a private key in PEM."""


class Identifier(NamedTuple):
    """start, end: characters. label: one of LABELS."""

    start: int
    end: int
    label: str


_CHUNK = re.compile(r"(?<!\S)\S*?(?:[\d@=]|://|\w\.\w)\S*")
_NEXT = re.compile(r"(?<=[0-9A-Z).\-]) (?=[0-9A-Z(+])(\S+)")
_DIGIT = re.compile(r"\d")
BEGIN_KEY = "-----BEGIN "
_PRIVATE_KEY = re.compile(
    rf"{BEGIN_KEY}[A-Z ]{{0,30}}PRIVATE KEY-----(?:(?!-----).){{1,{LONGEST_KEY}}}"
    r"-----END [A-Z ]{0,30}PRIVATE KEY-----",
    re.DOTALL,
)
_DOMAINS = "com|org|net|edu|gov|mil|int|info|biz|io|dev|app|ai|me|eu|uk|de|fr|es|it|nl|ie|au|ca|in"
_URL = re.compile(
    r"""(?:(?:https?|ftp|wss?)://|www\.)[^\s<>"'`()\[\]{}|\\^]+"""
    rf"""|(?<![\w.@/-])(?:[A-Za-z0-9-]+\.)+(?:{_DOMAINS})(?:/[^\s<>"'`()\[\]{{}}|\\^]+|/?(?![\w.@-]))"""
)
_MAIL = re.compile(  # in linear time: from the start of a word, or bounded
    r"(?:(?<![\w.+'%-])[\w.+'%-]*|(?=[+'%])[\w.+'%-]{0,64})[\w+%-]@[\w-]+(?:\.[\w-]+)+"
)
_HANDLE = re.compile(r"(?<![\w.@/])@[A-Za-z_][\w.]{1,30}(?<!\.)")
NO_HANDLES = {
    *("@property", "@media", "@param", "@return", "@returns", "@override", "@staticmethod"),
    *("@classmethod", "@dataclass", "@import", "@pytest", "@app", "@charset", "@keyframes"),
}
_UUID = re.compile(r"(?<!\w)[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}(?!\w)", re.IGNORECASE)
_IP = re.compile(
    r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)"
    r"|(?<![\w:.])(?=[\dA-Fa-f:]{6,})[\dA-Fa-f]{0,4}(?::[\dA-Fa-f]{0,4}){2,7}(?![\w:])"
)
_MAC = re.compile(
    r"(?<![\w:-])[\dA-Fa-f]{2}(?:([:-])[\dA-Fa-f]{2})(?:\1[\dA-Fa-f]{2}){4}(?![\w:-])"
    r"|(?<![\w.])[\dA-Fa-f]{4}\.[\dA-Fa-f]{4}\.[\dA-Fa-f]{4}(?![\w.])"
)
_IBAN = re.compile(r"(?<![A-Za-z\d])[A-Z]{2}\d{2}(?: ?[A-Z\d]{1,4}){3,8}(?![A-Za-z\d])")
_CARD = re.compile(r"(?<![\w.,-])[2-6]\d{3}(?:[ -]?\d{2,6}){2,4}(?![\w-]|[.,]\d)")
_KEY = re.compile(
    r"(?<![A-Za-z\d])(?:gh[a-z]_\w{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|sk-[\w-]{20,}"
    r"|[rsp]k_(?:live|test)_\w{10,}|(?:AKIA|ASIA)[\dA-Z]{16}|AIza[\w-]{35}|xox[a-z]-[\w-]{10,}"
    r"|npm_\w{30,}|hf_\w{30,}|pypi-[\w-]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}"
    r"|(?:[ps]k\.)?eyJ[\w-]{10,}\.[\w-]{10,}(?:\.[\w-]*)?|AAAA[B-E][\w+/=]{40,})"
)
_VALUE = re.compile(r"""[^\s"'<>,;&=]{6,}""")
_NAMES_SECRET = re.compile(
    r"(?:passw(?:or)?d|passwd|pwd|secret|token|api[-_ ]?key|(?:access|secret|private)[-_ ]?key"
    r"|bearer)[\"']?\s{0,2}(?:[:=]\s{0,2}|(?<=bearer)\s)[\"']?$",
    re.IGNORECASE,
)
_NAMES_CODE = re.compile(
    r"\b(?:(?:passw(?:or)?d|pass ?phrase|pass ?code|pin|otp"
    r"|(?:security|verification|access|one-time|door|gate|alarm|entry)[- ](?:code|pin))"
    r"(?: (?:number|no\.))?[\"']?(?: (?:is|was|now)){0,2}\s{0,2}:?"
    r"|(?:session(?:[-_]?id)?|sid|cookie)[\"']?[:=])\s{0,2}[\"'(`]?$",
    re.IGNORECASE,
)
_CODE = re.compile(  # no date, time, range of characters, nor 3-digit
    r"(?<![^\s\"'(`:=])(?!\d{1,4}[:.\-/]\d{1,2}(?:[:.\-/]\d{1,4})?(?!\w)|\d{1,2}-[a-z]|\()"
    r"(?:\d{3}[ -]\d{3}(?![\w-])"
    r"""|(?=[^\s"'<>`,;&=]{0,30}\d)[^\s"'<>`,;&=]{3,64}[^\W_])"""
)
_CREDENTIALS = re.compile(
    r"(?<![a-z\d])(?!https?:|ftp:|wss?:)[a-z][a-z\d+.-]{1,20}://"
    r"(?P<user>[^\s:/@]{1,64}):(?P<secret>[^\s/@]{1,64})@"
)
_USER = re.compile(
    r"(?:\b|_)(?:user|user[-_]?name|user[-_]?id|login|uid)[\"']?[=:][\"']?"
    r"(?P<found>[^\W\d][\w.-]*\w)",
    re.IGNORECASE,
)
NO_USERS = {"none", "null", "true", "false", "root", "self", "name"}
_MOBILE = re.compile(r"07\d{9}|0[67]\d{8}")
_PHONE_DIGITS = re.compile(r"\+?(?:\(\+?\d{1,5}\) ?)?\d[\d().\-/ ]{3,22}\d(?!\w|[.,:/-]\d)")
_PHONE = re.compile(rf"(?<![\w/+-])(?<!\d[.,:]){_PHONE_DIGITS.pattern}")
_DATE = re.compile(r"(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{2,4})\b.*")
_NAMES_PHONE = re.compile(
    r"\b(?:tel|tél|telephone|telefon|téléphone|phone|fax|mobile?|mob|cell|call|ring|text|sms|"
    r"whatsapp|handy|dial|pager|hotline)\W[^\d\n]{0,16}$",
    re.IGNORECASE,
)
_NATIONAL = {
    "us.ssn": r"\d{3}-\d{2}-\d{4}",
    "fr.nir": r"[12] ?\d{2} ?\d{2} ?\d{2} ?\d{3} ?\d{3} ?\d{2}",
    "de.idnr": r"\d{2} ?\d{3} ?\d{3} ?\d{3}",
    "it.codicefiscale": r"[A-Z]{6}\d{2}[A-Z]\d{2}[A-Z]\d{3}[A-Z]",
    "es.dni": r"\d{8}-?[A-Z]",
    "es.nie": r"[XYZ]-?\d{7}-?[A-Z]",
    "pl.pesel": r"\d{11}",
    "br.cpf": r"\d{3}\.\d{3}\.\d{3}-\d{2}",
    "mx.curp": r"[A-Z]{4}\d{6}[A-Z]{6}[A-Z\d]\d",
    "in_.aadhaar": r"\d{4} ?\d{4} ?\d{4}",
    "in_.pan": r"[A-Z]{5}\d{4}[A-Z]",
    # China: a place, a date of birth, a serial number and a check digit.
    "iso7064.mod_11_2": r"[1-9]\d{5}(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}"
    r"[\dX]",
    "kr.rrn": r"\d{6}-\d{7}",
    "fi.hetu": r"[0-9]{6}[-+A][0-9]{3}[0-9A-Z]",
    "se.personnummer": r"(?:\d{2})?\d{6}[-+]\d{4}",
    "no.fodselsnummer": r"\d{6} ?\d{5}",
    "be.nn": r"\d{2}\.\d{2}\.\d{2}-\d{3}\.\d{2}",
    "ro.cnp": r"\d{13}",
    "ch.ssn": r"756\.?\d{4}\.?\d{4}\.?\d{2}",
    "ie.pps": r"[0-9]{7}[A-W][A-IW]?",
    "gb.nhs": r"\d{3} \d{3} \d{4}",
    "tr.tckimlik": r"[1-9]\d{10}",
    "eu.vat": r"(?:AT|B[EG]|C[YZ]|D[EK]|E[ELS]|F[IR]|H[RU]|I[ET]|L[TUV]|MT|NL|P[LT]|RO|S[EIK])"
    r" ?[A-Z\d]{8,12}",
}
"""Modules of python-stdnum, with the forms of their numbers in texts."""
NATIONAL_FORMS = {
    # No part of a telephone number with the code of a country.
    name: re.compile(
        rf"(?<![\w.,)+-])(?<!\+\d )(?<!\+\d\d )(?<!\+\d\d\d )(?:{form})(?![\w-]|[.,]\d)"
    )
    for name, form in _NATIONAL.items()
}
_LONG = re.compile(r"[A-Z\d]{2}[A-Z\d .-]{6}")


class Identifiers:
    """The identifiers of texts, and of texts that arrive in pieces.

    regions: countries whose telephone numbers are found without the country's code. ImportError
    without the extra identifiers; ValueError for an unknown country.
    """

    def __init__(self, regions: Sequence[str] = REGIONS) -> None:
        self._phones: Any = require("phonenumbers", "identifiers")
        require("stdnum", "identifiers")
        if unknown := sorted({*regions} - self._phones.SUPPORTED_REGIONS):
            raise ValueError(f"unknown country {unknown[0]!r}; expected codes such as US and GB")
        self.regions = tuple(regions)
        self._is_phone = lru_cache(1 << 12)(self._check_phone)
        self._kinds: list[tuple[str, Callable[[str, int, int], Iterable[tuple[int, int]]]]] = [
            ("KEY", _find_keys),
            ("URL", _find_urls),
            ("EMAIL_ADDRESS", _find_mails),
            ("USERNAME", _find_users),
            ("UUID", _finder(_UUID)),
            ("MAC_ADDRESS", _finder(_MAC)),
            ("IP_ADDRESS", _finder(_IP, is_ip)),
            ("IBAN_CODE", _finder(_IBAN, is_iban)),
            ("CREDIT_CARD", _finder(_CARD, is_card)),
            ("NATIONAL_ID", _find_national),
            ("PHONE_NUMBER", self._find_phones),
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.regions,)

    def find(self, text: str) -> list[Identifier]:
        """Return the identifiers of a text, in its order, without overlaps."""
        return self.scan(text, 0, True)[0]

    def scan(self, text: str, start: int, ended: bool) -> tuple[list[Identifier], int]:
        """Return the identifiers from a character on, and the character up to which all are known.

        start: 0, or what a scan of a shorter text has returned. ended: whether nothing follows.
        """
        keys = [Identifier(*m.span(), "KEY") for m in _PRIVATE_KEY.finditer(text, start)]
        stop = len(text)
        if not ended:
            stop = _find_last_word(text, start, stop)
            begin = text.find(BEGIN_KEY, keys[-1].end if keys else start)
            if begin >= 0 and len(text) < begin + LONGEST_KEY + 120:
                stop = min(stop, _find_last_word(text, start, begin))
        found, at = list(keys), start
        while (match := _CHUNK.search(text, at, stop if not ended else len(text))) is not None:
            end, first_end = self._extend(text, *match.span(), ended)
            if end < 0 or (end > stop and not ended):
                at = stop = match.start()
                break
            inside = any(key.start < end and match.start() < key.end for key in keys)
            new = [] if inside else self._find_in_chunk(text, match.start(), end)
            new = [one for one in new if one.start < first_end]
            found += new
            at = max([first_end, *(one.end for one in new)])
        known = len(text) if ended else max(at, stop)
        for key in reversed(keys):
            # Its last word may go on, and nothing of such a word counts.
            if key.end > known:
                known = min(known, _find_last_word(text, start, key.start))
        return sorted(one for one in found if one.end <= known), known

    def _extend(self, text: str, start: int, end: int, ended: bool) -> tuple[int, int]:
        """Return the ends of the chunk whose first word is given, and of the words that count.

        They are -1 if a later character says.
        """
        has_digit, first_end = _DIGIT.search(text, start, end) is not None, end
        for n in range(1, MOST_WORDS):
            if not ended and end + 1 >= len(text) and text[end : end + 1] in ("", " "):
                return -1, -1
            word = _NEXT.match(text, end)
            if word is None:
                return end, end
            if not ended and word.end() == len(text):
                return -1, -1
            is_number = _DIGIT.search(text, word.start(), word.end()) is not None
            if not (has_digit or is_number):
                return end, end
            end, has_digit = word.end(), is_number
            first_end = end if n < FIRST_WORDS else first_end
        return end, first_end

    def _find_in_chunk(self, text: str, start: int, end: int) -> list[Identifier]:
        found: list[Identifier] = []
        is_taken = bytearray(end - start)
        for label, find in self._kinds:
            for first, stop in find(text, start, end):
                if not any(is_taken[first - start : stop - start]):
                    found.append(Identifier(first, stop, label))
                    is_taken[first - start : stop - start] = b"\1" * (stop - first)
        return found

    def _find_phones(self, text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        at = start
        while (match := self._match_phone(text, at, start, end)) is not None:
            before = _read_before(text, match.start())
            forms = list(_shorten(match[0]))
            found = next((x for x in forms if self._is_phone(x, False)), "")
            # What a word names is one number, unless it begins with a right one.
            if not found and _NAMES_PHONE.search(before):
                found = next((x for x in forms if self._is_phone(x, True)), "")
            at = _find_next(match, found)
            if found:
                yield match.start(), at

    def _match_phone(self, text: str, at: int, start: int, end: int) -> re.Match[str] | None:
        """Return what may be a number. A slash may stand between it and one that ends at `at`."""
        after_slash = start < at < end and text[at] == "/"
        found = _PHONE_DIGITS.match(text, at + 1, end) if after_slash else None
        return found or _PHONE.search(text, at, end)

    def _check_phone(self, text: str, is_named: bool) -> bool:
        """Return whether a text is a telephone number. is_named: whether a word before says so."""
        phones, digits = self._phones, re.sub(r"\D", "", text)
        if not 7 <= len(digits) <= 15 or text.count("(") != text.count(")"):
            return False
        if text[0] == "+":
            return self._holds(phones.is_possible_number, text)
        if _DATE.fullmatch(text):
            return False
        if is_named:
            return True
        if text[:2] == "00":
            return self._holds(phones.is_valid_number, "+" + digits[2:])
        if text.isdigit() and not _MOBILE.fullmatch(text):
            return False
        groups = re.findall(r"\d+", text)
        ends = {sum(map(len, groups[:n])) for n in range(1, len(groups) + 1)}
        for region in self.regions:
            is_of = partial(phones.is_valid_number_for_region, region_code=region)
            if self._holds(is_of, text, region):
                if text.isdigit():
                    return True
                national = phones.PhoneNumberFormat.NATIONAL
                shown = phones.format_number(phones.parse(text, region), national)
                usual = re.findall(r"\d+", shown)
                if ends >= {sum(map(len, usual[:n])) for n in range(1, len(usual) + 1)}:
                    return True
        return False

    def _holds(self, test: Callable[[Any], Any], text: str, region: str | None = None) -> bool:
        try:
            return bool(test(self._phones.parse(text, region)))
        except self._phones.NumberParseException:
            return False


@lru_cache
def _checker(module: str) -> Callable[[str], bool]:
    """Return whether a text is right, of a module of python-stdnum."""
    is_valid: Callable[[str], bool] = require(f"stdnum.{module}", "identifiers").is_valid
    return is_valid


def _finder(
    pattern: re.Pattern[str], is_right: Callable[[str], bool] = bool
) -> Callable[[str, int, int], Iterator[tuple[int, int]]]:
    """Return a function that finds the matches of a pattern that a check confirms."""

    def find(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
        at = start
        while (match := pattern.search(text, at, end)) is not None:
            found = next(filter(is_right, _shorten(match[0])), "")
            at = _find_next(match, found)
            if found:
                yield match.start(), at

    return find


def _read_before(text: str, start: int) -> str:
    """Return the characters before an identifier that may say what it is."""
    return text[max(0, start - BEFORE) : start]


def _shorten(text: str) -> Iterator[str]:
    """Yield a text, then the text without its last word, and so on."""
    while text:
        yield text
        text = text[: max(text.rfind(" "), text.rfind("/"), 0)].rstrip(" (.-/")


def _find_last_word(text: str, start: int, end: int) -> int:
    """Return where the word that reaches up to `end` begins."""
    while end > start and not text[end - 1].isspace():
        end -= 1
    return end


def _find_next(match: re.Match[str], found: str) -> int:
    """Return where to go on: behind what is found, else at the next word of the match."""
    if found:
        return match.start() + len(found)
    blank = match[0].find(" ", 1)
    return match.end() if blank < 0 else match.start() + blank + 1


def _find_urls(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _URL.finditer(text, start, end):
        yield match.start(), match.start() + len(match[0].rstrip(".,;:!?*_"))


def _find_mails(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _MAIL.finditer(text, start, end):
        first = match.start() + len(match[0]) - len(match[0].lstrip("'.%-"))
        yield first, match.end()


def _find_keys(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    yield from (match.span() for match in _KEY.finditer(text, start, end))
    for match in _VALUE.finditer(text, start, end):
        if _NAMES_SECRET.search(_read_before(text, match.start())):
            yield match.span()
    for match in _CODE.finditer(text, start, end):
        if _NAMES_CODE.search(_read_before(text, match.start())):
            yield match.span()
    for match in _CREDENTIALS.finditer(text, start, end):
        yield match.span("secret")


def _find_users(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    for match in _USER.finditer(text, start, end):
        if match["found"].lower() not in NO_USERS:
            yield match.span("found")
    for match in _CREDENTIALS.finditer(text, start, end):
        yield match.span("user")
    for match in _HANDLE.finditer(text, start, end):
        if match[0].partition(".")[0] not in NO_HANDLES:
            yield match.start() + 1, match.end()


def _find_national(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    if _LONG.search(text, start, end):
        for name, form in NATIONAL_FORMS.items():
            yield from _finder(form, _checker(name))(text, start, end)
