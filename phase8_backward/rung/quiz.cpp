#include <fmt/format.h>

#include "common/rung/measure.h"
#include "common/rung/question.h"
#include "common/torch/torch.h"
#include "phase8_backward/backward.h"

namespace ladder::phase8_backward {

using namespace quiz;

namespace {

// The tiles of dkdv.cuh and dq.cuh for D = 64, as the chapter has them; each question's formula holds them against a
// run.
constexpr std::int64_t kKept = 64, kD = 64;

const char* const kSource = "plain_backward on the CPU machine";

/// One query of two keys with weights 3/4 and 1/4, by q = 1 and scores ln 3 and 0; values a and b, dO = 1, scale 1. So
/// dP = (a, b), and dk = dS.
struct TwoKeys {
    torch::Tensor q = at::ones({1, 1, 1, 1}), k = at::tensor({3.0f, 1.0f}).log().view({1, 1, 2, 1}), v;

    TwoKeys(double a, double b) : v(at::tensor({float(a), float(b)}).view({1, 1, 2, 1})) {}

    double dS(std::int64_t key, double dlse = 0) const {
        const torch::Tensor scores = k.view({1, 1, 2});
        const torch::Tensor lse = at::logsumexp(scores, -1).view({1, 1, 1});
        const torch::Tensor out = (at::softmax(scores, -1) * v.view({1, 1, 2})).sum(-1).view({1, 1, 1, 1});
        const torch::Tensor of_lse = at::full({1, 1, 1}, dlse);
        return plain_backward(at::ones({1, 1, 1, 1}), q, k, v, out, lse, {.scale = 1.0}, {}, of_lse)
            .dk[0][0][key][0]
            .item<double>();
    }
};

std::string two_keys_command(double a, double b, double dlse) {
    return fmt::format(
        "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); ops = torch.ops.flash_ladder; "
        "one = torch.ones(1, 1, 1, 1); k = torch.tensor([3., 1.]).log().view(1, 1, 2, 1); v = torch.tensor([{:.1f}, "
        "{:.1f}]).view(1, 1, 2, 1); out, lse = ops.fa2_forward(one, k, v, scale=1.0); print(ops.plain_backward(one, "
        "one, k, v, out, lse, scale=1.0, dlse=torch.full((1, 1, 1), {:.1f}))[1])\"",
        a, b, dlse);
}

Question gradient_of_a_score(Draw& draw) {
    const double a = draw({8, 12}), b = draw({4, -4});
    const double D = 0.75 * a + 0.25 * b;
    Question q{.situation = fmt::format("A row has two keys, with weights 3/4 and 1/4. dP is ({:.4g}, {:.4g}).", a, b),
               .ask = "What is dS of the first key, the gradient of its scaled score?",
               .hint = "How much better than the row's mean is this key?",
               .tolerance = 0.001,
               .source = kSource,
               .command = two_keys_command(a, b, 0),
               .section = "Softmax's Jacobian",
               .formula = 3.0 / 16 * (a - b)};
    q.right(value(TwoKeys(a, b).dS(0)),
            fmt::format("D = 3/4 · {:.4g} + 1/4 · {:.4g} = {:.4g} is the mean, and dS = P (dP - D) = 3/4 · {:.4g}.", a,
                        b, D, a - D));
    q.wrong(value(0.75 * a),
            "That is P dP, without D. A weight grows at the expense of the others: what counts is how much "
            "better than the mean a key is.");
    q.wrong(value(a - D),
            "That is dP - D. It must be weighted: a key that weighs nothing moves nothing, however good its value is.");
    q.wrong(value(D), "That is D, the mean of dP over the row with its weights.");
    return q;
}

Question gradient_with_lse(Draw& draw) {
    const double a = draw({8, 12}), dlse = draw({4, 2}), b = 4;
    const TwoKeys keys(a, b);
    const double without = 3.0 / 16 * (a - b);
    Question q{
        .situation = fmt::format("A row has two keys, with weights 3/4 and 1/4. dP is ({:.4g}, {:.4g}). The loss "
                                 "looks at LSE as well: dLSE is {:.4g}.",
                                 a, b, dlse),
        .ask = "What is dS of the first key?",
        .hint = "What is the derivative of LSE by a scaled score?",
        .tolerance = 0.001,
        .source = kSource,
        .command = two_keys_command(a, b, dlse),
        .section = "When the loss depends on LSE too",
        .formula = without + 0.75 * dlse};
    q.right(value(keys.dS(0, dlse)),
            fmt::format("{:.4g} as without it, and P dLSE = 3/4 · {:.4g} on top.", without, dlse));
    q.wrong(value(without), "That leaves dLSE out, as if nobody looked at LSE.");
    q.wrong(value(without - 0.75 * dlse), "The sign: dLSE is taken from D, and D is subtracted, so it is added.");
    q.wrong(
        value(without + dlse),
        "The derivative of LSE by a score is the score's weight, and not 1: a key that weighs nothing does not move "
        "LSE.");
    return q;
}

Question single_key(Draw& draw) {
    const double value_of_key = draw({5, 9});
    const torch::Tensor one = at::ones({1, 1, 1, 1}), v = at::full({1, 1, 1, 1}, value_of_key);
    const AttentionGradients g = plain_backward(one, one, one, v, v, at::ones({1, 1, 1}), {.scale = 1.0});
    const auto triple = [](double dq, double dk, double dv) {
        return words(fmt::format("dQ = {:.4g}, dK = {:.4g}, dV = {:.4g}", dq, dk, dv));
    };
    Question q{
        .situation =
            fmt::format("One query, one key, all of them 1, the value {:.4g}, scale 1. dO is 1.", value_of_key),
        .ask = "What are the gradients?",
        .hint = "Can the only key of a row gain weight?",
        .source = kSource,
        .command = fmt::format("python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); one = "
                               "torch.ones(1, 1, 1, 1); v = one * {:.1f}; print(torch.ops.flash_ladder.plain_backward("
                               "one, one, one, v, v, one[0], scale=1.0))\"",
                               value_of_key),
        .section = "Softmax's Jacobian"};
    q.right(triple(g.dq.item<double>(), g.dk.item<double>(), g.dv.item<double>()),
            "Its weight is 1 whatever its score is, so the scores do not matter: dP = D. All of dO goes to the value.");
    q.wrong(triple(value_of_key, value_of_key, 1),
            "That is dS = P dP, without D. But a weight of 1 cannot grow: D is all of dP here.");
    q.wrong(triple(1, 1, 1), "dO reaches the scores only through dP - D, which is 0 here.");
    q.wrong(triple(0, 0, value_of_key), "dV = P^T dO: the value itself is not in it.");
    return q;
}

Question products(Draw& draw) {
    const bool adds = draw({0, 1});
    Question q{
        .situation = fmt::format("A pair of tiles is multiplied for S, dP, dV, dK and dQ. plain_backward{}",
                                 adds ? "_atomics has the block that keeps keys add to dQ in global memory."
                                      : " adds up dQ in a kernel of its own, in which blocks keep queries."),
        .ask = "How many products does it compute for each pair of tiles, in all its kernels?",
        .hint = "Which of the five products does dQ need?",
        .source = fmt::format("plain_backward{} and the products that its kernels' plans name", adds ? "_atomics" : ""),
        .command = "./ladder profile 8",
        .section = "Who owns what"};
    const auto choice = [&](const char* text, bool right, const char* why) {
        if (right)
            q.right(words(text), why);
        else
            q.wrong(words(text), why);
    };
    choice("5", adds,
           adds ? "S, dP, dV, dK and dQ: nobody computes anything twice. The price is paid in memory."
                : "That is with atomics, where the block that has dS multiplies it with K_j at once.");
    choice("7", !adds,
           adds ? "That is with a second pass, which computes S and dP once more."
                : "Four in the first kernel, S, dP, dV and dK; three in the second, S and dP again, and dQ.");
    q.wrong(words("2"), "That is the forward pass: S and O.");
    q.wrong(words("10"), "Nothing but S and dP is needed twice.");
    return q;
}

Question kept(Draw& draw) {
    const std::int64_t N = draw({256, 320}), H = draw({2, 4});
    const Measured run = measure(8, "plain_backward", {.heads = H, .keys = N, .causal = false});
    Question q{
        .situation = fmt::format("{} heads, {} queries and keys, D = 64, float32. dS needs one number for each row "
                                 "beside LSE.",
                                 H, N),
        .ask = "How many bytes does the first kernel write for it?",
        .hint = "D_i is one float for each query of each head.",
        .source = run.source,
        .command = run.command,
        .section = "What must be kept",
        .formula = double(4 * H * N)};
    const std::uint64_t written = run.written("D");
    q.right(bytes(written),
            fmt::format("{} · {} rows of 4 bytes. It grows with the length, and not with its square.", H, N));
    q.wrong(bytes(std::uint64_t(4 * H * N * N)),
            "That is the size of P or dS, which the kernels compute again instead, a tile at a time.");
    q.wrong(bytes(std::uint64_t(4 * H * N * kD)), "That is a tensor like O: O is read for D_i, and not written.");
    q.wrong(bytes(std::uint64_t(4 * N)), fmt::format("For one head. There are {}.", H));
    return q;
}

Question queries_read(Draw& draw) {
    const std::int64_t N = draw({192, 256, 320}), T = N / kKept;
    const Measured run = measure(8, "plain_backward", {.heads = 1, .keys = N, .causal = false});
    const std::uint64_t Q = N * kD * sizeof(float);
    Question q{
        .situation = fmt::format("plain_backward on one head of N = {} queries and keys, D = 64, float32, no mask. "
                                 "A block keeps 64 keys, or 64 queries; Q has {} bytes.",
                                 N, Q),
        .ask = "How many bytes of Q do all kernels read?",
        .hint = "Two kernels read Q. In which of them does it pass the blocks, and how often?",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(Q * (T + 1))};
    q.right(
        bytes(run.read("Q")),
        fmt::format(
            "Once for each of {} key tiles in the kernel of dK and dV, and once in the kernel of dQ, where it stays.",
            T));
    q.wrong(bytes(Q * T), "The kernel of dQ reads it as well, once: each of its blocks keeps a tile of it.");
    q.wrong(bytes(2 * Q), "In the kernel of dK and dV all of Q passes each block, and not all blocks together.");
    q.wrong(bytes(2 * Q * T), "In the kernel of dQ K and V pass, and Q stays.");
    return q;
}

Question queries_of_a_mask(Draw& draw) {
    const std::int64_t N = draw({192, 256, 320}), T = N / kKept;
    const Measured run = measure(8, "plain_backward", {.heads = 1, .keys = N, .causal = true});
    const std::uint64_t Q = N * kD * sizeof(float);
    Question q{.situation = fmt::format("The same with a causal mask: one head, N = {}, D = 64, float32, blocks of 64 "
                                        "keys, or of 64 queries; Q has {} bytes.",
                                        N, Q),
               .ask = "How many bytes of Q do all kernels read?",
               .hint = "Which queries see the keys of the last key tile? And those of the first?",
               .source = run.source,
               .command = run.command,
               .section = "Who owns what",
               .formula = double(Q * (T + 1)) / 2 + double(Q)};
    q.right(
        bytes(run.read("Q")),
        fmt::format("Key tile j is visited by queries from 64 j on: {0} + … + 1 parts of {0}. And once for dQ.", T));
    q.wrong(bytes(Q * (T + 1)), "That is without a mask. Queries before the diagonal do not see the tile's keys.");
    q.wrong(bytes(Q * (T + 1) / 2), "The kernel of dQ reads Q as well, each row once.");
    q.wrong(bytes(Q * T / 2 + Q), "The tiles on the diagonal are visited, too: a little more than a half.");
    return q;
}

Question added_bytes(Draw& draw) {
    const std::int64_t N = draw({192, 256, 320}), T = N / kKept;
    const Measured run = measure(8, "plain_backward_atomics", {.heads = 1, .keys = N, .causal = false});
    const std::uint64_t dQ = N * kD * sizeof(float);
    Question q{
        .situation = fmt::format("plain_backward_atomics on one head of N = {} queries and keys, D = 64, float32, "
                                 "no mask; a block keeps 64 keys. dQ has {} bytes.",
                                 N, dQ),
        .ask = "How many bytes are written to dQ, each addition counted as a write?",
        .hint = "How many blocks have a term for each element of dQ? And what do they add to?",
        .source = run.source,
        .command = run.command,
        .section = "What it moves",
        .formula = double(dQ * (T + 1))};
    q.right(bytes(run.written("dQ")),
            fmt::format("Each of {} key tiles adds to every element, and somebody has to write zeros before.", T));
    q.wrong(bytes(dQ * T), "Memory that nobody wrote holds anything. Zeros must be there before the first addition.");
    q.wrong(bytes(dQ), "That is with a second pass, where a block adds up in registers and writes once.");
    q.wrong(bytes(dQ * N),
            "A block adds up over the keys of its tile first, and then goes to memory: once for 64 keys.");
    return q;
}

Question blocks_of_grouped_heads(Draw& draw) {
    const std::int64_t N = draw({128, 256}), group = draw({2, 4}), kv_heads = 2;
    const Measured run =
        measure(8, "plain_backward", {.heads = kv_heads * group, .kv_heads = kv_heads, .keys = N, .causal = false});
    const std::uint64_t blocks = run.launch(1).launch.blocks();
    Question q{
        .situation = fmt::format("{} query heads share {} key-value heads; {} queries and keys, D = 64. A block of "
                                 "the kernel of dK and dV keeps 64 keys.",
                                 kv_heads * group, kv_heads, N),
        .ask = "How many blocks does that kernel have?",
        .hint = "Who adds to dK of a key-value head?",
        .tolerance = 0,
        .source = run.source,
        .command = run.command,
        .section = "Who owns what",
        .formula = double(N / kKept * kv_heads)};
    q.right(count(blocks, "block"),
            fmt::format("{} key tiles of {} key-value heads. A block walks through all {} query heads of its group.",
                        N / kKept, kv_heads, group));
    q.wrong(count(blocks * group, "block"),
            "With a block for each query head, those of a group would add to the same dK, and would need atomics.");
    q.wrong(count(N / kKept, "block"), "Key-value heads have blocks of their own: their dK are different rows.");
    q.wrong(count(N * kv_heads, "block"), "A block has a tile of 64 keys, not one.");
    return q;
}

Question empty_row(Draw& draw) {
    const std::int64_t Sq = draw({8, 12}), Sk = draw({3, 5});
    const torch::Tensor q_ = at::ones({1, 1, Sq, 1}), k = at::ones({1, 1, Sk, 1});
    const torch::Tensor seen = at::clamp(at::arange(Sq) + 1 + Sk - Sq, 0).to(torch::kFloat32);
    const torch::Tensor lse = (1 + at::log(seen)).view({1, 1, Sq});
    const torch::Tensor out = seen.gt(0).to(torch::kFloat32).view({1, 1, Sq, 1});
    const AttentionGradients g =
        plain_backward(q_, q_, k, k, out, lse, {.scale = 1.0, .mask = Mask::causal_bottom_right});
    const double dq = g.dq[0][0][0][0].item<double>();
    Question q{.situation =
                   fmt::format("Sq = {}, Sk = {}, bottom-right, so query 0 sees no key, and its LSE is -inf.", Sq, Sk),
               .ask = "What is dQ of query 0, and what does it add to dK and dV?",
               .hint = "Its output is 0 whatever Q, K and V are.",
               .source = kSource,
               .command = fmt::format(
                   "python3 -c \"import torch; torch.ops.load_library('build/libflash_ladder.so'); ops = "
                   "torch.ops.flash_ladder; q, k = torch.ones(1, 1, {}, 1), torch.ones(1, 1, {}, 1); out, lse = "
                   "ops.causal_forward(q, k, k); print(ops.plain_backward(q, q, k, k, out, lse, "
                   "mask='causal_bottom_right')[0][0, 0, 0])\"",
                   Sq, Sk),
               .section = "Misconceptions"};
    q.right(
        words(fmt::format("{:.4g}, and nothing", dq)),
        "The output does not depend on anything, so every derivative is 0. The kernel computes exp(+inf) for such a "
        "row, and leaves hidden pairs out of all sums.");
    q.wrong(words("NaN, and NaN"),
            "That would be right if hidden pairs took part as 0 times infinity. They take no part.");
    q.wrong(words("0, and dO to each dV"), "A weight of 0 passes nothing on: dV = P^T dO.");
    q.wrong(words("it is refused"), "More queries than keys are an ordinary problem.");
    return q;
}

}  // namespace

std::vector<Topic> questions() {
    return {{"8.score", "the gradient of a score", gradient_of_a_score},
            {"8.single-key", "the gradients of a row with one key", single_key},
            {"8.lse", "the gradient of a score when the loss looks at LSE", gradient_with_lse},
            {"8.kept", "how much is kept for the backward pass", kept},
            {"8.products", "how many products are computed", products},
            {"8.queries-read", "how often Q is read", queries_read},
            {"8.queries-of-a-mask", "how often Q is read under a causal mask", queries_of_a_mask},
            {"8.added-bytes", "what atomic additions write", added_bytes},
            {"8.blocks", "how many blocks grouped heads leave", blocks_of_grouped_heads},
            {"8.empty-row", "what a row gets that sees nothing", empty_row}};
}

}  // namespace ladder::phase8_backward
