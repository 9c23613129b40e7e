#include "common/simt/matrix/warpgroup_products.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "common/simt/counters/event_recorder.h"
#include "common/simt/matrix/product_arithmetic.h"
#include "common/simt/matrix/warpgroup.h"

namespace simt {
inline namespace cpu {
namespace {

/// Where a thread's elements are in the [64, n] of its warpgroup: use(element, place) for pairs of neighbours.
template <class Use>
void for_each_pair(int thread, int n, Use&& use) {
    const int row = AccumulatorLayout::row(thread, 0), column = AccumulatorLayout::column(thread, 0);
    for (int group = 0; group < n / 8; ++group)
        for (int half = 0; half < 2; ++half) use(4 * group + 2 * half, (row + 8 * half) * n + column + 8 * group);
}

void gather_thread(int thread, int n, const float* registers, float* values) {
    for_each_pair(thread, n, [&](int i, int place) { std::memcpy(values + place, registers + i, 2 * sizeof(float)); });
}

void scatter_thread(int thread, int n, const float* values, float* registers) {
    for_each_pair(thread, n, [&](int i, int place) { std::memcpy(registers + i, values + place, 2 * sizeof(float)); });
}

ProductCalls calls_of(const std::array<const void*, kWarpgroup>& arguments) {
    ProductCalls calls;
    for (std::size_t t = 0; t < calls.size(); ++t) calls[t] = static_cast<const ProductCall*>(arguments[t]);
    return calls;
}

/// What the registers of an accumulator hold that nobody has written yet, or that a product under way will write.
bool is_poison(const float& x) {
    constexpr unsigned char poison[sizeof(float)] = {0xff, 0xff, 0xff, 0xff};
    return std::memcmp(&x, poison, sizeof(poison)) == 0;
}

}  // namespace

void multiply_at_once(Block& block, int, const std::array<const void*, kWarpgroup>& arguments) {
    thread_local ProductOperands operands;
    thread_local std::vector<float> d(std::size_t(kProductRows * kMostProductColumns));
    const ProductCalls calls = calls_of(arguments);
    const ProductShape& shape = *calls[0]->shape;
    operands.load(block, calls, nullptr);
    if (calls[0]->accumulate)
        for (int t = 0; t < kWarpgroup; ++t) gather_thread(t, shape.n, calls[std::size_t(t)]->d, d.data());
    else
        std::fill_n(d.data(), kProductRows * shape.n, 0.0f);
    add_product(d.data(), operands.a(), operands.b(), shape.n, shape.depth());
    for (int t = 0; t < kWarpgroup; ++t) scatter_thread(t, shape.n, d.data(), calls[std::size_t(t)]->d);
}

void multiply_now(const ProductCall& call, const Block::WarpgroupInstruction& product) {
    Block& block = Block::current();
    block.require_feature(Feature::wgmma, call.site);
    block.warpgroup_instruction(product, &call, call.site);
}

void begin_multiply(Block& block, int warpgroup, const std::array<const void*, kWarpgroup>& arguments) {
    block.companion<WarpgroupProducts>().begin(warpgroup, calls_of(arguments));
}

WarpgroupProducts::WarpgroupProducts(Block& block) : block_(block) {}
WarpgroupProducts::~WarpgroupProducts() = default;
std::unique_ptr<Companion> WarpgroupProducts::make(Block& block) { return std::make_unique<WarpgroupProducts>(block); }

void WarpgroupProducts::start_block(int threads) {
    warpgroups_ = std::vector<Warpgroup>(std::size_t(threads + kWarpgroup - 1) / kWarpgroup);
    lost_.assign(std::size_t(threads), {});
}

void WarpgroupProducts::begin(int warpgroup, const ProductCalls& calls) {
    Warpgroup& group = warpgroups_[std::size_t(warpgroup)];
    const ProductCall& call = *calls[0];
    const ProductShape& shape = *call.shape;
    const int first = warpgroup * kWarpgroup;
    check_same_operands(warpgroup, calls);
    if (!shape.a_in_registers) check_operand(block_, {"A", call.a.bits, shape.of_a(), call.a.place, first, call.site});
    check_operand(block_, {"B", call.b.bits, shape.of_b(), call.b.place, first, call.site});

    if (group.first_agent < 0) add_agents(group, warpgroup);
    const std::uint32_t interval = block_.open_agent_interval();
    const OperandReader reader{warpgroup, group.first_agent, group.all_agents, interval};
    EventRecorder* const events = block_.events();
    if (events) events->multiplies(warpgroup);
    operands_.load(block_, calls, &reader);
    if (events) events->multiplied(group.warps[0].groups, warpgroup, call.site);
    for (int w = 0; w < 4; ++w) block_.traffic.warp_meets(warpgroup * 4 + w);

    ProductResult& result = result_of(group, calls);
    if (!call.accumulate) std::ranges::fill(result.values, 0.0f);
    add_product(result.values.data(), operands_.a(), operands_.b(), shape.n, shape.depth());

    Product& product = group.under_way.emplace_back();
    product.number = ++group.products;
    product.site = call.site;
    product.interval = interval;
    for (std::size_t w = 0; w < 4; ++w) product.group[w] = group.warps[w].groups;
    result.last_product = product.number;
    result.warps_under_way = 0xf;
    if (shape.a_in_registers)
        for (const ProductCall* of_thread : calls) of_thread->a_notes->read_by_ = product.number;
}

void WarpgroupProducts::add_agents(Warpgroup& group, int warpgroup) {
    const auto add = [&](const char* whose, int number) {
        return block_.add_agent("the products of " + std::string(whose) + " " + std::to_string(number));
    };
    group.first_agent = add("warp", warpgroup * 4);
    for (int w = 1; w < 4; ++w) add("warp", warpgroup * 4 + w);
    group.all_agents = ThreadClocks::together(add("warpgroup", warpgroup));
}

/// The result that the accumulators already have, if products into them are under way, or else a new one.
ProductResult& WarpgroupProducts::result_of(Warpgroup& group, const ProductCalls& calls) {
    ProductResult* const present = calls[0]->accumulator->result_;
    const auto has_present = [&](const ProductCall* call) { return call->accumulator->result_ == present; };
    if (present && std::ranges::all_of(calls, has_present)) return *present;

    const int n = calls[0]->shape->n;
    auto result = std::make_unique<ProductResult>();
    result->n = n;
    result->values.resize(std::size_t(kProductRows * n));
    if (calls[0]->accumulate) gather(calls, *result);
    for (std::size_t t = 0; t < calls.size(); ++t) {
        AccumulatorRegisters& accumulator = *calls[t]->accumulator;
        if (accumulator.result_) accumulator.result_->accumulator[t] = nullptr;
        accumulator.result_ = result.get();
        accumulator.state_ = ProductRegisters::State::under_way;
        result->accumulator[t] = &accumulator;
        result->registers[t] = calls[t]->d;
        std::memset(calls[t]->d, 0xff, std::size_t(n / 2) * sizeof(float));
    }
    return *group.results.emplace_back(std::move(result));
}

void WarpgroupProducts::gather(const ProductCalls& calls, ProductResult& result) {
    for (int t = 0; t < kWarpgroup; ++t) {
        const ProductCall& call = *calls[std::size_t(t)];
        if (const ProductResult* const present = call.accumulator->result_) {
            // Of a warp that has not waited for what another has waited for.
            for_each_pair(t, result.n, [&](int, int place) {
                std::copy_n(present->values.data() + place, 2, result.values.data() + place);
            });
            continue;
        }
        const float* const unwritten = std::find_if(call.d, call.d + result.n / 2, is_poison);
        if (unwritten != call.d + result.n / 2) {
            const int i = int(unwritten - call.d), thread = block_.thread() / kWarpgroup * kWarpgroup + t;
            complain(
                {.fault = Fault::unready_registers,
                 .first = {thread, call.site},
                 .second = {thread, call.accumulator->touched_at_},
                 .what = "a product adds to the accumulator of thread " + std::to_string(thread) + ", whose element " +
                         std::to_string(i) + " nobody has written",
                 .advice = "let the first product of a sum not accumulate, or write zeros before begin_products()"});
        }
        gather_thread(t, result.n, call.d, result.values.data());
    }
}

void WarpgroupProducts::commit(int warp, SourceSite site) {
    int& groups = warpgroups_[std::size_t(warp / 4)].warps[std::size_t(warp % 4)].groups;
    if (EventRecorder* const events = block_.events()) events->committed_products(groups, warp, site);
    ++groups;
}

void WarpgroupProducts::wait(int warp, int allowed, SourceSite site) {
    Warpgroup& group = warpgroups_[std::size_t(warp / 4)];
    const auto w = std::size_t(warp % 4);
    Warp& own = group.warps[w];
    own.last_allowed = allowed;
    own.last_wait = site;
    if (EventRecorder* const events = block_.events()) events->waited_for_products(own.groups - allowed, warp, site);
    std::uint32_t interval = 0;
    const Product* open = nullptr;
    for (const Product& product : group.under_way) {
        if (product.group[w] >= own.groups - allowed) {
            if (product.group[w] == own.groups) open = &product;
            break;
        }
        if (product.number <= own.retired) continue;
        own.retired = product.number;
        interval = product.interval;
    }
    if (interval == 0) {
        if (open && allowed == 0)
            complain({.fault = Fault::product_not_awaited,
                      .first = {warp * 32, site},
                      .second = {warp * 32, open->site},
                      .what = "wait_products<0>() of warp " + std::to_string(warp) +
                              " waits for nothing: the products under way are in no group yet",
                      .advice = "commit_products() closes a group, and a wait covers closed groups only: call it after "
                                "the last multiply() of a tile"});
        return;
    }
    for (int lane = 0; lane < 32; ++lane) block_.clocks().learn(warp * 32 + lane, group.first_agent + int(w), interval);
    for (const auto& result : group.results)
        if ((result->warps_under_way >> w & 1) && result->last_product <= own.retired)
            deliver(*result, int(w), warp * 32, site);
    std::erase_if(group.results, [](const auto& result) { return result->warps_under_way == 0; });
    const std::uint64_t retired = std::ranges::min(group.warps, {}, &Warp::retired).retired;
    while (!group.under_way.empty() && group.under_way.front().number <= retired) group.under_way.pop_front();
}

void WarpgroupProducts::deliver(ProductResult& result, int warp_in_group, int first_thread, SourceSite wait_site) {
    result.warps_under_way &= ~(1u << warp_in_group);
    for (int lane = 0; lane < 32; ++lane) {
        const int t = warp_in_group * 32 + lane;
        AccumulatorRegisters* const accumulator = result.accumulator[std::size_t(t)];
        if (!accumulator) continue;
        float* const registers = result.registers[std::size_t(t)];
        const float* const changed = std::find_if_not(registers, registers + result.n / 2, is_poison);
        if (changed != registers + result.n / 2)
            complain({.fault = Fault::product_in_flight,
                      .first = {first_thread + lane, wait_site},
                      .what = "element " + std::to_string(changed - registers) + " of an accumulator of thread " +
                              std::to_string(first_thread + lane) +
                              " was written while a product computed it, through a reference or a pointer that was "
                              "taken before",
                      .advice = "name registers by the accumulator and an index, each time"});
        scatter_thread(t, result.n, result.values.data(), registers);
        accumulator->result_ = nullptr;
        accumulator->state_ = ProductRegisters::State::unnamed;
        result.accumulator[std::size_t(t)] = nullptr;
    }
}

void WarpgroupProducts::fence(const NamedRegisters& registers) {
    registers.for_each([](ProductRegisters& r) {
        if (r.state_ == ProductRegisters::State::touched) r.state_ = ProductRegisters::State::ready;
    });
}

void WarpgroupProducts::lose(AccumulatorRegisters& registers, ProductResult& result) {
    const auto thread = std::size_t(block_.thread());
    if (const Product* const product = find(own_group(), result.last_product)) lost_[thread] = product->site;
    for (AccumulatorRegisters*& accumulator : result.accumulator)
        if (accumulator == &registers) accumulator = nullptr;
}

const WarpgroupProducts::Product* WarpgroupProducts::find(const Warpgroup& group, std::uint64_t number) const {
    const auto found = std::ranges::find(group.under_way, number, &Product::number);
    return found == group.under_way.end() ? nullptr : &*found;
}

}  // namespace cpu
}  // namespace simt
