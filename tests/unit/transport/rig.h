// Two ends of one connection in one process, over any row of the table: peer infos that the row can
// reach, a descriptor exchange in memory, and a proxy engine for each end where the row needs one.
#pragma once
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "runtime/proxy.h"
#include "tests/fake_drivers/cuda_control.h"
#include "transport/device/device.h"
#include "transport/transport.h"

namespace collctl::test {

using kernels::Fifo;
using kernels::Protocol;
using transport::Direction;
using transport::Link;
using transport::LinkSpec;
using transport::PeerInfo;
using transport::Services;

// Passes descriptors between threads, as the bootstrap does between processes.
class MemoryFds : public transport::FdExchange {
 public:
  explicit MemoryFds(int self, std::shared_ptr<MemoryFds> hub = nullptr) : self_(self), hub_(hub) {}
  Status send_fd(int peer, uint64_t tag, int fd, Deadline) override;
  Result<Fd> recv_fd(int peer, uint64_t tag, Deadline deadline) override;

 private:
  using Key = std::pair<std::pair<int, int>, uint64_t>;  // from, to, tag
  MemoryFds& hub() { return hub_ ? *hub_ : *this; }
  int self_;
  std::shared_ptr<MemoryFds> hub_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<Key, Fd> waiting_;
};

struct RowSetting {
  const char* name;  // of the row
  int sockets = 1;   // NET
  int helpers = 0;
  bool gpu = false;          // ranks are GPUs of the fake driver
  bool one_process = false;  // P2P
  bool read = false;         // P2P
  std::string text() const {
    return std::string(name) + " sockets " + std::to_string(sockets) + " helpers " +
           std::to_string(helpers) + (gpu ? " GPUs" : "") + (one_process ? " one process" : "") +
           (read ? " read" : "");
  }
};
// Every row of the table, for CPU ranks and for GPUs; NET several times.
std::vector<RowSetting> row_settings();

struct Side {
  PeerInfo info{};
  Services services;
  std::shared_ptr<MemoryFds> fds;
  std::unique_ptr<runtime::ProxyEngine> engine;
  uint32_t abort_word = 0;
  std::mutex mutex;
  std::vector<Error> errors;  // from the engine
  std::unique_ptr<transport::Endpoint> endpoint;
  std::unique_ptr<Link> link;

  ~Side();
  bool has_error();
  std::optional<Error> first_error();
};

// The fake driver with fresh GPUs; ends the program when something of theirs was not given back.
class FakeGpus {
 public:
  explicit FakeGpus(const fake_cuda::Setup& setup = {});
  ~FakeGpus();
  FakeGpus(const FakeGpus&) = delete;
  FakeGpus& operator=(const FakeGpus&) = delete;
};

struct Rig {
  std::optional<FakeGpus> gpus;  // first, so that it looks last
  const transport::Transport* row;
  LinkSpec sender_spec, receiver_spec;
  Side sender, receiver;

  explicit Rig(const RowSetting& setting);
  // Both ends up to links; false with the error of whoever failed.
  Status open(transport::FifoGeometry simple, transport::FifoGeometry ll);
  void set_geometry(transport::FifoGeometry simple, transport::FifoGeometry ll);
  Status wire(Deadline deadline);
  Fifo* out(Protocol p) { return sender.link->fifo(p); }
  Fifo* in(Protocol p) { return receiver.link->fifo(p); }
};

inline Deadline soon() {
  return Deadline::after_seconds(20);
}

}  // namespace collctl::test
