#include "common/attention/rungs.h"

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <vector>

#include "common/attention/check.h"

namespace ladder {
namespace {

/// The registered ones, best first. (A function's own, so that it is there before whoever registers.)
template <class Rung>
std::vector<Rung>& all() {
    static std::vector<Rung> rungs;
    return rungs;
}

template <class Rung>
void add(const Rung& rung) {
    std::vector<Rung>& rungs = all<Rung>();
    rungs.insert(std::ranges::upper_bound(rungs, rung.rank, std::ranges::greater(), &Rung::rank), rung);
}

/// An entry's own check begins with its name: "NAME: q is …". A line about it has that already.
std::string without_name(std::string_view name, std::string_view objection) {
    if (!objection.starts_with(name)) return std::string(objection);
    const std::string_view rest = objection.substr(name.size());
    return rest.starts_with(": ") ? std::string(rest.substr(2)) : "it" + std::string(rest);
}

/// The first that does not object; null where all do. `passed_over` gets a line from each that does.
template <class Rung>
const Rung* first_willing(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                          const AttentionOptions& options, std::string& passed_over) {
    for (const Rung& rung : all<Rung>()) {
        const std::string objection = rung.objection(q, k, v, options);
        if (objection.empty()) return &rung;
        passed_over.append("\n  not ").append(rung.name).append(": ").append(without_name(rung.name, objection));
    }
    return nullptr;
}

template <class Rung>
const Rung& chosen(const char* what, const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                   const AttentionOptions& options, std::string& passed_over) {
    if (const Rung* rung = first_willing<Rung>(q, k, v, options, passed_over)) return *rung;
    throw std::runtime_error(std::string("attention: no ") + what + " rung of this program takes the problem" +
                             (passed_over.empty() ? "; it was built without any" : ":" + passed_over));
}

constexpr std::initializer_list<Mask> kMasks = {Mask::none, Mask::causal_bottom_right, Mask::causal_top_left};

}  // namespace

RegisterRung::RegisterRung(const ForwardRung& rung) { add(rung); }
RegisterRung::RegisterRung(const BackwardRung& rung) { add(rung); }

const ForwardRung& forward_rung(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                const AttentionOptions& options) {
    std::string passed_over;
    return chosen<ForwardRung>("forward", q, k, v, options, passed_over);
}

const BackwardRung& backward_rung(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                  const AttentionOptions& options) {
    std::string passed_over;
    return chosen<BackwardRung>("backward", q, k, v, options, passed_over);
}

AttentionChoice attention_choice(const torch::Tensor& q, const torch::Tensor& k, const torch::Tensor& v,
                                 const AttentionOptions& options) {
    check_attention(q, k, v, options, kMasks);
    std::string passed_over;
    const ForwardRung& forward = chosen<ForwardRung>("forward", q, k, v, options, passed_over);
    AttentionChoice choice{.forward = std::string(forward.name), .backward = "", .why = ""};
    choice.why.append("forward ").append(forward.name).append(": ").append(forward.reason).append(passed_over);
    passed_over.clear();
    if (const BackwardRung* backward = first_willing<BackwardRung>(q, k, v, options, passed_over)) {
        choice.backward = backward->name;
        choice.why.append("\nbackward ")
            .append(backward->name)
            .append(": ")
            .append(backward->reason)
            .append(passed_over);
    }
    return choice;
}

}  // namespace ladder
