#include "common/fuzz/eight_bits.h"

#include <fmt/format.h>

#include <algorithm>

namespace ladder::fuzz {

EightBits draw_eight_bits(Random& random, const reference::AttentionCase& c) {
    const bool wide = c.dtype == torch::kBFloat16;  // five blocks, each 512 times as large as the one before
    EightBits drawn;
    drawn.rotated = !random.one_in(3);
    drawn.values_in_e5m2 = random.one_in(3);
    if (c.head_dim % 2 == 0 && random.one_in(3))
        drawn.first_query =
            random.one_in(2) ? std::max<std::int64_t>(0, c.key_length - c.query_length) : random.pick({0, 1, 63, 1000});
    if (random.one_in(2))
        drawn.sizes.value_growth = wide ? random.pick({-9, -3, -1, 1, 3, 9}) : random.pick({-2, -1, 1, 2});
    if (random.one_in(3)) drawn.sizes.key_growth = random.pick({-1, 1});
    drawn.sizes.outliers = random.one_in(2);
    return drawn;
}

std::string describe(const EightBits& e) {
    std::string text;
    if (!e.rotated) text += ", not rotated";
    if (e.values_in_e5m2) text += ", values in e5m2";
    if (e.first_query) text += fmt::format(", rotary from {}", *e.first_query);
    if (e.sizes.key_growth) text += fmt::format(", keys grow by 2^{}", e.sizes.key_growth);
    if (e.sizes.value_growth) text += fmt::format(", values grow by 2^{}", e.sizes.value_growth);
    if (e.sizes.outliers) text += ", outliers";
    return text;
}

std::vector<EightBits> with_one_thing_less(const EightBits& e) {
    std::vector<EightBits> variations;
    const auto add = [&](const auto& change) {
        EightBits variation = e;
        change(variation);
        if (variation != e) variations.push_back(variation);
    };
    add([](EightBits& v) { v.sizes.outliers = false; });
    add([](EightBits& v) { v.sizes.key_growth = 0; });
    add([](EightBits& v) { v.sizes.value_growth = 0; });
    if (e.sizes.value_growth) add([](EightBits& v) { v.sizes.value_growth = v.sizes.value_growth < 0 ? -1 : 1; });
    add([](EightBits& v) { v.first_query.reset(); });
    add([](EightBits& v) { v.values_in_e5m2 = false; });
    add([](EightBits& v) { v.rotated = true; });
    for (const std::int64_t earlier : {0, 1})
        if (e.first_query && *e.first_query > earlier) add([=](EightBits& v) { v.first_query = earlier; });
    return variations;
}

}  // namespace ladder::fuzz
