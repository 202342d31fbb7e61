// Two ends of one connection in one process, over any row of the table: peer infos that the row can
// reach, a descriptor exchange in memory, and a proxy engine for each end where the row needs one.
#pragma once
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "base/check.h"
#include "base/env.h"
#include "runtime/links/proxy.h"
#include "tests/fake_drivers/cuda_control.h"
#include "tests/fake_plugins/control.h"
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
  explicit MemoryFds(int self, std::shared_ptr<MemoryFds> hub = nullptr)
      : self_(self), hub_(std::move(hub)) {}
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
  const char* name;          // of the row
  int sockets = 1;           // NET
  int helpers = 0;           // NET; -1: the default
  bool gpu = false;          // ranks are GPUs of the fake driver
  bool one_process = false;  // P2P
  bool read = false;         // P2P
  // NET/IB: the adapters of tests/fake_verbs (FAKE_VERBS_DEVICES), and knobs; empty: NET/Socket.
  std::string fabric = {};
  std::vector<std::pair<std::string, std::string>> knobs = {};
  std::string plugin = {};  // NET by a plugin of tests/fake_plugins: "fake12"
  bool macs = false;        // NET/Socket with --integrity
  std::string text() const {
    std::string settings;
    for (const auto& [knob, value] : knobs)
      settings.append(" ").append(knob).append("=").append(value);
    return std::string(name) + " sockets " + std::to_string(sockets) + " helpers " +
           std::to_string(helpers) + (fabric.empty() ? "" : " over " + fabric) + settings +
           (plugin.empty() ? "" : " plugin " + plugin) + (macs ? " MACs" : "") +
           (gpu ? " GPUs" : "") + (one_process ? " one process" : "") + (read ? " read" : "");
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

// The stand-in for libibverbs with fresh adapters; ends the program when something of theirs was
// not given back, or was used as an adapter would not forgive.
class FakeFabric {
 public:
  explicit FakeFabric(const std::string& devices);
  ~FakeFabric();
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;
};

// The plugin NAME of tests/fake_plugins as the one to use; ends the program when something of it
// was not given back.
class FakePlugin {
 public:
  explicit FakePlugin(const std::string& name);
  ~FakePlugin();
  FakePlugin(const FakePlugin&) = delete;
  FakePlugin& operator=(const FakePlugin&) = delete;
  static std::string path(const std::string& name);
  static fake_plugin::Counts counts(const std::string& name);
  // Lets it write to where lines that were closed were still to receive; how many receives.
  static int write_late(const std::string& name);

 private:
  std::string name_;
  base::ScopedVariable knob_;
};

struct Rig {
  std::optional<FakeGpus> gpus;  // first, so that it looks last
  std::optional<FakeFabric> fabric;
  std::deque<base::ScopedVariable> knobs;
  std::optional<FakePlugin> plugin;
  const transport::Transport* row;
  LinkSpec sender_spec, receiver_spec;
  Side sender, receiver;

  explicit Rig(const RowSetting& setting);
  ~Rig();
  // Both engines end as those of a communicator do.
  void close(Deadline deadline);
  bool closed = false;
  // Both ends up to links; false with the error of whoever failed.
  Status open(transport::FifoGeometry simple, transport::FifoGeometry ll);
  void set_geometry(transport::FifoGeometry simple, transport::FifoGeometry ll);
  Status wire(Deadline deadline);
  bool fabric_reaches_gpus = false;  // the fabric's adapters do
  Fifo* out(Protocol p) { return sender.link->fifo(p); }
  Fifo* in(Protocol p) { return receiver.link->fifo(p); }
};

inline Deadline soon() {
  return Deadline::after_seconds(60);
}

}  // namespace collctl::test
