// The torn-line test of LL128 (Launcher::litmus_write, litmus_read).
#pragma once
#include <cstdint>

namespace collctl::kernels::cuda {

int litmus_write(void* lines, uint32_t line_count, uint32_t rounds, void* stream);
int litmus_read(void* lines, uint32_t line_count, uint32_t rounds, uint32_t* torn,
                const uint32_t* abort_word, int64_t timeout_ns, void* stream);

}  // namespace collctl::kernels::cuda
