// The torn-store test of LL128 (Launcher::torn_store_write, torn_store_read).
#pragma once
#include <cstdint>

namespace collctl::kernels::cuda {

int torn_store_write(void* lines, uint32_t line_count, uint32_t rounds, void* stream);
int torn_store_read(void* lines, uint32_t line_count, uint32_t rounds, uint32_t* torn,
                    const uint32_t* abort_word, int64_t timeout_ns, void* stream);

}  // namespace collctl::kernels::cuda
