#include "common/simt/report/source_columns.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

// DWARF 5, as far as it tells columns (dwarfstd.org; section 7 has the numbers). addr2line tells lines only.

namespace simt {
namespace {

enum Tag : std::uint64_t { kCompileUnit = 0x11, kInlinedSubroutine = 0x1d };
enum Attribute : std::uint64_t {
    kStatementList = 0x10,
    kLowAddress = 0x11,
    kHighAddress = 0x12,
    kRanges = 0x55,
    kCallColumn = 0x57,
    kAddressBase = 0x73,
    kRangeListsBase = 0x74,
};
enum Form : std::uint64_t {
    kAddress = 0x01,
    kBlock2 = 0x03,
    kBlock4 = 0x04,
    kData2 = 0x05,
    kData4 = 0x06,
    kData8 = 0x07,
    kString = 0x08,
    kBlock = 0x09,
    kBlock1 = 0x0a,
    kData1 = 0x0b,
    kFlag = 0x0c,
    kSignedData = 0x0d,
    kStringOffset = 0x0e,
    kUnsignedData = 0x0f,
    kReferenceAddress = 0x10,
    kReference1 = 0x11,
    kReference2 = 0x12,
    kReference4 = 0x13,
    kReference8 = 0x14,
    kReferenceUnsigned = 0x15,
    kSectionOffset = 0x17,
    kExpression = 0x18,
    kFlagPresent = 0x19,
    kStringIndex = 0x1a,
    kAddressIndex = 0x1b,
    kData16 = 0x1e,
    kLineStringOffset = 0x1f,
    kSignature = 0x20,
    kImplicitConstant = 0x21,
    kLocationListIndex = 0x22,
    kRangeListIndex = 0x23,
    kStringIndex1 = 0x25,
    kStringIndex2 = 0x26,
    kStringIndex3 = 0x27,
    kStringIndex4 = 0x28,
    kAddressIndex1 = 0x29,
    kAddressIndex2 = 0x2a,
    kAddressIndex3 = 0x2b,
    kAddressIndex4 = 0x2c,
};

/// Reads on from a place in a section. Beyond its end, and after what it does not understand, everything is 0.
class Reader {
  public:
    explicit Reader(std::string_view bytes, std::uint64_t offset = 0)
        : rest_(bytes.substr(std::min<std::uint64_t>(offset, bytes.size()))) {}

    template <class T>
    T number() {
        T value{};
        if (rest_.size() < sizeof(T))
            give_up();
        else
            std::memcpy(&value, rest_.data(), sizeof(T));
        skip(sizeof(T));
        return value;
    }
    std::uint64_t number_of(int bytes) {
        std::uint64_t value = 0;
        for (int i = 0; i < bytes; ++i) value |= std::uint64_t{number<std::uint8_t>()} << 8 * i;
        return value;
    }
    std::uint64_t uleb() { return leb().first; }
    std::int64_t sleb() {
        const auto [value, bits] = leb();
        const bool negative = bits < 64 && value >> (bits - 1) & 1;
        return std::int64_t(negative ? value | ~std::uint64_t{0} << bits : value);
    }
    void skip_text() { skip(rest_.find('\0') + 1); }
    void skip(std::uint64_t bytes) { rest_.remove_prefix(std::min<std::uint64_t>(bytes, rest_.size())); }
    void give_up() { rest_ = {}; }
    bool at_end() const { return rest_.empty(); }

    /// What follows of a unit that begins with its length, and goes on behind it.
    Reader unit() {
        const std::uint64_t length = number<std::uint32_t>();
        Reader part(rest_.substr(0, length));
        skip(length);
        return part;
    }

  private:
    std::pair<std::uint64_t, int> leb() {
        std::uint64_t value = 0;
        int bits = 0;
        for (std::uint8_t byte = 0x80; byte & 0x80 && !at_end(); bits += 7) {
            byte = number<std::uint8_t>();
            if (bits < 64) value |= std::uint64_t(byte & 0x7f) << bits;
        }
        return {value, std::max(bits, 1)};
    }

    std::string_view rest_;
};

class DebugInfo {
  public:
    explicit DebugInfo(const std::string& path) {
        std::ifstream file(path, std::ios::binary);
        const auto size = std::uint64_t(file.seekg(0, std::ios::end).tellg());
        if (!file) return;
        const auto read = [&file, size](std::uint64_t offset, std::uint64_t bytes) {
            if (offset > size || bytes > size - offset) return std::string();
            std::string text(bytes, '\0');
            file.seekg(std::streamoff(offset));
            if (!file.read(text.data(), std::streamsize(bytes))) text.clear();
            return text;
        };
        const auto records = [&read]<class T>(std::vector<T>& into, std::uint64_t offset, std::uint64_t count) {
            const std::string text = read(offset, count * sizeof(T));
            into.resize(text.size() / sizeof(T));
            if (!text.empty()) std::memcpy(into.data(), text.data(), text.size());
        };
        std::vector<Elf64_Ehdr> headers;
        std::vector<Elf64_Shdr> sections;
        records(headers, 0, 1);
        if (headers.empty() || std::memcmp(headers[0].e_ident, ELFMAG, SELFMAG) != 0) return;
        records(sections, headers[0].e_shoff, headers[0].e_shnum);
        if (headers[0].e_shstrndx >= sections.size()) return;
        const Elf64_Shdr& names = sections[headers[0].e_shstrndx];
        const std::string text = read(names.sh_offset, names.sh_size);
        for (const Elf64_Shdr& section : sections) {
            if (section.sh_name >= text.size() || section.sh_flags & SHF_COMPRESSED) continue;
            const char* const name = &text[section.sh_name];
            for (const auto& [wanted, bytes] :
                 {std::pair(".debug_info", &info_), std::pair(".debug_abbrev", &abbreviations_),
                  std::pair(".debug_line", &lines_), std::pair(".debug_rnglists", &range_lists_),
                  std::pair(".debug_addr", &addresses_)})
                if (std::string_view(name) == wanted) *bytes = read(section.sh_offset, section.sh_size);
        }
    }

    /// See source_columns().
    std::vector<unsigned> columns_at(std::uint64_t address) const {
        std::vector<unsigned> columns;
        for (Reader units(info_); !units.at_end();)
            for (const unsigned column : calls_in(units.unit(), address)) columns.push_back(column);
        std::ranges::reverse(columns);  // they were found from the outside in
        const std::optional<unsigned> innermost = column_in_lines(address);
        if (!innermost) return {};
        columns.insert(columns.begin(), *innermost);
        return columns;
    }

  private:
    struct Abbreviation {
        struct Entry {
            std::uint64_t attribute, form;
            std::int64_t constant;
        };
        std::uint64_t tag = 0;
        std::vector<Entry> entries{};
    };
    struct Value {
        std::uint64_t form, number;
    };
    /// What the entries of a unit are read with.
    struct Unit {
        std::uint64_t base = 0, addresses = 0, range_lists = 0;
    };

    std::map<std::uint64_t, Abbreviation> abbreviations_at(std::uint64_t offset) const {
        std::map<std::uint64_t, Abbreviation> all;
        for (Reader r(abbreviations_, offset); const std::uint64_t code = r.uleb();) {
            Abbreviation& one = all[code];
            one.tag = r.uleb();
            r.number<std::uint8_t>();  // whether entries inside follow
            while (true) {
                const std::uint64_t attribute = r.uleb(), form = r.uleb();
                const std::int64_t constant = form == kImplicitConstant ? r.sleb() : 0;
                if (!attribute && !form) break;
                one.entries.push_back({attribute, form, constant});
            }
        }
        return all;
    }

    static Value value_of(Reader& r, const Abbreviation::Entry& entry) {
        const std::uint64_t form = entry.form;
        const auto skipped = [&](std::uint64_t bytes) {
            r.skip(bytes);
            return Value{form, 0};
        };
        switch (form) {
            case kData1:
            case kFlag:
            case kReference1:
            case kStringIndex1:
            case kAddressIndex1:
                return {form, r.number<std::uint8_t>()};
            case kData2:
            case kReference2:
            case kStringIndex2:
            case kAddressIndex2:
                return {form, r.number<std::uint16_t>()};
            case kStringIndex3:
            case kAddressIndex3:
                return {form, r.number_of(3)};
            case kData4:
            case kReference4:
            case kStringOffset:
            case kLineStringOffset:
            case kReferenceAddress:
            case kSectionOffset:
            case kStringIndex4:
            case kAddressIndex4:
                return {form, r.number<std::uint32_t>()};
            case kAddress:
            case kData8:
            case kReference8:
            case kSignature:
                return {form, r.number<std::uint64_t>()};
            case kSignedData:
            case kUnsignedData:
            case kReferenceUnsigned:
            case kStringIndex:
            case kAddressIndex:
            case kLocationListIndex:
            case kRangeListIndex:
                return {form, r.uleb()};
            case kImplicitConstant:
                return {form, std::uint64_t(entry.constant)};
            case kFlagPresent:
                return {form, 1};
            case kData16:
                return skipped(16);
            case kString:
                r.skip_text();
                return {form, 0};
            case kBlock1:
                return skipped(r.number<std::uint8_t>());
            case kBlock2:
                return skipped(r.number<std::uint16_t>());
            case kBlock4:
                return skipped(r.number<std::uint32_t>());
            case kBlock:
            case kExpression:
                return skipped(r.uleb());
        }
        r.give_up();
        return {form, 0};
    }

    std::uint64_t address_of(const Value& value, const Unit& unit) const {
        if (value.form == kAddress) return value.number;
        return Reader(addresses_, unit.addresses + 8 * value.number).number<std::uint64_t>();
    }

    bool in_ranges(const Value& value, const Unit& unit, std::uint64_t address) const {
        std::uint64_t offset = value.number;
        if (value.form == kRangeListIndex)
            offset =
                unit.range_lists + Reader(range_lists_, unit.range_lists + 4 * value.number).number<std::uint32_t>();
        Reader r(range_lists_, offset);
        const auto indexed = [&] { return address_of({kAddressIndex, r.uleb()}, unit); };
        std::uint64_t base = unit.base;
        while (!r.at_end()) {
            std::uint64_t first = 0, end = 0;
            switch (r.number<std::uint8_t>()) {
                case 0x01:  // base address, by index
                    base = indexed();
                    break;
                case 0x02:  // both ends, by index
                    first = indexed(), end = indexed();
                    break;
                case 0x03:  // begin by index, and length
                    first = indexed(), end = first + r.uleb();
                    break;
                case 0x04:  // both ends, from the base on
                    first = base + r.uleb(), end = base + r.uleb();
                    break;
                case 0x05:
                    base = r.number<std::uint64_t>();
                    break;
                case 0x06:
                    first = r.number<std::uint64_t>(), end = r.number<std::uint64_t>();
                    break;
                case 0x07:
                    first = r.number<std::uint64_t>(), end = first + r.uleb();
                    break;
                default:
                    return false;
            }
            if (first <= address && address < end) return true;
        }
        return false;
    }

    /// The columns of the calls that were inlined around `address`, from the outside in.
    std::vector<unsigned> calls_in(Reader r, std::uint64_t address) const {
        std::vector<unsigned> columns;
        const auto version = r.number<std::uint16_t>();
        const auto type = r.number<std::uint8_t>(), address_bytes = r.number<std::uint8_t>();
        const auto abbreviations_begin = r.number<std::uint32_t>();
        constexpr std::uint8_t plain = 1;
        if (version != 5 || type != plain || address_bytes != 8) return {};
        const std::map<std::uint64_t, Abbreviation> abbreviations = abbreviations_at(abbreviations_begin);
        Unit unit;
        while (!r.at_end()) {
            const std::uint64_t code = r.uleb();
            if (code == 0) continue;  // the end of a list
            const auto found = abbreviations.find(code);
            if (found == abbreviations.end()) return {};
            std::optional<Value> low{}, high{}, ranges{};
            unsigned column = 0;
            for (const Abbreviation::Entry& entry : found->second.entries) {
                const Value value = value_of(r, entry);
                if (entry.attribute == kLowAddress) low = value;
                if (entry.attribute == kHighAddress) high = value;
                if (entry.attribute == kRanges) ranges = value;
                if (entry.attribute == kCallColumn) column = unsigned(value.number);
                if (entry.attribute == kAddressBase) unit.addresses = value.number;
                if (entry.attribute == kRangeListsBase) unit.range_lists = value.number;
            }
            const std::uint64_t tag = found->second.tag, first = low ? address_of(*low, unit) : 0;
            if (tag == kCompileUnit) unit.base = first;
            if (tag != kInlinedSubroutine) continue;
            const bool is_inside = ranges
                                       ? in_ranges(*ranges, unit, address)
                                       : low && high && first <= address &&
                                             address < (high->form == kAddress ? high->number : first + high->number);
            if (is_inside) columns.push_back(column);
        }
        return columns;
    }

    /// What the tables of lines say of `address`.
    std::optional<unsigned> column_in_lines(std::uint64_t address) const {
        for (Reader units(lines_); !units.at_end();)
            if (const auto column = column_in_table(units.unit(), address)) return column;
        return std::nullopt;
    }

    static std::optional<unsigned> column_in_table(Reader r, std::uint64_t address) {
        if (r.number<std::uint16_t>() != 5) return std::nullopt;
        r.skip(2);  // bytes of an address, and of a segment
        const auto header_bytes = r.number<std::uint32_t>();
        Reader program = r;
        program.skip(header_bytes);
        const auto step = r.number<std::uint8_t>();
        r.skip(3);  // operations of an instruction, whether rows are statements, the smallest step of a line
        const auto line_range = r.number<std::uint8_t>(), first_special = r.number<std::uint8_t>();
        if (line_range == 0) return std::nullopt;
        std::vector<std::uint8_t> operands(first_special);
        for (int code = 1; code < first_special; ++code) operands[code] = r.number<std::uint8_t>();

        struct Row {
            std::uint64_t address = 0;
            unsigned column = 0;
        };
        Row before, now;
        bool is_first = true;
        std::optional<unsigned> found;
        const auto end_row = [&](bool is_last) {
            if (!is_first && before.address <= address && address < now.address) found = before.column;
            before = now;
            is_first = is_last;
            if (is_last) now = {};
        };
        const auto advance = [&](std::uint64_t steps) { now.address += step * steps; };
        while (!program.at_end() && !found) {
            const auto code = program.number<std::uint8_t>();
            if (code >= first_special) {
                advance(unsigned(code - first_special) / line_range);
                end_row(false);
                continue;
            }
            switch (code) {
                case 0: {  // extended
                    const std::uint64_t bytes = program.uleb();
                    const auto extended = program.number<std::uint8_t>();
                    if (extended == 1)
                        end_row(true);
                    else if (extended == 2)
                        now.address = program.number<std::uint64_t>();
                    else
                        program.skip(bytes - 1);
                    break;
                }
                case 1:
                    end_row(false);
                    break;
                case 2:
                    advance(program.uleb());
                    break;
                case 5:
                    now.column = unsigned(program.uleb());
                    break;
                case 8:
                    advance(unsigned(255 - first_special) / line_range);
                    break;
                case 9:
                    now.address += program.number<std::uint16_t>();
                    break;
                default:
                    for (int i = 0; i < operands[code]; ++i) program.uleb();
            }
        }
        return found;
    }

    std::string info_, abbreviations_, lines_, range_lists_, addresses_;
};

}  // namespace

std::vector<unsigned> source_columns(const std::string& file, std::uint64_t address) {
    static std::map<std::string, DebugInfo> files;
    return files.try_emplace(file, file).first->second.columns_at(address);
}

}  // namespace simt
