"""Names: two plugins that offer one, plugins that are disabled or preferred, distributions that are installed twice."""

from __future__ import annotations

LOOK = """
    from codex_framework import hookimpl, tool

    class Look:
        aliases = {aliases}
        def __init__(self, spec):
            self.spec = spec
        async def run(self, call, context):
            return {answer!r}

    @hookimpl
    def codex_tools():
        from codex_framework import FunctionSpec
        return [Look(FunctionSpec({name!r}, "Look.", {{"type": "object", "properties": {{}}}}))]
"""


def look(name: str, answer: str = "", aliases: tuple[str, ...] = ()) -> str:
    return LOOK.format(name=name, answer=answer, aliases=aliases)


def by_name(loaded):
    return {report["name"]: report for report in loaded["reports"]}


def test_two_plugins_that_offer_one_tool_are_both_named_and_the_first_by_name_wins(site):
    site.install("alpha", look("look"))
    site.install("beta", look("look"))
    loaded = site.load()
    fact = "the tool 'look' is offered by 'alpha' (acme-alpha 1.0) and by 'beta' (acme-beta 1.0); the one of 'alpha' is used"
    hint = 'Choose with `[framework] plugins.prefer = ["beta"]`, or disable one of them.'
    assert loaded["tools"]["look"] == "alpha"
    reports = by_name(loaded)
    assert (reports["alpha"]["status"], reports["alpha"]["problems"]) == ("loaded", [[fact, hint]])
    assert (reports["beta"]["status"], reports["beta"]["problems"]) == ("failed", [[fact, hint]])
    assert loaded["warnings"] == [f"plugin 'alpha' (acme-alpha 1.0): {fact}. {hint}"]


def test_a_preferred_plugin_wins_a_name(site):
    site.install("alpha", look("look"))
    site.install("beta", look("look"))
    loaded = site.load({"framework": {"plugins": {"prefer": ["beta"]}}})
    assert loaded["tools"]["look"] == "beta"
    assert {name: report["status"] for name, report in by_name(loaded).items()} == {"alpha": "failed", "beta": "loaded"}


def test_a_bundled_plugin_wins_a_name_from_an_installed_one(site):
    site.install("aardvark", look("exec_command"))
    loaded = site.load()
    assert loaded["tools"]["exec_command"] == "unified_exec"
    assert by_name(loaded)["aardvark"]["status"] == "failed"


def test_a_disabled_plugin_is_not_even_imported(site, good):
    site.install("alpha", "raise SystemExit('imported')")
    site.install("good", good)
    loaded = site.load({"framework": {"plugins": {"disabled": ["alpha"]}}})
    report = by_name(loaded)["alpha"]
    assert (report["status"], report["problems"], report["contributes"]) == ("disabled", [], {})
    assert loaded["modules"] == ["acme_good"]


def test_disabling_one_of_two_settles_who_has_the_name(site):
    site.install("alpha", look("look"))
    site.install("beta", look("look"))
    loaded = site.load({"framework": {"plugins": {"disabled": ["alpha"]}}})
    assert loaded["tools"]["look"] == "beta"
    assert loaded["warnings"] == []


def test_a_misspelt_name_in_the_configuration_is_told_to_the_plugin_it_means(site):
    site.install("alpha", look("look"))
    loaded = site.load({"framework": {"plugins": {"disabled": ["alhpa"]}}})
    report = by_name(loaded)["alpha"]
    assert report["status"] == "loaded"
    assert report["problems"] == [
        ["the configuration names the plugin 'alhpa', which is not installed", "Did you mean 'alpha'?"]
    ]


def test_two_distributions_with_one_plugin_name_are_both_named(site):
    site.install("alpha", look("look"), name="same")
    site.install("beta", look("see"), name="same")
    loaded = site.load()
    fact = "two plugins are called 'same': 'same' (acme-alpha 1.0) and 'same' (acme-beta 1.0); the first is used"
    hint = "Uninstall one of the two, or rename its entry point."
    assert [(report["distribution"], report["status"], report["problems"]) for report in loaded["reports"]] == [
        ("acme-alpha", "loaded", [[fact, hint]]),
        ("acme-beta", "failed", [[fact, hint]]),
    ]


def test_one_module_under_two_names_is_loaded_once(site):
    site.install("alpha", look("look"))
    site.declare("acme_twin", {"twin": "acme_alpha"})
    reports = by_name(site.load())
    assert reports["alpha"]["status"] == "loaded"
    assert reports["twin"]["problems"] == [
        ["it is the same object as plugin 'alpha'", "Remove one of the two entry points."]
    ]


def test_a_distribution_that_is_installed_twice_counts_once_and_the_first_on_the_path_is_used(site, other_site):
    site.install("alpha", look("look"), version="2.0")
    other_site.install("alpha", look("look"), version="1.0")
    loaded = site.load(None, other_site)
    assert [(report["version"], report["status"], report["problems"]) for report in loaded["reports"]] == [
        ("2.0", "loaded", [])
    ]


def test_an_editable_install_beside_its_source_folder_counts_once(site, other_site):
    site.install("alpha", look("look"))
    egg = other_site.folder / "ACME.Alpha.egg-info"
    egg.mkdir()
    egg.joinpath("entry_points.txt").write_text("[codex_framework]\nalpha=acme_alpha\n")
    egg.joinpath("PKG-INFO").write_text("Metadata-Version: 2.1\nName: ACME.Alpha\nVersion: 1.0\n")
    loaded = site.load(None, other_site)
    assert [(report["name"], report["status"]) for report in loaded["reports"]] == [("alpha", "loaded")]
    assert loaded["warnings"] == []


def test_an_alias_finds_its_tool_and_a_name_goes_before_an_alias(site):
    site.install("alpha", look("look", aliases=("see", "watch")))
    site.install("beta", look("watch"))
    loaded = site.load()
    assert {name: loaded["calls"][name] for name in ("look", "see", "watch")} == {
        "look": "look",
        "see": "look",
        "watch": "watch",
    }
    assert by_name(loaded)["alpha"]["problems"][0][0] == (
        "its tool 'look' has the alias 'watch', which is already the name or an alias of 'watch' of plugin 'beta'"
    )


def test_a_tool_offered_twice_by_one_plugin_is_used_once(site):
    site.install("alpha", look("look").replace("return [Look", "return 2 * [Look"))
    report = by_name(site.load())["alpha"]
    assert report["status"] == "partial"
    assert report["problems"] == [["it offers the tool 'look' twice", "Give each a unique name."]]


def test_a_distribution_in_a_zip_file_is_found_too(site):
    import zipfile

    site.install("alpha", look("look"))
    wheel = site.folder.parent / "alpha.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in site.folder.rglob("*"):
            archive.write(file, file.relative_to(site.folder))
    site.folder = wheel
    assert [(report["distribution"], report["version"], report["status"]) for report in site.load()["reports"]] == [
        ("acme-alpha", "1.0", "loaded")
    ]
