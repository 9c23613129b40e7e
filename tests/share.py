"""How much is tried of things that are many: LADDER_TEST_ALL is 1 for all of them, as `./ladder test --all` sets it, or K/N for one part of
N, as `--all --part K/N` does: N days try everything."""

import os

SAMPLED = 12  # one of so many where `./ladder test` has no --all


def of(things):
    """All of them, or every N-th from the K-th on where LADDER_TEST_ALL is K/N."""
    k, _, n = os.environ.get("LADDER_TEST_ALL", "").partition("/")
    return list(things)[int(k) - 1::int(n)] if n else list(things)


def sample(things):
    """The same, or a few where LADDER_TEST_ALL is not set."""
    return of(things) if os.environ.get("LADDER_TEST_ALL") else list(things)[::SAMPLED]
