// An external network plugin that a rank has opened: the library, its network with the devices, and
// its CollNet (in-network reduction) where it has one. Made by find_networks() at the
// communicator's start, kept by it and by each connection. Threads: any.
#pragma once
#include <memory>
#include <string>

#include "transport/net/plugin/library.h"
#include "transport/transport.h"

namespace collctl::transport {

// Bit of a reduction in a set of them. An average is a sum that is divided here.
constexpr uint64_t reduction_bit(kernels::DataType type, kernels::RedOp op) {
  constexpr int kOps = kernels::kRedOpCount - 1;
  static_assert(kernels::kDataTypeCount * kOps <= 64 && int(kernels::RedOp::avg) == kOps);
  return uint64_t{1} << (int(type) * kOps +
                         (op == kernels::RedOp::avg ? int(kernels::RedOp::sum) : int(op)));
}

class NetPlugin {
 public:
  // `name` as load_net_plugin() takes it; `collnet`: its CollNet is wanted as well.
  // Error unavailable: why it cannot be used.
  static Result<std::shared_ptr<NetPlugin>> open(const std::string& name, uint64_t comm_hash,
                                                 bool collnet);

  NetPluginSession& session() const { return *session_; }
  const NetPluginEntry& entry() const { return session_->entry(); }
  const std::string& name() const { return entry().name; }  // of the network
  // "mlx5_0 (200000 Mb/s), mlx5_1 (200000 Mb/s), version 11 of libnccl-net-x.so"
  std::string text() const;

  // Its CollNet; null: none, for this reason.
  NetPluginSession* reducer() const { return reducer_.get(); }
  const std::string& why_no_reducer() const { return why_no_reducer_; }
  // Its reductions: a set of reduction_bit().
  uint64_t reductions() const { return reductions_; }
  // The most bytes at once that every one of its devices takes.
  uint64_t most_reduced_bytes() const;

 private:
  void open_reducer(const NetPluginLibrary& library, uint64_t comm_hash);

  std::unique_ptr<NetPluginSession> session_, reducer_;
  std::string why_no_reducer_;
  uint64_t reductions_ = 0;
};

// The device for a channel of the rank `self`: `nic`, the topology's choice, where it knows the
// plugin's devices by name, else in turn.
int plugin_device(const NetPluginSession& session, const std::string& nic, int channel,
                  const PeerInfo& self);

}  // namespace collctl::transport
