#include "common/cli/launch_json.h"

#include <fstream>
#include <stdexcept>

#include "common/records/compact.h"

namespace ladder::cli {

Json json_of(const simt::LaunchRecord& launch) {
    Json json = {{"kernel", launch.kernel},
                 {"instance", launch.instance},
                 {"grid", launch.grid},
                 {"block", launch.block},
                 {"shared_bytes_per_block", launch.shared_bytes_per_block}};
    if (!launch.counted) return json;
    const simt::Counters& c = launch.counters;
    json["shared_memory"] = {{"bytes_read", c.shared_bytes_read},
                             {"bytes_written", c.shared_bytes_written},
                             {"requests", c.shared_requests},
                             {"requests_that_read", c.shared_read_requests},
                             {"wavefronts", c.shared_wavefronts},
                             {"wavefronts_of_reads", c.shared_read_wavefronts},
                             {"wavefronts_without_conflicts", c.shared_wavefronts_ideal}};
    json["block_barriers"] = c.block_barriers;
    json["warp_collectives"] = c.warp_collectives;
    for (const simt::TensorTraffic& t : c.tensors)
        json["global_memory"][t.tensor] = {{"bytes_read", t.bytes_read},
                                           {"bytes_written", t.bytes_written},
                                           {"requests_read", t.requests_read},
                                           {"requests_written", t.requests_written},
                                           {"sectors_read", t.sectors_read},
                                           {"sectors_written", t.sectors_written},
                                           {"sectors_read_ideal", t.sectors_read_ideal},
                                           {"sectors_written_ideal", t.sectors_written_ideal}};
    return json;
}

void write_json(const Json& json, const std::string& file) {
    std::ofstream stream(file);
    stream << compact_text(json);
    if (!stream.flush())
        throw std::runtime_error("--json: \"" + file + "\" cannot be written; name a file in a folder that exists");
}

}  // namespace ladder::cli
