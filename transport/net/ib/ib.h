// NET over InfiniBand and RoCE (libibverbs, found at run time): the row of the table of networks.
// Connections are made of two NetHalves that exchange blobs, and of one TCP connection that the
// send end opens once its queue pairs can receive: so nothing is sent to a queue pair that is not
// ready.
#pragma once
#include "transport/net/net.h"

namespace collctl::transport {

// By what means the adapters access this GPU's memory ("DMA-BUF"), proven by registering a piece of
// it. Error unavailable: they cannot, and why.
Result<std::string> ib_reaches_gpu(const std::shared_ptr<Device>& device);

Result<std::unique_ptr<NetHalf>> ib_open(const NetEnd& end, const Services& services);

}  // namespace collctl::transport
