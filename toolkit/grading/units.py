"""Texts that are a number and no more: 12, $12, 12 km/h, twelve per cent; but not Apollo 12."""

from __future__ import annotations

import regex

from toolkit.grading.numbers import DecimalMark, FoundNumber, find_numbers

# Case counts, since 50 Cent and 21 Grams are names. Each of these may have an s.
_WORDS = (
    r"(?:kilo|centi|milli|micro|nano|mega|giga|tera)?(?:met(?:re|er)|gram(?:me)?|lit(?:re|er)|second|watt|volt"
    r"|joule|byte|bit|pascal|calorie|amp|ampere|newton|tonne|hertz|watt-hour)"
    r"|inch|inche|yard|mile|acre|hectare|ounce|pound|ton|gallon|pint|knot|kelvin|parsec|carat|light[ -]year"
    r"|minute|hour|day|night|week|month|year|decade|centurie|degree|point|time|item|piece|word|letter"
    r"|person|inhabitant|resident|dollar|cent|euro|rupee|franc|peso|crown"
)
_INVARIABLE = (
    r"foot|feet|century|people|pence|yen|yuan|square|cubic|squared|cubed|old|[Cc]elsius|[Ff]ahrenheit"
)
_SYMBOLS = (
    r"[GMkhcdmµμnp]?(?:Hz|Pa|Wh|eV|mol|bar)|[kcdmµμn]m|[kmµμn]g|[mcdµμ][lL]|[mµμn]s|[mkMG]?[WΩ]|[mk]V|[kMG]J|kN"
    r"|[kMGTP]i?B|kcal|cal|ha|min|hrs?|yrs?|in|ft|yd|mi|mph|kph|lbs?|oz|dB|rpm|ppm|°\s?[CF]?|℃|℉|′|″|[mglLV]"
)
_CURRENCIES = (
    r"(?:A|C|HK|NZ|R|S|US)?\p{Sc}|\b(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HKD|INR|JPY|KRW|MXN|NOK|NZD|PLN|RUB"
    r"|SEK|SGD|TRY|USD|ZAR)\b"
)
_AFTER_A_SPACE = "[ABCFJKNTWdhst]"  # 1990s are no seconds, and 4K is a name
_UNIT = (
    rf"(?:{_CURRENCIES}|(?:(?:{_WORDS})s?|{_INVARIABLE}|{_SYMBOLS}|(?<=[\s/·]){_AFTER_A_SPACE})(?!\p{{L}}))"
    r"(?:[²³]|\^-?\d)?"
)
_AFTER = regex.compile(rf"(?:[\s-]*(?:(?:per\b|[/·])\s*)?{_UNIT}){{0,8}}[\s\p{{P}}`]*")
_BEFORE = regex.compile(rf"[\s\p{{P}}`=]*(?:{_CURRENCIES})?\s?")


def whole_number(text: str, *, decimal: DecimalMark = ".", words: bool = True) -> FoundNumber | None:
    """The number that a text is, where it is one.

    Around it may be white space, punctuation, a currency, and after it units of measure, as symbols or in
    lower case: 12 km/h, 300 square miles, 5 years old, 20 °C, $5, 5 EUR. None for another text, or where
    it has two numbers.

    Parameters
    ----------
    text, decimal, words
        As of `find_numbers`.
    """
    found = find_numbers(text, decimal=decimal, words=words)
    if len(found) != 1:
        return None
    number = found[0]
    is_whole = _BEFORE.fullmatch(text[: number.start]) and _AFTER.fullmatch(text, number.end)
    return number if is_whole else None
