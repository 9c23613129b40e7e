#include "common/cli/trace/page.h"

#include <stdexcept>

#include "common/cli/trace/page_parts.h"

namespace ladder::cli {
namespace {

void replace_once(std::string& text, const std::string& mark, const std::string& with) {
    const std::size_t at = text.find(mark);
    if (at == std::string::npos) throw std::logic_error("the page has no place for " + mark);
    text.replace(at, mark.size(), with);
}

}  // namespace

std::string trace_page(const Json& trace) {
    // Inside a script element only "</" could end it early, and JSON may write a slash as \/.
    std::string data = trace.dump();
    for (std::size_t at = 0; (at = data.find("</", at)) != std::string::npos; at += 3) data.replace(at, 2, "<\\/");
    std::string page = kPageHtml;
    replace_once(page, "/* style */", kPageStyle);
    replace_once(page, "/* script */", kPageScript);
    replace_once(page, "/* trace */", data);
    return page;
}

}  // namespace ladder::cli
