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
    const bool known = simt::is_known(c.shared_wavefronts, c.shared_wavefronts_in_doubt);
    const auto if_known = [known](std::uint64_t wavefronts) { return known ? Json(wavefronts) : Json(); };
    json["shared_memory"] = {{"bytes_read", c.shared_bytes_read},
                             {"bytes_written", c.shared_bytes_written},
                             {"requests", c.shared_requests},
                             {"requests_that_read", c.shared_read_requests},
                             {"wavefronts", if_known(c.shared_wavefronts)},
                             {"wavefronts_of_reads", if_known(c.shared_read_wavefronts)},
                             {"requests_of_products", c.product_read_requests},
                             {"wavefronts_of_products", if_known(c.product_read_wavefronts)},
                             {"wavefronts_without_conflicts", if_known(c.shared_wavefronts_ideal)}};
    json["block_barriers"] = c.block_barriers;
    json["warp_collectives"] = c.warp_collectives;
    for (const simt::TensorTraffic& t : c.tensors) {
        const bool reads_known = simt::is_known(t.sectors_read, t.sectors_read_in_doubt),
                   writes_known = simt::is_known(t.sectors_written, t.sectors_written_in_doubt);
        json["global_memory"][t.tensor] = {
            {"bytes_read", t.bytes_read},
            {"bytes_written", t.bytes_written},
            {"requests_read", t.requests_read},
            {"requests_written", t.requests_written},
            {"sectors_read", reads_known ? Json(t.sectors_read) : Json()},
            {"sectors_written", writes_known ? Json(t.sectors_written) : Json()},
            {"sectors_read_ideal", reads_known ? Json(t.sectors_read_ideal) : Json()},
            {"sectors_written_ideal", writes_known ? Json(t.sectors_written_ideal) : Json()}};
    }
    return json;
}

void write_json(const Json& json, const std::string& file) {
    std::ofstream stream(file);
    stream << compact_text(json);
    if (!stream.flush())
        throw std::runtime_error("--json: \"" + file + "\" cannot be written; name a file in a folder that exists");
}

}  // namespace ladder::cli
