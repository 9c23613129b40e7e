#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/attention/arguments.h"
#include "common/classroom/runner/guarded_memory.h"
#include "common/classroom/runner/shuffled_numbers.h"

namespace ladder::classroom {

/// What an exercise is asked to do, as its entry (PHASE/exercises/ENTRY_entry.cpp) sees it: tensors and
/// numbers by name.
///
/// Tensors are reached through views in kernels, and in no other way: at the addresses that arguments hold nothing can
/// be read or written. So the machine sees every access, and counts it under the name that the tensor has here. Inputs
/// cannot be written. Outputs hold NaN until a kernel writes them.
class Problem {
  public:
    /// One tensor, row by row without gaps.
    struct Tensor {
        std::string name;                                 ///< under which entries ask for it, and traffic is counted
        simt::ElementType type = simt::ElementType::f32;  ///< of every element
        std::vector<std::int64_t> extents;                ///< one to four
        GuardedMemory memory = {};                        ///< of bytes() bytes
        std::shared_ptr<ClosedAddresses> named = {};      ///< what arguments and views hold in its place
        std::shared_ptr<void> unwritten = {};             ///< the machine's note that kernels are to write this memory

        /// Of one element, and of all.
        std::size_t element_bytes() const;
        std::size_t bytes() const;

        /// As a launch function takes it; valid as long as this object is.
        simt::TensorArgument argument() const;
    };

    /// Fills in the problem; the runner does this.
    void add_number(std::string name, double value);
    void add_input(std::string name, simt::ElementType type, std::vector<std::int64_t> extents, const void* data);
    void add_output(std::string name, simt::ElementType type, std::vector<std::int64_t> extents);

    /// The tensor of that name. Throws std::logic_error for one that the problem does not have.
    simt::TensorArgument tensor(std::string_view name) const;

    /// The number of that name. Throws std::logic_error for one that the problem does not have.
    double number(std::string_view name) const;

    /// Memory that only kernels use, between two launches of one run.
    simt::TensorArgument workspace(std::string name, simt::ElementType type, std::vector<std::int64_t> extents);

    /// Q, K, V, O, LSE, `scale` and `mask`: what most entries need.
    AttentionArguments attention() const;

    /// A number that the learner's code worked out, for the judge.
    void answer(std::string name, double value);

    /// What kernels were to write, and what was answered, each in order.
    const std::deque<Tensor>& outputs() const { return outputs_; }
    const std::vector<std::pair<std::string, double>>& answers() const { return answers_; }

  private:
    std::deque<Tensor> inputs_, outputs_, workspaces_;  // whose names outlive every launch
    std::vector<std::pair<std::string, double>> numbers_, answers_;
};

/// Hands the problem to the learner's code. Each exercise's entry defines it.
void run(Problem& problem);

}  // namespace ladder::classroom
