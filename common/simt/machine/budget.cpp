#include "common/simt/machine/budget.h"

#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

namespace simt {
inline namespace cpu {
namespace {

std::mutex mutex;
std::optional<Budget> set;  // nothing: nobody has asked yet

double number_in_environment(const char* name, double otherwise) {
    const char* const text = std::getenv(name);
    if (!text || !*text) return otherwise;
    char* end = nullptr;
    const double number = std::strtod(text, &end);
    if (*end != '\0' || !(number >= 0 && number <= 1e15))
        throw std::invalid_argument(std::string(name) + " in the environment is \"" + text +
                                    "\", and must be a number from 0 to 1e15; 0 sets no limit");
    return number;
}

}  // namespace

Budget block_budget() {
    const std::scoped_lock lock(mutex);
    if (!set) {
        const Budget usual;
        set = {.seconds = number_in_environment("LADDER_BLOCK_SECONDS", usual.seconds),
               .meetings =
                   std::uint64_t(number_in_environment("LADDER_BLOCK_MEETINGS", static_cast<double>(usual.meetings)))};
    }
    return *set;
}

void set_block_budget(Budget budget) {
    if (!(budget.seconds >= 0))
        throw std::invalid_argument("a block's budget: got " + std::to_string(budget.seconds) +
                                    " seconds, needs at least 0, which sets no limit");
    const std::scoped_lock lock(mutex);
    set = budget;
}

}  // namespace cpu
}  // namespace simt
