#include "common/simt/launch/program_symbols.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace simt {
namespace {

/// What an ELF file names in its symbol table: functions, by their addresses as the file counts them, and variables of
/// which each thread of the operating system has its own, as `__shared__` arrays are here.
class SymbolTable {
  public:
    explicit SymbolTable(const char* path) : file_(path, std::ios::binary) {
        if (!file_) file_.open("/proc/self/exe", std::ios::binary);  // the program itself, started from elsewhere
        const auto headers = read<Elf64_Ehdr>(0, 1);
        if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return;
        moves_ = headers[0].e_type == ET_DYN;
        const auto sections = read<Elf64_Shdr>(headers[0].e_shoff, headers[0].e_shnum);
        for (const Elf64_Shdr& section : sections) {
            if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
            const Elf64_Shdr& text = sections[section.sh_link];
            text_ = read<char>(text.sh_offset, text.sh_size);
            for (const Elf64_Sym& symbol : read<Elf64_Sym>(section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
                if (symbol.st_name < text_.size()) note(symbol);
        }
        file_.close();
    }

    /// `base`: where the file was loaded.
    const char* name_of(std::uintptr_t function, std::uintptr_t base) const {
        const auto found = names_.find(moves_ ? function - base : function);
        return found == names_.end() ? nullptr : &text_[found->second];
    }

    /// Of all of the function's own.
    std::size_t thread_local_bytes(std::string_view function) const {
        if (!function.starts_with("_Z")) return 0;
        const std::string local_to_function = "_ZZ" + std::string(function.substr(2)) + "E";
        std::size_t bytes = 0;
        for (const auto& [name, size] : thread_locals_)
            if (std::string_view(&text_[name]).starts_with(local_to_function)) bytes += size;
        return bytes;
    }

  private:
    void note(const Elf64_Sym& symbol) {
        if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC) names_.try_emplace(symbol.st_value, symbol.st_name);
        if (ELF64_ST_TYPE(symbol.st_info) == STT_TLS) thread_locals_.emplace_back(symbol.st_name, symbol.st_size);
    }

    template <class T>
    std::vector<T> read(std::uint64_t offset, std::uint64_t count) {
        std::vector<T> values(count);
        file_.seekg(std::streamoff(offset));
        if (!file_.read(reinterpret_cast<char*>(values.data()), std::streamsize(count * sizeof(T)))) values.clear();
        return values;
    }

    std::ifstream file_;
    bool moves_ = true;
    std::vector<char> text_;
    std::unordered_map<std::uintptr_t, std::uint32_t> names_;           // where in text_ the name begins
    std::vector<std::pair<std::uint32_t, std::size_t>> thread_locals_;  // with their sizes
};

/// The file that `info` is about. Files are read once.
const SymbolTable& table_of(const Dl_info& info) {
    static std::mutex mutex;
    static std::map<const void*, SymbolTable> files;
    const std::scoped_lock lock(mutex);
    return files.try_emplace(info.dli_fbase, info.dli_fname).first->second;
}

}  // namespace

const char* symbol_of(const void* function) {
    Dl_info info{};
    if (!dladdr(function, &info)) return nullptr;
    if (info.dli_saddr == function) return info.dli_sname;
    return table_of(info).name_of(reinterpret_cast<std::uintptr_t>(function),
                                  reinterpret_cast<std::uintptr_t>(info.dli_fbase));
}

std::size_t static_shared_bytes_of(const void* kernel) {
    static std::mutex mutex;
    static std::map<const void*, std::size_t> known;
    const std::scoped_lock lock(mutex);
    if (const auto found = known.find(kernel); found != known.end()) return found->second;
    Dl_info info{};
    const char* const symbol = symbol_of(kernel);
    const std::size_t bytes = symbol && dladdr(kernel, &info) ? table_of(info).thread_local_bytes(symbol) : 0;
    return known[kernel] = bytes;
}

}  // namespace simt
