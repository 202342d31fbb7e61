// The window kernels' part of the table of launches (launch.h): plain functions, CUDA builds only.
#pragma once
#include <cstdint>

#include "kernels/cuda/launch.h"

namespace collctl::kernels::cuda {

uint64_t window_part_bytes(int nranks);
uint64_t window_host_bytes(int nranks);
uint64_t window_own_bytes(int nranks);
bool window_serves(Collective collective, AlgorithmId algorithm, Protocol protocol, DataType type,
                   RedOp op, int nranks, uint64_t bytes);
int launch_window(const WindowLaunch& launch);
// Loads all of their code onto the current device; with or without that which counts waits.
int prepare_windows(bool counts_waits);

// The direct ones, between users' buffers, by themselves.
bool window_direct(Collective collective, DataType type, RedOp op, int nranks, uint64_t bytes);
int launch_direct(const WindowLaunch& launch);
int prepare_direct(bool counts_waits);

// Messages.
int launch_messages(const WindowLaunch& launch);
int prepare_messages(bool counts_waits);

}  // namespace collctl::kernels::cuda
