#include "common/attention/outputs.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "common/simt/memory/global_memory.h"
#include "common/simt/report/leniency.h"
#include "common/simt/report/machine_error.h"

namespace ladder {
namespace {

std::string place(const char* name, const torch::Tensor& tensor, int64_t element) {
    std::string text;
    for (int64_t d = tensor.dim() - 1; d >= 0; --d) {
        text = std::to_string(element % tensor.size(d)) + (text.empty() ? "" : ", ") + text;
        element /= tensor.size(d);
    }
    return std::string(name) + "(" + text + ")";
}

/// "5", "128 to 129", "1, 3, 5, 7, …"
std::string text_of(const std::set<int64_t>& indices) {
    const int64_t first = *indices.begin(), last = *indices.rbegin();
    if (first == last) return std::to_string(first);
    if (last - first + 1 == int64_t(indices.size())) return std::to_string(first) + " to " + std::to_string(last);
    std::string text;
    int listed = 0;
    for (const int64_t index : indices) {
        if (listed++ == 4) return text + ", …";
        text += (text.empty() ? "" : ", ") + std::to_string(index);
    }
    return text;
}

/// What the missing elements have in common, in words; nothing if they are scattered.
std::string pattern_of(const torch::Tensor& tensor, const std::vector<int64_t>& missing) {
    const int64_t elements = tensor.numel(), count = int64_t(missing.size());
    if (count == elements) return ": no kernel wrote anything there";
    for (int64_t d = 0, inner = elements; d < tensor.dim(); ++d) {
        const int64_t extent = tensor.size(d);
        inner /= extent;
        std::set<int64_t> indices;
        for (const int64_t element : missing) indices.insert(element / inner % extent);
        if (int64_t(indices.size()) < extent && int64_t(indices.size()) * (elements / extent) == count)
            return ": all with index " + text_of(indices) + " in dimension " + std::to_string(d) +
                   ", whose extent is " + std::to_string(extent) +
                   (d == tensor.dim() - 1 && d > 0 ? " (whole columns)"
                    : d == tensor.dim() - 2        ? " (whole rows)"
                                                   : "");
    }
    const int64_t columns = tensor.size(-1);
    std::set<int64_t> rows;
    for (const int64_t element : missing) rows.insert(element / columns);
    if (int64_t(rows.size()) * columns == count)
        return ": " + std::to_string(rows.size()) + " whole rows of " + std::to_string(elements / columns);
    if (elements - missing.front() == count) return ": the tail, from the first of them on";
    return "";
}

}  // namespace

void check_written(const char* entry, const char* name, const torch::Tensor& result) {
    if (!result.is_cpu()) return;
    const std::vector<bool> written = simt::written_elements(result.data_ptr(), result.nbytes(), result.element_size());
    std::vector<int64_t> missing;
    for (auto next = std::ranges::find(written, false); next != written.end();
         next = std::find(next + 1, written.end(), false))
        missing.push_back(next - written.begin());
    if (missing.empty() || simt::ScopedLeniency::active()) return;
    throw simt::MachineError(
        {.fault = simt::Fault::partial_write,
         .kernel = entry,
         .what = std::to_string(missing.size()) + " of " + std::to_string(result.numel()) + " elements of " + name +
                 " were never written by a kernel, from " + place(name, result, missing.front()) + " to " +
                 place(name, result, missing.back()) + pattern_of(result, missing),
         .advice = "every element of a result needs a thread that writes it: look at the size of the "
                   "grid, at the loops' ends and at the guards of the last tile"});
}

void check_written(const char* entry, const AttentionResult& result) {
    check_written(entry, "O", result.out);
    check_written(entry, "LSE", result.lse);
}

}  // namespace ladder
