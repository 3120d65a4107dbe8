"""Values: attrs classes that are defined when they are first needed."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import pydoc
import subprocess
import sys
import threading
from typing import ClassVar, Generic, TypeVar

import attrs
import pytest

from codex_framework.contract.value import Value, field, fields_of


class Point(Value):
    """Two numbers and a note that does not count."""

    kind: ClassVar[str] = "point"
    x: int
    y: int = 0
    note: str = attrs.field(default="", eq=False, repr=False)


class Named(Value, kw_only=True):
    """Fields by name only."""

    name: str
    tags: tuple[str, ...] = ()


class Empty(Value):
    """No field at all."""


def test_a_value_is_made_compared_hashed_and_shown_by_its_fields() -> None:
    assert Point(1, 2) == Point(1, y=2, note="other")
    assert Point(1, 2) != Point(2, 1)
    assert Point(1) != Named(name="x")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b"))
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert Empty() == Empty()
    assert {Point(1): "a"}[Point(1)] == "a"


def test_a_value_cannot_be_changed_but_copied_with_changes() -> None:
    point = Point(1, 2)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        point.x = 3  # type: ignore[misc]
    assert point.evolve(y=5) == Point(1, 5)
    assert attrs.evolve(point, y=5) == Point(1, 5)  # type: ignore[misc]
    assert copy.deepcopy(point) == pickle.loads(pickle.dumps(point)) == point


def test_fields_can_be_asked_for_before_there_is_an_instance() -> None:
    class Fresh(Value):
        a: int
        b: str = "b"

    assert attrs.has(Fresh)
    assert [field.name for field in attrs.fields(Fresh)] == ["a", "b"]
    assert Fresh(1).b == "b"


def test_wrong_arguments_are_type_errors() -> None:
    with pytest.raises(TypeError, match="x"):
        Point()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Named("positional")  # type: ignore[misc]


def test_matching_takes_fields_in_order() -> None:
    match Point(3, 4):
        case Point(x, y):
            assert (x, y) == (3, 4)
        case _:
            raise AssertionError


def test_a_class_is_defined_once_however_many_threads_need_it_first() -> None:
    for _ in range(20):

        class Raced(Value):
            a: int = 1
            b: int = 2

        made: list[Value] = []
        barrier = threading.Barrier(4)

        def make(kind: type[Value] = Raced, at: threading.Barrier = barrier, into: list[Value] = made) -> None:
            at.wait()
            into.append(kind())

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert made == [Raced()] * 4


T = TypeVar("T")


def test_a_value_may_be_generic() -> None:
    class Box(Value, Generic[T]):
        content: T

    class IntBox(Box[int]):
        label: str = ""

    assert Box[int](3) == Box(3)
    assert IntBox(3, "three").label == "three"
    assert Box[str].__args__ == (str,)


def test_a_value_derived_from_one_in_use_has_its_own_fields() -> None:
    class Parent(Value):
        a: int

    class Child(Parent):
        b: int = 0

    assert Parent(1).a == 1

    class Grandchild(Child):
        c: int = 0

    assert Child(1, 2).b == 2
    assert Grandchild(1, 2, 3) == Grandchild(a=1, b=2, c=3)
    assert [field.name for field in attrs.fields(Grandchild)] == ["a", "b", "c"]
    assert Grandchild(1) != Child(1)


def test_signature_and_help_show_the_fields_before_the_first_use() -> None:
    class Parent(Value):
        a: int

    class Child(Parent, kw_only=True):
        b: str = "b"

    assert str(inspect.signature(Child)) == "(a: 'int', *, b: 'str' = 'b')"
    assert str(inspect.signature(Parent)) == "(a: 'int')"

    class Fresh(Value):
        number: int

    assert "Fresh(number: 'int')" in pydoc.plain(pydoc.render_doc(Fresh))


def test_a_class_whose_fields_cannot_be_is_told_each_time() -> None:
    class Wrong(Value):
        a: int = 1
        b: int  # type: ignore[misc]

    for _ in range(2):
        with pytest.raises(ValueError, match="No mandatory attributes"):
            Wrong(1, 2)


def test_an_initialiser_of_its_own_is_kept() -> None:
    class Own(Value):
        a: int

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "a", int(text))

    assert Own("3").a == 3
    assert list(inspect.signature(Own).parameters) == ["text"]


class Declared(Value):
    """Fields that need more than a default value."""

    first: int
    shown: str = field(default="shown", kw_only=True)
    made: list[int] = field(factory=list)
    derived: int = field(factory=lambda value: value.first + 1, takes_self=True)
    hidden: str = field(default="", eq=False, repr=False, alias="secret")
    fixed: int = field(default=7, init=False)
    _private: int = field(default=0, metadata={"wire": False})


def check_declared() -> None:
    one, other = Declared(1), Declared(1, shown="shown", secret="s")
    assert one == other
    assert hash(Declared(1, derived=3)._private) == hash(0)
    assert repr(one) == "Declared(first=1, shown='shown', made=[], derived=2, fixed=7, private=0)"
    assert one.made is not other.made
    assert other.hidden == "s"
    assert Declared(5, [1], 9, private=4).__dict__ == {
        "first": 5,
        "shown": "shown",
        "made": [1],
        "derived": 9,
        "hidden": "",
        "fixed": 7,
        "_private": 4,
    }
    for arguments in ((), (1, [], 2, "", 0, 1)):
        with pytest.raises(TypeError):
            Declared(*arguments)  # type: ignore[call-arg, arg-type]
    for names in ({"other": 1}, {"first": 2}, {"fixed": 1}, {"hidden": ""}):
        with pytest.raises(TypeError, match=next(iter(names))):
            Declared(1, **names)  # type: ignore[arg-type]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        one.first = 2  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del one.first  # type: ignore[misc]


def test_declared_fields_are_the_same_with_few_instances_with_many_and_with_attrs() -> None:
    first = fields_of(Declared)
    check_declared()
    for _ in range(100):
        Declared(1)
    assert "__init__" in Declared.__dict__
    assert Declared.__init__.__code__.co_varnames[:2] == ("self", "first")
    check_declared()
    found = attrs.fields(Declared)
    assert [each.name for each in found] == [each.name for each in first]
    assert [each.alias for each in found] == [each.alias for each in first]
    assert found.fixed.init is False
    assert found._private.metadata == {"wire": False}
    check_declared()


def test_a_wrong_call_leaves_the_class_usable_and_says_what_python_says() -> None:
    class Fresh(Value):
        a: int
        b: int = 2

    with pytest.raises(TypeError, match=r"Fresh\.__init__\(\) missing 1 required positional argument: 'a'"):
        Fresh()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'c'"):
        Fresh(1, c=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="multiple values for argument 'a'"):
        Fresh(1, a=3)  # type: ignore[misc]
    assert Fresh(1).b == 2


def test_what_runs_after_the_fields_are_filled_runs_once_for_each_instance() -> None:
    class Counted(Value):
        a: int
        total: int = field(init=False)

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "total", getattr(self, "total", 0) + self.a)

    assert {Counted(2).total for _ in range(100)} == {2}
    assert attrs.fields(Counted)
    assert Counted(3).total == 3
    with pytest.raises(TypeError):
        Counted(1, total=1)  # type: ignore[call-arg]


def test_fields_that_only_attrs_knows_work_as_well() -> None:
    class Converted(Value):
        a: int = attrs.field(converter=int)
        b: list[int] = attrs.Factory(list)

    class Derived(Converted):
        c: str = field(default="c", alias="see", repr=False)

    assert Converted("3") == Converted(3, [])  # type: ignore[arg-type]
    assert repr(Derived("4", [1])).endswith("Derived(a=4, b=[1])")  # type: ignore[arg-type]
    assert Derived(4, see="x").evolve(a="5") == Derived(5, see="x")
    assert [(each.name, each.required) for each in fields_of(Derived)] == [("a", True), ("b", False), ("c", False)]
    assert fields_of(Derived)[1].made(None) == []
    assert fields_of(Derived)[2].default == "c"


def test_a_declaration_without_annotation_is_read_as_attrs_reads_it() -> None:
    class Bare(Value):
        a: int = 0
        b = field(default=1)

    class Likewise(Value):
        a: int = 0
        b = attrs.field(default=1)

    assert [each.name for each in fields_of(Bare)] == [each.name for each in fields_of(Likewise)] == ["b"]
    assert Bare(b=2).b == Likewise(b=2).b == 2


def test_matching_does_not_take_the_fields_of_a_parent_in_use() -> None:
    class Parent(Value):
        a: int

    class Child(Parent):
        b: int

    class Sibling(Parent):
        c: int = field(kw_only=True)

    assert attrs.fields(Parent)
    match Child(1, 2):
        case Child(a, b):
            assert (a, b) == (1, 2)
    assert Sibling.__match_args__ == ("a",)  # type: ignore[attr-defined]
    assert Value.__match_args__ == ()  # type: ignore[attr-defined]


_WITHOUT_ATTRS = """
import sys
from codex_framework.contract.value import Value, field

class Point(Value):
    x: int
    y: int = field(default=0, eq=False)

for _ in range(100):
    point = Point(1, y=2)
assert point == point.evolve(y=3) and {point: 1} and repr(point) == "Point(x=1, y=2)"
match point:
    case Point(x, y):
        assert (x, y) == (1, 2)
print([name for name in ("attr", "attrs", "inspect") if name in sys.modules])
import attrs
print([each.name for each in attrs.fields(Point)])
"""


def test_values_are_made_compared_copied_and_matched_without_importing_attrs() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_ATTRS], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["[]", "['x', 'y']"]


_EVERY_VALUE = """
import importlib, inspect, pkgutil, pydoc
import codex_framework
from codex_framework.contract.value import Value, field, fields_of


def values(kind):
    for value in kind.__subclasses__():
        yield value
        yield from values(value)


for module in pkgutil.walk_packages(codex_framework.__path__, "codex_framework."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
count = 0
for value in dict.fromkeys(values(Value)):
    signature = str(inspect.signature(value))
    assert "*args" not in signature and signature[1:5] != "self", (value, signature)
    assert f"{value.__name__}(" in pydoc.plain(pydoc.render_doc(value)), value
    count += 1
print(count)
"""


def test_signature_and_help_work_on_every_value_of_the_framework_before_its_first_use() -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_VALUE], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert int(done.stdout) > 200


def test_a_copy_takes_the_fields_and_nothing_else() -> None:
    class Plain(Value):
        x: int
        y: list[int] = field(factory=list)

        @functools.cached_property
        def double(self) -> int:
            return 2 * self.x

    class Counted(Value):
        x: int
        double: int = field(init=False, default=0)

        def __attrs_post_init__(self) -> None:
            object.__setattr__(self, "double", 2 * self.x)

    class Hidden(Value):
        _x: int

    class Own(Value):
        x: int

        def __init__(self, x: int) -> None:
            object.__setattr__(self, "x", x + 100)

    for _ in range(40):  # with few instances, and with so many that an initialiser is written
        first = Plain(1)
        assert first.double == 2
        copy = first.evolve(x=5)
        assert (copy.x, copy.double, copy.y is first.y) == (5, 10, True), (
            "what was computed of the old one is not copied"
        )
        assert Counted(1).evolve(x=4).double == 8
        assert repr(Hidden(1).evolve(x=2)) == repr(Hidden(2))
        assert Own(1).evolve(x=2).x == 102
        with pytest.raises(TypeError, match="z"):
            first.evolve(z=1)
