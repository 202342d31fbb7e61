// The kernels made for windows (algorithm one_shot and two_shot, one launch an operation) behind
// the table of launch.h. Implemented in window_launch.cu; see launch.h for the meaning of each.
#pragma once
#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

uint64_t window_part_bytes(int nranks);
bool window_serves(Collective collective, AlgorithmId algorithm, Protocol protocol, DataType type,
                   RedOp op, int nranks, uint64_t bytes);
int launch_window(const WindowLaunch& launch);

}  // namespace collctl::kernels::cuda
