// The kernels of whole operations in the form that counts waits.
#include "kernels/cuda/window/operations.cuh"

namespace collctl::kernels::cuda {

template int launch_operation<true>(const Exchange&, const WindowLaunch&);
template int prepare_operations<true>();

}  // namespace collctl::kernels::cuda
