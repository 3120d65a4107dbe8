"""Nicknames of agents, which help users to distinguish them."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["nickname"]

_NAMES = (
    *("Abel", "Ampere", "Babbage", "Banach", "Bernoulli", "Bohr", "Boole", "Cauchy", "Cavendish", "Church", "Darwin"),
    *("Dirac", "Euler", "Fermi", "Fourier", "Galois", "Germain", "Haber", "Hamilton", "Hopper", "Huygens", "Jacobi"),
    *("Joule", "Kelvin", "Laplace", "Lovelace", "Maxwell", "Meitner", "Mendel", "Noether", "Ohm", "Pascal", "Planck"),
    *("Ramanujan", "Riemann", "Salk", "Shannon", "Turing", "Volta", "Wallis"),
)


def nickname(number: int, taken: Collection[str]) -> str:
    """Return the nickname of the agent with a number, from 0. It differs from the used nicknames."""
    place = number
    while True:
        lap, index = divmod(place, len(_NAMES))
        name = _NAMES[index] if lap == 0 else f"{_NAMES[index]} {lap + 1}"
        if name not in taken:
            return name
        place += 1
