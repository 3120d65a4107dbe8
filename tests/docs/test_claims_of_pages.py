"""What pages say about the project itself: the tests that defend it, the terms that it uses, the page that answers a symptom."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def rows(page: str) -> list[list[str]]:
    """Return the cells of all tables of a page, without the lines below their heads."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    return [row for row in found if not set("".join(row)) <= set("-|")]


def test_the_tests_that_the_threat_model_names_exist():
    text = (DOCS / "explanation/threat-model.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:tests|contrib)/[^`]+)`", text)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_attack_of_the_threat_model_has_a_defence_that_is_tested():
    attacks = [row for row in rows("explanation/threat-model.md") if row[0] != "attack"]
    assert [attack for attack, _, tests in attacks if "`" not in tests and tests != "-"] == []


def test_the_glossary_has_each_term_once_and_in_order():
    terms = [row[0].lower() for row in rows("reference/glossary.md")[1:]]
    assert terms == sorted(set(terms), key=lambda term: term.replace(",", ""))


def test_every_symptom_has_a_cause_and_a_remedy():
    assert [row for row in rows("operate/troubleshooting.md") if len(row) != 3 or not all(row)] == []
