#include "common/simt/machine_error.h"

#include <utility>

namespace simt {

std::string SourceSite::text() const {
    if (!known()) return "unknown line";
    std::string_view path = file();
    if (const auto last = path.rfind('/'); last != path.npos && last > 0)
        if (const auto before = path.rfind('/', last - 1); before != path.npos) path.remove_prefix(before + 1);
    return std::string(path) + ":" + std::to_string(line());
}

std::string_view name_of(Fault fault) {
    switch (fault) {
        case Fault::race:
            return "shared-memory race";
        case Fault::uninitialised_read:
            return "read of uninitialised shared memory";
        case Fault::out_of_bounds:
            return "access out of bounds";
        case Fault::misaligned:
            return "misaligned vector access";
        case Fault::barrier_divergence:
            return "diverged barrier";
        case Fault::collective_divergence:
            return "diverged warp collective";
        case Fault::invalid_collective:
            return "invalid warp collective";
        case Fault::deadlock:
            return "deadlock";
        case Fault::arena_overflow:
            return "shared memory overflow";
    }
    return "unknown fault";
}

namespace {

std::string describe(const MachineError::Report& r) {
    std::string text(name_of(r.fault));
    text += " in " + r.kernel + ", block (" + std::to_string(r.block[0]) + ", " + std::to_string(r.block[1]) + ", " +
            std::to_string(r.block[2]) + ")\n  " + r.what;
    for (const Witness& w : {r.first, r.second})
        if (w.thread >= 0) text += "\n  thread " + std::to_string(w.thread) + " at " + w.site.text();
    if (!r.advice.empty()) text += "\n  " + r.advice;
    return text;
}

std::string describe(const LaunchError& e) {
    std::string text =
        e.kernel + ": " + e.call + " failed with " + e.code_name + " (" + std::to_string(e.code) + ") on " + e.device;
    if (e.required_shared_bytes > e.shared_bytes_limit)
        text += ": the launch asks for " + std::to_string(e.required_shared_bytes) +
                " bytes of shared memory per block, the device allows " + std::to_string(e.shared_bytes_limit) +
                "; use smaller tiles, a shorter sequence or a smaller head dimension";
    return text;
}

}  // namespace

MachineError::MachineError(Report report) : std::runtime_error(describe(report)), report_(std::move(report)) {}

LaunchError::LaunchError(std::string kernel_, std::string call_, int code_, std::string code_name_,
                         std::size_t required, std::size_t limit, std::string device_)
    : std::runtime_error(""),
      kernel(std::move(kernel_)),
      call(std::move(call_)),
      code(code_),
      code_name(std::move(code_name_)),
      required_shared_bytes(required),
      shared_bytes_limit(limit),
      device(std::move(device_)) {
    static_cast<std::runtime_error&>(*this) = std::runtime_error(describe(*this));
}

}  // namespace simt
