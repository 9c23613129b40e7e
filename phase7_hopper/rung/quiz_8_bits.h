#pragma once

// Questions about the chapter's second half, attention in 8 bits.

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "common/rung/question.h"
#include "common/simt/simt.h"

namespace ladder::phase7_hopper {

inline quiz::Question stored_number(quiz::Draw& draw) {
    using quiz::words;
    const float x = float(draw({23, 27, 47, 53})) / 10.0f;
    const int e = draw({-6, -2, 1});
    const float scale = std::ldexp(1.0f, e);
    const auto stored = [&](float code) { return words(fmt::format("{:g}", code * scale)); };
    const float nearest = float(simt::e4m3(x / scale)), one = std::ldexp(1.0f, std::ilogb(x / scale));
    quiz::Question q{
        .situation = fmt::format("A block of K has the exponent {}, and one of its elements is {:g}.", e, x),
        .ask = "Its code is in e4m3. Which number does it stand for?",
        .hint = "How many steps are there between a power of 2 and the next?",
        .source = "simt::e4m3, the conversion that the kernels use",
        .command = "sed -n '/Scales of 8-bit blocks/,/exact/p' phase7_hopper/fp8/block_scales.cuh",
        .section = "8 bits"};
    q.right(stored(nearest),
            fmt::format("{:g} / 2^{} = {:g}. Three bits of mantissa make eight steps from {:g} to {:g}; "
                        "the nearest is {:g}.",
                        x, e, x / scale, one, 2 * one, nearest));
    q.wrong(stored(float(simt::e5m2(x / scale))), "So it would be with two bits of mantissa, in e5m2.");
    q.wrong(stored(one), "That is the power of 2 below it: codes have a mantissa, too.");
    q.wrong(words(fmt::format("{:g}", x)), "It would need more than eight steps between two powers of 2.");
    return q;
}

inline quiz::Question rotated_outlier(quiz::Draw& draw) {
    using quiz::words;
    const int D = draw({64, 256}), outlier = 32, root = int(std::lround(std::sqrt(D)));
    const auto each = [](double x) { return words(fmt::format("{:g}", x)); };
    quiz::Question q{
        .situation = fmt::format("A row of Q has {} columns. One element is {}, the others are nearly 0.", D, outlier),
        .ask = "The row is rotated. How large are its elements then, without their signs?",
        .hint = "The matrix is orthogonal: how long is the row before, and after?",
        .source = "a Hadamard matrix has entries of 1 and -1, over the root of its order",
        .command = "sed -n '/rotate_row/,/^}/p' phase7_hopper/fp8/quantize.cuh",
        .section = "8 bits"};
    q.right(each(double(outlier) / root), fmt::format("Each is {} times 1 or -1 over the root of {}.", outlier, D));
    q.wrong(each(double(outlier) / D),
            "Then the row would be shorter than before, and its products with rows of K with it.");
    q.wrong(each(outlier), "Then the row would be longer: the matrix is divided by the root of its order.");
    q.wrong(each(0.0), "An orthogonal matrix leaves a row as long as it was.");
    return q;
}

inline quiz::Question block_exponent(quiz::Draw& draw) {
    using quiz::words;
    const int largest = draw({500, 890, 1000, 1700});
    const auto exponent = [](int e) { return words(fmt::format("{}", e)); };
    int e = 0;
    while (448 << e < largest) ++e;
    quiz::Question q{.situation = fmt::format("The largest element of a block, without its sign, is {}.", largest),
                     .ask = "Which exponent has the block, in e4m3?",
                     .hint = "What is the largest code?",
                     .source = "the smallest e for which 448 2^e is no smaller than the largest element",
                     .command = "sed -n '/block_exponent/,/^}/p' phase7_hopper/fp8/block_scales.cuh",
                     .section = "8 bits"};
    q.right(exponent(e),
            fmt::format("448 times 2^{} is {}, which holds {}; half of that does not.", e, 448 << e, largest));
    q.wrong(exponent(e - 1),
            fmt::format("{} would be the largest number, and whatever is above would become it.", (448 << e) / 2));
    q.wrong(exponent(e + 1), "It would fit, and the upper half of the codes would not be used.");
    q.wrong(exponent(std::ilogb(float(largest)) + 1), "That would make all codes smaller than 1; they reach to 448.");
    return q;
}

}  // namespace ladder::phase7_hopper
