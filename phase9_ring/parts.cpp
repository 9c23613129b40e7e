#include "phase9_ring/parts.h"

#include <stdexcept>
#include <string>

namespace ladder {
namespace {

/// Interval `index` of `runs` that a sequence is cut into.
Interval run_of(std::int64_t length, std::int64_t index, std::int64_t runs) {
    const std::int64_t first = index * length / runs;
    return {.first = first, .length = (index + 1) * length / runs - first};
}

}  // namespace

std::vector<Interval> part_of(Parts parts, std::int64_t length, int rank, int ranks) {
    if (parts == Parts::contiguous) return {run_of(length, rank, ranks)};
    return {run_of(length, rank, 2 * ranks), run_of(length, 2 * ranks - 1 - rank, 2 * ranks)};
}

std::int64_t length_of(const std::vector<Interval>& part) {
    std::int64_t length = 0;
    for (const Interval& run : part) length += run.length;
    return length;
}

torch::Tensor cut(const torch::Tensor& whole, std::int64_t dimension, Parts parts, int rank, int ranks) {
    std::vector<torch::Tensor> pieces;
    for (const Interval& run : part_of(parts, whole.size(dimension), rank, ranks))
        pieces.push_back(whole.narrow(dimension, run.first, run.length));
    return at::cat(pieces, dimension);
}

torch::Tensor rejoin(const std::vector<torch::Tensor>& cut_up, std::int64_t dimension, Parts parts) {
    const int ranks = int(cut_up.size());
    std::int64_t length = 0;
    for (const torch::Tensor& part : cut_up) length += part.size(dimension);
    std::vector<torch::Tensor> runs(2 * ranks);
    for (int rank = 0; rank < ranks; ++rank) {
        const std::vector<Interval> held = part_of(parts, length, rank, ranks);
        if (cut_up[rank].size(dimension) != length_of(held))
            throw std::invalid_argument("rejoin: part " + std::to_string(rank) + " has length " +
                                        std::to_string(cut_up[rank].size(dimension)) + "; of a sequence of " +
                                        std::to_string(length) + " it has " + std::to_string(length_of(held)));
        std::int64_t first = 0;
        for (std::size_t i = 0; i < held.size(); ++i) {
            runs[i == 0 ? rank : 2 * ranks - 1 - rank] = cut_up[rank].narrow(dimension, first, held[i].length);
            first += held[i].length;
        }
    }
    std::erase_if(runs, [](const torch::Tensor& run) { return !run.defined(); });
    return at::cat(runs, dimension);
}

}  // namespace ladder
