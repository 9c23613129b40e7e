#include "common/classroom/judge/tensors.h"

#include <cstring>
#include <limits>
#include <stdexcept>

namespace ladder::classroom {
namespace {

using nlohmann::json;

const char* name_of(torch::ScalarType dtype) {
    switch (dtype) {
        case torch::kFloat32:
            return "f32";
        case torch::kFloat16:
            return "f16";
        case torch::kBFloat16:
            return "bf16";
        case torch::kInt32:
            return "i32";
        default:
            throw std::invalid_argument("a runner takes float32, float16, bfloat16 and int32");
    }
}

torch::ScalarType dtype_of_output(const std::string& name) {
    return name == "f16" ? torch::kFloat16 : name == "bf16" ? torch::kBFloat16 : torch::kFloat32;
}

json described(const std::string& name, torch::IntArrayRef sizes, torch::ScalarType dtype) {
    return {{"name", name}, {"type", name_of(dtype)}, {"extents", sizes.vec()}};
}

}  // namespace

Message empty_problem(const std::string& device) {
    return {
        .words = {
            {"device", device}, {"numbers", json::object()}, {"inputs", json::array()}, {"outputs", json::array()}}};
}

void add_number(Message& problem, const std::string& name, double value) { problem.words["numbers"][name] = value; }

void add_input(Message& problem, const std::string& name, const torch::Tensor& tensor) {
    const torch::Tensor rows = tensor.contiguous();
    problem.words["inputs"].push_back(described(name, rows.sizes(), rows.scalar_type()));
    const auto* data = static_cast<const std::byte*>(rows.data_ptr());
    problem.blobs.emplace_back(data, data + rows.nbytes());
}

void add_output(Message& problem, const std::string& name, torch::IntArrayRef sizes, torch::ScalarType dtype) {
    problem.words["outputs"].push_back(described(name, sizes, dtype));
}

torch::Tensor empty_output(const Message& problem, std::size_t n) {
    const json& wanted = problem.words.at("outputs").at(n);
    return at::full(wanted.at("extents").get<std::vector<int64_t>>(), std::numeric_limits<double>::quiet_NaN(),
                    torch::TensorOptions(dtype_of_output(wanted.at("type"))));
}

torch::Tensor output_of(const Message& problem, const Message& reply, std::size_t n) {
    const torch::Tensor tensor = empty_output(problem, n);
    if (n >= reply.blobs.size() || reply.blobs[n].size() != tensor.nbytes())
        throw std::runtime_error("the reply lacks " + problem.words.at("outputs").at(n).at("name").get<std::string>());
    std::memcpy(tensor.data_ptr(), reply.blobs[n].data(), tensor.nbytes());
    return tensor;
}

}  // namespace ladder::classroom
