#pragma once

#include <memory>

#include "common/distributed/engine.h"

namespace ladder::distributed {

/// The same engine, each of whose exchanges is followed by threads of its own, one for what is sent and one for what is
/// received: so they show how long they take, as `RECORD_USER_SCOPE("send")` and `("receive")`, and seem to go over a
/// link that carries so many bytes a second each way (infinity: as fast as the engine). For CPU tensors.
std::unique_ptr<Engine> followed(std::unique_ptr<Engine> engine, double bytes_a_second, Patience patience);

}  // namespace ladder::distributed
