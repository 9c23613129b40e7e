// What a constructor of the learner's file could do before main() begins: nothing, since the sandbox is there already.

#include <sys/socket.h>

#include "common/classroom/runner/problem.h"

namespace {

const int early = ::socket(AF_INET, SOCK_STREAM, 0);

}  // namespace

void ladder::classroom::run(Problem& problem) { problem.answer("early", early); }
