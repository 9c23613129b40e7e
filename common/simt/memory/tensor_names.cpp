#include "common/simt/memory/tensor_names.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace simt {
inline namespace cpu {
namespace {

std::mutex names_mutex;
std::vector<const char*> names;

}  // namespace

std::array<std::ptrdiff_t, kMaxTensorNames> beyond_views{};

int tensor_id(const char* name) {
    const std::scoped_lock lock(names_mutex);
    const auto known =
        std::ranges::find(names, std::string_view(name), [](const char* n) { return std::string_view(n); });
    if (known != names.end()) return int(known - names.begin());
    if (names.size() == kMaxTensorNames)
        throw std::length_error("more than " + std::to_string(kMaxTensorNames) +
                                " tensor names in one program; give tensors of one role one name, such as \"K\"");
    names.push_back(name);
    return int(names.size()) - 1;
}

bool only_views_reach_tensors() {
    return std::ranges::any_of(beyond_views, [](std::ptrdiff_t bytes) { return bytes != 0; });
}

const char* tensor_name(int id) {
    const std::scoped_lock lock(names_mutex);
    return names.at(id);
}

}  // namespace cpu
}  // namespace simt
