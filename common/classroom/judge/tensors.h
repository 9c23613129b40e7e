#pragma once

#include <string>

#include "common/classroom/wire.h"
#include "common/torch/torch.h"

namespace ladder::classroom {

/// A problem for a runner: the device that it imitates, and nothing else yet.
Message empty_problem(const std::string& device);

/// Adds a number, an input (float32, float16, bfloat16 or int32, copied) or an output to it.
void add_number(Message& problem, const std::string& name, double value);
void add_input(Message& problem, const std::string& name, const torch::Tensor& tensor);
void add_output(Message& problem, const std::string& name, torch::IntArrayRef sizes, torch::ScalarType dtype);

/// The n-th output that a problem asks for, holding nothing but NaN.
torch::Tensor empty_output(const Message& problem, std::size_t n);

/// The n-th output of a reply, as the problem asked for it. Throws std::runtime_error if it is not there, or has
/// another size.
torch::Tensor output_of(const Message& problem, const Message& reply, std::size_t n);

}  // namespace ladder::classroom
