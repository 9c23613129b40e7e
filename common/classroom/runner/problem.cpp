#include "common/classroom/runner/problem.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "common/simt/memory/global_memory.h"
#include "common/simt/memory/tensor_names.h"

namespace ladder::classroom {
namespace {

/// A NaN in each of the three element types, with a pattern that no arithmetic yields.
constexpr unsigned char kPoison = 0xff;

}  // namespace

std::size_t Problem::Tensor::element_bytes() const { return simt::element_bytes(type); }

std::size_t Problem::Tensor::bytes() const {
    std::size_t bytes = element_bytes();
    for (const std::int64_t extent : extents) bytes *= std::size_t(extent);
    return bytes;
}

simt::TensorArgument Problem::Tensor::argument() const {
    simt::TensorArgument argument{
        .name = name.c_str(), .data = named->data(), .type = type, .rank = int(extents.size())};
    std::int64_t stride = 1;
    for (std::size_t n = extents.size(); n-- > 0; stride *= extents[n]) {
        argument.extents[n] = extents[n];
        argument.strides[n] = stride;
    }
    return argument;
}

namespace {

Problem::Tensor make_tensor(std::string name, simt::ElementType type, std::vector<std::int64_t> extents) {
    if (extents.empty() || extents.size() > 4)
        throw std::logic_error(name + " has " + std::to_string(extents.size()) + " dimensions; 1 to 4 are known");
    Problem::Tensor tensor{.name = std::move(name), .type = type, .extents = std::move(extents)};
    tensor.memory = GuardedMemory(tensor.bytes());
    tensor.named = std::make_shared<ClosedAddresses>(tensor.memory, tensor.bytes());
    return tensor;
}

/// Lets views of the tensor find its memory: those under its own name. The tensor must stay where it is.
void open_to_views(const Problem::Tensor& tensor) {
    std::ptrdiff_t& beyond = simt::beyond_views[std::size_t(simt::tensor_id(tensor.name.c_str()))];
    if (beyond != 0) throw std::logic_error("two tensors are called " + tensor.name);
    beyond = std::ptrdiff_t(reinterpret_cast<std::uintptr_t>(tensor.memory.data()) -
                            reinterpret_cast<std::uintptr_t>(tensor.named->data()));
}

Problem::Tensor to_be_written(std::string name, simt::ElementType type, std::vector<std::int64_t> extents) {
    Problem::Tensor tensor = make_tensor(std::move(name), type, std::move(extents));
    std::memset(tensor.memory.data(), kPoison, tensor.bytes());
    tensor.unwritten = simt::expect_kernels_to_write(tensor.named->data(), tensor.bytes(), tensor.element_bytes());
    return tensor;
}

}  // namespace

void Problem::add_number(std::string name, double value) { numbers_.emplace_back(std::move(name), value); }

void Problem::add_input(std::string name, simt::ElementType type, std::vector<std::int64_t> extents, const void* data) {
    Tensor& tensor = inputs_.emplace_back(make_tensor(std::move(name), type, std::move(extents)));
    std::memcpy(tensor.memory.data(), data, tensor.bytes());
    tensor.memory.make_read_only();
    open_to_views(tensor);
}

void Problem::add_output(std::string name, simt::ElementType type, std::vector<std::int64_t> extents) {
    outputs_.push_back(to_be_written(std::move(name), type, std::move(extents)));
    open_to_views(outputs_.back());
}

simt::TensorArgument Problem::tensor(std::string_view name) const {
    for (const std::deque<Tensor>* tensors : {&inputs_, &outputs_})
        for (const Tensor& tensor : *tensors)
            if (tensor.name == name) return tensor.argument();
    throw std::logic_error("the problem has no tensor " + std::string(name));
}

double Problem::number(std::string_view name) const {
    const auto found = std::ranges::find(numbers_, name, &std::pair<std::string, double>::first);
    if (found == numbers_.end()) throw std::logic_error("the problem has no number " + std::string(name));
    return found->second;
}

simt::TensorArgument Problem::workspace(std::string name, simt::ElementType type, std::vector<std::int64_t> extents) {
    open_to_views(workspaces_.emplace_back(to_be_written(std::move(name), type, std::move(extents))));
    return workspaces_.back().argument();
}

AttentionArguments Problem::attention() const {
    return {.q = tensor("Q"),
            .k = tensor("K"),
            .v = tensor("V"),
            .out = tensor("O"),
            .lse = tensor("LSE"),
            .scale = float(number("scale")),
            .mask = Mask(int(number("mask")))};
}

void Problem::answer(std::string name, double value) { answers_.emplace_back(std::move(name), value); }

}  // namespace ladder::classroom
