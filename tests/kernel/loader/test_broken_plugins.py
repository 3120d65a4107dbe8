"""Each way in which an installed plugin can be broken: it is reported with a hint, and the others load."""

from __future__ import annotations

import pytest

from codex_framework import PLUGIN_API, __version__
from codex_framework.loader.discovery import PluginSource
from codex_framework.loader.imports import problem_of
from codex_framework.toolkit.installing import install_command

HOOK = "from codex_framework import hookimpl, tool\n"
BUT = f"of the plugin API, but codex-framework {__version__} has version {PLUGIN_API}"
GOOD = f"{HOOK}\n@hookimpl\ndef codex_tools():\n    return []\n"


def test_a_plugin_that_loads_is_reported_with_what_it_contributes(site):
    report = site.report("good")
    assert report == {
        "name": "good",
        "module": "acme_good",
        "distribution": "acme-good",
        "version": "1.0",
        "status": "loaded",
        "contributes": {"tools": ["acme_good"]},
        "problems": [],
        "slugs": [],
        "places": [],
        "warnings": [],
    }


def test_an_exception_at_import_names_its_place_in_the_plugin(site):
    site.install("bad", "x = 1\nraise ValueError('no such colour')\n")
    report = site.report("bad")
    file = site.folder / "acme_bad.py"
    assert report["status"] == "failed"
    assert report["problems"] == [
        [
            "it cannot be imported: ValueError: no such colour",
            (
                "Fix the plugin, install another version of acme-bad, or disable it with"
                ' `[framework] plugins.disabled = ["bad"]`.'
            ),
        ]
    ]
    assert report["places"] == [[str(file), 2]]
    (warning,) = report["warnings"]
    assert warning.startswith(
        f"plugin 'bad' (acme-bad 1.0): it cannot be imported: ValueError: no such colour ({file}, line 2). Fix"
    )


def test_a_syntax_error_names_file_and_line(site):
    site.install("bad", "def oops(:\n")
    report = site.report("bad")
    assert report["status"] == "failed"
    assert report["problems"][0][0] == "it cannot be imported: SyntaxError: invalid syntax"
    assert report["places"] == [[str(site.folder / "acme_bad.py"), 1]]


def test_the_place_is_in_the_plugin_though_the_library_raises(site):
    site.install("bad", "import json\n\njson.loads('{')\n")
    assert site.report("bad")["places"] == [[str(site.folder / "acme_bad.py"), 3]]


def test_an_exception_that_cannot_be_printed_does_not_end_the_program(site):
    site.install("bad", "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd\n")
    assert site.report("bad")["problems"][0][0] == "it cannot be imported: Odd: its text cannot be read"


def test_the_text_of_an_exception_is_cut_where_it_is_huge(site):
    site.install("bad", "raise ValueError('x' * 10_000_000)\n")
    assert len(site.report("bad")["problems"][0][0]) < 1100


def test_a_plugin_that_exits_at_import_does_not_end_the_program(site):
    site.install("bad", "import sys\nsys.exit(3)\n")
    report = site.report("bad")
    assert report["status"] == "failed"
    assert "it called sys.exit(3)" in report["problems"][0][0]


def test_a_plugin_that_raises_a_base_exception_does_not_end_the_program(site):
    site.install("bad", "class Stop(BaseException): pass\nraise Stop('now')\n")
    report = site.report("bad")
    assert report["status"] == "failed"
    assert "Stop: now" in report["problems"][0][0]


def test_a_missing_extra_is_cured_by_installing_it(site):
    metadata = "Provides-Extra: fancy\nRequires-Dist: notthere-sdk>=2 ; extra == 'fancy'\n"
    site.install("bad", "import notthere.client\n", metadata=metadata)
    report = site.report("bad")
    assert report["slugs"] == ["missing-extra"]
    assert report["problems"] == [
        ["it needs the package 'notthere', which is not installed", install_command("acme-bad[fancy]")]
    ]


def test_an_extra_named_by_the_entry_point_is_the_cure(site):
    site.install("bad", "import notthere\n", value="acme_bad [speed]")
    assert site.report("bad")["problems"][0][1] == install_command("acme-bad[speed]")


def test_an_extra_called_like_the_plugin_is_the_cure_where_nothing_else_tells(site):
    site.install("bad", "import notthere\n", metadata="Provides-Extra: bad\n")
    assert site.report("bad")["problems"][0][1] == install_command("acme-bad[bad]")


def test_a_missing_requirement_is_cured_by_installing_it(site):
    site.install("bad", "import notthere\n", metadata="Requires-Dist: notthere-lib (>=1)\n")
    report = site.report("bad")
    assert report["slugs"] == ["missing-package"]
    assert report["problems"][0][1] == install_command("notthere-lib")


@pytest.mark.parametrize(
    ("module", "hint"),
    [
        ("jsn", "Did you mean 'json'? If it is right,"),
        ("codex_framwork", "Did you mean 'codex_framework'? If it is right,"),
        ("notthere", "Check the spelling of the import. If it is right,"),
    ],
)
def test_a_misspelt_import_names_no_distribution_that_nobody_knows(site, module, hint):
    site.install("bad", f"import {module}\n", metadata="Requires-Dist: other-lib\n")
    report = site.report("bad")
    assert report["slugs"] == ["missing-package"]
    assert report["problems"][0][0] == f"it needs the package {module!r}, which is not installed"
    assert report["problems"][0][1].startswith(hint)
    assert "pip install" not in report["problems"][0][1]


def test_a_module_that_an_installed_package_does_not_have_is_told_as_such(site):
    site.install("bad", "import json.notthere\n")
    report = site.report("bad")
    assert report["slugs"] == ["plugin-import"]
    assert report["problems"] == [
        [
            "it imports the module 'json.notthere', which does not exist",
            "Check its spelling, and the installed version of 'json'.",
        ]
    ]


def test_a_package_of_an_extra_of_the_framework_is_named_with_the_extra():
    source = PluginSource(name="mine", target="mine")
    problem = problem_of(ModuleNotFoundError("no", name="opentelemetry"), source, "be imported")
    assert (problem.slug, problem.hint) == ("missing-package", install_command("codex-framework[otel]"))


@pytest.mark.parametrize(
    ("requirement", "told"),
    [
        ("codex-framework>=2", ">=2"),
        ("codex-framework (>=2.0)", ">=2.0"),
        ("codex_framework<0.1,>=0.0.1", "<0.1,>=0.0.1"),
        ("Codex.Framework[otel]~=9.0", "~=9.0"),
        ("codex-framework>=9 ; python_version >= '3'", ">=9"),
    ],
)
def test_a_wheel_that_needs_another_version_of_the_framework_is_not_imported(site, requirement, told):
    site.install("bad", f"print('run')\n{GOOD}", metadata=f"Requires-Dist: {requirement}\n")
    report = site.report("bad")
    assert (report["status"], report["slugs"]) == ("failed", ["plugin-version"])
    assert report["problems"] == [
        [
            f"it requires codex-framework {told}, but version {__version__} is running",
            f"Install a version of the plugin for {__version__}, or: pip install 'codex-framework{told}'",
        ]
    ]
    assert "acme_bad" not in site.load()["modules"]


@pytest.mark.parametrize(
    "requirement",
    [
        "codex-framework",
        "codex-framework>=0.1",
        "codex-framework>=0.0.1,<9",
        "codex-framework>=9; extra == 'new'",
        "codex-framework>=9; python_version < '3'",
        "codex-framework-tools>=9",
        "codex-framework ??",
    ],
)
def test_a_wheel_that_fits_is_loaded(site, requirement):
    site.install("fine", GOOD, metadata=f"Requires-Dist: {requirement}\n")
    assert site.load()["reports"][0]["status"] == "loaded"


@pytest.mark.parametrize(
    ("declared", "fact", "hint"),
    [
        (str(PLUGIN_API), "", ""),
        (
            str(PLUGIN_API + 1),
            f"it is written for version {PLUGIN_API + 1} {BUT}",
            "pip install -U codex-framework",
        ),
        (
            "0",
            f"it is written for version 0 {BUT}",
            "Install a newer version of the plugin.",
        ),
        (
            "'new'",
            "its PLUGIN_API is 'new', not the number of a version of the plugin API",
            f"Write `PLUGIN_API = {PLUGIN_API}`.",
        ),
    ],
)
@pytest.mark.parametrize("place", ["module", "class"])
def test_a_plugin_can_declare_the_version_of_the_plugin_api(site, declared, fact, hint, place):
    source = f"PLUGIN_API = {declared}\n{GOOD}"
    if place == "class":
        members = f"    PLUGIN_API = {declared}\n    codex_tools = hookimpl(lambda self: [])\n"
        source = f"from codex_framework import Plugin, hookimpl\nclass Words(Plugin):\n{members}"
    site.install("api", source, value="acme_api:Words" if place == "class" else None)
    report = site.report("api")
    assert report["problems"] == ([[fact, hint]] if fact else [])
    assert report["slugs"] == (["plugin-version"] if fact else [])


def test_an_entry_point_to_nowhere_says_so(site):
    site.declare("acme_bad", {"bad": "acme_gone"})
    report = site.report("bad")
    assert report["problems"] == [
        ["its module 'acme_gone' does not exist", "Reinstall it: pip install --force-reinstall acme-bad"]
    ]


def test_an_entry_point_to_a_missing_attribute_says_so(site):
    site.install("bad", HOOK, value="acme_bad:Plugin")
    assert "module 'acme_bad' has no attribute 'Plugin'" in site.report("bad")["problems"][0][0]


def test_a_class_with_hooks_that_is_no_plugin_is_told_so(site):
    source = HOOK + "class Plugin:\n    @hookimpl\n    def codex_tools(self):\n        return []\nplugin = Plugin()\n"
    site.install("bad", source, value="acme_bad:Plugin")
    site.install("fine", source, value="acme_fine:plugin")
    assert site.report("bad")["problems"][0] == [
        "its entry point names a class that does not derive from Plugin, so there is no instance to call codex_tools on",
        "Derive the class from codex_framework.Plugin, or let the entry point name an instance.",
    ]
    assert {report["name"]: report["status"] for report in site.load()["reports"]}["fine"] == "loaded"


def test_a_codex_error_at_import_is_told_in_the_plugins_own_words(site):
    site.install(
        "bad",
        "from codex_framework import PluginError\nraise PluginError('bad', 'it needs a licence', hint='Buy one.')\n",
    )
    assert site.report("bad")["problems"] == [["it needs a licence", "Buy one."]]


def test_a_plugin_without_hooks_is_told_how_to_have_one(site):
    site.install("bad", "x = 1\n")
    report = site.report("bad")
    assert report["status"] == "failed"
    assert report["problems"][0][0] == "it implements no hook"


HOOK_MISTAKES = {
    "a misspelt hook": (
        "@hookimpl\ndef codex_tool():\n    return []\n",
        "there is no hook codex_tool",
        "Did you mean codex_tools?",
    ),
    "a hook of another name": (
        "@hookimpl\ndef register():\n    return []\n",
        "there is no hook register",
        "The hooks are: codex_tools,",
    ),
    "an unmarked hook": (
        "def codex_tools():\n    return []\n",
        "its function codex_tools is not marked as a hook implementation",
        "Put `@codex_framework.hookimpl` above `def codex_tools`.",
    ),
    "an unmarked and misspelt hook": (
        "def codex_tols():\n    return []\n",
        "there is no hook codex_tols",
        "Did you mean codex_tools?",
    ),
    "a parameter": (
        "@hookimpl\ndef codex_tools(session):\n    return []\n",
        "its codex_tools takes session, but hooks are called with nothing but plugin",
        "Write `def codex_tools():` or `def codex_tools(plugin):`.",
    ),
    "an async hook": (
        "@hookimpl\nasync def codex_tools():\n    return []\n",
        "its codex_tools is async, but hooks are called before the event loop starts",
        "Write `def codex_tools():`; the objects it offers may have async methods.",
    ),
    "a wrapper": (
        "@hookimpl(wrapper=True)\ndef codex_tools():\n    return (yield)\n",
        "its codex_tools is a hook wrapper, but hooks that offer objects cannot be wrapped",
        "Write a plain `def codex_tools():` that returns the objects of the plugin.",
    ),
    "nothing returned": (
        "@hookimpl\ndef codex_tools():\n    pass\n",
        "its codex_tools returned None, not a list",
        "Return a list of the objects it offers, or an empty list.",
    ),
    "a number returned": (
        "@hookimpl\ndef codex_tools():\n    return 3\n",
        "its codex_tools returned int, not a list",
        "Return a list of the objects it offers, or an empty list.",
    ),
    "a name returned": (
        "@hookimpl\ndef codex_tools():\n    return 'shell'\n",
        "its codex_tools returned str, not a list",
        "Return a list of the objects it offers, or an empty list.",
    ),
    "an endless generator": (
        "@hookimpl\ndef codex_tools():\n    while True:\n        yield 1\n",
        "its codex_tools offers more than 10000 objects",
        "Return a finite number of objects.",
    ),
}


@pytest.mark.parametrize("case", HOOK_MISTAKES)
def test_a_hook_that_breaks_the_contract_takes_its_plugin_out(mistakes, case):
    source, fact, hint = HOOK_MISTAKES[case]
    report = mistakes[case]
    assert report["status"] == "failed"
    assert report["contributes"] == {}
    assert report["problems"][0][0] == fact
    assert report["problems"][0][1].startswith(hint)
    path, line = report["places"][0]
    assert path.endswith(f"/{report['module']}.py")
    first = next(n for n, text in enumerate(source.splitlines(), 2) if text.startswith(("@hookimpl", "def")))
    assert line == first  # that of the decorator, where there is one


def test_a_hook_that_raises_takes_all_of_its_plugin_out(site):
    site.install(
        "bad",
        HOOK
        + "class Bell:\n    name = 'bell'\n    def notify(self, notification): pass\n"
        + "@hookimpl\ndef codex_notifiers():\n    return [Bell()]\n"
        + "@hookimpl\ndef codex_observers():\n    yield 1\n    raise RuntimeError('no room')\n",
    )
    report = site.report("bad")
    assert report["status"] == "failed"
    assert report["contributes"] == {}
    assert report["problems"][0][0] == "it cannot be used: codex_observers failed: RuntimeError: no room"
    assert report["places"][0] == [str(site.folder / "acme_bad.py"), 11]


def test_a_hook_that_exits_does_not_end_the_program(site):
    site.install("bad", HOOK + "@hookimpl\ndef codex_tools():\n    raise SystemExit('bye')\n")
    assert "it called sys.exit('bye')" in site.report("bad")["problems"][0][0]


def test_a_package_missing_in_a_hook_is_told_like_one_missing_at_import(site):
    site.install("bad", HOOK + "@hookimpl\ndef codex_tools():\n    import notthere\n", metadata="Provides-Extra: bad\n")
    assert site.report("bad")["slugs"] == ["missing-extra"]


ITEM_MISTAKES = {
    "missing members": (
        "class Thing: pass\n@hookimpl\ndef codex_notifiers():\n    return [Thing()]\n",
        "it has no attribute name; it has no def notify(self, notification)",
    ),
    "a class instead of an instance": (
        (
            "class Thing:\n    name = 'thing'\n    def notify(self, notification): pass\n"
            "@hookimpl\ndef codex_notifiers():\n    return [Thing]\n"
        ),
        "it is the class Thing itself: offer an instance, Thing()",
    ),
    "wrong parameters of a method": (
        (
            "class Thing:\n    name = 'thing'\n    def notify(self): pass\n"
            "@hookimpl\ndef codex_notifiers():\n    return [Thing()]\n"
        ),
        "its notify cannot be called as `def notify(self, notification)`: too many positional arguments",
    ),
    "an async method that is not awaited": (
        (
            "class Thing:\n    name = 'thing'\n    async def notify(self, notification): pass\n"
            "@hookimpl\ndef codex_notifiers():\n    return [Thing()]\n"
        ),
        "its notify is async, but it is called without await: write `def notify(self, notification)`",
    ),
    "a plain method that is awaited": (
        (
            "class Thing:\n    name = 'thing'\n    def review(self, request, facts) -> str: return 'no'\n"
            "@hookimpl\ndef codex_approval_reviewers():\n    return [Thing()]\n"
        ),
        "its review is not async: write `async def review(self, request, turn)`",
    ),
    "a name that is a method": (
        (
            "class Thing:\n    def name(self): return 'thing'\n    def notify(self, notification): pass\n"
            "@hookimpl\ndef codex_notifiers():\n    return [Thing()]\n"
        ),
        "its name is a method: make it a property",
    ),
    "a property that raises": (
        (
            "class Thing:\n    @property\n    def name(self): raise KeyError('x')\n    def notify(self, notification): pass\n"
            "@hookimpl\ndef codex_notifiers():\n    return [Thing()]\n"
        ),
        "its name raises KeyError: 'x'",
    ),
    "an empty name": (
        (
            "class Thing:\n    name = ''\n    def notify(self, notification): pass\n"
            "@hookimpl\ndef codex_notifiers():\n    return [Thing()]\n"
        ),
        "its name is '', not a non-empty string",
    ),
    "an undecorated function as a tool": (
        "async def look(path: str) -> str: return path\n@hookimpl\ndef codex_tools():\n    return [look]\n",
        "it is the function look, not a tool: put `@tool` above `def look`, with tool from codex_framework",
    ),
    "an illegal tool name": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look at', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its name 'look at' is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'",
    ),
    "an invalid schema": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object', 'properties': {'a': {'type': 'text'}}, 'required': ['b']})\n"
            "    async def run(self, call, context): return ''\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its parameters.required names 'b', which is not among its properties; its parameters.a has the unknown type 'text'",
    ),
    "a schema that is no JSON": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object', 'properties': {'a': {1, 2}}})\n"
            "    async def run(self, call, context): return ''\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its parameters are no JSON Schema: set is not JSON",
    ),
    "an ability of the wrong form": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "    offered = True\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its offered is bool, not a method: it has no def offered(self, turn)",
    ),
    "an ability with other parameters": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "    def preview(self, text): return None\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its preview cannot be called as `def preview(self, call_id, text)`: too many positional arguments",
    ),
    "an ability that raises": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "    @property\n    def aliases(self): raise OSError('no disk')\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its aliases raises OSError: no disk",
    ),
    "an alias that is no name": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "    aliases = ('look at',)\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its alias 'look at' is not allowed: use 1 to 64 of a-z, A-Z, 0-9, '_', '.' and '-'",
    ),
    "a program that is a string": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "    programs = {'look': 'python3 -m look'}\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its program 'look' must have a name without slashes and a non-empty list of strings as its value",
    ),
    "aliases that are no list": (
        (
            "from codex_framework import FunctionSpec\nclass Look:\n"
            "    spec = FunctionSpec('look', 'Look.', {'type': 'object'})\n    async def run(self, call, context): return ''\n"
            "    aliases = 7\n"
            "@hookimpl\ndef codex_tools():\n    return [Look()]\n"
        ),
        "its members cannot be read: 'int' object is not iterable",
    ),
    "a provider without infos": (
        (
            "class Model:\n    name = 'model'\n    builtin = {'a': 1}\n    def open(self, info, env): pass\n"
            "    def model(self, slug): pass\n@hookimpl\ndef codex_model_providers():\n    return [Model()]\n"
        ),
        "its builtin provider 'a' is not a ProviderInfo",
    ),
    "an interceptor without a place": (
        (
            "class Shout:\n    name = 'shout'\n    order = 'first'\n    async def request(self, request): pass\n"
            "    async def before_tool(self, call): pass\n    async def after_tool(self, call, output): pass\n"
            "@hookimpl\ndef codex_interceptors():\n    return [Shout()]\n"
        ),
        "its order is 'first', not a number",
    ),
    "a command that is none": (
        "@hookimpl\ndef codex_commands():\n    return ['hello']\n",
        "it is str, not a click command: it has no name",
    ),
}


@pytest.fixture(scope="module")
def mistakes(tmp_path_factory, new_site, good):
    """All of them installed side by side with a good one, and loaded once."""
    site = new_site(tmp_path_factory.mktemp("mistakes") / "site")
    site.install("good", good)
    cases = {**HOOK_MISTAKES, **ITEM_MISTAKES}
    for number, (source, *_) in enumerate(cases.values()):
        site.install(f"bad{number}", HOOK + source)
    reports = {report["name"]: report for report in site.load()["reports"]}
    assert reports["good"]["status"] == "loaded"
    return {case: reports[f"bad{number}"] for number, case in enumerate(cases)}


@pytest.mark.parametrize("case", ITEM_MISTAKES)
def test_an_object_that_does_not_play_its_role_is_left_out_with_the_reason(mistakes, case):
    _, reason = ITEM_MISTAKES[case]
    report = mistakes[case]
    assert (report["status"], report["contributes"]) == ("failed", {})
    assert len(report["problems"]) == 1
    assert report["problems"][0][0].partition(" is ignored: ")[2] == reason


def test_a_function_of_the_plugins_own_may_begin_with_the_prefix(site):
    site.install("own", HOOK + "def codex_home(): pass\n@hookimpl\ndef codex_tools():\n    return []\n")
    assert site.report("own")["status"] == "loaded"


def test_one_bad_tool_leaves_the_plugins_other_tools_in_use(site):
    site.install(
        "bad",
        HOOK
        + "@tool\ndef fine(a: int) -> str:\n    'Do.'\n    return ''\n@hookimpl\ndef codex_tools():\n    return [fine, 7]\n",
    )
    report = site.report("bad")
    assert report["status"] == "partial"
    assert report["contributes"] == {"tools": ["fine"]}
    assert report["problems"][0][0] == (
        "its tool of type int is ignored: it has no attribute spec; it has no async def run(self, call, context)"
    )
