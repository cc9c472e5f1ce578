"""Writes numbers, amounts and times that are spelled out in digits: twenty-one is 21, half past three 3:30.

Words up to twenty stay as they are unless a unit or a time follows, because the judge reads them as numbers.
"""

import re

_SMALL_NUMBERS = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
)
_SPELLED = dict(zip(_SMALL_NUMBERS.split(), [*range(1, 20), *range(20, 100, 10)], strict=True))
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_UNITS = (
    r"(?:(?:milli|centi|kilo)?(?:meters?|metres?|grams?|lit(?:er|re)s?)|miles?|kilos?"
    r"|hours?|hrs?|minutes?|mins?|weeks?|days?|percent|per cent)\b"
)
_ONES, _TENS = "|".join(list(_SPELLED)[:9]), "|".join(list(_SPELLED)[19:])
_SMALL = rf"(?:(?:{_TENS})(?:-(?:{_ONES})\b| (?:{_ONES})\b(?!-))?|{'|'.join(list(_SPELLED)[:19])})"
_HUNDREDS = rf"(?:(?:{_SMALL}|an?)[- ](?:hundred|dozen)\b(?:(?: and)? {_SMALL}\b)?|{_SMALL}\b)"
_LARGE = rf"(?:{_HUNDREDS}|an?)[- ](?:{'|'.join(_SCALES)})\b"
_NUMBER = re.compile(
    rf"\b(?:(?:{_LARGE}(?:(?: and)? (?={_HUNDREDS}))?)+(?:{_HUNDREDS})?|{_HUNDREDS})", re.IGNORECASE
)
_IS_MEASURED = re.compile(rf"[- ](?:seconds?\b|{_UNITS})| (?:[ap]\.?m\b|o['’]clock)", re.IGNORECASE)
_IS_LEFT = re.compile(r" (?:hour|minute|second|day|week)s? (?:ago|before|earlier|later|left|off|only)\b")
_IS_ORDINAL = re.compile(r"-(?:first|second|third|\w+th)\b", re.IGNORECASE)
_CLOCK = re.compile(
    rf"\b(?:an? )?(half|quarter) (past|to) ({'|'.join(list(_SPELLED)[:12])}|\d\d?)\b"
    r"(?=[.,;:!?)]|$| (?:[ap]\.?m|and|at|because|but|every|for|if|in|is|o['’]clock|on|or|sharp|so|to|today|"
    r"tomorrow|tonight|until|was|when)\b)",
    re.IGNORECASE,
)
_HALVES = [
    (re.compile(pattern, re.IGNORECASE), form)
    for pattern, form in (
        (r"\bhalf a dozen\b", "6"),
        (rf"\bhalf an? (?={_UNITS}|million|billion)", "0.5 "),
        (rf"\b(?:an?|one) ({_UNITS}) and a half\b", r"1.5 \1"),
        (
            rf"\b({_SMALL}|\d+) and a half(?= (?:{_UNITS}|{'|'.join(_SCALES)}))",
            lambda match: f"{_SPELLED.get(match[1].lower(), match[1])}.5",
        ),
        (  # not in rates, such as twice an hour
            rf"\b(for|after|within|takes?|took|lasts?|lasted|waits?|waited) (?:an?|one) (?={_UNITS})",
            r"\1 1 ",
        ),
        (r"\bin (?:an?|one) (?=(?:hour|minute|week)\b)", "in 1 "),
    )
]


_MARKS = {*_SPELLED, *_SCALES, "hundred", "dozen", "half", "quarter"}
_MARKS |= {"hour", "hr", "minute", "min", "week", "day", "mile", "kilo", "percent"}
_MARKS |= {
    f"{a}{b}" for a in ("", "milli", "centi", "kilo") for b in ("meter", "metre", "gram", "liter", "litre")
}
"""A text without any of these words is not searched by patterns, which takes ten times as long."""


def in_digits(text: str) -> str:
    """Return a text with numbers of several words, amounts and times in digits."""
    if _MARKS.isdisjoint(re.findall(r"[a-z]+", text.lower())):
        return text
    text = _CLOCK.sub(_clock, text)
    for pattern, form in _HALVES:
        text = pattern.sub(form, text)
    return _NUMBER.sub(_in_digits, text)


def _in_digits(match: re.Match[str]) -> str:
    words = re.findall(r"[a-z]+", match[0].lower())
    is_small = len(words) == 1 and _SPELLED[words[0]] <= 20
    is_idiom = words == ["one"] and not _IS_LEFT.match(match.string, match.end())  # one day, one moment
    is_measured = not is_idiom and _IS_MEASURED.match(match.string, match.end())
    if (is_small and not is_measured) or _IS_ORDINAL.match(match.string, match.end()):
        return match[0]
    total = below_thousand = 0
    for word in words:
        if word in _SCALES:
            total, below_thousand = total + (below_thousand or 1) * _SCALES[word], 0
        elif word in ("hundred", "dozen"):
            below_thousand = (below_thousand or 1) * (100 if word == "hundred" else 12)
        else:
            below_thousand += _SPELLED.get(word, 0)  # a, and
    return str(total + below_thousand)


def _clock(match: re.Match[str]) -> str:
    part, way, hour_text = (group.lower() for group in match.groups())
    hour = _SPELLED.get(hour_text) or int(hour_text)
    if not 1 <= hour <= 12 or (part, way) == ("half", "to"):
        return match[0]
    if way == "to":
        return f"{(hour - 2) % 12 + 1}:45"
    return f"{hour}:{30 if part == 'half' else 15}"
