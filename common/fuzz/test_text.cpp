#include "common/fuzz/test_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <vector>

#include "common/simt/device/device_profile.h"

namespace ladder::fuzz {
namespace {

using reference::AttentionCase, reference::Family, reference::Layout;

std::string code_of(torch::ScalarType dtype) {
    switch (dtype) {
        case torch::kFloat16:
            return "torch::kFloat16";
        case torch::kBFloat16:
            return "torch::kBFloat16";
        default:
            return "torch::kFloat32";
    }
}

std::string code_of(Mask mask) {
    switch (mask) {
        case Mask::none:
            return "Mask::none";
        case Mask::causal_bottom_right:
            return "Mask::causal_bottom_right";
        case Mask::causal_top_left:
            return "Mask::causal_top_left";
    }
    return fmt::format("static_cast<Mask>({})", int(mask));
}

std::string code_of(Family family) { return "Family::" + std::string(reference::name_of(family)); }
std::string code_of(Layout layout) { return "Layout::" + std::string(reference::name_of(layout)); }

std::string code_of(NonFinite::Value value) {
    switch (value) {
        case NonFinite::Value::nan:
            return "NAN";
        case NonFinite::Value::plus_infinity:
            return "INFINITY";
        case NonFinite::Value::minus_infinity:
            return "-INFINITY";
    }
    return "NAN";
}

/// my_forward -> MyForward; "f32_q1_k65_d1, splits 3" -> F32Q1K65D1Splits3. GoogleTest takes no punctuation in names.
std::string camel_case(const std::string& text) {
    std::string result;
    bool word_begins = true;
    for (const char c : text) {
        const bool in_word = std::isalnum(static_cast<unsigned char>(c));
        if (c == '-') result += "Minus";
        if (in_word) result += word_begins ? char(std::toupper(static_cast<unsigned char>(c))) : c;
        word_begins = !in_word;
    }
    return result;
}

/// Writes the lines of a test, and remembers the headers that they want.
class Writer {
  public:
    template <class... Arguments>
    void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
        lines_ += "    " + fmt::format(format, std::forward<Arguments>(arguments)...) + "\n";
    }
    void include(const std::string& header) { includes_.insert(header); }

    std::string text(const std::string& suite, const std::string& name, const std::string& origin) const {
        std::string text = "#include <gtest/gtest.h>\n\n#include <cmath>\n\n";
        for (const std::string& header : includes_) text += fmt::format("#include \"{}\"\n", header);
        return text + fmt::format(
                          "\nnamespace ladder {{\nnamespace {{\n\nusing namespace reference;\n\n"
                          "// {}\nTEST({}, {}) {{\n{}}}\n\n}}  // namespace\n}}  // namespace ladder\n",
                          origin, suite, name, lines_);
    }

  private:
    std::string lines_;
    std::set<std::string> includes_;
};

/// What the CPU machine imitates: the problem's device, or if the entry needs more the first that has it.
std::string profile_of(const Entry& entry, const Problem& p) {
    if (simt::device_profile(p.profile).features.has_all(entry.needs)) return p.profile;
    for (const simt::DeviceProfile& profile : simt::device_profiles())
        if (profile.features.has_all(entry.needs)) return std::string(profile.name);
    return p.profile;
}

void write_machine(Writer& writer, const Entry& entry, const Problem& p) {
    const std::string profile = profile_of(entry, p);
    if (profile == simt::kDefaultProfile && p.workers == 1 && p.property != Property::repeats_bitwise) return;
    writer.include("common/simt/device/device.h");
    if (profile != simt::kDefaultProfile)
        writer.line("const simt::ScopedCpuDevice device(simt::device_from(simt::device_profile(\"{}\")));", profile);
    if (p.workers != 1) writer.line("const simt::ScopedCpuWorkers workers({});", p.workers);
}

void write_case(Writer& writer, const AttentionCase& c) {
    const AttentionCase plain;
    writer.line("AttentionCase problem;");
    const auto set = [&](const char* field, const auto& value, const auto& otherwise, const std::string& code) {
        if (value != otherwise) writer.line("problem.{} = {};", field, code);
    };
    set("batch", c.batch, plain.batch, std::to_string(c.batch));
    set("query_heads", c.query_heads, plain.query_heads, std::to_string(c.query_heads));
    set("kv_heads", c.kv_heads, plain.kv_heads, std::to_string(c.kv_heads));
    set("query_length", c.query_length, plain.query_length, std::to_string(c.query_length));
    set("key_length", c.key_length, plain.key_length, std::to_string(c.key_length));
    set("head_dim", c.head_dim, plain.head_dim, std::to_string(c.head_dim));
    set("dtype", c.dtype, plain.dtype, code_of(c.dtype));
    set("family", c.family, plain.family, code_of(c.family));
    set("layouts.q", c.layouts.q, plain.layouts.q, code_of(c.layouts.q));
    set("layouts.k", c.layouts.k, plain.layouts.k, code_of(c.layouts.k));
    set("layouts.v", c.layouts.v, plain.layouts.v, code_of(c.layouts.v));
    if (c.options.scale) writer.line("problem.options.scale = {};", *c.options.scale);
    set("options.mask", c.options.mask, plain.options.mask, code_of(c.options.mask));
    set("seed", c.seed, plain.seed, std::to_string(c.seed));
}

/// Ranks that are threads of one process talk through Gloo, which not every libtorch brings.
void write_need_of_ranks(Writer& writer) {
    writer.include("common/distributed/engine.h");
    writer.include("common/reference/test_device.h");
    writer.line("if (not_run_on_gpu(\"several ranks on threads need CPU tensors\") ||");
    writer.line("    not_run_for_want_of(distributed::missing_for(distributed::EngineKind::gloo)))");
    writer.line("    return;");
}

/// The function that a test calls.
std::string callee(const Entry& entry) { return entry.name + (entry.form == Form::shared ? "_on_threads" : ""); }

/// The entry in the form that every check takes: entry(q, k, v, options).
void write_entry(Writer& writer, const Entry& entry, const Problem& p, const std::string& name) {
    writer.include("common/reference/checks.h");
    writer.line("const AttentionEntry {} = [&](const auto& q, const auto& k, const auto& v, const auto& options) {{",
                name);
    std::string call = "q, k, v, options";
    if (entry.form == Form::blocked && p.block_rows) call += fmt::format(", {}", *p.block_rows);
    if (entry.form == Form::decode) {
        call = "q, k, v, {.attention = options";
        if (p.kv_lengths) call += ", .kv_lengths = kv_lengths";
        if (p.splits) call += fmt::format(", .splits = {}", *p.splits);
        call += "}";
    }
    if (entry.form == Form::eight_bits) call += ", how";
    if (entry.form == Form::shared)
        call += fmt::format(", {}{}", p.sharing.ranks, p.sharing.zigzag ? ", Parts::zigzag" : "");
    writer.line("    return {}({});", callee(entry), call);
    writer.line("}};");
}

void write_softmax(Writer& writer, const Entry& entry, const Problem& p) {
    for (const char* header : {"comparison", "inputs", "test_device"})
        writer.include(fmt::format("common/reference/{}.h", header));
    writer.line("const torch::Tensor x = make_scores(problem, test_device());");
    if (const auto& n = p.non_finite) writer.line("x[{}][{}].fill_({});", n->index[2], n->index[3], code_of(n->value));
    writer.line("const torch::Tensor y = {}(x);", entry.name);
    writer.line("const Comparison verdict = compare_softmax(y, x);");
    writer.line("EXPECT_TRUE(verdict.passed) << verdict.report;");
    if (p.property != Property::repeats_bitwise) return;
    writer.include("common/reference/call_memory.h");
    writer.line("const simt::ScopedCpuWorkers other_workers({});", p.workers == 1 ? 2 : 1);
    writer.line("EXPECT_TRUE(same_bits(y, {}(x)));", entry.name);
}

void write_property(Writer& writer, const Entry& entry, const Problem& p) {
    const auto same_as = [&](const std::string& whole_out, const std::string& whole_lse) {
        writer.include("common/reference/call_memory.h");
        writer.line("EXPECT_TRUE(same_bits({}, again.out));", whole_out);
        writer.line("EXPECT_TRUE(same_bits({}, again.lse));", whole_lse);
    };
    switch (p.property) {
        case Property::none:
            return;
        case Property::repeats_bitwise:
            writer.line("const simt::ScopedCpuWorkers other_workers({});", p.workers == 1 ? 2 : 1);
            writer.line("const AttentionResult again = entry(q, k, v, problem.options);");
            same_as("result.out", "result.lse");
            return;
        case Property::ignores_batch_neighbours: {
            const std::int64_t last = p.attention.batch - 1;
            writer.line("const auto alone = [](const torch::Tensor& batch) {{ return batch.narrow(0, {}, 1); }};",
                        last);
            if (p.kv_lengths) writer.line("kv_lengths = alone(kv_lengths);");
            writer.line("const AttentionResult again = entry(alone(q), alone(k), alone(v), problem.options);");
            same_as("alone(result.out)", "alone(result.lse)");
            return;
        }
        case Property::ignores_splits: {
            Problem otherwise = p;
            otherwise.splits = other_splits(p);
            write_entry(writer, entry, otherwise, "with_other_splits");
            writer.line("const AttentionResult again = with_other_splits(q, k, v, problem.options);");
            writer.line("const Comparison again_verdict = compare_attention(again, q, k, v, problem.options{});",
                        p.kv_lengths ? ", kv_lengths" : "");
            writer.line("EXPECT_TRUE(again_verdict.passed) << again_verdict.report;");
            return;
        }
    }
}

void write_non_finite(Writer& writer, const Problem& p) {
    if (const auto& n = p.non_finite)
        writer.line("{}[{}].fill_({});", "qkv"[int(n->argument)], fmt::join(n->index, "]["), code_of(n->value));
}

/// What matches_reference() cannot do: an element that is not finite, and properties of the result.
void write_in_full(Writer& writer, const Entry& entry, const Problem& p) {
    const bool poisoned = p.kv_lengths.has_value();
    writer.line("{}auto inputs = make_inputs(problem, test_device());", poisoned ? "" : "const ");
    if (poisoned) {
        writer.include("common/reference/call_memory.h");
        writer.line("poison_past_lengths(inputs, kv_lengths);");
    }
    writer.line("const auto& [q, k, v] = inputs;");
    write_non_finite(writer, p);
    writer.line("const AttentionResult result = entry(q, k, v, problem.options);");
    writer.line("const Comparison verdict = compare_attention(result, q, k, v, problem.options{});",
                p.kv_lengths ? ", kv_lengths" : "");
    writer.line("EXPECT_TRUE(verdict.passed) << verdict.report;");
    write_property(writer, entry, p);
}

void write_attention(Writer& writer, const Entry& entry, const Problem& p) {
    writer.include("common/reference/checks.h");
    writer.include("common/reference/test_device.h");
    const bool plain = !p.non_finite && p.property == Property::none;
    if (p.kv_lengths)
        writer.line("{}torch::Tensor kv_lengths = torch::tensor({{{}}}, torch::kInt64).to(test_device());",
                    plain ? "const " : "", fmt::join(*p.kv_lengths, ", "));
    const bool bare = entry.form == Form::attention && plain;
    if (!bare) write_entry(writer, entry, p, "entry");
    if (plain)
        writer.line("EXPECT_TRUE(matches_reference({}, problem, test_device(){}));", bare ? entry.name : "entry",
                    p.kv_lengths ? ", Lse::present, kv_lengths" : "");
    else
        write_in_full(writer, entry, p);
}

/// A braced list of those fields that are not as they would be without it; "{}" if all are.
std::string braced(const std::vector<std::string>& fields) { return fmt::format("{{{}}}", fmt::join(fields, ", ")); }

std::string code_of(const reference::BlockSizes& sizes) {
    std::vector<std::string> fields;
    if (sizes.key_growth) fields.push_back(fmt::format(".key_growth = {}", sizes.key_growth));
    if (sizes.value_growth) fields.push_back(fmt::format(".value_growth = {}", sizes.value_growth));
    if (sizes.outliers) fields.push_back(".outliers = true");
    return braced(fields);
}

void write_eight_bits(Writer& writer, const Entry& entry, const Problem& p) {
    for (const std::string& header : {std::string("common/reference/block_inputs.h"),
                                      std::string("common/reference/test_device.h"), entry.comparison_header})
        writer.include(header);
    const EightBits& e = p.eight_bits;
    writer.line("const auto [q, k, v] = make_block_inputs(problem, {}, {}, test_device());", code_of(e.sizes),
                kScaledRows);
    write_non_finite(writer, p);
    std::vector<std::string> fields;
    if (!e.rotated) fields.push_back(".rotated = false");
    if (e.values_in_e5m2) fields.push_back(".values = ValueCodes::e5m2");
    if (e.first_query) {
        writer.include("common/reference/rotary_tables.h");
        writer.line("const auto [cosines, sines] = rotary_tables({}, {}, test_device());",
                    std::max(*e.first_query + p.attention.query_length, p.attention.key_length), p.attention.head_dim);
        fields.push_back(fmt::format(".rotary = Rotary{{cosines, sines, {}}}", *e.first_query));
    }
    writer.line("const Fp8Options how{};", braced(fields));
    writer.line("const AttentionResult result = {}(q, k, v, problem.options, how);", entry.name);
    writer.line("const Comparison verdict = {}(result, q, k, v, problem.options, how);", entry.comparison);
    writer.line("EXPECT_TRUE(verdict.passed) << verdict.report;");
    if (p.property == Property::none) return;
    write_entry(writer, entry, p, "entry");
    write_property(writer, entry, p);
}

/// A call of a backward pass on the fields of `inputs`.
std::string call_of_backward(const Entry& entry, const std::string& inputs) {
    return fmt::format("{0}({1}.dout, {1}.q, {1}.k, {1}.v, {1}.out, {1}.lse, {1}.options, {2}, {1}.dlse)", entry.name,
                       inputs, entry.more_arguments);
}

void write_backward(Writer& writer, const Entry& entry, const Problem& p) {
    for (const char* header : {"gradient_cases", "gradient_comparison", "test_device"})
        writer.include(fmt::format("common/reference/{}.h", header));
    writer.line("const BackwardInputs x = make_backward_inputs(problem, test_device());");
    writer.line("const AttentionGradients result = {};", call_of_backward(entry, "x"));
    writer.line(
        "const Comparison verdict = compare_gradients(result, x.q, x.k, x.v, {{x.out, x.lse}}, x.dout, x.options, "
        "x.dlse);");
    writer.line("EXPECT_TRUE(verdict.passed) << verdict.report;");
    if (p.property == Property::none) return;
    writer.include("common/reference/call_memory.h");
    const std::int64_t last = p.attention.batch - 1;
    const bool alone = p.property == Property::ignores_batch_neighbours;
    if (alone) {
        writer.line("BackwardInputs y = x;");
        writer.line("for (torch::Tensor* tensor : {{&y.q, &y.k, &y.v, &y.out, &y.lse, &y.dout, &y.dlse}})");
        writer.line("    *tensor = tensor->narrow(0, {}, 1);", last);
    } else {
        writer.line("const simt::ScopedCpuWorkers other_workers({});", p.workers == 1 ? 2 : 1);
    }
    writer.line("const AttentionGradients again = {};", call_of_backward(entry, alone ? "y" : "x"));
    for (const char* gradient : {"dq", "dk", "dv"})
        writer.line("EXPECT_TRUE(same_bits(result.{0}{1}, again.{0}));", gradient,
                    alone ? fmt::format(".narrow(0, {}, 1)", last) : "");
}

/// Enumerators of whatever kind, as C++ lists them.
template <class T>
std::string list_of(const std::vector<T>& values) {
    std::vector<std::string> codes;
    for (const T value : values) codes.push_back(code_of(value));
    return braced(codes);
}

void write_bad_call(Writer& writer, const Entry& entry, const Problem& p) {
    writer.include("common/reference/entry_checks.h");
    if (entry.form == Form::backward) {
        writer.line(
            "const auto entry = [](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {{");
        writer.line("    {}(q, q, k, v, q, q, options, {});", entry.name, entry.more_arguments);
        writer.line("    return AttentionResult();");
        writer.line("}};");
        writer.line("const EntryTraits traits{{.masks = {}}};", list_of(entry.masks));
        writer.line("EXPECT_TRUE(refuses_bad_input(entry, traits));  // {}", p.bad_call);
        return;
    }
    if (entry.form == Form::eight_bits || entry.form == Form::shared) {
        writer.line(
            "const auto entry = [](const auto& q, const auto& k, const auto& v, const AttentionOptions& options) {{");
        writer.line("    return {}(q, k, v, options);", callee(entry));
        writer.line("}};");
        writer.line("const EntryTraits traits{{.masks = {}, .dtypes = {}}};", list_of(entry.masks),
                    list_of(entry.dtypes));
        writer.line("EXPECT_TRUE(refuses_bad_input(entry, traits));  // {}", p.bad_call);
        return;
    }
    writer.line("EXPECT_TRUE(refuses_bad_input({}));  // {}", entry.name, p.bad_call);
}

}  // namespace

std::string as_test(const Entry& entry, const Problem& p, const std::string& origin) {
    Writer writer;
    writer.include("common/attention/outputs.h");
    writer.include(entry.header);
    writer.line("const PoisonOutputs poison_outputs;");
    if (!p.bad_call.empty()) {
        write_machine(writer, entry, {});
        write_bad_call(writer, entry, p);
        return writer.text(camel_case(entry.name) + "Fuzz", camel_case("refuses " + p.bad_call), origin);
    }
    if (entry.form == Form::shared && p.sharing.ranks > 1) write_need_of_ranks(writer);
    write_machine(writer, entry, p);
    write_case(writer, p.attention);
    if (entry.form == Form::softmax)
        write_softmax(writer, entry, p);
    else if (entry.form == Form::eight_bits)
        write_eight_bits(writer, entry, p);
    else if (entry.form == Form::backward)
        write_backward(writer, entry, p);
    else
        write_attention(writer, entry, p);
    return writer.text(camel_case(entry.name) + "Fuzz", camel_case(describe(p)), origin);
}

}  // namespace ladder::fuzz
