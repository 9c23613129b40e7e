// What allocate() hands out counts as unwritten until a kernel writes it, and results must be complete: forward() sees
// to it.

#include <gtest/gtest.h>

#include <set>

#include "common/attention/forward.h"
#include "common/attention/machine.h"
#include "common/attention/outputs.h"
#include "common/simt/report/leniency.h"
#include "tests/simt/testing.h"

namespace ladder {
namespace {

using simt::testing::fault_of;
using simt::testing::run;

torch::Tensor fresh(std::vector<int64_t> sizes, torch::ScalarType dtype = torch::kFloat32) {
    return allocate(sizes, torch::TensorOptions().dtype(dtype));
}

simt::GlobalTensor<float, 1> elements_of(const torch::Tensor& tensor) {
    return simt::global_tensor<float, 1>(tensor_argument("O", tensor.view({-1})));
}

/// Has a kernel write the elements whose indices `wanted` wants.
template <class Wanted>
torch::Tensor written_where(std::vector<int64_t> sizes, Wanted wanted) {
    const torch::Tensor tensor = fresh(sizes);
    const auto view = elements_of(tensor);
    run({.block = 1}, [=] {
        for (int64_t i = 0; i < view.extent(0); ++i)
            if (wanted(i)) view(i) = 1.0f;
    });
    return tensor;
}

std::string complaint(const torch::Tensor& tensor) {
    try {
        check_written("some_entry", "O", tensor);
    } catch (const simt::MachineError& error) {
        EXPECT_EQ(error.report().fault, simt::Fault::partial_write);
        EXPECT_EQ(error.report().kernel, "some_entry");
        const std::string message = error.what();
        EXPECT_TRUE(message.starts_with("result written in part in some_entry\n  ")) << message;
        EXPECT_NE(message.find("needs a thread that writes it"), std::string::npos) << message;
        return error.report().what;
    }
    return "";
}

TEST(CheckWritten, CompleteResults) {
    EXPECT_EQ(complaint(written_where({2, 3, 5, 7}, [](int64_t) { return true; })), "");
    EXPECT_EQ(complaint(torch::empty({2, 3})), "") << "memory that did not come from allocate() is nobody's business";
}

TEST(CheckWritten, SaysWhatIsMissingAndWhere) {
    const auto missing = [](std::vector<int64_t> sizes, auto is_missing) {
        return complaint(written_where(sizes, [=](int64_t i) { return !is_missing(i); }));
    };
    const std::string were_never = " elements of O were never written by a kernel, ";
    EXPECT_EQ(missing({2, 3, 5, 7}, [](int64_t) { return true; }),
              "210 of 210" + were_never + "from O(0, 0, 0, 0) to O(1, 2, 4, 6): no kernel wrote anything there");
    EXPECT_EQ(missing({2, 3, 5, 7}, [](int64_t i) { return i == 107; }),
              "1 of 210" + were_never + "from O(1, 0, 0, 2) to O(1, 0, 0, 2)");
    EXPECT_EQ(missing({2, 3, 5, 7}, [](int64_t i) { return i % 7 >= 5; }),
              "60 of 210" + were_never +
                  "from O(0, 0, 0, 5) to O(1, 2, 4, 6): all with index 5 to 6 in dimension 3, whose extent is 7 (whole "
                  "columns)");
    EXPECT_EQ(
        missing({2, 3, 5, 7}, [](int64_t i) { return i / 7 % 5 == 4; }),
        "42 of 210" + were_never +
            "from O(0, 0, 4, 0) to O(1, 2, 4, 6): all with index 4 in dimension 2, whose extent is 5 (whole rows)");
    EXPECT_EQ(missing({2, 3, 5, 7}, [](int64_t i) { return i / 35 % 3 != 1; }),
              "140 of 210" + were_never +
                  "from O(0, 0, 0, 0) to O(1, 2, 4, 6): all with index 0, 2 in dimension 1, whose extent is 3");
    EXPECT_EQ(missing({4, 16}, [](int64_t i) { return i % 2 == 1; }),
              "32 of 64" + were_never +
                  "from O(0, 1) to O(3, 15): all with index 1, 3, 5, 7, … in dimension 1, whose extent is 16 (whole "
                  "columns)");
    EXPECT_EQ(missing({2, 5, 7}, [](int64_t i) { return i / 7 == 2 || i / 7 == 8; }),
              "14 of 70" + were_never + "from O(0, 2, 0) to O(1, 3, 6): 2 whole rows of 10");
    EXPECT_EQ(missing({4, 16}, [](int64_t i) { return i >= 40; }),
              "24 of 64" + were_never + "from O(2, 8) to O(3, 15): the tail, from the first of them on");
    EXPECT_EQ(
        missing({64}, [](int64_t i) { return i >= 40; }),
        "24 of 64" + were_never + "from O(40) to O(63): all with index 40 to 63 in dimension 0, whose extent is 64");
    EXPECT_EQ(missing({4, 16}, [](int64_t i) { return i == 3 || i == 20; }),
              "2 of 64" + were_never + "from O(0, 3) to O(1, 4)");
}

TEST(CheckWritten, BothPartsOfAResult) {
    const auto all = [](int64_t) { return true; };
    const auto check = [](const torch::Tensor& out, const torch::Tensor& lse) {
        check_written("some_entry", AttentionResult{.out = out, .lse = lse});
    };
    const torch::Tensor out = written_where({1, 1, 4, 8}, all), lse = written_where({1, 1, 4}, all);
    EXPECT_NO_THROW(check(out, lse));
    EXPECT_THROW(check(fresh({1, 1, 4, 8}), lse), simt::MachineError);
    EXPECT_THROW(check(out, fresh({1, 1, 4})), simt::MachineError);
}

TEST(Allocate, IsUnwrittenUntilAKernelWritesIt) {
    const torch::Tensor tensor = fresh({4, 8});
    const auto view = elements_of(tensor);
    const auto read = [=] {
        for (int i = 0; i < 32; ++i) [[maybe_unused]] const float x = view(i);
    };
    EXPECT_EQ(fault_of({.block = 1}, read)->report().fault, simt::Fault::unwritten_read);
    EXPECT_FALSE(fault_of({.block = 32}, [=] { view(threadIdx.x) = 1.0f; }));
    EXPECT_FALSE(fault_of({.block = 1}, read));
    EXPECT_TRUE(tensor.eq(1).all().item<bool>());
}

TEST(Allocate, PoisonIsNotAValue) {
    const PoisonOutputs poison;
    const torch::Tensor tensor = fresh({4, 8});
    EXPECT_TRUE(tensor.isnan().all().item<bool>());
    const auto view = elements_of(tensor);
    const auto error = fault_of({.block = 1}, [=] { view(3) += 1.0f; });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, simt::Fault::unwritten_read);
}

TEST(Allocate, GivesOrdinaryTensors) {
    for (const auto dtype : {torch::kFloat32, torch::kFloat16, torch::kBFloat16}) {
        const torch::Tensor tensor = fresh({2, 3, 5}, dtype);
        EXPECT_EQ(tensor.sizes(), (std::vector<int64_t>{2, 3, 5}));
        EXPECT_EQ(tensor.scalar_type(), dtype);
        EXPECT_TRUE(tensor.is_contiguous() && tensor.is_cpu());
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 16, 0u);
        EXPECT_FALSE(tensor.requires_grad());
    }
}

// PyTorch gives the same memory out again and again; what it holds next is not ours.
TEST(Allocate, MemoryThatServesSomethingElse) {
    int same_memory = 0;
    for (int repetition = 0; repetition < 20; ++repetition) {
        std::set<void*> ours;
        {
            std::vector<torch::Tensor> tensors;
            for (int i = 0; i < 16; ++i) tensors.push_back(fresh({64}));
            for (const torch::Tensor& tensor : tensors) ours.insert(tensor.data_ptr());
        }
        std::vector<torch::Tensor> theirs;
        for (int i = 0; i < 32; ++i) {
            theirs.push_back(torch::full({64}, 2.0f));
            same_memory += int(ours.count(theirs.back().data_ptr()));
            const auto view = elements_of(theirs.back());
            const auto error = fault_of({.grid = 2}, [=] { EXPECT_EQ(float(view(threadIdx.x)), 2.0f); });
            ASSERT_FALSE(error) << error->what();
        }
    }
    EXPECT_GT(same_memory, 10) << "the allocator no longer gives memory out again: this test shows nothing";
}

// What a GPU would let pass: garbage, here NaN.
TEST(Allocate, LenientMachine) {
    const simt::ScopedLeniency lenient;
    const torch::Tensor tensor = fresh({4, 8});
    const auto view = elements_of(tensor);
    EXPECT_FALSE(fault_of({.grid = 2, .block = 1}, [=] {
        view(3) += 1.0f;
        view(4) = 5.0f;
    }));
    EXPECT_TRUE(tensor.view({-1})[3].isnan().item<bool>());
    EXPECT_EQ(tensor.view({-1})[4].item<float>(), 5.0f);
    EXPECT_EQ(complaint(tensor), "");
}

// A slice keeps the whole storage alive, and with it what the machine knows.
TEST(Allocate, LivesAsLongAsItsStorage) {
    torch::Tensor part;
    {
        const torch::Tensor whole = fresh({4, 8});
        part = whole[2];
    }
    const auto view = elements_of(part);
    const auto error = fault_of({.block = 1}, [=] { view(3) += 1.0f; });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->report().fault, simt::Fault::unwritten_read);
}

// The one way from tensors to a kernel.

struct WithWorkspace : AttentionArguments {
    simt::TensorArgument workspace;
};

void fill(const simt::TensorArgument& tensor) {
    const auto view = simt::global_tensor<float, 4>(tensor);
    run({.block = 1}, [=] {
        for (int64_t b = 0; b < view.extent(0); ++b)
            for (int64_t h = 0; h < view.extent(1); ++h)
                for (int64_t s = 0; s < view.extent(2); ++s)
                    for (int64_t d = 0; d < view.extent(3); ++d) view(b, h, s, d) = 1.0f;
    });
}

void fill_lse(const simt::TensorArgument& lse) {
    simt::TensorArgument columns = lse;
    columns.rank = 4;
    columns.extents[3] = columns.strides[3] = 1;
    fill(columns);
}

torch::Tensor some_query() { return torch::ones({2, 3, 5, 4}); }

WithWorkspace some_problem(const torch::Tensor& q) { return {checked_arguments(q, q, q, {}), {}}; }

TEST(Forward, ShowsTheKernelItsResultsAndItsWorkspace) {
    const ForwardKernel<WithWorkspace> kernel{.name = "some_forward",
                                              .on_cpu =
                                                  [](const WithWorkspace& a) {
                                                      EXPECT_EQ(a.workspace.rank, 1);
                                                      fill(a.out);
                                                      fill_lse(a.lse);
                                                  },
                                              .on_cuda = nullptr,
                                              .bytes = nullptr};
    const torch::Tensor q = some_query();
    const AttentionResult result =
        forward(kernel, q, some_problem(q), [](const AttentionResult& shown, WithWorkspace& arguments) {
            EXPECT_EQ(arguments.out.data, shown.out.data_ptr());
            EXPECT_EQ(arguments.lse.data, shown.lse.data_ptr());
            const torch::Tensor workspace = fresh({7});
            arguments.workspace = tensor_argument("workspace", workspace);
            return workspace;
        });
    EXPECT_TRUE(result.out.equal(torch::ones({2, 3, 5, 4})));
    EXPECT_TRUE(result.lse.equal(torch::ones({2, 3, 5})));
    EXPECT_FALSE(result.out.is_same(q));
}

TEST(Forward, RefusesBeforeAnythingElse) {
    const ForwardKernel<WithWorkspace> kernel{
        .name = "some_forward",
        .on_cpu = [](const WithWorkspace&) { ADD_FAILURE() << "launched"; },
        .on_cuda = nullptr,
        .bytes = nullptr,
        .shared_bytes = [](const WithWorkspace& a) { return std::size_t(a.head_dim()); },
        .check = [](const std::string& name, const torch::Tensor&,
                    std::size_t bytes) { throw std::invalid_argument(name + " " + std::to_string(bytes)); }};
    const torch::Tensor q = some_query();
    try {
        forward(kernel, q, some_problem(q), [](const AttentionResult&, WithWorkspace&) {
            ADD_FAILURE() << "allocated";
            return 0;
        });
        ADD_FAILURE() << "accepted";
    } catch (const std::invalid_argument& refusal) {
        EXPECT_STREQ(refusal.what(), "some_forward 4");
    }
}

TEST(Forward, ReportsAResultWithHoles) {
    const ForwardKernel<WithWorkspace> kernel{.name = "some_forward",
                                              .on_cpu = [](const WithWorkspace& a) { fill(a.out); },
                                              .on_cuda = nullptr,
                                              .bytes = nullptr};
    const torch::Tensor q = some_query();
    try {
        forward(kernel, q, some_problem(q));
        ADD_FAILURE() << "accepted";
    } catch (const simt::MachineError& error) {
        EXPECT_EQ(error.report().fault, simt::Fault::partial_write);
        EXPECT_EQ(error.report().kernel, "some_forward");
        EXPECT_NE(error.report().what.find("30 of 30 elements of LSE"), std::string::npos) << error.report().what;
    }
}

}  // namespace
}  // namespace ladder
