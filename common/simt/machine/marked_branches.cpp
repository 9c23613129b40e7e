#include "common/simt/machine/marked_branches.h"
#undef if

#include "common/simt/machine/block.h"

namespace simt {
inline namespace cpu {

void note_mark(const char* file, unsigned line) {
    if (Block* const block = Block::running()) block->traffic.mark(block->thread(), {file, line});
}

}  // namespace cpu
}  // namespace simt
