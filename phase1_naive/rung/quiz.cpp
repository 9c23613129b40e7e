#include <fmt/format.h>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "phase1_naive/overflow.h"

namespace ladder::phase1_naive {

using namespace quiz;

namespace {

Question scores_read(Draw& draw) {
    const std::int64_t H = draw({1, 2}), N = draw({128, 160});
    const Measured run = measure(1, "standard_attention", {.heads = H, .keys = N});
    const std::uint64_t S = H * N * N * sizeof(float);
    Question q{
        .situation = fmt::format("standard_attention, {} head{}, N = {}, D = 64, float32. The first kernel writes "
                                 "S, the second makes P of it, the third multiplies P by V.",
                                 H, H == 1 ? "" : "s", N),
        .ask = "How many bytes of S are read?",
        .hint = "The second kernel is phase 0's safe softmax.",
        .source = run.source,
        .command = run.command,
        .section = "What it must move, derived",
        .formula = 3.0 * double(S)};
    q.right(bytes(run.read("S")),
            fmt::format("S has N^2 elements per head, {} bytes, and safe softmax walks over each row three times.", S));
    q.wrong(bytes(S), fmt::format("{} bytes is its size, and what one walk over it asks for. Safe softmax takes three: "
                                  "maximum, sum, quotients.",
                                  S));
    q.wrong(bytes(4 * S),
            "P is read, too, once. That makes four reads of this size, but the fourth is of P, not of S.");
    q.wrong(bytes(3 * S / N * 64),
            "That is three times a matrix of N rows of D. S has N columns: each query has a score "
            "for each key.");
    q.wrong(bytes(3 * S / sizeof(float)), "Three walks is right, but these are elements, of four bytes each.");
    return q;
}

Question growth(Draw& draw) {
    const std::int64_t N = draw({128, 192});
    const Measured small = measure(1, "standard_attention", {.heads = 1, .keys = N}),
                   run = measure(1, "standard_attention", {.heads = 1, .keys = 2 * N});
    Question q{
        .situation = fmt::format("standard_attention on one head of N = {} tokens, D = 64, float32, moves {} bytes.", N,
                                 small.traffic()),
        .ask = fmt::format("How many bytes does it move for N = {}, compared to that?", 2 * N),
        .hint = "Which of the matrices that it moves have N rows, and which N rows and N columns?",
        .source = run.source,
        .command = run.command,
        .section = "What it must move, derived",
        .formula = double(run.traffic_by_formula()) / double(small.traffic_by_formula())};
    q.right(
        times(double(run.traffic()) / double(small.traffic())),
        fmt::format("{} bytes: S and P are N x N, and Q, K and V are read once for each tile of 64 rows, which is N^2 "
                    "again. Only O and LSE grow as N, so it is a little less than 4.",
                    run.traffic()));
    q.wrong(times(2),
            "The inputs and O grow as N. But nearly all that moves is S and P, with a number for each pair of a "
            "query and a key.");
    q.wrong(times(8),
            "A product of two N x N matrices would cost N^3. Here the inner dimension is D, which does not "
            "grow: N^2 D operations, and N^2 bytes.");
    q.wrong(times(1),
            "Tiles fix how much is on the chip at a time, not how much goes through. There are four times as "
            "many tiles now.");
    return q;
}

Question scheme_a_keys(Draw& draw) {
    const std::int64_t N = draw({130, 160}), heads = draw({1, 2});
    const Measured run =
        measure(1, "q_blocked_attention", {.heads = heads, .keys = N, .head_dim = 64, .dtype = torch::kFloat16});
    const std::uint64_t K = heads * N * 64 * 2, blocks = (N + 63) / 64;
    Question q{
        .situation = fmt::format("Scheme A (q_blocked_attention): N = {}, D = 64, float16, {} head{}. A block owns "
                                 "B_r = 64 queries and keeps all of K and V in shared memory. K has {} bytes.",
                                 N, heads, heads == 1 ? "" : "s", K),
        .ask = "How many bytes of K are read from global memory?",
        .hint = "Does anything in shared memory outlive its block?",
        .source = run.source,
        .command = run.command,
        .section = "Scheme A: keep it on the chip",
        .formula = double(blocks * K)};
    q.right(bytes(run.read("K")),
            fmt::format("ceil({} / 64) = {} blocks per head, and each copies all of K for itself.", N, blocks));
    q.wrong(bytes(K),
            "Once per block, not once per head. Shared memory belongs to one block and ends with it; the next block "
            "starts with nothing.");
    q.wrong(bytes(N * K),
            "Once for each query is what phase 0's kernel does. Here the 64 queries of a block share the copy.");
    q.wrong(bytes(N / 64 * K),
            "The queries that are left over after full tiles of 64 need a block, too, and it copies as "
            "much of K as any other: ceil(N / 64), not N / 64 rounded down.");
    return q;
}

OverflowAnswer overflow_on(const char* device, Scheme scheme, std::int64_t D) {
    const simt::ScopedCpuDevice imitated(simt::device_from(simt::device_profile(device)));
    return overflow({.shape = {.scheme = scheme, .head_dim = D}});
}

std::string overflow_command(const char* device, std::int64_t D) {
    return fmt::format("./ladder overflow --profile {}{}", device, D == 128 ? "" : fmt::format(" --head-dim {}", D));
}

std::string launched(const OverflowAnswer& answer) {
    return fmt::format(
        "the phase's kernel, launched on the CPU machine, with the limits of {}, with that many keys and "
        "with one more",
        answer.limits.name);
}

Question wall_a(Draw& draw) {
    const char* const device = draw({"rtx5060ti", "t4", "a100", "h200"});
    const std::int64_t D = draw({64, 128}), w = 2, B_r = 64;
    const OverflowAnswer answer = overflow_on(device, Scheme::q_blocked, D);
    const std::int64_t L = answer.limits.shared_bytes_per_block_optin;
    Question q{
        .situation =
            fmt::format("Scheme A with B_r = 64, D = {}, float16 on {}, which gives a block {} bytes of shared "
                        "memory ({} without opting in). Q_i, all of K, all of V and S_i [B_r, N] must fit.",
                        D, answer.limits.name, L, answer.limits.shared_bytes_per_block),
        .ask = "What is the largest N that runs?",
        .hint = "Write the bytes as a constant and a multiple of N. Which matrices have N rows, which one N columns?",
        .source = launched(answer),
        .command = overflow_command(device, D),
        .section = "The wall",
        .formula = double(largest_key_length(answer.shape, std::size_t(L)))};
    const std::int64_t a_key = w * (2 * D + B_r), Q = w * B_r * D;
    q.right(count(answer.largest_key_length, "key"),
            fmt::format("Q_i takes {} bytes, each key {}: its rows of K and V, and a column of S_i. ({} - {}) / {} = "
                        "{:.1f}.",
                        Q, a_key, L, Q, a_key, double(L - Q) / double(a_key)));
    q.wrong(count((L - Q) / (w * 2 * D), "key"),
            "The scores were left out. S_i has a column of 64 for each key, and the "
            "ordinary softmax wants whole rows of it.");
    q.wrong(count((L - 2 * Q) / (2 * a_key), "key"), "These elements have two bytes, not four: it is float16.");
    q.wrong(count(L / a_key, "key"), "Q_i was left out: its 64 rows are there before the first key comes.");
    q.wrong(count((answer.limits.shared_bytes_per_block - Q) / a_key, "key"),
            fmt::format("{} bytes is what a block gets without asking. The host opts in with cudaFuncSetAttribute and "
                        "gets {}.",
                        answer.limits.shared_bytes_per_block, L));
    return q;
}

Question wall_b(Draw& draw) {
    const char* const device = draw({"rtx5060ti", "a100", "h200"});
    const std::int64_t D = 128, w = 2, B_r = 64;
    const OverflowAnswer a = overflow_on(device, Scheme::q_blocked, D), b = overflow_on(device, Scheme::qv_blocked, D);
    const std::int64_t L = b.limits.shared_bytes_per_block_optin, fixed = w * (B_r + kValueTileRows) * D;
    Question q{
        .situation = fmt::format("On {} ({} bytes per block) scheme A stops at N = {} (B_r = 64, D = 128, float16). "
                                 "Scheme B takes V in tiles of {} rows; Q_i, K and S_i stay whole.",
                                 b.limits.name, L, a.largest_key_length, int(kValueTileRows)),
        .ask = "What is the largest N that scheme B runs? (One key too many or too few is near enough.)",
        .hint = "A key now costs a row of K and a column of S_i. What is there that does not depend on N?",
        .tolerance = 1.5 / double(b.largest_key_length),
        .source = launched(b),
        .command = overflow_command(device, D),
        .section = "Scheme B: V in tiles",
        .formula = double(largest_key_length(b.shape, std::size_t(L)))};
    q.right(count(b.largest_key_length, "key"),
            fmt::format("Q_i and the tile of V take {} bytes, each key {}: ({} - {}) / {} = {:.1f}. The rows of scores "
                        "still grow with N, so there is still a wall.",
                        fixed, w * (D + B_r), L, fixed, w * (D + B_r), double(L - fixed) / double(w * (D + B_r))));
    q.wrong(count(2 * a.largest_key_length, "key"),
            "V is gone, but V was only one of three things that grow: K and the "
            "scores are still whole, so it does not double.");
    q.wrong(count((L - fixed) / (w * D), "key"), "S_i was left out. Tiling V does not shorten the rows of scores.");
    q.wrong(count((L - w * B_r * D) / (w * (D + B_r)), "key"),
            fmt::format("The tile of V was left out: {} rows of it are there, {} bytes.", int(kValueTileRows),
                        w * kValueTileRows * D));
    q.wrong(count(a.largest_key_length, "key"), "That is scheme A's. A key costs less now, so more of them fit.");
    return q;
}

Question one_key_more(Draw& draw) {
    const char* const device = draw({"rtx5060ti", "a100", "h200"});
    const OverflowAnswer answer = overflow_on(device, Scheme::q_blocked, 128);
    const simt::LaunchError& refusal = answer.refusal;
    const std::int64_t N = answer.largest_key_length;
    Question q{.situation =
                   fmt::format("On {}, scheme A holds N = {} keys (B_r = 64, D = 128, float16). A program goes "
                               "past the entry's own check and asks the device for N = {}: {} bytes per block, {} "
                               "more than there are.",
                               answer.limits.name, N, N + 1, refusal.required_shared_bytes,
                               refusal.required_shared_bytes - std::size_t(answer.limits.shared_bytes_per_block_optin)),
               .ask = "What happens?",
               .hint = "A block's shared memory is set aside before its first thread starts.",
               .source = launched(answer),
               .command = overflow_command(device, 128),
               .section = "The wall"};
    q.right(words(fmt::format("the call {} returns {}, and no thread runs", refusal.call, refusal.code_name)),
            "The kernel never starts: the host's call is refused, with an error code that a program must check. The "
            "next launch works as if nothing had happened.");
    q.wrong(words("it runs, more slowly: what does not fit goes to global memory"),
            "That is what caches do, and what a compiler does with registers. Shared memory is not a cache: nobody "
            "moves it elsewhere.");
    q.wrong(words("it starts, and writes beyond its shared memory: cudaErrorIllegalAddress"),
            "It would have to start first. The size of a block's shared memory is part of the launch, so it is checked "
            "before any address is.");
    q.wrong(
        words(fmt::format("fewer blocks run at a time, so it takes longer than N = {} by a step", N)),
        "That happens between sizes that fit: the less a block takes, the more blocks live on a multiprocessor. Here "
        "not even one fits.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"1.scores-read", "how many bytes of S the textbook's three kernels read", scores_read},
            {"1.growth", "what twice the tokens cost", growth},
            {"1.scheme-a-keys", "how often scheme A reads K", scheme_a_keys},
            {"1.wall-a", "which N no longer fits scheme A", wall_a},
            {"1.one-key-more", "what the device says to one more key", one_key_more},
            {"1.wall-b", "how far scheme B moves the wall", wall_b}};
}

}  // namespace ladder::phase1_naive
