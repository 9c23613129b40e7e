// Copies by TMA do the same on both machines, bit for bit, as plain loops over indices do.

#include "tests/simt/tma.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/simt/device/device_profile.h"
#include "tests/simt/on_device.h"

namespace ladder {

// tma.cuh, compiled once per machine.
namespace cpu {
void launch_tma(const TmaTrial&);
void launch_bulk(const BulkTrial&);
}  // namespace cpu
namespace cuda {
[[gnu::weak]] void launch_tma(const TmaTrial&);
[[gnu::weak]] void launch_bulk(const BulkTrial&);
}  // namespace cuda

namespace {

using What = TmaTrial::What;
constexpr simt::Swizzle kSwizzles[] = {simt::Swizzle::none, simt::Swizzle::b32, simt::Swizzle::b64,
                                       simt::Swizzle::b128};

class Tma : public ::testing::Test {
    simt::ScopedCpuDevice hopper_{simt::device_from(simt::device_profile("h200"))};
};

bool not_run_before_hopper() {
    const torch::Device device = reference::test_device();
    return device.is_cuda() && !device_limits(device).has_feature(simt::Feature::tma) &&
           reference::not_run_on_gpu("needs the tensor memory accelerator (TMA)");
}

/// A tensor whose rows lie apart, as a part of a larger one that must not be touched.
struct Padded {
    torch::Tensor whole, part;
};

torch::Tensor any_bits(at::IntArrayRef sizes, torch::ScalarType type) {
    if (type == torch::kFloat32) return torch::randint(1, 1 << 30, sizes, torch::kInt32).view(type);
    return torch::randint(1, 30000, sizes, torch::kInt16).view(type);
}

Padded padded(std::vector<int64_t> sizes, torch::ScalarType type,
              const std::function<torch::Tensor(at::IntArrayRef)>& fill) {
    std::vector<int64_t> larger = sizes;
    larger.back() = (larger.back() + 15) / 16 * 16;
    larger[larger.size() - 2] += 2;
    Padded p{fill(larger).to(type), {}};
    p.part = p.whole.narrow(-1, 0, sizes.back()).narrow(-2, 0, sizes[sizes.size() - 2]);
    return p;
}

/// Calls use(j, row, column, indices) for every element of the tiles that lies in the tensor.
template <class Use>
void for_each_element(const TmaTrial& t, at::IntArrayRef sizes, int64_t tiles, int columns, Use use) {
    const std::size_t rank = sizes.size();
    for (int64_t j = 0; j < tiles; ++j)
        for (int row = 0; row < kTmaRows; ++row)
            for (int column = 0; column < columns; ++column) {
                std::vector<int64_t> index(rank);
                index[rank - 1] = t.path.first[rank - 1] + j * t.path.step[rank - 1] + column;
                int left = row;
                for (std::size_t d = rank - 1; d-- > 0;) {
                    const int count = (t.box[d] + t.steps[d] - 1) / t.steps[d];
                    index[d] = t.path.first[d] + j * t.path.step[d] + left % count * t.steps[d];
                    left /= count;
                }
                bool exists = true;
                for (std::size_t d = 0; d < rank; ++d) exists = exists && index[d] >= 0 && index[d] < sizes[d];
                if (exists) use(j, row, column, index);
            }
}

/// The place of an element in the memory of a tensor.
template <class Word>
Word& word_of(const torch::Tensor& tensor, const std::vector<int64_t>& index) {
    int64_t place = 0;
    for (std::size_t d = 0; d < index.size(); ++d) place += index[d] * tensor.stride(int64_t(d));
    return static_cast<Word*>(tensor.data_ptr())[place];
}

void copy_element(const torch::Tensor& to, const std::vector<int64_t>& at, const torch::Tensor& from,
                  const std::vector<int64_t>& index) {
    if (to.element_size() == 4)
        word_of<std::uint32_t>(to, at) = word_of<std::uint32_t>(from, index);
    else
        word_of<std::uint16_t>(to, at) = word_of<std::uint16_t>(from, index);
}

struct Case {
    torch::ScalarType type;
    std::vector<int64_t> sizes;  ///< beyond the last, which is `columns` of a tile less `ragged`
    std::array<int, 4> box;
    TmaPath path;
    std::array<int, 4> steps{1, 1, 1, 1};
    int ragged = 0;
};

// In most the tiles begin before the tensor, or end behind it. Columns begin at multiples of 16 bytes.
const std::vector<Case> kCases = {
    {torch::kFloat32, {100}, {24}, {{0, 0}, {24, 0}}},
    {torch::kFloat32, {50}, {24}, {{-7, -4}, {24, 0}}, {1, 1, 1, 1}, 5},
    {torch::kFloat32, {90}, {48}, {{1, 0}, {48, 4}}, {2, 1, 1, 1}, 1},  // every other row
    {torch::kBFloat16, {30}, {24}, {{-30, 8}, {20, -8}}, {1, 1, 1, 1}, 3},
    {torch::kFloat32, {3, 40}, {1, 24}, {{0, 0, 0}, {1, 8, 0}}},
    {torch::kFloat16, {5, 9}, {3, 8}, {{-1, -2, 8}, {3, 1, -8}}, {1, 1, 1, 1}, 7},
    {torch::kFloat16, {2, 3, 50}, {1, 1, 24}, {{0, 2, 24, 0}, {1, -1, 10, 0}}},
    {torch::kFloat16, {2, 4, 13}, {2, 3, 4}, {{1, -1, 2, -8}, {-1, 2, 4, 8}}, {1, 1, 1, 1}, 2},
};

// Stores begin inside the tensor, and its rows are multiples of 16 bytes: see BulkCopies::check_edges.
const std::vector<Case> kStoreCases = {
    {torch::kFloat32, {100}, {24}, {{0, 0}, {24, 0}}},
    {torch::kFloat32, {50}, {24}, {{7, 4}, {24, 0}}, {1, 1, 1, 1}, 4},
    {torch::kFloat32, {90}, {48}, {{1, 0}, {48, 4}}, {2, 1, 1, 1}},  // every other row
    {torch::kBFloat16, {30}, {24}, {{0, 8}, {28, 0}}, {1, 1, 1, 1}, 8},
    {torch::kFloat32, {3, 40}, {1, 24}, {{0, 0, 0}, {1, 8, 0}}},
    {torch::kFloat16, {5, 9}, {3, 8}, {{0, 2, 8}, {3, 1, 0}}, {1, 1, 1, 1}, 8},
    {torch::kFloat16, {2, 3, 50}, {1, 1, 24}, {{0, 2, 24, 0}, {1, 0, 10, 0}}},
    {torch::kFloat16, {2, 4, 13}, {2, 3, 4}, {{1, 1, 2, 0}, {1, 2, 4, 8}}},
};

TmaTrial trial_of(const Case& c, simt::Swizzle swizzle) {
    TmaTrial t;
    t.path = c.path;
    t.box = c.box;
    t.steps = c.steps;
    t.swizzle = swizzle;
    return t;
}

std::string text_of(const Case& c, simt::Swizzle swizzle) {
    return std::string(name_of(swizzle)) + ", boxes of " + std::to_string(c.box[0]) + " x " + std::to_string(c.box[1]) +
           " x … in [" + std::to_string(c.sizes[0]) + ", …]";
}

TEST_F(Tma, LoadsEveryBitAndZerosBeyondTheEnds) {
    if (not_run_before_hopper()) return;
    constexpr int64_t tiles = 6;
    for (const Case& c : kCases)
        for (const simt::Swizzle swizzle : kSwizzles)
            for (const int stages : {1, 3, kTmaStages}) {
                TmaTrial t = trial_of(c, swizzle);
                t.stages = stages;
                const int columns = tma_columns(swizzle, int(elementSize(c.type)));
                std::vector<int64_t> sizes = c.sizes;
                sizes.push_back(columns - c.ragged);
                const Padded in = padded(sizes, c.type, [&](at::IntArrayRef s) { return any_bits(s, c.type); });
                const torch::Tensor expected = torch::zeros({tiles, kTmaRows, columns}, c.type);
                for_each_element(t, sizes, tiles, columns, [&](int64_t j, int row, int column, const auto& index) {
                    copy_element(expected, {j, row, column}, in.part, index);
                });
                for (const torch::Device device : machines()) {
                    SCOPED_TRACE(device.str() + ": " + text_of(c, swizzle) + ", " + std::to_string(stages) + " stages");
                    const torch::Tensor whole = in.whole.to(device);
                    const torch::Tensor part = whole.as_strided(in.part.sizes(), in.part.strides());
                    const torch::Tensor got =
                        torch::full_like(expected, -1, torch::TensorOptions(c.type).device(device));
                    t.tensor = raw_argument("in", part);
                    t.tiles = raw_argument("tiles", got);
                    run_on(device, cpu::launch_tma, cuda::launch_tma, t);
                    ASSERT_TRUE(same_bits(got, expected));
                }
            }
}

TEST_F(Tma, StoresEveryBitAndNothingBeyondTheEnds) {
    if (not_run_before_hopper()) return;
    constexpr int64_t tiles = 3;
    for (const Case& c : kStoreCases)
        for (const simt::Swizzle swizzle : kSwizzles) {
            TmaTrial t = trial_of(c, swizzle);
            t.what = What::store;
            if (t.path.step[0] < t.box[0]) t.path.step[0] = t.box[0];  // stores that meet would be a race
            const int columns = tma_columns(swizzle, int(elementSize(c.type)));
            std::vector<int64_t> sizes = c.sizes;
            sizes.push_back(columns - c.ragged);
            const torch::Tensor values = any_bits({tiles, kTmaRows, columns}, c.type);
            const Padded before = padded(sizes, c.type, [&](at::IntArrayRef s) { return any_bits(s, c.type); });
            const torch::Tensor whole_expected = before.whole.clone();
            const torch::Tensor expected = whole_expected.as_strided(before.part.sizes(), before.part.strides());
            for_each_element(t, sizes, tiles, columns, [&](int64_t j, int row, int column, const auto& index) {
                copy_element(expected, index, values, {j, row, column});
            });
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + text_of(c, swizzle));
                const torch::Tensor whole = before.whole.to(device, c.type, false, true), in = values.to(device);
                t.tensor = raw_argument("out", whole.as_strided(before.part.sizes(), before.part.strides()));
                t.tiles = raw_argument("tiles", in);
                run_on(device, cpu::launch_tma, cuda::launch_tma, t);
                ASSERT_TRUE(same_bits(whole, whole_expected));
            }
        }
}

TEST_F(Tma, AddsTilesThatMeetFromManyBlocks) {
    if (not_run_before_hopper()) return;
    constexpr int64_t tiles = 4;
    constexpr int blocks = 5;
    for (const Case& c : kStoreCases)
        for (const simt::Swizzle swizzle : kSwizzles) {
            TmaTrial t = trial_of(c, swizzle);
            t.what = What::add;
            t.blocks = blocks;
            const int columns = tma_columns(swizzle, int(elementSize(c.type)));
            std::vector<int64_t> sizes = c.sizes;
            sizes.push_back(columns - c.ragged);
            // Small whole numbers, whose sums are exact in every order.
            const auto small = [](at::IntArrayRef s) { return torch::randint(-4, 5, s, torch::kFloat32); };
            const torch::Tensor values = small({tiles, kTmaRows, columns});
            const Padded before = padded(sizes, torch::kFloat32, small);
            const torch::Tensor whole_expected = before.whole.clone();
            const torch::Tensor expected = whole_expected.as_strided(before.part.sizes(), before.part.strides());
            for_each_element(t, sizes, tiles, columns, [&](int64_t j, int row, int column, const auto& index) {
                word_of<float>(expected, index) += blocks * word_of<float>(values, {j, row, column});
            });
            for (const torch::Device device : machines()) {
                SCOPED_TRACE(device.str() + ": " + text_of(c, swizzle));
                const torch::Tensor whole = before.whole.to(device, c.type, false, true),
                                    in = values.to(device, c.type, false, true);
                t.tensor = raw_argument("sum", whole.as_strided(before.part.sizes(), before.part.strides()));
                t.tiles = raw_argument("tiles", in);
                run_on(device, cpu::launch_tma, cuda::launch_tma, t);
                ASSERT_TRUE(same_bits(whole, whole_expected.to(c.type)));
            }
        }
}

TEST_F(Tma, BulkCopiesNeedNoMap) {
    if (not_run_before_hopper()) return;
    const torch::Tensor x = torch::randint(-100, 100, {kBulkElements}, torch::kFloat32);
    const torch::Tensor swapped =
        2 * torch::concat({x.narrow(0, kBulkElements / 2, kBulkElements / 2), x.narrow(0, 0, kBulkElements / 2)});
    torch::Tensor sum = swapped + 1;
    sum.narrow(0, kBulkElements / 2, kBulkElements / 2) += swapped.narrow(0, 0, kBulkElements / 2);
    for (const torch::Device device : machines()) {
        SCOPED_TRACE(device.str());
        const torch::Tensor in = x.to(device), out = torch::full_like(in, NAN), total = torch::full_like(in, 1);
        run_on(device, cpu::launch_bulk, cuda::launch_bulk,
               BulkTrial{.x = raw_argument("x", in), .y = raw_argument("y", out), .sum = raw_argument("sum", total)});
        EXPECT_TRUE(same_bits(out, swapped));
        EXPECT_TRUE(same_bits(total, sum));
    }
}

}  // namespace
}  // namespace ladder
