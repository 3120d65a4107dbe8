"""The assembled filter does what its rules say, for every call and argument: run by an interpreter of its own."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codex_lib_confinement.seccomp import Check, Rule, assemble
from codex_lib_confinement.syscall_numbers import AARCH64, X86_64
from codex_plugin_landlock.jail.seccomp import rules_for

ARCHITECTURES = {"x86_64": (X86_64, 0xC000003E), "aarch64": (AARCH64, 0xC00000B7)}
ALLOW, KILL = 0x7FFF0000, 0x80000000
WORD = 0xFFFFFFFF


def run(program, architecture, number, arguments=()):
    """What the kernel would answer: 0 for allowed, an errno, or "kill"."""
    data = [number & WORD, architecture, 0, 0]
    for value in (*arguments, *(0,) * (6 - len(arguments))):
        data += [value & WORD, value >> 32 & WORD]
    accumulator = at = 0
    while True:
        code, if_true, if_false, constant = program[at]
        assert 0 <= if_true < 256
        assert 0 <= if_false < 256
        at += 1
        match code:
            case 0x20:
                accumulator = data[constant // 4]
            case 0x54:
                accumulator &= constant
            case 0x05:
                at += constant
            case 0x15:
                at += if_true if accumulator == constant else if_false
            case 0x35:
                at += if_true if accumulator >= constant else if_false
            case 0x06:
                if constant == ALLOW:
                    return 0
                return "kill" if constant == KILL else constant & 0xFFFF
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


def meant(rules, arguments):
    """The same by the rules themselves."""
    for rule in rules:
        if all(holds(check, arguments[check.argument]) for check in rule.when):
            return rule.error
    return 0


def holds(check, value):
    if check.mask is None:
        return value != 0
    return ((value & check.mask) in check.values) == check.among


VALUES = st.one_of(
    st.sampled_from(
        [0, 1, 2, 3, 5, 10, 16, 17, 40, 0x5412, 0o4755, 0o100, 0x10000000, 1 << 32, (1 << 32) | 2, WORD, (1 << 64) - 1]
    ),
    st.integers(0, (1 << 64) - 1),
)


@pytest.mark.slow
@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize("network", ["off", "loopback", "proxy", "on"])
@pytest.mark.parametrize("own", [False, True])
@given(number=st.integers(0, 500), arguments=st.tuples(*[VALUES] * 6))
def test_the_program_answers_as_its_rules(machine, network, own, number, arguments):
    numbers, architecture = ARCHITECTURES[machine]
    rules = rules_for(network=network, has_namespaces=own)
    program = assemble(rules, numbers, architecture)
    names = {value: name for name, value in numbers.items()}
    expected = meant(rules.get(names.get(number, ""), ()), arguments)
    assert run(program, architecture, number, arguments) == expected


@pytest.mark.slow
@given(
    table=st.dictionaries(
        st.integers(0, 2000),
        st.lists(
            st.builds(
                Rule,
                st.integers(1, 100),
                st.lists(
                    st.builds(
                        Check,
                        st.integers(0, 5),
                        st.none() | st.sampled_from([WORD, 0xF, 0o170000]),
                        st.lists(st.integers(0, 20), min_size=1, max_size=4).map(tuple),
                        st.booleans(),
                    ),
                    max_size=3,
                ).map(tuple),
            ),
            min_size=1,
            max_size=3,
        ),
        max_size=60,
    ),
    arguments=st.tuples(*[st.integers(0, 20) | VALUES] * 6),
    others=st.lists(st.integers(0, 2000), max_size=5),
)
def test_any_table_of_rules_can_be_assembled(table, arguments, others):
    names = {f"call{number}": number for number in table}
    program = assemble({f"call{number}": rules for number, rules in table.items()}, names, 7)
    for number in (*table, *others):
        assert run(program, 7, number, arguments) == meant(table.get(number, ()), arguments)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_foreign_architectures_are_killed_and_x32_is_unknown(machine):
    numbers, architecture = ARCHITECTURES[machine]
    program = assemble(rules_for(network="on", has_namespaces=True), numbers, architecture)
    assert run(program, 0x40000003, 1) == "kill"
    assert run(program, architecture, 0x40000000 | 1) == errno.ENOSYS


def test_the_kernels_limit_of_instructions_is_far_away():
    assert len(assemble(rules_for(network="off", has_namespaces=False), X86_64, 1)) < 4096 // 4


def test_a_call_costs_few_instructions():
    """The depth of the tree bounds what every system call of a command pays."""
    numbers, architecture = ARCHITECTURES["x86_64"]
    program = assemble(rules_for(network="off", has_namespaces=False), numbers, architecture)
    steps = 0

    class Counted(list):
        def __getitem__(self, index):
            nonlocal steps
            steps += 1
            return super().__getitem__(index)

    deepest = 0
    for number in range(500):
        steps = 0
        run(Counted(program), architecture, number)
        deepest = max(deepest, steps)
    assert deepest < 40
