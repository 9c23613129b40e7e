// Smooths 1000 numbers with the primer's kernel on the CPU machine, and compares each with what a loop makes of them.

#include <cmath>
#include <cstdio>
#include <exception>
#include <vector>

#include "docs/primer/smooth.cuh"

namespace {

simt::TensorArgument argument(const char* name, std::vector<float>& numbers) {
    return {.name = name, .data = numbers.data(), .rank = 1, .extents = {std::int64_t(numbers.size())}, .strides = {1}};
}

}  // namespace

int main() {
    constexpr int length = 1000;
    std::vector<float> x(length), y(length, NAN);
    for (int i = 0; i < length; ++i) x[i] = float(i % 10 == 0);
    try {
        ladder::SIMT_MACHINE::smooth(argument("x", x), argument("y", y));
    } catch (const std::exception& fault) {
        std::puts(fault.what());
        return 1;
    }
    int right = 0;
    for (int i = 0; i < length; ++i) {
        const float before = x[i > 0 ? i - 1 : 0], after = x[i + 1 < length ? i + 1 : i];
        right += std::abs(y[i] - (before + x[i] + after) / 3.0f) < 1e-6f;
    }
    std::printf("x  %.3f %.3f %.3f … %.3f %.3f %.3f\n", x[0], x[1], x[2], x[9], x[10], x[11]);
    std::printf("y  %.3f %.3f %.3f … %.3f %.3f %.3f\n", y[0], y[1], y[2], y[9], y[10], y[11]);
    std::printf("%d of %d elements are right\n", right, length);
    return right == length ? 0 : 1;
}
