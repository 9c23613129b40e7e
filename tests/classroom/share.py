"""What is tried of many things, where `./ladder test --all --part K/N` asks for one part of them."""

import os


def of(things):
    """Every N-th of them from the K-th on where LADDER_TEST_ALL is K/N, and otherwise all: N days try everything."""
    k, _, n = os.environ.get("LADDER_TEST_ALL", "").partition("/")
    return list(things)[int(k) - 1::int(n)] if n else list(things)
