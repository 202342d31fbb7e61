// The RDMA devices of this process: opened once, shared by all communicators and connections, with
// the active ports that pass COLLCTL_IB_HCA. A thread watches their asynchronous events; whoever
// uses a port queries its state (trouble_of) and is woken by its bell.
//
// Closed when the last user lets go. Threads: any; ports do not change once opened, states are
// atomic.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "base/drivers/verbs.h"
#include "base/fd.h"
#include "base/result.h"
#include "transport/net/ib/gid.h"
#include "transport/net/ib/settings.h"

namespace collctl::transport {

class IbDevice {
 public:
  // Error: unavailable, names the device.
  static Result<std::unique_ptr<IbDevice>> open(base::drivers::VerbsDevice* device);
  ~IbDevice();
  IbDevice(const IbDevice&) = delete;
  IbDevice& operator=(const IbDevice&) = delete;

  const std::string& name() const { return name_; }
  const base::drivers::VerbsDeviceFacts& facts() const { return facts_; }
  base::drivers::VerbsContext* context() const { return context_; }
  base::drivers::VerbsDomain* domain() const { return domain_; }
  int numa_node() const { return numa_; }
  // The last asynchronous event that ended the device (0 as a number is one), a queue pair or a
  // completion queue; -1: none.
  int fatal_event() const { return fatal_.load(std::memory_order_acquire); }
  int event_of(uint32_t qp) const;
  bool failed(const base::drivers::VerbsCq* cq) const;

 private:
  friend class IbDevices;
  IbDevice() = default;
  std::string name_;
  base::drivers::VerbsDeviceFacts facts_{};
  base::drivers::VerbsContext* context_ = nullptr;
  base::drivers::VerbsDomain* domain_ = nullptr;
  int numa_ = -1;
  std::atomic<int> fatal_{-1};
  mutable std::mutex mutex_;
  std::map<uint32_t, int> qp_events_;
  std::set<const base::drivers::VerbsCq*> cq_failures_;
};

struct IbPort {
  IbDevice* device = nullptr;
  uint8_t number = 0;
  int index = 0;  // in the list of ports: NET/IB/index
  base::drivers::VerbsPortFacts facts{};
  std::vector<IbGid> gids;          // that may be offered
  std::atomic<int64_t> down_ns{0};  // since when it is down; 0: it is not
  std::string text() const;         // "mlx5_0:1"
  bool ethernet() const { return facts.link_layer == base::drivers::kLinkEthernet; }
};

class IbDevices {
 public:
  // Error: unavailable: no library, no device, or no port that is active and wanted, each with a
  // remedy; usage: COLLCTL_IB_HCA is malformed.
  static Result<std::shared_ptr<IbDevices>> open(const IbSettings& settings);
  ~IbDevices();

  const std::vector<std::unique_ptr<IbPort>>& ports() const { return ports_; }
  // Devices and ports that are not among them, each with why.
  const std::vector<std::string>& refused() const { return refused_; }
  // "[0]mlx5_2:1/RoCE [1]mlx5_3:1/IB", as NCCL's log line has it.
  std::string text() const;
  // How many events there were; polled often, so that trouble is looked for only when this moves.
  uint32_t events() const { return events_.load(std::memory_order_acquire); }
  // The bell (an eventfd) is rung at every event from now on.
  void add_bell(int fd);
  void remove_bell(int fd);

 private:
  IbDevices() = default;
  Status open_all(const IbSettings& settings);
  void add_ports(IbDevice& device, const IbSettings& settings);
  Status start_watch();
  void watch();
  void ring_bells();
  void handle(IbDevice& device, const base::drivers::VerbsEvent& event);
  void port_event(IbDevice& device, int port, int type);

  std::string hca_;
  int gid_index_ = -1;
  std::vector<std::unique_ptr<IbDevice>> devices_;
  std::vector<std::unique_ptr<IbPort>> ports_;
  std::vector<std::string> refused_;
  std::atomic<uint32_t> events_{0};
  std::mutex bells_mutex_;
  std::multiset<int> bells_;
  base::Fd stop_;
  std::atomic<bool> stopping_{false};
  std::thread watcher_;
};

}  // namespace collctl::transport
