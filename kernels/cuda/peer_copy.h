// Measurements between GPUs (Launcher::peer_copy, peer_chase): copies by all multiprocessors, and
// loads that wait for each other.
#pragma once
#include <cstdint>

namespace collctl::kernels::cuda {

int peer_copy(void* to, const void* from, uint64_t bytes, void* stream);
int peer_chase(const void* first, uint32_t steps, uint64_t* end, void* stream);

}  // namespace collctl::kernels::cuda
