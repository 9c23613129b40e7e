#pragma once

#include <memory>
#include <string>

#include "common/distributed/engine.h"

namespace ladder::distributed {

/// What connect() and missing_for() choose among. Each pair is compiled from one of two files: the engine, or what says
/// that it is missing.
std::string missing_for_gloo();
std::string missing_for_nccl();
std::unique_ptr<Engine> connect_gloo(const Board& board, const std::string& name, int rank, int ranks, bool local,
                                     Patience patience);
std::unique_ptr<Engine> connect_nccl(const Board& board, const std::string& name, int rank, int ranks,
                                     Patience patience);

}  // namespace ladder::distributed
