#include "common/simt/memory/sanitizers.h"

// What a program under a sanitizer starts with; ASAN_OPTIONS and TSAN_OPTIONS overrule it. Who asks for more memory
// than there is gets none, as without a sanitizer, rather than a report.
#if defined(SIMT_ADDRESS_SANITIZER)
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }
#elif defined(SIMT_THREAD_SANITIZER)
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }
#endif
