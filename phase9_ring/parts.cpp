#include "phase9_ring/parts.h"

#include <stdexcept>
#include <string>

namespace ladder {
namespace {

/// Interval `index` of `intervals` that a sequence is cut into.
Interval interval_of(std::int64_t length, std::int64_t index, std::int64_t intervals) {
    const std::int64_t first = index * length / intervals;
    return {.first = first, .length = (index + 1) * length / intervals - first};
}

}  // namespace

std::vector<Interval> part_of(Parts parts, std::int64_t length, int rank, int ranks) {
    if (parts == Parts::contiguous) return {interval_of(length, rank, ranks)};
    return {interval_of(length, rank, 2 * ranks), interval_of(length, 2 * ranks - 1 - rank, 2 * ranks)};
}

std::int64_t length_of(const std::vector<Interval>& part) {
    std::int64_t length = 0;
    for (const Interval& interval : part) length += interval.length;
    return length;
}

torch::Tensor cut_sequence(const torch::Tensor& whole, std::int64_t dimension, Parts parts, int rank, int ranks) {
    std::vector<torch::Tensor> pieces;
    for (const Interval& interval : part_of(parts, whole.size(dimension), rank, ranks))
        pieces.push_back(whole.narrow(dimension, interval.first, interval.length));
    return at::concat(pieces, dimension);
}

torch::Tensor rejoin_sequence(const std::vector<torch::Tensor>& cut_up, std::int64_t dimension, Parts parts) {
    const int ranks = int(cut_up.size());
    std::int64_t length = 0;
    for (const torch::Tensor& part : cut_up) length += part.size(dimension);
    std::vector<torch::Tensor> intervals(2 * ranks);
    for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<Interval> held = part_of(parts, length, rank, ranks);
        if (cut_up[rank].size(dimension) != length_of(held))
            throw std::invalid_argument("rejoin_sequence: part " + std::to_string(rank) + " has length " +
                                        std::to_string(cut_up[rank].size(dimension)) + "; of a sequence of " +
                                        std::to_string(length) + " it has " + std::to_string(length_of(held)));
        std::int64_t first = 0;
        for (std::size_t i = 0; i < held.size(); ++i) {
            intervals[i == 0 ? rank : 2 * ranks - 1 - rank] = cut_up[rank].narrow(dimension, first, held[i].length);
            first += held[i].length;
        }
    }
    std::erase_if(intervals, [](const torch::Tensor& interval) { return !interval.defined(); });
    return at::concat(intervals, dimension);
}

}  // namespace ladder
