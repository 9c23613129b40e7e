#include "common/cli/bench/cases.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace ladder::cli::bench {
namespace {

using Lengths = std::vector<std::int64_t>;

struct DecodeShape {
    std::int64_t batch, query_heads, kv_heads, keys;
};

/// Everything that differs between a GPU and the CPU machine. Lists go from small to large.
struct Sizes {
    std::int64_t softmax_rows;
    Lengths softmax_columns;
    Lengths headline_columns;
    DecodeShape one_query;  // phase 0's attention of one query row; D is base_dim

    std::int64_t tokens, heads;  // batch * N of the attention problems
    std::int64_t base_length, base_dim;
    Lengths standard_lengths, blocked_lengths, fa1_lengths, lengths, head_dims, fa1_head_dims;
    std::int64_t naive_headline_length;
    Lengths length_sweep_dims;  // head dims for which phases 3 and 4 sweep the length
    std::vector<std::pair<std::int64_t, std::int64_t>> batch_and_heads;
    std::int64_t causal_batch, causal_length;  // the headline of phase 4

    std::int64_t decode_dim;
    std::vector<DecodeShape> decode_shapes;  // headlines; the first is the rung
    DecodeShape decode_base;                 // its keys, batch and dtype are varied
    Lengths kv_lengths, splits, decode_batches;
    std::int64_t decode_batch_keys;
};

const Sizes kGpu{
    .softmax_rows = 16384,
    .softmax_columns = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072},
    .headline_columns = {4096, 32768},
    .one_query = {.batch = 16, .query_heads = 32, .kv_heads = 32, .keys = 4096},
    .tokens = 16384,
    .heads = 16,
    .base_length = 4096,
    .base_dim = 64,
    .standard_lengths = {256, 512, 1024, 2048, 4096},
    .blocked_lengths = {128, 256},
    .fa1_lengths = {512, 1024, 2048, 4096},
    .lengths = {512, 1024, 2048, 4096, 8192, 16384},
    .head_dims = {32, 64, 128, 256},
    .fa1_head_dims = {32, 64, 128},
    .naive_headline_length = 1024,
    .length_sweep_dims = {64, 128},
    .batch_and_heads = {{1, 1}, {1, 4}, {1, 16}, {2, 16}, {8, 16}},
    .causal_batch = 4,
    .causal_length = 8192,
    .decode_dim = 128,
    .decode_shapes = {{.batch = 8, .query_heads = 32, .kv_heads = 8, .keys = 8192},
                      {.batch = 1, .query_heads = 32, .kv_heads = 32, .keys = 8192},
                      {.batch = 1, .query_heads = 32, .kv_heads = 32, .keys = 65536},
                      {.batch = 1, .query_heads = 32, .kv_heads = 8, .keys = 65536},
                      {.batch = 64, .query_heads = 32, .kv_heads = 8, .keys = 4096},
                      {.batch = 1, .query_heads = 32, .kv_heads = 8, .keys = 524288}},
    .decode_base = {.batch = 1, .query_heads = 32, .kv_heads = 8, .keys = 65536},
    .kv_lengths = {1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288},
    .splits = {1, 2, 4, 8, 16, 32, 64, 128},
    .decode_batches = {1, 2, 4, 8, 16, 32, 64},
    .decode_batch_keys = 8192,
};

const Sizes kCpu{
    .softmax_rows = 32,
    .softmax_columns = {64, 256, 1024},
    .headline_columns = {256},
    .one_query = {.batch = 1, .query_heads = 2, .kv_heads = 2, .keys = 128},
    .tokens = 128,
    .heads = 2,
    .base_length = 128,
    .base_dim = 32,
    .standard_lengths = {32, 64, 128},
    .blocked_lengths = {64, 128},
    .fa1_lengths = {32, 64, 128},
    .lengths = {32, 64, 128, 256},
    .head_dims = {32, 64, 128},
    .fa1_head_dims = {32, 64},
    .naive_headline_length = 64,
    .length_sweep_dims = {32},
    .batch_and_heads = {{1, 1}, {1, 4}},
    .causal_batch = 1,
    .causal_length = 128,
    .decode_dim = 64,
    .decode_shapes = {{.batch = 2, .query_heads = 4, .kv_heads = 2, .keys = 512},
                      {.batch = 1, .query_heads = 4, .kv_heads = 4, .keys = 512}},
    .decode_base = {.batch = 1, .query_heads = 4, .kv_heads = 2, .keys = 512},
    .kv_lengths = {128, 256, 512, 1024},
    .splits = {1, 2, 4},
    .decode_batches = {1, 2},
    .decode_batch_keys = 256,
};

class CaseList {
  public:
    explicit CaseList(const Sizes& sizes) : sizes_(sizes) {}

    void softmax(torch::ScalarType dtype, std::int64_t columns, std::set<Sweep> sweeps) {
        add(0, {"safe_softmax", "online_softmax", "block_plain_softmax", "block_softmax"},
            {.work = Work::softmax, .dtype = dtype, .queries = sizes_.softmax_rows, .keys = columns}, sweeps);
    }

    Problem attention(std::int64_t length, std::int64_t head_dim) const {
        return {.batch = std::max<std::int64_t>(1, sizes_.tokens / length),
                .query_heads = sizes_.heads,
                .kv_heads = sizes_.heads,
                .queries = length,
                .keys = length,
                .head_dim = head_dim};
    }

    Problem decode(const DecodeShape& shape, torch::ScalarType dtype = torch::kBFloat16) const {
        return {.work = Work::decode,
                .dtype = dtype,
                .batch = shape.batch,
                .query_heads = shape.query_heads,
                .kv_heads = shape.kv_heads,
                .queries = 1,
                .keys = shape.keys,
                .head_dim = sizes_.decode_dim};
    }

    /// The same problem of the same phase is measured once, whatever it is asked for.
    void add(int phase, const std::vector<std::string>& entries, const Problem& problem,
             const std::set<Sweep>& sweeps) {
        const auto known =
            std::ranges::find_if(cases_, [&](const Case& c) { return c.phase == phase && c.problem == problem; });
        if (known == cases_.end()) {
            cases_.push_back({.phase = phase, .entries = entries, .problem = problem, .sweeps = sweeps});
            return;
        }
        known->sweeps.insert(sweeps.begin(), sweeps.end());
        for (const std::string& entry : entries)
            if (std::ranges::count(known->entries, entry) == 0) known->entries.push_back(entry);
    }

    std::vector<Case> take() {
        std::ranges::stable_partition(cases_, [](const Case& c) {
            return c.sweeps.contains(Sweep::headline) || c.sweeps.contains(Sweep::ladder);
        });
        return std::move(cases_);
    }

  private:
    const Sizes& sizes_;
    std::vector<Case> cases_;
};

void add_softmax(CaseList& list, const Sizes& sizes) {
    for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
        for (const auto columns : sizes.headline_columns) list.softmax(dtype, columns, {Sweep::headline, Sweep::dtype});
        for (const auto columns : sizes.softmax_columns) list.softmax(dtype, columns, {Sweep::columns});
    }
    list.softmax(torch::kFloat32, sizes.headline_columns.front(), {Sweep::ladder});
    Problem one_query = list.decode(sizes.one_query, torch::kFloat32);
    one_query.head_dim = sizes.base_dim;
    list.add(0, {"online_attention"}, one_query, {Sweep::headline, Sweep::ladder});
}

void add_naive(CaseList& list, const Sizes& sizes) {
    const std::vector<std::string> standard = {"standard_attention"};
    list.add(1, standard, list.attention(sizes.naive_headline_length, sizes.base_dim), {Sweep::headline});
    list.add(1, standard, list.attention(sizes.base_length, sizes.base_dim), {Sweep::headline, Sweep::ladder});
    for (const auto length : sizes.standard_lengths)
        list.add(1, standard, list.attention(length, sizes.base_dim), {Sweep::length});
    const std::vector<std::string> blocked = {"q_blocked_attention", "qv_blocked_attention"};
    list.add(1, blocked, list.attention(sizes.blocked_lengths.back(), sizes.base_dim), {Sweep::ladder});
    for (const auto length : sizes.blocked_lengths)
        list.add(1, blocked, list.attention(length, sizes.base_dim), {Sweep::length});
}

void add_fa1(CaseList& list, const Sizes& sizes) {
    const std::vector<std::string> steps = {"fa1_plain_forward", "fa1_forward"};
    list.add(2, steps, list.attention(sizes.base_length, sizes.base_dim), {Sweep::headline, Sweep::ladder});
    for (const auto length : sizes.fa1_lengths)
        list.add(2, steps, list.attention(length, sizes.base_dim), {Sweep::length});
    for (const auto head_dim : sizes.fa1_head_dims)
        list.add(2, steps, list.attention(sizes.base_length, head_dim), {Sweep::head_dim});
}

void add_fa2(CaseList& list, const Sizes& sizes) {
    const std::vector<std::string> entries = {"fa2_forward"};
    const std::vector<std::string> steps = {"fa2_plain_forward", "fa2_forward"};
    list.add(3, steps, list.attention(sizes.base_length, sizes.base_dim), {Sweep::headline, Sweep::ladder});
    for (const auto head_dim : sizes.length_sweep_dims) {
        list.add(3, steps, list.attention(sizes.base_length, head_dim), {Sweep::headline});
        for (const auto length : sizes.lengths) list.add(3, entries, list.attention(length, head_dim), {Sweep::length});
        for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
            Problem problem = list.attention(sizes.base_length, head_dim);
            problem.dtype = dtype;
            list.add(3, entries, problem, {Sweep::dtype});
        }
    }
    for (const auto head_dim : sizes.head_dims)
        list.add(3, entries, list.attention(sizes.base_length, head_dim), {Sweep::head_dim});
    list.add(3, entries, list.attention(sizes.base_length, sizes.base_dim), {Sweep::batch_and_heads});
    for (const auto& [batch, heads] : sizes.batch_and_heads) {
        Problem problem = list.attention(sizes.base_length, sizes.base_dim);
        problem.batch = batch;
        problem.query_heads = problem.kv_heads = heads;
        list.add(3, entries, problem, {Sweep::batch_and_heads});
    }
}

void add_causal(CaseList& list, const Sizes& sizes) {
    const std::vector<std::string> entries = {"causal_forward"};
    const std::vector<std::string> steps = {"causal_plain_forward", "causal_forward"};
    const auto causal = [&](std::int64_t length, std::int64_t head_dim) {
        Problem problem = list.attention(length, head_dim);
        problem.mask = Mask::causal_bottom_right;
        return problem;
    };
    list.add(4, steps, causal(sizes.base_length, sizes.base_dim), {Sweep::ladder});
    for (const auto head_dim : sizes.length_sweep_dims) {
        Problem headline = causal(sizes.causal_length, head_dim);
        headline.batch = sizes.causal_batch;
        list.add(4, steps, headline, {Sweep::headline});
        headline.dtype = torch::kBFloat16;
        list.add(4, entries, headline, {Sweep::dtype});
        for (const auto length : sizes.lengths) list.add(4, entries, causal(length, head_dim), {Sweep::length});
    }
}

void add_decode(CaseList& list, const Sizes& sizes) {
    const std::vector<std::string> entries = {"flash_decode"};
    const std::vector<std::string> steps = {"flash_decode_plain", "flash_decode"};
    list.add(5, steps, list.decode(sizes.decode_shapes.front()), {Sweep::ladder});
    for (const DecodeShape& shape : sizes.decode_shapes) list.add(5, steps, list.decode(shape), {Sweep::headline});
    for (const auto keys : sizes.kv_lengths) {
        DecodeShape shape = sizes.decode_base;
        shape.keys = keys;
        list.add(5, entries, list.decode(shape), {Sweep::kv_length});
    }
    for (const auto splits : sizes.splits) {
        Problem problem = list.decode(sizes.decode_base);
        problem.splits = splits;
        list.add(5, entries, problem, {Sweep::splits});
    }
    for (const auto batch : sizes.decode_batches) {
        DecodeShape shape = sizes.decode_base;
        shape.batch = batch;
        shape.keys = sizes.decode_batch_keys;
        list.add(5, entries, list.decode(shape), {Sweep::batch_and_heads});
    }
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16})
        list.add(5, entries, list.decode(sizes.decode_base, dtype), {Sweep::dtype});
}

constexpr std::pair<Sweep, const char*> kSweepNames[] = {
    {Sweep::headline, "headline"},  {Sweep::ladder, "ladder"},
    {Sweep::length, "length"},      {Sweep::columns, "columns"},
    {Sweep::head_dim, "head_dim"},  {Sweep::dtype, "dtype"},
    {Sweep::splits, "splits"},      {Sweep::batch_and_heads, "batch_and_heads"},
    {Sweep::kv_length, "kv_length"}};

}  // namespace

std::string name_of(Sweep sweep) {
    for (const auto& [value, name] : kSweepNames)
        if (value == sweep) return name;
    throw std::invalid_argument("unknown sweep");
}

Sweep sweep_named(const std::string& text) {
    for (const auto& [value, name] : kSweepNames)
        if (text == name) return value;
    throw std::invalid_argument("\"" + text + "\" is no sweep of ./ladder bench");
}

std::vector<Case> all_cases(Scale scale) {
    const Sizes& sizes = scale == Scale::gpu ? kGpu : kCpu;
    CaseList list(sizes);
    for (const auto add : {add_softmax, add_naive, add_fa1, add_fa2, add_causal, add_decode}) add(list, sizes);
    return list.take();
}

std::vector<Case> quick_cases(Scale scale) {
    const Sizes& sizes = scale == Scale::gpu ? kGpu : kCpu;
    const auto is_short = [](std::int64_t length, const Lengths& all) { return length <= all[1]; };
    std::vector<Case> chosen;
    std::ranges::copy_if(all_cases(scale), std::back_inserter(chosen), [&](const Case& c) {
        const bool base_problem = c.problem.dtype == torch::kFloat32 && c.problem.head_dim == sizes.base_dim;
        return c.sweeps.contains(Sweep::ladder) ||
               (c.phase >= 3 && c.sweeps.contains(Sweep::length) && base_problem &&
                is_short(c.problem.keys, sizes.lengths)) ||
               (c.sweeps.contains(Sweep::kv_length) && is_short(c.problem.keys, sizes.kv_lengths));
    });
    return chosen;
}

}  // namespace ladder::cli::bench
