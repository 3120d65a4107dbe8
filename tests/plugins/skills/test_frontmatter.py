"""What a ``SKILL.md`` may look like. The cases were compared with Codex 0.169."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from codex_plugin_skills.frontmatter import SkillFileError, read_frontmatter
from codex_plugin_skills.manifest import read_manifest
from codex_plugin_skills.yaml_tree import YamlError, _parsed, _simple_mapping, read_mapping

ACCEPTED = {
    "plain": ("name: a\ndescription: d", "a", "d"),
    "no name": ("description: d", "", "d"),
    "empty name": ("name: ''\ndescription: d", "", "d"),
    "longest name": (f"name: {'n' * 64}\ndescription: d", "n" * 64, "d"),
    "long description": (f"name: a\ndescription: {'é' * 5000}", "a", "é" * 5000),
    "colons": ("name: a\ndescription: Use this: when a thing: happens", "a", "Use this: when a thing: happens"),
    "broken list": ("name: [unclosed\ndescription: d", "[unclosed", "d"),
    "folded": ("name: a\ndescription: >-\n  folded text\n  over lines\n\n  para", "a", "folded text over lines para"),
    "literal": ("name: a\ndescription: |\n  one\n  two", "a", "one two"),
    "continued": ("name: a\ndescription: plain text\n  continued here", "a", "plain text continued here"),
    "numbers": ("name: 123\ndescription: 4.5", "123", "4.5"),
    "booleans": ("name: yes\ndescription: true", "yes", "true"),
    "null": ("name: null\ndescription: null desc", "", "null desc"),
    "quoted null": ("name: 'null'\ndescription: d", "null", "d"),
    "tilde": ("name: ~\ndescription: d", "", "d"),
    "quoted": ('name: "a\\nb"\ndescription: "x\\n\\n y   z"', "a b", "x y z"),
    "tabs": ("name:\ta\ndescription:\td", "a", "d"),
    "alias": ("name: &a anchor\ndescription: *a", "anchor", "anchor"),
    "comment": ("# note\nname: a # really\ndescription: d", "a", "d"),
    "other keys": ("name: a\ndescription: d\nallowed-tools: Bash, Read\nlicense: x", "a", "d"),
}

REFUSED = {
    "no description": ("name: a", "no `description`"),
    "null description": ("name: a\ndescription: null", "no `description`"),
    "empty description": ("name: a\ndescription: ''", "no `description`"),
    "long name": (f"name: {'n' * 65}\ndescription: d", "65 characters; at most 64"),
    "list": ("name: a\ndescription: [a, b]", "`description` is not text"),
    "twice": ("name: a\ndescription: one\ndescription: two", "`description` is given twice"),
    "metadata": ("name: a\ndescription: d\nmetadata: hello", "`metadata` is not a mapping"),
    "broken": ("name: [unclosed", "not valid YAML"),
    "scalar": ("just text", "not a YAML mapping"),
    "deep": (f"name: {'[' * 5000}", "nested too deeply"),
    "endless": ("name: &a [*a]", "contains itself"),
    "huge": (f"name: a\ndescription: {'d ' * 9000}", "at most 16384"),
}


@pytest.mark.parametrize(("block", "name", "description"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_frontmatter_is_read(block: str, name: str, description: str) -> None:
    read = read_frontmatter(f"---\n{block}\n---\nBody.")
    assert (read.name, read.description) == (name, description)


@pytest.mark.parametrize(("block", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_frontmatter_is_refused_with_the_reason(block: str, reason: str) -> None:
    with pytest.raises(SkillFileError, match=reason.replace("[", r"\[")) as caught:
        read_frontmatter(f"---\n{block}\n---\nBody.")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "text", "---\nname: a\ndescription: d\n", "\n---\ndescription: d\n---\n", "\ufeff---\n"]
)
def test_a_file_without_frontmatter_is_refused(text: str) -> None:
    with pytest.raises(SkillFileError, match="does not begin with a frontmatter"):
        read_frontmatter(text)


@pytest.mark.parametrize(
    "text", ["---\r\nname: a\r\ndescription: d\r\n---\r\nb", "---  \nname: a\ndescription: d\n---  \nb"]
)
def test_line_ends_do_not_matter(text: str) -> None:
    assert (read_frontmatter(text).name, read_frontmatter(text).description) == ("a", "d")


def test_the_short_description_is_metadata() -> None:
    text = "---\nname: a\ndescription: d\nmetadata:\n  short-description: short  one\n---\n"
    assert read_frontmatter(text).short_description == "short one"


WORDS = st.text(alphabet="ab1 :#-_'\"[]{}&*!|>%@`,?=.~\té\u2028\x85", max_size=12)


@given(st.lists(st.tuples(st.sampled_from(["name", "description", "x-y", "a_b"]), WORDS), max_size=4))
def test_the_short_way_reads_what_the_parser_reads(pairs: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{key}: {value}" for key, value in pairs)
    simple = _simple_mapping(text)
    if simple is not None:
        assert simple == _parsed(text)


@given(st.text(alphabet="ab: \n-[]{}&*'\"|>#?,!%\t\x00\ud800", max_size=60))
def test_no_text_breaks_the_parser(text: str) -> None:
    try:
        read_mapping(text)
    except YamlError as error:
        assert "\n" not in str(error)
    read_manifest(text, "/skill")


def test_aliases_cannot_multiply_a_text() -> None:
    steps = "\n".join(f"k{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 30))
    tree = read_mapping(f"k0: &a0 [x]\n{steps}")
    assert len(tree) == 30
    assert yaml.__version__


MANIFEST = """
interface:
  display_name: "Full  Name"
  short_description: short
  icon_small: ./assets/a.png
  icon_large: assets/b.svg
  brand_color: "#aabbcc"
  default_prompt: "Use $full"
dependencies:
  tools:
    - {type: mcp, value: github, description: GH, transport: streamable_http, url: "https://x/y"}
    - {type: env_var, value: MY_TOKEN}
policy:
  allow_implicit_invocation: false
  products: [chatgpt, CODEX]
"""


def test_a_manifest_is_read() -> None:
    read = read_manifest(MANIFEST, "/skill")
    assert read.interface is not None
    assert read.dependencies is not None
    assert (read.interface.display_name, read.interface.short_description) == ("Full Name", "short")
    assert (read.interface.icon_small, read.interface.icon_large) == ("/skill/assets/a.png", "/skill/assets/b.svg")
    assert (read.interface.brand_color, read.interface.default_prompt) == ("#aabbcc", "Use $full")
    assert [(need.type, need.value, need.url) for need in read.dependencies.tools] == [
        ("mcp", "github", "https://x/y"),
        ("env_var", "MY_TOKEN", None),
    ]
    assert (read.implicit, read.suitable, read.problems) == (False, True, ())


WRONG = {
    "not YAML": ("interface: [", "not valid YAML"),
    "no mapping": ("interface: x", "`interface` is not a mapping"),
    "title": (f"interface: {{display_name: {'x' * 65}}}", "65 characters; at most 64"),
    "text": (f"interface: {{default_prompt: {'x' * 1025}}}", "1025 characters; at most 1024"),
    "type": ("interface: {display_name: [a]}", "`display_name` is not text"),
    "kind": (f"dependencies: {{tools: [{{type: {'t' * 65}, value: v}}]}}", "65 characters; at most 64"),
    "colour": ("interface: {brand_color: red}", "not #RRGGBB"),
    "icon outside": ("interface: {icon_small: ../../x.png}", "not below assets/"),
    "icon up": ("interface: {icon_small: assets/../../x.png}", "not below assets/"),
    "absolute icon": ("interface: {icon_small: /etc/passwd}", "not below assets/"),
    "policy": ("policy: {allow_implicit_invocation: maybe}", "neither true nor false"),
    "products": ("policy: {products: codex}", "`policy.products` is not a list"),
    "needs": ("dependencies: {tools: x}", "`dependencies.tools` is not a list"),
    "need": ("dependencies: {tools: [{type: mcp}, {value: x}]}", "no `type` or no `value`"),
}


@pytest.mark.parametrize(("text", "problem"), WRONG.values(), ids=WRONG)
def test_a_wrong_part_of_a_manifest_is_left_out_and_told(text: str, problem: str) -> None:
    read = read_manifest(text, "/skill")
    assert problem in read.problems[0]
    assert read.evolve(problems=()) == type(read)()


def test_a_skill_for_another_product_does_not_suit() -> None:
    assert not read_manifest("policy: {products: [chatgpt]}", "/skill").suitable
