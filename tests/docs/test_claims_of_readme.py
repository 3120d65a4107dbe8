"""Each sentence with which the README begins is a claim, and each claim names the tests that defend it."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

CLAIMS = {
    "A coding agent for the terminal, for scripts and for your own Python programs": (
        "plugins/terminal/test_sessions.py",
        "clients/test_exec_json.py",
        "kernel/test_embedding.py",
    ),
    "It reads Codex's `config.toml`, recorded sessions, `AGENTS.md` and hooks, and serves editors and SDKs": (
        "kernel/config/test_codex_keys.py::test_no_key_that_codex_knows_stops_a_start",
        "kernel/test_stored.py",
        "plugins/context/test_agents_md.py::test_the_text_is_framed_as_codex_frames_it",
        "plugins/hooks",
        "plugins/app_server",
        "clients/test_typescript_sdk.py",
    ),
    "It is not a model:": ("clients/test_doctor.py",),
    "It is not made by OpenAI": (),
    "It has no release yet, runs on Linux": ("docs/test_claims_of_readme.py::test_only_linux_is_promised",),
    "A tool is a function.": (),
    "The schema comes from its signature and docstring": (
        "kernel/test_tool_schema.py::test_a_signature_and_docstring_give_the_whole_spec",
        "kernel/test_tool_schema.py::test_all_values_that_cannot_be_converted_are_listed_at_once_with_their_paths",
    ),
    "Turns behave predictably.": (),
    "Calls start while the response is still streaming, parallel-safe ones overlap": (
        "kernel/test_thread.py::test_a_call_starts_while_the_response_is_still_streaming",
        "kernel/test_thread.py::test_calls_overlap_only_where_all_are_parallel_safe_and_outputs_keep_call_order",
        "clients/test_exec_signals.py",
        "clients/test_early_interrupts.py",
    ),
    "The state machine is pure, and tested over generated interleavings.": ("property/test_turn.py",),
    "A thread pays only for the plugins that it uses.": (
        "docs/test_claims_of_readme.py::test_idle_plugins_add_less_than_a_quarter_to_a_turn",
    ),
    "100 idle plugins add less than a quarter": (
        "docs/test_claims_of_readme.py::test_idle_plugins_add_less_than_a_quarter_to_a_turn",
        "limits/test_limits.py::test_a_thread_takes_no_more_instructions",
    ),
    "Commands run in a sandbox (on Linux": (
        "plugins/landlock/test_attacks.py::test_with_namespaces_every_attack_is_stopped",
        "kernel/test_confinement.py",
        "kernel/test_truncation.py",
    ),
    "`codex-framework sandbox prove` attacks it": (
        "clients/test_sandbox_command.py::test_what_is_proved_agrees_with_the_claims",
    ),
    "Permissions are one model": ("kernel/config/test_permission_profiles.py", "plugins/network_proxy"),
    "Commands do not get secrets.": ("clients/test_sandbox_variables.py",),
    "Measured.": (),
    "`benchmarks/` measures start": ("docs/test_claims_of_readme.py::test_the_benchmarks_are_explained",),
}


def sentences() -> list[str]:
    """Return the sentences between the title and the first heading of the README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n")[2].partition("\n## ")[0]
    text = re.sub(r"^!\[.*$", "", text, flags=re.MULTILINE)
    blocks = re.split(r"\n\n(?:- )?|\n- ", text.replace("**", ""))
    parts = (part for block in blocks for part in re.split(r"(?<=[.])\s+(?=[A-Z`0-9])", block))
    return [" ".join(part.split()) for part in parts if part.strip()]


def test_every_claim_has_its_tests() -> None:
    unknown = [sentence for sentence in sentences() if not any(sentence.startswith(claim) for claim in CLAIMS)]
    assert unknown == []
    gone = [claim for claim in CLAIMS if not any(sentence.startswith(claim) for sentence in sentences())]
    assert gone == []


@pytest.mark.parametrize("test", sorted({test for tests in CLAIMS.values() for test in tests}))
def test_the_tests_of_the_claims_exist(test: str) -> None:
    path, _, name = test.partition("::")
    assert (ROOT / "tests" / path).exists()
    if name:
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8")


def test_idle_plugins_add_less_than_a_quarter_to_a_turn() -> None:
    """The limits are what CI measures, in instructions."""
    limits = tomllib.loads((ROOT / "tests/limits/limits.toml").read_text(encoding="utf-8"))["instructions"]
    assert limits["further_turn_with_100_idle_plugins"] < 1.25 * limits["further_turn"]


def test_only_linux_is_promised() -> None:
    systems = [name for name in PROJECT["classifiers"] if name.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    oldest = re.search(r"You need Python ([0-9.]+) or newer", text)
    assert oldest
    assert PROJECT["requires-python"] == f">={oldest[1]}"


def test_the_benchmarks_are_explained() -> None:
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    explained = re.findall(r"^## (\w+\.py): ", page, re.MULTILINE)
    jobs = "thread_jobs.py"  # what threads.py runs
    assert sorted(explained) == sorted(
        path.name for path in (ROOT / "benchmarks").glob("[!_]*.py") if path.name != jobs
    )


def test_the_layout_names_every_folder_of_the_kernel() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if line.startswith("| `codex_framework/`"))
    rooms = {f"{path.parent.name}/" for path in (ROOT / "codex_framework").glob("*/__init__.py")}
    assert rooms | {"kernel.py"} == {*re.findall(r"`([a-z_]+(?:/|\.py))`", row)} - {"codex_framework/"}
