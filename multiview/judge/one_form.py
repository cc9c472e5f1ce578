"""Rewrites texts so that amounts, times, dates, versions, contractions and questions have one form.

The judge reads the rewritten texts. In them 7 pm and 19:00 are the same, 5 kg and 5 g differ in their number
alone, and "Is it possible to" and "Am I able to" are written as "Can I".
"""

import contextlib
import csv
import html
import re
from collections.abc import Callable, Mapping
from decimal import MAX_PREC, Context, Decimal
from functools import lru_cache
from pathlib import Path

from multiview.judge.numbers_in_words import in_digits

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = {"Mon": "Monday", "Tue": "Tuesday", "Tues": "Tuesday", "Wed": "Wednesday", "Thu": "Thursday"}
_DAYS |= {"Thurs": "Thursday", "Fri": "Friday"}
DAYS_AND_MONTHS = frozenset({"saturday", "sunday", *map(str.lower, (*_DAYS.values(), *_MONTHS))})
"""The days of the week and the months, in lower case."""
_CURRENCIES = {"$": "dollars", "£": "pounds", "€": "euros", "¥": "yen"}
_SCALES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "bn": 1e9, "trillion": 1e12}
_SCALE_LETTERS = {"k": 1e3, "K": 1e3, "m": 1e6, "M": 1e6, "b": 1e9, "B": 1e9}
"""Letters that scale an amount of money; without a currency only k does (a 4K film, 5 m)."""
_LARGE = "|".join(_SCALES)
_UNITS: Mapping[str, Mapping[str, float]] = {
    "grams": {"g": 1, "gram": 1, "mg": 1e-3, "kg": 1e3, "kilo": 1e3, "kilogram": 1e3, "milligram": 1e-3},
    "meters": {"m": 1, "meter": 1, "metre": 1, "mm": 1e-3, "cm": 1e-2, "km": 1e3, "kilometer": 1e3,
               "kilometre": 1e3, "centimeter": 1e-2, "millimeter": 1e-3, "mile": 1609.344},
    "liters": {"l": 1, "L": 1, "liter": 1, "litre": 1, "ml": 1e-3, "cl": 1e-2, "milliliter": 1e-3},
    "seconds": {"s": 1, "sec": 1, "second": 1, "ms": 1e-3, "min": 60, "minute": 60, "h": 3600, "hr": 3600,
                "hour": 3600, "millisecond": 1e-3, "day": 86400, "week": 604800},
    "bytes": {"KB": 1e3, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12},
    "electronvolts": {"eV": 1, "keV": 1e3, "MeV": 1e6, "GeV": 1e9},
    "percent": {"%": 1, "percent": 1, "per cent": 1},
}  # fmt: skip
_UNIT_OF = {
    form: (base, factor)
    for base, units in _UNITS.items()
    for unit, factor in units.items()
    for form in (unit, f"{unit}s" if len(unit) > 1 and unit[-1] != "s" else unit)
}
_NUMBER = r"(\d(?<![\w.,:/-].)\d*(?:\.\d+)?)"
_LONG_UNITS = "|".join(re.escape(unit) for unit in sorted(_UNIT_OF, key=len, reverse=True) if len(unit) > 1)
_LETTERS = "|".join(unit for unit in _UNIT_OF if len(unit) == 1 and unit.isalpha())
_NEGATED = "do|does|did|is|are|was|were|has|have|had|would|could|should|must|ca|wo"
_NEGATED += f"|{_NEGATED.title()}"
_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" for month in _MONTHS) + "|Sept"
_EXACT = Context(prec=MAX_PREC)
_HOUR = r"(\d(?<![\w:.,].)\d?)(?:[:.](\d\d))?"
_ORDINAL = r"(\d(?<!\w.)\d?)(?:st|nd|rd|th)\b"


def _product(number: str, factor: float) -> str:
    """Return the exact product of a number and a factor, without an exponent."""
    product = _EXACT.multiply(Decimal(number), Decimal(str(factor)))
    return format(product.normalize(_EXACT), "f")


def _amount(match: re.Match[str]) -> str:
    base, factor = _UNIT_OF[match[2]]
    return f"{_product(match[1], factor)} {base}"


def _scaled(match: re.Match[str]) -> str:
    return _product(match[1], (_SCALES | _SCALE_LETTERS)[match[2]])


def _on_24_hours(hour: int, minute: int, *, is_pm: bool) -> str:
    return f"{hour % 12 + 12 * is_pm:02}:{minute:02}"


def _clock(match: re.Match[str]) -> str:
    hour, minute = int(match[1]), int(match[2] or 0)
    if not 1 <= hour <= 12 or minute > 59:
        return match[0]
    return _on_24_hours(hour, minute, is_pm=match[3] in "pP")


def _digits(match: re.Match[str]) -> str:
    return match[0].replace(",", "")


def _month(match: re.Match[str]) -> str:
    return next(month for month in _MONTHS if month[:3] == match[0][:3])


def _iso_date(match: re.Match[str]) -> str:
    month = int(match[2])
    return f"{int(match[3])} {_MONTHS[month - 1]} {match[1]}" if 1 <= month <= 12 else match[0]


def _clock_of_day(match: re.Match[str]) -> str:
    hour, minute, part = int(match[1]), int(match[2] or 0), match[3]
    # "12 in the evening" is left as it is: it means midnight, which no hour of the evening is.
    if not 1 <= hour <= 12 or minute > 59 or (hour == 12 and part == "evening"):
        return match[0]
    return _on_24_hours(hour, minute, is_pm=part != "morning")


def _money(match: re.Match[str]) -> str:
    factor = (_SCALES | _SCALE_LETTERS)[match[3]] if match[3] else 1
    return f"{_product(match[2], factor)} {_CURRENCIES[match[1]]}"


Replacement = str | Callable[[re.Match[str]], str]
_TYPED = (
    rf"[$£€¥:%]|\d(?:,\d|-\d|(?:st|nd|rd|th)\b| ?[AaPp]\.?[Mm]\b|(?: o'clock)? in the"
    rf"|[ -]?(?:{_LONG_UNITS}|{_LETTERS}|k|{_LARGE})\b)"
)
_NAMED = "|".join(month[:3] for month in _MONTHS)
_FORMS: tuple[tuple[str, str, Replacement], ...] = (
    (r"n ?['’]? ?t\b", rf"\b({_NEGATED})n(?: ?['’]? ?)t\b(?!['’-])", r"\1n't"),
    ("[Ii]m", r"\b[Ii]m\b", "I'm"),
    (_TYPED, r"\d(?<![\w.,].)\d{0,2}(?:,\d{3})+(?!\w|,\d)", _digits),
    (_TYPED, r"(\d(?<!\w.)\d{3})-(\d\d)-(\d\d)\b", _iso_date),
    (_TYPED, rf"{_ORDINAL}(?= (?:of )?(?:{_MONTH})\b)", r"\1"),
    (_NAMED, rf"\b((?:{_MONTH})\.?) {_ORDINAL}", r"\1 \2"),
    (_NAMED, rf"\b({_MONTH})\b\.?(?= \d)|(?<=\d )({_MONTH})\b", _month),
    ("Mon|Tue|Wed|Thu|Fri", rf"\b({'|'.join(_DAYS)})\b(?:\.(?= [a-z\d]))?", lambda found: _DAYS[found[1]]),
    (_TYPED, rf"{_HOUR} ?([AaPp])\.?[Mm]\b(?:\.(?= ?[a-z,;)]))?", _clock),
    (_TYPED, rf"{_HOUR}(?: o'clock)? in the (morning|afternoon|evening)\b", _clock_of_day),
    (_TYPED, r"(\d(?<!\w.)):(\d\d)\b", r"0\1:\2"),
    ("noon", r"\b(?:12 )?noon\b", "12:00"),
    ("midnight", r"\b(?:12 )?midnight\b", "00:00"),
    (r"v\d", r"\bv(\d+(?:\.\d+)*)\b", r"version \1"),
    (_TYPED, rf"([$£€¥]) ?(\d+(?:\.\d+)?)(?: ?({_LARGE}|[kKmMbB])\b)?(?![,.-]?\w)", _money),
    (_TYPED, rf"{_NUMBER} ?(k|{_LARGE})\b", _scaled),
    (_TYPED, rf"{_NUMBER}[ -]?({_LONG_UNITS})\b", _amount),
    (_TYPED, rf"{_NUMBER} ?(%)", _amount),
    (_TYPED, rf"{_NUMBER} ({_LETTERS})\b(?!['’.]\w)", _amount),
)  # fmt: skip
"""Patterns that are replaced, in this order: a mark, the pattern, and the replacement.

A mark is a simpler pattern; the pattern is searched only in texts in which its mark is found, which is
faster. Patterns begin with a digit where they can, and test what is before the digit afterwards, because then
they are found several times faster.
"""
MAX_KEPT_CHARACTERS = 2000
"""The form of longer texts is not kept in memory."""
_MARKS = [*map(re.compile, dict.fromkeys(mark for mark, _, _ in _FORMS))]
_PATTERNS = [(_MARKS.index(re.compile(mark)), re.compile(pattern), form) for mark, pattern, form in _FORMS]
QUESTIONS = Path(__file__).with_name("questions.tsv")
"""A table of phrases that begin questions, and of function words.

Each row has marks (one of which a text must contain, in lower case), a pattern, its replacement and an
example. The first word of the text is in a group named ``first`` if the replacement puts it elsewhere.
"""
with open(QUESTIONS, encoding="utf-8", newline="") as _stream:
    _QUESTIONS = [
        (row["marks"].split("|"), re.compile(row["pattern"], re.IGNORECASE), row["form"])
        for row in csv.DictReader(_stream, delimiter="\t", quoting=csv.QUOTE_NONE)
    ]


def in_one_form(text: str) -> str:
    """Return a text with amounts, times, dates, versions, contractions and questions in one form."""
    return _in_one_form(text) if len(text) <= MAX_KEPT_CHARACTERS else _in_one_form.__wrapped__(text)


@lru_cache(1 << 14)
def _in_one_form(text: str) -> str:
    if "&" in text:
        with contextlib.suppress(ValueError):  # from a number of over 4,300 digits, which is no character
            text = html.unescape(text)
    text = in_digits(text)
    found = [mark.search(text) for mark in _MARKS]
    if any(found):
        for mark, pattern, replacement in _PATTERNS:
            if found[mark]:
                text = pattern.sub(replacement, text)
    lower_text = text.lower()
    for parts, pattern, form in _QUESTIONS:
        if any(part in lower_text for part in parts):
            moves_first_word = "first" in pattern.groupindex and pattern.match(text)
            text = pattern.sub(form, _without_first_capital(text) if moves_first_word else text)
    return text


def _without_first_capital(text: str) -> str:
    """Return a text whose first word, if only its first letter is a capital, begins with a small letter.

    A capital in the middle of a sentence would be read as that of a name.
    """
    first_word = text.split(maxsplit=1)[0]
    return text[0].lower() + text[1:] if first_word.istitle() and first_word != "I" else text


_SITUATION = re.compile(
    r"^(?:I|We)(?:['’]ve| have)?(?: just)? \w+ ((?:my|our|the)(?: [\w-]+){1,2})[,.;] (?:and |but |so )?"
    r"((?:how|where|what|when|why|can|could|is|do|does|may)\b.*?) (?:it|that)\b(.*)",
    re.IGNORECASE | re.DOTALL,
)


def without_statement(a: str, b: str) -> tuple[str, str]:
    """Return two texts without the statement before a question, if only one of them has such a statement.

    "I forgot my password, how do I reset it?" becomes "how do I reset my password?".
    """
    asked = [_SITUATION.sub(r"\2 \1\3", text) for text in (a, b)]
    return (asked[0], asked[1]) if (asked[0] == a) != (asked[1] == b) else (a, b)
