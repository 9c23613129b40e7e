#pragma once

#include "common/simt/matrix/matrix_operand_cpu.h"
#include "common/simt/matrix/product_call.h"
#include "common/simt/matrix/product_element.h"
#include "common/simt/matrix/warpgroup_cpu.h"
#include "common/simt/matrix/warpgroup_products.h"
#include "common/simt/matrix/wgmma_instructions.h"

// Products of a warpgroup, as the checked CPU machine models them: see WarpgroupProducts. What each function does is
// documented with the GPU's version, in wgmma_cuda.h.

namespace simt {
inline namespace cpu {

/// See simt::cuda::begin_products.
inline void begin_products(SourceSite site = SourceSite::here()) { fence_products_of_warp(site); }
template <class... Registers>
void begin_products(FirstNamed first, Registers&... more) {
    fence_products_of_warp(first.site);
    WarpgroupProducts& products = Block::current().companion<WarpgroupProducts>();
    products.fence(first.registers);
    (products.fence(NamedRegisters(more)), ...);
}

/// See simt::cuda::multiply.
template <int N, class T, Major a_major, Major b_major>
void multiply(Accumulator<N>& d, const MatrixOperand<T, a_major>& a, const MatrixOperand<T, b_major>& b,
              bool accumulate, SourceSite site = SourceSite::here()) {
    using Product = ProductOf<element_type_of_product<T>, N, false, a_major, b_major>;
    const ProductCall call{.shape = &Product::shape,
                           .d = d.registers(),
                           .accumulator = &d,
                           .a = {a.bits(), a.place()},
                           .b = {b.bits(), b.place()},
                           .accumulate = accumulate,
                           .site = site};
    begin_product(call, Product::begun);
}
template <int N, class T, Major b_major>
void multiply(Accumulator<N>& d, const OperandA<T>& a, const MatrixOperand<T, b_major>& b, bool accumulate,
              SourceSite site = SourceSite::here()) {
    using Product = ProductOf<element_type_of_product<T>, N, true, Major::k, b_major>;
    const ProductCall call{.shape = &Product::shape,
                           .d = d.registers(),
                           .accumulator = &d,
                           .a_registers = a.registers(),
                           .a_notes = &a,
                           .b = {b.bits(), b.place()},
                           .accumulate = accumulate,
                           .site = site};
    begin_product(call, Product::begun);
}

/// See simt::cuda::commit_products.
inline void commit_products(SourceSite site = SourceSite::here()) { commit_products_of_warp(site); }

/// See simt::cuda::wait_products.
template <int allowed>
void wait_products(SourceSite site = SourceSite::here()) {
    static_assert(0 <= allowed && allowed <= 7);
    wait_products_of_warp(allowed, site);
}
template <int allowed, class... Registers>
void wait_products(FirstNamed first, Registers&... more) {
    static_assert(0 <= allowed && allowed <= 7);
    wait_products_of_warp(allowed, first.site);
    WarpgroupProducts& products = Block::current().companion<WarpgroupProducts>();
    products.check_named(first.registers, allowed, first.site);
    (products.check_named(NamedRegisters(more), allowed, first.site), ...);
}

}  // namespace cpu
}  // namespace simt
