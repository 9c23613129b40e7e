#pragma once

namespace ladder::classroom {

/// From here on this process has memory, processor time, timers of its own and descriptors 1 to 3, to be written to;
/// to ask the system for anything else ends it with SIGSYS. Before, whatever of the machine opens files is made to do
/// so, and it is told to run blocks on one OS thread. Where the system knows no filters (an emulator), there are none;
/// `./ladder doctor` says so.
void enter_sandbox();

}  // namespace ladder::classroom
