#include "common/reference/bad_inputs.h"

#include <limits>
#include <ostream>

namespace ladder::reference {
namespace {

constexpr int64_t kBatch = 2, kQueryHeads = 4, kKvHeads = 2, kQueries = 5, kKeys = 7, kHeadDim = 32;

/// Changes one thing about a call that would be accepted, and keeps it under a name.
class BadInputTable {
  public:
    BadInputTable(torch::Device device, torch::ScalarType dtype) : device_(device), dtype_(dtype) {}

    torch::ScalarType dtype() const { return dtype_; }
    torch::Tensor tensor(at::IntArrayRef sizes) const {
        return at::ones(sizes, at::TensorOptions().dtype(dtype_).device(device_));
    }

    BadInput good() const {
        return {.name = {},
                .q = tensor({kBatch, kQueryHeads, kQueries, kHeadDim}),
                .k = tensor({kBatch, kKvHeads, kKeys, kHeadDim}),
                .v = tensor({kBatch, kKvHeads, kKeys, kHeadDim}),
                .options = {},
                .mentions = {}};
    }

    template <class Change>
    void add(std::string name, std::vector<std::string> mentions, Change change) {
        auto input = good();
        change(input);
        input.name = std::move(name);
        input.mentions = std::move(mentions);
        inputs_.push_back(std::move(input));
    }

    std::vector<BadInput> take() { return std::move(inputs_); }

  private:
    torch::Device device_;
    torch::ScalarType dtype_;
    std::vector<BadInput> inputs_;
};

void convert(BadInput& input, torch::ScalarType dtype) {
    for (auto* tensor : {&input.q, &input.k, &input.v}) *tensor = tensor->to(dtype);
}

/// The same sizes with the last two dimensions swapped in memory: the last dimension gets stride S.
torch::Tensor with_strided_last_dimension(const torch::Tensor& tensor) {
    return tensor.transpose(2, 3).contiguous().transpose(2, 3);
}

void add_undefined(BadInputTable& table) {
    table.add("q_undefined", {"q:"}, [](BadInput& input) { input.q = torch::Tensor(); });
    table.add("k_undefined", {"k:"}, [](BadInput& input) { input.k = torch::Tensor(); });
    table.add("v_undefined", {"v:"}, [](BadInput& input) { input.v = torch::Tensor(); });
}

void add_dtypes(BadInputTable& table) {
    table.add("all_float64", {"q:"}, [](BadInput& input) { convert(input, torch::kFloat64); });
    table.add("all_int32", {"q:"}, [](BadInput& input) { convert(input, torch::kInt32); });
    const auto another = table.dtype() == torch::kFloat16 ? torch::kBFloat16 : torch::kFloat16;
    table.add("k_of_another_dtype", {"k:"}, [&](BadInput& input) { input.k = input.k.to(another); });
    table.add("v_of_another_dtype", {"v:"}, [&](BadInput& input) { input.v = input.v.to(another); });
    table.add("v_bfloat16_q_float16", {"v:"}, [](BadInput& input) {
        convert(input, torch::kFloat16);
        input.v = input.v.to(torch::kBFloat16);
    });
}

void add_ranks(BadInputTable& table) {
    table.add("q_rank_3", {"q:", "3"}, [](BadInput& input) { input.q = input.q[0]; });
    table.add("k_rank_5", {"k:", "5"}, [](BadInput& input) { input.k = input.k.unsqueeze(0); });
    table.add("v_rank_3", {"v:", "3"}, [](BadInput& input) { input.v = input.v[0]; });
}

void add_empty(BadInputTable& table) {
    const auto none = [](BadInput& input, int64_t dimension) {
        for (auto* tensor : {&input.q, &input.k, &input.v}) *tensor = tensor->narrow(dimension, 0, 0);
    };
    table.add("batch_0", {"q:", "0"}, [&](BadInput& input) { none(input, 0); });
    table.add("query_heads_0", {"q:", "0"}, [](BadInput& input) { input.q = input.q.narrow(1, 0, 0); });
    table.add("kv_heads_0", {"k:", "0"}, [](BadInput& input) {
        input.k = input.k.narrow(1, 0, 0);
        input.v = input.v.narrow(1, 0, 0);
    });
    table.add("query_length_0", {"q:", "0"}, [](BadInput& input) { input.q = input.q.narrow(2, 0, 0); });
    table.add("key_length_0", {"k:", "0"}, [](BadInput& input) {
        input.k = input.k.narrow(2, 0, 0);
        input.v = input.v.narrow(2, 0, 0);
    });
    table.add("head_dim_0", {"q:", "0"}, [&](BadInput& input) {
        for (auto* tensor : {&input.q, &input.k, &input.v}) {
            *tensor = table.tensor({tensor->size(0), tensor->size(1), tensor->size(2), 0});
        }
    });
}

void add_shapes(BadInputTable& table) {
    table.add("head_dim_257", {"q:", "257"}, [&](BadInput& input) {
        for (auto* tensor : {&input.q, &input.k, &input.v}) {
            *tensor = table.tensor({tensor->size(0), tensor->size(1), tensor->size(2), 257});
        }
    });
    table.add("k_head_dim_differs", {"k:", "24", "32"}, [&](BadInput& input) {
        input.k = table.tensor({kBatch, kKvHeads, kKeys, 24});
    });
    table.add("v_head_dim_differs", {"v:", "24", "32"}, [&](BadInput& input) {
        input.v = table.tensor({kBatch, kKvHeads, kKeys, 24});
    });
    table.add("k_batch_differs", {"k:", "3", "2"}, [&](BadInput& input) {
        input.k = table.tensor({3, kKvHeads, kKeys, kHeadDim});
        input.v = table.tensor({3, kKvHeads, kKeys, kHeadDim});
    });
    table.add("v_batch_differs", {"v:", "3", "2"}, [&](BadInput& input) {
        input.v = table.tensor({3, kKvHeads, kKeys, kHeadDim});
    });
    table.add("v_length_differs", {"v:", "6", "7"}, [&](BadInput& input) {
        input.v = table.tensor({kBatch, kKvHeads, 6, kHeadDim});
    });
    table.add("v_heads_differ", {"v:", "4", "2"}, [&](BadInput& input) {
        input.v = table.tensor({kBatch, 4, kKeys, kHeadDim});
    });
    table.add("query_heads_not_a_multiple", {"q:", "3", "4"}, [&](BadInput& input) {
        input.k = table.tensor({kBatch, 3, kKeys, kHeadDim});
        input.v = table.tensor({kBatch, 3, kKeys, kHeadDim});
    });
    table.add("more_kv_heads_than_query_heads", {"q:", "8", "4"}, [&](BadInput& input) {
        input.k = table.tensor({kBatch, 8, kKeys, kHeadDim});
        input.v = table.tensor({kBatch, 8, kKeys, kHeadDim});
    });
}

void add_strides(BadInputTable& table) {
    table.add("q_last_stride_5", {"q:", "5"}, [](BadInput& input) { input.q = with_strided_last_dimension(input.q); });
    table.add("k_last_stride_7", {"k:", "7"}, [](BadInput& input) { input.k = with_strided_last_dimension(input.k); });
    table.add("v_last_stride_7", {"v:", "7"}, [](BadInput& input) { input.v = with_strided_last_dimension(input.v); });
    table.add("k_last_stride_0", {"k:", "0"},
              [](BadInput& input) { input.k = input.k.narrow(3, 0, 1).expand(input.k.sizes()); });
}

/// Stride 0 makes sizes beyond what a CUDA grid or an int can count without taking any memory.
void add_oversized(BadInputTable& table) {
    const auto grown = [](const torch::Tensor& tensor, int64_t dimension, int64_t size) {
        auto sizes = tensor.sizes().vec();
        sizes[static_cast<size_t>(dimension)] = size;
        return tensor.narrow(dimension, 0, 1).expand(sizes);
    };
    constexpr int64_t kTooManyBlocks = 65536, kTooLong = int64_t{1} << 31;
    table.add("batch_65536", {"q:", "65536"}, [&](BadInput& input) {
        for (auto* tensor : {&input.q, &input.k, &input.v}) *tensor = grown(*tensor, 0, kTooManyBlocks);
    });
    table.add("query_heads_65536", {"q:", "65536"},
              [&](BadInput& input) { input.q = grown(input.q, 1, kTooManyBlocks); });
    table.add("query_length_2147483648", {"q:", "2147483648"},
              [&](BadInput& input) { input.q = grown(input.q, 2, kTooLong); });
    table.add("key_length_2147483648", {"k:", "2147483648"}, [&](BadInput& input) {
        input.k = grown(input.k, 2, kTooLong);
        input.v = grown(input.v, 2, kTooLong);
    });
}

void add_sparse(BadInputTable& table) {
    table.add("q_sparse", {"q:"}, [](BadInput& input) { input.q = input.q.to_sparse(); });
    table.add("v_sparse", {"v:"}, [](BadInput& input) { input.v = input.v.to_sparse(); });
}

void add_scales(BadInputTable& table) {
    table.add("scale_nan", {"scale:"},
              [](BadInput& input) { input.options.scale = std::numeric_limits<double>::quiet_NaN(); });
    table.add("scale_infinity", {"scale:"},
              [](BadInput& input) { input.options.scale = std::numeric_limits<double>::infinity(); });
    table.add("scale_minus_infinity", {"scale:"},
              [](BadInput& input) { input.options.scale = -std::numeric_limits<double>::infinity(); });
}

void add_devices(BadInputTable& table, torch::Device device) {
    table.add("all_on_meta", {"q:", "meta"}, [](BadInput& input) {
        for (auto* tensor : {&input.q, &input.k, &input.v}) *tensor = tensor->to(torch::kMeta);
    });
    if (!device.is_cuda()) return;
    table.add("q_on_cpu", {"k:", "cpu", "cuda"}, [](BadInput& input) { input.q = input.q.cpu(); });
    table.add("k_on_cpu", {"k:", "cpu", "cuda"}, [](BadInput& input) { input.k = input.k.cpu(); });
    table.add("v_on_cpu", {"v:", "cpu", "cuda"}, [](BadInput& input) { input.v = input.v.cpu(); });
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const BadInput& input) { return stream << input.name; }

std::vector<BadInput> bad_inputs(torch::Device device, torch::ScalarType dtype) {
    BadInputTable table(device, dtype);
    add_undefined(table);
    add_dtypes(table);
    add_ranks(table);
    add_empty(table);
    add_shapes(table);
    add_strides(table);
    add_oversized(table);
    add_sparse(table);
    add_scales(table);
    add_devices(table, device);
    return table.take();
}

}  // namespace ladder::reference
