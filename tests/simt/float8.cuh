// Kernels that convert to and from 8-bit floating point on each machine.

#include "tests/simt/float8.h"

#include "common/simt/simt.h"

namespace ladder::SIMT_MACHINE {

/// Threads of a block; each has one row of four elements.
inline constexpr int kRows = 128;

/// Blocks that have a thread for each row.
inline dim3 blocks_for(const simt::TensorArgument& rows) {
    return dim3(unsigned((rows.extents[0] + kRows - 1) / kRows));
}

template <class T>
__global__ void __launch_bounds__(kRows)
    encode_kernel(simt::GlobalTensor<const float, 2> values, simt::GlobalTensor<T, 2> codes,
                  simt::GlobalTensor<std::uint32_t, 1> packed, simt::GlobalTensor<std::uint32_t, 1> stored) {
    const int thread = int(threadIdx.x), row = int(blockIdx.x) * kRows + thread;
    const bool has_row = row < int(values.extent(0));
    const auto tile = simt::SharedArena().tile<T, kRows, 4>("codes");
    if (has_row) {
        const float x0 = values(row, 0), x1 = values(row, 1), x2 = values(row, 2), x3 = values(row, 3);
        packed(row) = simt::pack<T>(x0, x1, x2, x3);
        codes(row, 0) = T(x0);
        codes(row, 1) = T(x1);
        codes(row, 2) = T(x2);
        codes(row, 3) = T(x3);
    }
    // Element i of the block by thread i % kRows: neighbouring bytes are written by different threads.
    for (int i = thread; i < kRows * 4; i += kRows) {
        const int from = int(blockIdx.x) * kRows + i / 4;
        if (from < int(values.extent(0))) tile(i / 4, i % 4) = T(float(values(from, i % 4)));
    }
    __syncthreads();  // every code is there before its row is read
    if (has_row) {
        const std::uint32_t four = tile.template vec<std::uint32_t>(thread, 0);
        stored(row) = four;
    }
}

template <class T>
void launch_encode(const EncodeTrial& t) {
    const cudaLaunchConfig_t config{.gridDim = blocks_for(t.values),
                                    .blockDim = dim3(kRows),
                                    .dynamicSmemBytes = simt::shared_bytes<T>(kRows, 4),
                                    .stream = static_cast<cudaStream_t>(t.stream)};
    simt::launch("encode_kernel", config, encode_kernel<T>, simt::global_tensor<const float, 2>(t.values),
                 simt::global_tensor<T, 2>(t.codes), simt::global_tensor<std::uint32_t, 1>(t.packed),
                 simt::global_tensor<std::uint32_t, 1>(t.stored));
}

void launch_encode(const EncodeTrial& t) {
    if (t.codes.type == simt::ElementType::e4m3) launch_encode<simt::e4m3>(t);
    if (t.codes.type == simt::ElementType::e5m2) launch_encode<simt::e5m2>(t);
}

template <class T>
__global__ void __launch_bounds__(kRows)
    decode_kernel(simt::GlobalTensor<const T, 2> codes, simt::GlobalTensor<float, 2> values,
                  simt::GlobalTensor<float, 2> unpacked, simt::GlobalTensor<std::uint32_t, 2> halves) {
    const int row = int(blockIdx.x) * kRows + int(threadIdx.x);
    if (row >= int(codes.extent(0))) return;
    for (int i = 0; i < 4; ++i) values(row, i) = float(codes(row, i));

    const std::uint32_t four = codes.template vec<std::uint32_t>(row, 0);
    for (int i = 0; i < 2; ++i) {
        const auto pair = static_cast<std::uint16_t>(four >> 16 * i);
        const float2 both = simt::unpack<T>(pair);
        unpacked(row, 2 * i) = both.x;
        unpacked(row, 2 * i + 1) = both.y;
        halves(row, i) = simt::unpack_to_f16<T>(pair);
    }
}

template <class T>
void launch_decode(const DecodeTrial& t) {
    const cudaLaunchConfig_t config{
        .gridDim = blocks_for(t.codes), .blockDim = dim3(kRows), .stream = static_cast<cudaStream_t>(t.stream)};
    simt::launch("decode_kernel", config, decode_kernel<T>, simt::global_tensor<const T, 2>(t.codes),
                 simt::global_tensor<float, 2>(t.values), simt::global_tensor<float, 2>(t.unpacked),
                 simt::global_tensor<std::uint32_t, 2>(t.halves));
}

void launch_decode(const DecodeTrial& t) {
    if (t.codes.type == simt::ElementType::e4m3) launch_decode<simt::e4m3>(t);
    if (t.codes.type == simt::ElementType::e5m2) launch_decode<simt::e5m2>(t);
}

}  // namespace ladder::SIMT_MACHINE
