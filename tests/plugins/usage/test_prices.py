"""Prices: each token is priced once, and an unknown price is never 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from codex_framework import ModelPrices
from codex_plugin_usage.amounts import Amounts
from codex_plugin_usage.prices import cost_of, known_prices

from .conftest import counted, turn

M = 1_000_000


@pytest.mark.parametrize(
    ("amounts", "prices", "expected"),
    [
        (Amounts(input=M), {"input": 2, "output": 8}, 2),
        (Amounts(output=M), {"input": 2, "output": 8}, 8),
        (Amounts(input=M, cached_input=M), {"input": 2, "output": 8, "cached_input": 0.5}, 0.5),
        (Amounts(input=M, cached_input=M // 2), {"input": 2, "output": 8, "cached_input": 0.5}, 1.25),
        (Amounts(input=M, cached_input=M // 2), {"input": 2, "output": 8}, 2),
        (Amounts(input=M, cached_input=M), {"input": 2, "output": 8, "cached_input": 0}, 0),
        (Amounts(output=M, reasoning=M), {"input": 2, "output": 8}, 8),
        (Amounts(input=M, cache_write=M // 2), {"input": 2, "output": 8, "cache_write": 3}, 2.5),
        (Amounts(input=M, cache_write=M // 2), {"input": 2, "output": 8}, 2),
        (Amounts(input=10, cached_input=M), {"input": 2, "output": 8, "cached_input": 1}, 1),
    ],
)
def test_each_token_is_priced_once(amounts: Amounts, prices: Any, expected: float) -> None:
    assert cost_of(amounts, ModelPrices(**prices)) == pytest.approx(expected)


def test_a_price_of_a_provider_has_priority_over_that_of_the_model() -> None:
    one, two = ModelPrices(input=1, output=1), ModelPrices(input=2, output=2)
    price = known_prices({"m": one, "cheap/m": two})
    assert (price("cheap", "m"), price("other", "m"), price("cheap", "n")) == (two, one, None)


def test_what_has_no_price_is_named_and_not_in_the_sum(session: Any, rows: Any) -> None:
    session(*turn(model="a"), counted((M, 0, 0), (M, 0, 0)), *turn(model="b"), counted((2 * M, 0, 0), (M, 0, 0)))
    (row,) = rows(price=known_prices({"a": ModelPrices(input=2, output=8)})).values()
    assert (row["cost"], row["unpriced"]) == ({"USD": 2.0}, ["mock/b"])
    (row,) = rows().values()
    assert (row["cost"], row["unpriced"]) == (None, ["mock/a", "mock/b"])


def test_a_price_of_0_is_a_price(session: Any, rows: Any) -> None:
    session(*turn(), counted((M, 0, 0), (M, 0, 0)))
    (row,) = rows(price=known_prices({"m": ModelPrices(input=0, output=0)})).values()
    assert (row["cost"], row["unpriced"]) == ({"USD": 0.0}, [])


def test_currencies_are_not_mixed(session: Any, rows: Any) -> None:
    session(*turn(model="a"), counted((M, 0, 0), (M, 0, 0)), *turn(model="b"), counted((2 * M, 0, 0), (M, 0, 0)))
    price = known_prices({"a": ModelPrices(input=2, output=8), "b": ModelPrices(input=3, output=8, currency="EUR")})
    (row,) = rows(price=price).values()
    assert row["cost"] == {"USD": 2.0, "EUR": 3.0}


def configure(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text)


def test_the_configuration_has_prices(session: Any, usage: Any, home: Path) -> None:
    session(*turn(model="gpt-5.5"), counted((M, M // 2, M // 10, 5), (M, M // 2, M // 10, 5)))
    configure(home, '[framework.plugins.usage.prices."gpt-5.5"]\ninput = 1.0\ncached_input = 0.1\noutput = 10\n')
    status, out, err = usage("--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["total"]["cost"] == {"USD": 1.55}
    _, out, _ = usage()
    assert "1.5500 USD" in out
    assert "No price is known" not in out


PLUGIN = """
from codex_framework import ModelInfo, ModelPrices, ModelProvider, hookimpl


class Priced(ModelProvider):
    name = "priced"

    def open(self, info, env):
        raise NotImplementedError

    def model(self, slug):
        if slug == "broken":
            raise RuntimeError("no catalogue today")
        return ModelInfo(slug=slug, prices=ModelPrices(input=4, output=8)) if slug == "known" else None


@hookimpl
def codex_model_providers():
    return [Priced()]
"""


def test_catalogues_have_prices_which_the_configuration_overrides(session: Any, usage: Any, home: Path) -> None:
    (home / "priced.py").write_text(PLUGIN)
    provider = f'[framework]\nplugins.paths = ["{home}/priced.py"]\n[model_providers.mock]\nwire_api = "priced"\n'
    session(*turn(model="known"), counted((M, 0, 0), (M, 0, 0)))
    configure(home, provider)
    status, out, err = usage("--json")
    assert (status, err, json.loads(out)["total"]["cost"]) == (0, "", {"USD": 4.0})
    configure(home, f"{provider}[framework.plugins.usage.prices.known]\ninput = 5\noutput = 1\n")
    assert json.loads(usage("--json")[1])["total"]["cost"] == {"USD": 5.0}


def test_a_catalogue_that_fails_is_a_warning(session: Any, usage: Any, home: Path) -> None:
    (home / "priced.py").write_text(PLUGIN)
    session(*turn(model="broken"), counted((M, 0, 0), (M, 0, 0)))
    configure(home, f'[framework]\nplugins.paths = ["{home}/priced.py"]\n[model_providers.mock]\nwire_api = "priced"\n')
    status, out, err = usage("--json")
    assert (status, json.loads(out)["total"]["unpriced"]) == (0, ["mock/broken"])
    assert err == "warning: the model provider priced could not be asked for the prices of broken: no catalogue today\n"


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("input = -1\noutput = 1", "input is -1"),
        ("input = nan\noutput = 1", "input is nan"),
        ("input = inf\noutput = 1", "input is inf"),
        ("input = 1", "output"),
        ('input = "1 $"\noutput = 1', "input"),
        ("input = 1\noutput = 1\ncached = 1", "cached"),
        ('input = 1\noutput = 1\ncurrency = " "', "currency is empty"),
    ],
)
def test_a_price_that_is_none_is_an_error_with_its_place(usage: Any, home: Path, table: str, words: str) -> None:
    configure(home, f"[framework.plugins.usage.prices.m]\n{table}\n")
    status, out, err = usage()
    assert (status, out) == (2, "")
    assert words in err
    assert f"{home}/config.toml, line " in err
    assert "Traceback" not in err
