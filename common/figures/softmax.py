"""The arithmetic that some figures show: scores, their running maximum and sum, and what becomes of parts of a row."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class State:
    """What a row remembers of some scores: their maximum m, l = sum e^(s - m), and o = sum e^(s - m) v."""
    m: float = -math.inf
    l: float = 0.0
    o: float = 0.0

    @property
    def lse(self):
        return self.m + math.log(self.l)

    @property
    def out(self):
        return self.o / self.l


def merge(a, b):
    m = max(a.m, b.m)
    old, new = math.exp(a.m - m), math.exp(b.m - m)
    return State(m, a.l * old + b.l * new, a.o * old + b.o * new)


def state_of(scores, values=None):
    state = State()
    for score, value in zip(scores, values or [0.0] * len(scores), strict=True):
        state = merge(state, State(score, 1.0, value))
    return state
