#pragma once

// The texts of wgmma.mma_async for every N, and nothing else: wgmma_cuda.h says what they do. An instruction names each
// of the N / 2 registers of its accumulator, so there is one text for each N; macros put them together, from lists that
// grow by the four registers of eight columns. (Written by a loop over N = 8, 16, …, 256; a line is as good by hand.)

#include <cstdint>

namespace simt {
inline namespace cuda {

// clang-format off

#define SIMT_REGISTERS_8 "%0, %1, %2, %3"
#define SIMT_REGISTERS_16 SIMT_REGISTERS_8 ", %4, %5, %6, %7"
#define SIMT_REGISTERS_24 SIMT_REGISTERS_16 ", %8, %9, %10, %11"
#define SIMT_REGISTERS_32 SIMT_REGISTERS_24 ", %12, %13, %14, %15"
#define SIMT_REGISTERS_40 SIMT_REGISTERS_32 ", %16, %17, %18, %19"
#define SIMT_REGISTERS_48 SIMT_REGISTERS_40 ", %20, %21, %22, %23"
#define SIMT_REGISTERS_56 SIMT_REGISTERS_48 ", %24, %25, %26, %27"
#define SIMT_REGISTERS_64 SIMT_REGISTERS_56 ", %28, %29, %30, %31"
#define SIMT_REGISTERS_72 SIMT_REGISTERS_64 ", %32, %33, %34, %35"
#define SIMT_REGISTERS_80 SIMT_REGISTERS_72 ", %36, %37, %38, %39"
#define SIMT_REGISTERS_88 SIMT_REGISTERS_80 ", %40, %41, %42, %43"
#define SIMT_REGISTERS_96 SIMT_REGISTERS_88 ", %44, %45, %46, %47"
#define SIMT_REGISTERS_104 SIMT_REGISTERS_96 ", %48, %49, %50, %51"
#define SIMT_REGISTERS_112 SIMT_REGISTERS_104 ", %52, %53, %54, %55"
#define SIMT_REGISTERS_120 SIMT_REGISTERS_112 ", %56, %57, %58, %59"
#define SIMT_REGISTERS_128 SIMT_REGISTERS_120 ", %60, %61, %62, %63"
#define SIMT_REGISTERS_136 SIMT_REGISTERS_128 ", %64, %65, %66, %67"
#define SIMT_REGISTERS_144 SIMT_REGISTERS_136 ", %68, %69, %70, %71"
#define SIMT_REGISTERS_152 SIMT_REGISTERS_144 ", %72, %73, %74, %75"
#define SIMT_REGISTERS_160 SIMT_REGISTERS_152 ", %76, %77, %78, %79"
#define SIMT_REGISTERS_168 SIMT_REGISTERS_160 ", %80, %81, %82, %83"
#define SIMT_REGISTERS_176 SIMT_REGISTERS_168 ", %84, %85, %86, %87"
#define SIMT_REGISTERS_184 SIMT_REGISTERS_176 ", %88, %89, %90, %91"
#define SIMT_REGISTERS_192 SIMT_REGISTERS_184 ", %92, %93, %94, %95"
#define SIMT_REGISTERS_200 SIMT_REGISTERS_192 ", %96, %97, %98, %99"
#define SIMT_REGISTERS_208 SIMT_REGISTERS_200 ", %100, %101, %102, %103"
#define SIMT_REGISTERS_216 SIMT_REGISTERS_208 ", %104, %105, %106, %107"
#define SIMT_REGISTERS_224 SIMT_REGISTERS_216 ", %108, %109, %110, %111"
#define SIMT_REGISTERS_232 SIMT_REGISTERS_224 ", %112, %113, %114, %115"
#define SIMT_REGISTERS_240 SIMT_REGISTERS_232 ", %116, %117, %118, %119"
#define SIMT_REGISTERS_248 SIMT_REGISTERS_240 ", %120, %121, %122, %123"
#define SIMT_REGISTERS_256 SIMT_REGISTERS_248 ", %124, %125, %126, %127"

#define SIMT_OPERANDS_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define SIMT_OPERANDS_16 SIMT_OPERANDS_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define SIMT_OPERANDS_24 SIMT_OPERANDS_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define SIMT_OPERANDS_32 SIMT_OPERANDS_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define SIMT_OPERANDS_40 SIMT_OPERANDS_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define SIMT_OPERANDS_48 SIMT_OPERANDS_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define SIMT_OPERANDS_56 SIMT_OPERANDS_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define SIMT_OPERANDS_64 SIMT_OPERANDS_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define SIMT_OPERANDS_72 SIMT_OPERANDS_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define SIMT_OPERANDS_80 SIMT_OPERANDS_72, "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define SIMT_OPERANDS_88 SIMT_OPERANDS_80, "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43])
#define SIMT_OPERANDS_96 SIMT_OPERANDS_88, "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define SIMT_OPERANDS_104 SIMT_OPERANDS_96, "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51])
#define SIMT_OPERANDS_112 SIMT_OPERANDS_104, "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55])
#define SIMT_OPERANDS_120 SIMT_OPERANDS_112, "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59])
#define SIMT_OPERANDS_128 SIMT_OPERANDS_120, "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define SIMT_OPERANDS_136 SIMT_OPERANDS_128, "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67])
#define SIMT_OPERANDS_144 SIMT_OPERANDS_136, "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71])
#define SIMT_OPERANDS_152 SIMT_OPERANDS_144, "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75])
#define SIMT_OPERANDS_160 SIMT_OPERANDS_152, "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define SIMT_OPERANDS_168 SIMT_OPERANDS_160, "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83])
#define SIMT_OPERANDS_176 SIMT_OPERANDS_168, "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87])
#define SIMT_OPERANDS_184 SIMT_OPERANDS_176, "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91])
#define SIMT_OPERANDS_192 SIMT_OPERANDS_184, "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
#define SIMT_OPERANDS_200 SIMT_OPERANDS_192, "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99])
#define SIMT_OPERANDS_208 SIMT_OPERANDS_200, "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103])
#define SIMT_OPERANDS_216 SIMT_OPERANDS_208, "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107])
#define SIMT_OPERANDS_224 SIMT_OPERANDS_216, "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111])
#define SIMT_OPERANDS_232 SIMT_OPERANDS_224, "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115])
#define SIMT_OPERANDS_240 SIMT_OPERANDS_232, "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119])
#define SIMT_OPERANDS_248 SIMT_OPERANDS_240, "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123])
#define SIMT_OPERANDS_256 SIMT_OPERANDS_248, "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])

// Both operands from shared memory, or A from four registers. `Kind::types` is "k16.f32.bf16.bf16" or the like; the tail says
// whether operands are negated (1: no), and for 16-bit elements which ones are transposed. The last arguments are the
// numbers of what follows the accumulator.
#define SIMT_WGMMA(n, n0, n1, n2, n3, n4, n5, n6, n7) \
    template <class Kind, class Tail> \
    __device__ __forceinline__ void wgmma(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int accumulate) { \
        asm volatile( \
            "{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\n" \
            "wgmma.mma_async.sync.aligned.m64n" #n "%" #n3 " {" SIMT_REGISTERS_##n "}, %" #n0 ", %" #n1 ", p%" #n4 ";\n}" \
            : SIMT_OPERANDS_##n \
            : "l"(a), "l"(b), "r"(accumulate), "C"(Kind::types), "C"(Tail::text)); \
    } \
    template <class Kind, class Tail> \
    __device__ __forceinline__ void wgmma(float (&d)[n / 2], const std::uint32_t (&a)[4], std::uint64_t b, \
                                          int accumulate) { \
        asm volatile( \
            "{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\n" \
            "wgmma.mma_async.sync.aligned.m64n" #n "%" #n6 " {" SIMT_REGISTERS_##n "}, " \
            "{%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p%" #n7 ";\n}" \
            : SIMT_OPERANDS_##n \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "C"(Kind::types), "C"(Tail::text)); \
    }

SIMT_WGMMA(8, 4, 5, 6, 7, 8, 9, 10, 11)
SIMT_WGMMA(16, 8, 9, 10, 11, 12, 13, 14, 15)
SIMT_WGMMA(24, 12, 13, 14, 15, 16, 17, 18, 19)
SIMT_WGMMA(32, 16, 17, 18, 19, 20, 21, 22, 23)
SIMT_WGMMA(40, 20, 21, 22, 23, 24, 25, 26, 27)
SIMT_WGMMA(48, 24, 25, 26, 27, 28, 29, 30, 31)
SIMT_WGMMA(56, 28, 29, 30, 31, 32, 33, 34, 35)
SIMT_WGMMA(64, 32, 33, 34, 35, 36, 37, 38, 39)
SIMT_WGMMA(72, 36, 37, 38, 39, 40, 41, 42, 43)
SIMT_WGMMA(80, 40, 41, 42, 43, 44, 45, 46, 47)
SIMT_WGMMA(88, 44, 45, 46, 47, 48, 49, 50, 51)
SIMT_WGMMA(96, 48, 49, 50, 51, 52, 53, 54, 55)
SIMT_WGMMA(104, 52, 53, 54, 55, 56, 57, 58, 59)
SIMT_WGMMA(112, 56, 57, 58, 59, 60, 61, 62, 63)
SIMT_WGMMA(120, 60, 61, 62, 63, 64, 65, 66, 67)
SIMT_WGMMA(128, 64, 65, 66, 67, 68, 69, 70, 71)
SIMT_WGMMA(136, 68, 69, 70, 71, 72, 73, 74, 75)
SIMT_WGMMA(144, 72, 73, 74, 75, 76, 77, 78, 79)
SIMT_WGMMA(152, 76, 77, 78, 79, 80, 81, 82, 83)
SIMT_WGMMA(160, 80, 81, 82, 83, 84, 85, 86, 87)
SIMT_WGMMA(168, 84, 85, 86, 87, 88, 89, 90, 91)
SIMT_WGMMA(176, 88, 89, 90, 91, 92, 93, 94, 95)
SIMT_WGMMA(184, 92, 93, 94, 95, 96, 97, 98, 99)
SIMT_WGMMA(192, 96, 97, 98, 99, 100, 101, 102, 103)
SIMT_WGMMA(200, 100, 101, 102, 103, 104, 105, 106, 107)
SIMT_WGMMA(208, 104, 105, 106, 107, 108, 109, 110, 111)
SIMT_WGMMA(216, 108, 109, 110, 111, 112, 113, 114, 115)
SIMT_WGMMA(224, 112, 113, 114, 115, 116, 117, 118, 119)
SIMT_WGMMA(232, 116, 117, 118, 119, 120, 121, 122, 123)
SIMT_WGMMA(240, 120, 121, 122, 123, 124, 125, 126, 127)
SIMT_WGMMA(248, 124, 125, 126, 127, 128, 129, 130, 131)
SIMT_WGMMA(256, 128, 129, 130, 131, 132, 133, 134, 135)

#undef SIMT_WGMMA
#undef SIMT_OPERANDS_8
#undef SIMT_OPERANDS_16
#undef SIMT_OPERANDS_24
#undef SIMT_OPERANDS_32
#undef SIMT_OPERANDS_40
#undef SIMT_OPERANDS_48
#undef SIMT_OPERANDS_56
#undef SIMT_OPERANDS_64
#undef SIMT_OPERANDS_72
#undef SIMT_OPERANDS_80
#undef SIMT_OPERANDS_88
#undef SIMT_OPERANDS_96
#undef SIMT_OPERANDS_104
#undef SIMT_OPERANDS_112
#undef SIMT_OPERANDS_120
#undef SIMT_OPERANDS_128
#undef SIMT_OPERANDS_136
#undef SIMT_OPERANDS_144
#undef SIMT_OPERANDS_152
#undef SIMT_OPERANDS_160
#undef SIMT_OPERANDS_168
#undef SIMT_OPERANDS_176
#undef SIMT_OPERANDS_184
#undef SIMT_OPERANDS_192
#undef SIMT_OPERANDS_200
#undef SIMT_OPERANDS_208
#undef SIMT_OPERANDS_216
#undef SIMT_OPERANDS_224
#undef SIMT_OPERANDS_232
#undef SIMT_OPERANDS_240
#undef SIMT_OPERANDS_248
#undef SIMT_OPERANDS_256
#undef SIMT_REGISTERS_8
#undef SIMT_REGISTERS_16
#undef SIMT_REGISTERS_24
#undef SIMT_REGISTERS_32
#undef SIMT_REGISTERS_40
#undef SIMT_REGISTERS_48
#undef SIMT_REGISTERS_56
#undef SIMT_REGISTERS_64
#undef SIMT_REGISTERS_72
#undef SIMT_REGISTERS_80
#undef SIMT_REGISTERS_88
#undef SIMT_REGISTERS_96
#undef SIMT_REGISTERS_104
#undef SIMT_REGISTERS_112
#undef SIMT_REGISTERS_120
#undef SIMT_REGISTERS_128
#undef SIMT_REGISTERS_136
#undef SIMT_REGISTERS_144
#undef SIMT_REGISTERS_152
#undef SIMT_REGISTERS_160
#undef SIMT_REGISTERS_168
#undef SIMT_REGISTERS_176
#undef SIMT_REGISTERS_184
#undef SIMT_REGISTERS_192
#undef SIMT_REGISTERS_200
#undef SIMT_REGISTERS_208
#undef SIMT_REGISTERS_216
#undef SIMT_REGISTERS_224
#undef SIMT_REGISTERS_232
#undef SIMT_REGISTERS_240
#undef SIMT_REGISTERS_248
#undef SIMT_REGISTERS_256
// clang-format on

}  // namespace cuda
}  // namespace simt
