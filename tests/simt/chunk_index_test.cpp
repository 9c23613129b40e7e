#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <unordered_map>

#include "common/simt/memory/chunk_index.h"

namespace {

// Against the map of the standard library, for blocks of few addresses and of many.
TEST(ChunkIndex, DoesWhatAMapDoes) {
    simt::ChunkIndex index;
    std::mt19937 random(1);
    for (int block = 0; block < 200; ++block) {
        std::unordered_map<std::uintptr_t, std::uint32_t> map;
        const int addresses = block % 10 == 0 ? 5000 : 20;
        for (int i = 0; i < 2 * addresses; ++i) {
            const std::uintptr_t address = 0x7f0000000000 + random() % addresses * 64;
            const std::uint32_t next = std::uint32_t(map.size());
            ASSERT_EQ(index.find_or_add(address, next), map.try_emplace(address, next).first->second);
        }
        index.clear();
    }
}

}  // namespace
