"""Where the elements of a tile lie in the banks of shared memory, drawn and counted."""

from collections import Counter

from constants import BANKS

AXIS = (0, 8, 16, 24, BANKS - 1)


def passes(first_words, words_per_lane):
    """Passes that lanes served together take: the most different words that they want of one bank (wavefronts_of() in
    common/simt/counters/request_cost.cpp)."""
    words = {first + w for first in first_words for w in range(words_per_lane)}
    return max(Counter(word % BANKS for word in words).values())


def draw_banks(figure, x, y, cell, row, first_words, words_per_lane, colour, axis=AXIS):
    """One line for each lane, one column for each bank; what the lane reads is filled."""
    for bank in axis:
        figure.text(x + cell * (bank + 0.5), y - 8, f"{bank}", size=15, colour="quiet", anchor="middle")
    grid = "".join(f"M{x} {y + row * i}H{x + cell * BANKS}" for i in range(len(first_words) + 1))
    grid += "".join(f"M{x + cell * bank:g} {y}V{y + row * len(first_words)}" for bank in range(BANKS + 1))
    figure.path(grid, line="rule", width=0.75, opacity=0.6)
    for i, first in enumerate(first_words):
        for word in range(first, first + words_per_lane):
            figure.rect(x + cell * (word % BANKS), y + row * i, cell, row, fill=colour, line=colour, round_=0, width=1)
