"""The plugin as a whole: it is installed, found by its entry point, has no problems, and two kernels can use it at once."""

from __future__ import annotations

import asyncio

from codex_framework.testing import check_plugin


def test_the_plugin_is_installed_and_loaded(make_kernel):
    async def reports():
        async with make_kernel() as kernel:
            return kernel.registry.reports

    (report,) = [report for report in asyncio.run(reports()) if report.name == "template"]
    assert (report.distribution, report.status, report.problems) == ("codex-contrib-template", "loaded", ())
    assert report.contributes == {"tools": ("count_words",)}


def test_the_plugin_passes_all_checks():
    check_plugin("template")
