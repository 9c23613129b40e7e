#include "common/simt/launch/kernel_name.h"

#include <cxxabi.h>

#include <cctype>
#include <cstdlib>
#include <memory>
#include <utility>

namespace simt {
namespace {

void replace_all(std::string& text, const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

/// "void ladder::cpu::my_kernel<simt::cpu::f16, 64>(…)" -> "my_kernel<simt::cpu::f16, 64>"
std::string without_scope_and_parameters(const std::string& text) {
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        depth += (text[i] == '<') - (text[i] == '>');
        if (depth > 0) continue;
        if (text[i] == ' ' || text[i] == ':') begin = i + 1;
        if (text[i] == '(') return text.substr(begin, i - begin);
    }
    return text.substr(begin);
}

/// "ladder::cpu::Shape<64>" -> "Shape<64>": the same on both machines.
std::string without_qualifiers(const std::string& text) {
    std::string plain;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text.compare(i, 2, "::") != 0) {
            plain += text[i];
            continue;
        }
        while (!plain.empty() && (std::isalnum(static_cast<unsigned char>(plain.back())) || plain.back() == '_'))
            plain.pop_back();
        ++i;
    }
    return plain;
}

}  // namespace

std::string instance_from_symbol(const char* mangled) {
    if (!mangled) return {};
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> demangled(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                                &std::free);
    if (status != 0) return {};
    std::string name = without_qualifiers(without_scope_and_parameters(demangled.get()));
    for (const auto& [type, short_name] : {std::pair("__half", "f16"), std::pair("__nv_bfloat16", "bf16"),
                                           std::pair("__nv_fp8_e4m3", "e4m3"), std::pair("__nv_fp8_e5m2", "e5m2")})
        replace_all(name, type, short_name);
    return name;
}

}  // namespace simt
