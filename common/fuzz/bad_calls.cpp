#include "common/fuzz/bad_calls.h"

#include <algorithm>

#include "common/reference/bad_inputs.h"

namespace ladder::fuzz {
namespace {

constexpr std::int64_t kBatch = 2, kHeads = 2, kQueries = 3, kKeys = 7, kHeadDim = 16;

class BadCallTable {
  public:
    BadCallTable(torch::Device device, torch::ScalarType dtype) : device_(device), dtype_(dtype) {}

    torch::Tensor tensor(at::IntArrayRef sizes, torch::ScalarType dtype) const {
        return at::ones(sizes, at::TensorOptions().dtype(dtype).device(device_));
    }

    torch::Tensor tensor(at::IntArrayRef sizes) const { return tensor(sizes, dtype_); }

    /// A call that would be accepted, but for what `change` does to it.
    template <class Change>
    void add(std::string name, std::vector<std::string> mentions, const Change& change) {
        const torch::Tensor cache = tensor({kBatch, kHeads, kKeys, kHeadDim});
        const torch::Tensor q = tensor({kBatch, kHeads, kQueries, kHeadDim});
        const torch::Tensor rows = tensor({kBatch, kHeads, kQueries}, torch::kFloat32);
        BadCall call{.name = std::move(name),
                     .operands = {.q = q, .k = cache, .v = cache, .out = q, .lse = rows, .dout = q, .dlse = rows},
                     .mentions = std::move(mentions)};
        change(call);
        calls_.push_back(std::move(call));
    }

    void add_x(std::string name, std::vector<std::string> mentions, const torch::Tensor& x) {
        mentions.push_back("x:");
        calls_.push_back({.name = std::move(name), .operands = {.q = x}, .mentions = std::move(mentions)});
    }

    std::vector<BadCall> take() { return std::move(calls_); }

  private:
    torch::Device device_;
    torch::ScalarType dtype_;  ///< of a call that would be accepted
    std::vector<BadCall> calls_;
};

void add_softmax(BadCallTable& table) {
    table.add_x("undefined", {"undefined"}, {});
    table.add_x("float64", {"Double"}, table.tensor({2, 3}, torch::kFloat64));
    table.add_x("rank_1", {"rank 1", "[7]"}, table.tensor({7}));
    table.add_x("no_rows", {"[0, 4]"}, table.tensor({0, 4}));
    table.add_x("no_columns", {"[4, 0]"}, table.tensor({4, 0}));
    table.add_x("last_stride_6", {"stride 6"}, table.tensor({4, 6}).t());
}

void add_masks(BadCallTable& table, const std::vector<Mask>& accepted) {
    for (const auto& [name, mask] : {std::pair<const char*, Mask>{"causal_bottom_right", Mask::causal_bottom_right},
                                     {"causal_top_left", Mask::causal_top_left},
                                     {"no_such_mask", static_cast<Mask>(9)}})
        if (std::ranges::find(accepted, mask) == accepted.end())
            table.add(std::string("mask_") + name, {"mask:"},
                      [mask = mask](BadCall& call) { call.problem.attention.options.mask = mask; });
}

void add_blocks(BadCallTable& table) {
    for (const std::int64_t rows : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1025}, std::int64_t{1} << 32})
        table.add("block_rows_" + std::to_string(rows), {"block_rows", std::to_string(rows)},
                  [=](BadCall& call) { call.problem.block_rows = rows; });
}

void add_decoding(BadCallTable& table) {
    for (const std::int64_t splits : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1025}, std::int64_t{1} << 32})
        table.add("splits_" + std::to_string(splits), {"splits:", std::to_string(splits)},
                  [=](BadCall& call) { call.problem.splits = splits; });
    const auto add_lengths = [&](const std::string& name, std::vector<std::string> mentions, torch::Tensor lengths) {
        mentions.push_back("kv_lengths:");
        table.add("kv_lengths_" + name, std::move(mentions),
                  [&](BadCall& call) { call.operands.kv_lengths = lengths; });
    };
    add_lengths("undefined", {"undefined"}, {});
    add_lengths("of_another_batch", {"[3]", "[2]"}, table.tensor({3}, torch::kInt64));
    add_lengths("float", {"Float"}, table.tensor({kBatch}, torch::kFloat32));
    add_lengths("negative", {"-1"}, table.tensor({kBatch}, torch::kInt64).neg());
    add_lengths("too_long", {"8", "7"}, table.tensor({kBatch}, torch::kInt64).mul(kKeys + 1));
}

/// Rotary embeddings that do not belong to the tensors.
void add_eight_bits(BadCallTable& table) {
    const torch::Tensor right = table.tensor({kKeys, kHeadDim / 2}, torch::kFloat32);
    const auto add = [&](const std::string& name, std::vector<std::string> mentions, const auto& change) {
        table.add("rotary_" + name, std::move(mentions), [&](BadCall& call) {
            call.operands.cosines = call.operands.sines = right;
            call.problem.eight_bits.first_query = 0;
            change(call);
        });
    };
    const auto add_table = [&](const std::string& name, std::vector<std::string> mentions, const torch::Tensor& bad) {
        add("cosines_" + name, mentions, [&](BadCall& call) { call.operands.cosines = bad; });
        add("sines_" + name, mentions, [&](BadCall& call) { call.operands.sines = bad; });
    };
    add_table("undefined", {"undefined", "positions"}, {});
    add_table("of_rank_1", {"[8]", "positions"}, table.tensor({kHeadDim / 2}, torch::kFloat32));
    add_table("of_too_few_positions", {"[6, 8]", "7 positions"},
              table.tensor({kKeys - 1, kHeadDim / 2}, torch::kFloat32));
    add_table("of_another_width", {"[7, 4]", "8 angles"}, table.tensor({kKeys, kHeadDim / 4}, torch::kFloat32));
    add_table("in_float64", {"Double", "float32"}, right.to(torch::kFloat64));
    add_table("transposed", {"contiguous"}, table.tensor({kHeadDim / 2, kKeys}, torch::kFloat32).t());
    add("before_the_first_position", {"first_query", "-1"},
        [](BadCall& call) { call.problem.eight_bits.first_query = -1; });
    add("from_too_far", {"[7, 8]", "8 positions"},
        [](BadCall& call) { call.problem.eight_bits.first_query = kKeys - kQueries + 1; });
    add("of_odd_columns", {"15 columns", "even"}, [](BadCall& call) {
        for (torch::Tensor* t : {&call.operands.q, &call.operands.k, &call.operands.v})
            *t = t->narrow(3, 0, kHeadDim - 1);
    });
}

/// Tensors beside q that do not belong to it.
void add_backward(BadCallTable& table) {
    const auto add = [&](const std::string& name, std::vector<std::string> mentions, torch::Tensor Operands::*operand,
                         const torch::Tensor& tensor) {
        table.add(name, std::move(mentions), [&](BadCall& call) { call.operands.*operand = tensor; });
    };
    add("dout_of_another_length", {"dout:", "[2, 2, 2, 16]"}, &Operands::dout,
        table.tensor({kBatch, kHeads, kQueries - 1, kHeadDim}));
    add("out_of_another_width", {"out:", "[2, 2, 3, 8]"}, &Operands::out,
        table.tensor({kBatch, kHeads, kQueries, kHeadDim / 2}));
    add("lse_in_float64", {"lse:", "Double"}, &Operands::lse,
        table.tensor({kBatch, kHeads, kQueries}, torch::kFloat64));
    add("dlse_of_rank_2", {"dlse:", "rank 2"}, &Operands::dlse, table.tensor({kBatch, kHeads}, torch::kFloat32));
}

}  // namespace

std::vector<BadCall> bad_calls(const Entry& entry, torch::Device device) {
    BadCallTable table(device, entry.dtypes.front());
    if (entry.form == Form::softmax) {
        add_softmax(table);
        return table.take();
    }
    for (auto& bad : reference::bad_inputs(device, entry.dtypes.front()))
        table.add(bad.name, bad.mentions, [&](BadCall& call) {
            call.operands = {.q = bad.q, .k = bad.k, .v = bad.v, .out = bad.q, .lse = bad.q, .dout = bad.q};
            call.problem.attention.options = bad.options;
            call.problem.attention.options.mask = entry.masks.front();
        });
    if (std::ranges::find(entry.dtypes, torch::kFloat32) == entry.dtypes.end())
        table.add("float32", {"q", "Float", "float16"}, [&](BadCall& call) {
            for (torch::Tensor* t :
                 {&call.operands.q, &call.operands.k, &call.operands.v, &call.operands.out, &call.operands.dout})
                if (t->defined()) *t = t->to(torch::kFloat32);
        });
    add_masks(table, entry.masks);
    if (entry.form == Form::blocked) add_blocks(table);
    if (entry.form == Form::decode) add_decoding(table);
    if (entry.form == Form::eight_bits) add_eight_bits(table);
    if (entry.form == Form::backward) add_backward(table);
    return table.take();
}

}  // namespace ladder::fuzz
