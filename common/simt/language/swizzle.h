#pragma once

namespace simt {

/// In which order the 16-byte pieces of a panel's rows lie in shared memory (see PanelTile). Hopper's instructions know
/// these: a copy by TMA writes them, wgmma reads them. Whoever walks down a column then meets other banks in each row.
/// (PTX ISA, "Swizzling Modes"; CUtensorMapSwizzle.)
enum class Swizzle {
    none,  ///< as they are
    b32,   ///< rows of 32 bytes: bit 4 of an address is exchanged (XOR) by bit 7
    b64,   ///< rows of 64 bytes: bits 4 and 5 by bits 7 and 8
    b128,  ///< rows of 128 bytes: bits 4 to 6 by bits 7 to 9
};

/// The bytes of a panel's row: what one pattern spans. 0 for none, which knows no panels.
constexpr unsigned swizzle_span(Swizzle swizzle) {
    return swizzle == Swizzle::none ? 0 : 16u << static_cast<unsigned>(swizzle);
}

/// Of an address's bits 4 to 6 those that change.
constexpr unsigned swizzle_bits(Swizzle swizzle) { return swizzle == Swizzle::none ? 0 : swizzle_span(swizzle) - 16; }

/// "128-byte swizzle"
constexpr const char* name_of(Swizzle swizzle) {
    switch (swizzle) {
        case Swizzle::none:
            return "no swizzle";
        case Swizzle::b32:
            return "32-byte swizzle";
        case Swizzle::b64:
            return "64-byte swizzle";
        case Swizzle::b128:
            return "128-byte swizzle";
    }
    return "unknown swizzle";
}

static_assert(swizzle_span(Swizzle::b32) == 32 && swizzle_span(Swizzle::b128) == 128);
static_assert(swizzle_bits(Swizzle::b32) == 0x10 && swizzle_bits(Swizzle::b64) == 0x30 &&
              swizzle_bits(Swizzle::b128) == 0x70);

}  // namespace simt
