"""Finding plugins: what is installed here, kernels without plugins, and settings that are wrong."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from textwrap import dedent

import pytest

from codex_framework import ConfigError
from codex_framework.contract.hookspecs import GROUP, OFFERING
from codex_framework.loader.discovery import discover, source_of
from codex_framework.loader.registry import load_registry


def test_the_plugins_found_are_those_that_importlib_finds():
    expected = {
        (source.name, source.target, source.distribution, source.version)
        for source in map(source_of, importlib.metadata.entry_points(group=GROUP))
    }
    found = discover(GROUP)
    assert {(source.name, source.target, source.distribution, source.version) for source in found} == expected
    assert len(found) == len(expected) > 0


def test_other_groups_and_odd_lines_are_not_taken_for_plugins(site):
    site.declare("acme_odd", {})
    text = (
        "[codex_framework.more]\na = b\n# [codex_framework]\nc = d\n\n[ codex_framework ]\n; e = f\ng\nh=i:j [k, l]\n"
    )
    site.folder.joinpath("acme_odd-1.0.dist-info", "entry_points.txt").write_text(text)
    (source,) = discover(GROUP, [str(site.folder)])
    assert (source.name, source.target, source.extras) == ("h", "i:j", ("k", "l"))


def test_a_byte_order_mark_hides_no_plugin(site):
    site.declare("acme_marked", {})
    file = site.folder.joinpath("acme_marked-1.0.dist-info", "entry_points.txt")
    file.write_text("[codex_framework]\nh=i:j\n", encoding="utf-8-sig")
    assert [source.name for source in discover(GROUP, [str(site.folder)])] == ["h"]


def test_folders_that_do_not_exist_or_hold_nothing_are_passed_over(tmp_path):
    tmp_path.joinpath("broken-1.0.dist-info").mkdir()
    tmp_path.joinpath("file-1.0.egg-info").write_text("")
    assert discover(GROUP, [str(tmp_path), str(tmp_path / "nowhere"), ""]) == []


def test_what_was_found_is_kept_until_something_is_installed_or_removed(site, good):
    def found():
        return [source.name for source in discover(GROUP, [str(site.folder)])]

    site.install("good", good)
    os.utime(site.folder, ns=(0, 0))  # long ago
    assert found() == ["good"]
    (metadata,) = site.folder.glob("*.dist-info")
    (metadata / "entry_points.txt").rename(
        metadata / "away.txt"
    )  # as no installer does: the folder of all has not changed
    assert found() == ["good"]
    site.install("better", good)
    assert found() == ["better"]
    (metadata / "away.txt").rename(metadata / "entry_points.txt")
    assert found() == ["better", "good"]  # what has just changed is not kept
    os.utime(site.folder, ns=(1, 1))
    assert found() == ["better", "good"]
    shutil.rmtree(metadata)
    assert found() == ["better"]


def test_the_fast_scan_is_used_also_after_importlib_metadata_was_imported(monkeypatch, site, good):
    import importlib_metadata

    site.install("good", good)
    monkeypatch.setattr(importlib_metadata, "distributions", None)
    (source,) = discover(GROUP, [str(site.folder)])
    assert source.name == "good"


def test_a_kernel_without_plugins_has_an_empty_registry():
    registry = load_registry({}, entry_points=())
    assert registry.reports == registry.reports_with_commands == ()
    for hook in OFFERING:
        assert not registry.offers.of(hook)
        assert not getattr(registry, hook.plural)
    assert registry.warnings == ()
    assert registry.commands == {}


def test_entry_points_of_importlib_can_be_given(good, site):
    site.install("good", good)
    code = (
        "import importlib.metadata as m; from codex_framework.loader.registry import load_registry;"
        "(entry,) = [e for e in m.entry_points(group='codex_framework') if e.name == 'good'];"
        "(report,) = load_registry({}, entry_points=[entry]).reports;"
        "print(report.distribution, report.version, report.status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=site.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "acme-good 1.0 loaded\n"


def test_what_a_plugin_prints_while_it_is_loaded_does_not_reach_stdout(site, good):
    source = dedent(good).replace("    return [acme", "    print('hook')\n    return [acme")
    site.install("loud", f"print('import')\n{source}")
    code = (
        "from codex_framework.loader.registry import load_registry; print(load_registry({}).tools['acme_good'].plugin)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=site.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("loud\n", "import\nhook\n")


def test_an_interrupt_at_the_keyboard_comes_through_a_plugin_that_is_loading(site):
    site.install("slow", "raise KeyboardInterrupt")
    code = (
        "from codex_framework.loader.registry import load_registry\n"
        "try: load_registry({})\nexcept KeyboardInterrupt: print('stopped')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=site.environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "stopped\n"


@pytest.mark.parametrize(
    ("tables", "fact"),
    [
        ({"framework": {"plugins": "none"}}, "framework.plugins is str, not a table"),
        ({"framework": {"plugins": {"disabled": "shell"}}}, "framework.plugins.disabled is not a list of plugin names"),
        ({"framework": {"plugins": {"prefer": [1]}}}, "framework.plugins.prefer is not a list of plugin names"),
    ],
)
def test_settings_that_are_wrong_are_a_configuration_error(tables, fact):
    with pytest.raises(ConfigError) as caught:
        load_registry(tables, entry_points=())
    assert caught.value.fact == fact
    assert caught.value.hint
