#include "transport/net/ib/devices.h"

#include <algorithm>

#include "base/bell.h"
#include "base/format.h"
#include "base/host_devices.h"
#include "base/socket.h"
#include "transport/net/ib/filter.h"
#include "transport/net/ib/wire_blob.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kMostDevices = 256;

std::mutex g_mutex;                  // of the process's one set of devices
std::weak_ptr<IbDevices> g_devices;  // shared by those who want the same

const char* state_text(int state) {
  constexpr const char* kStates[] = {"unknown", "DOWN", "INIT", "ARMED", "ACTIVE", "deferred"};
  return state >= 0 && state < 6 ? kStates[state] : "unknown";
}

// The network prefix of the interface address that a GID is made of; 0: none is.
uint8_t net_bits(const std::vector<base::NetInterface>& interfaces, const VerbsGid& gid) {
  std::string text = gid_text(gid);
  if (is_ipv4(gid)) text = text.substr(text.rfind(':') + 1);
  for (const base::NetInterface& each : interfaces)
    for (const base::InterfaceAddress& address : each.addresses)
      if (address.text.substr(0, address.text.find('%')) == text) return uint8_t(address.prefix);
  return 0;
}

// The address type of entry `index`: from the library, or with an older one from the kernel.
Result<IbGid> read_gid(IbDevice& device, int port, int index) {
  IbGid found;
  found.index = uint8_t(index);
  if (verbs().query_gid_entry != nullptr) {
    VerbsGidEntry entry{};
    const int failed = verbs().query_gid_entry(device.context(), uint32_t(port), uint32_t(index),
                                               &entry, 0, sizeof entry);
    if (failed != 0)
      return base::errno_error(ErrorCode::unavailable, "read a GID", failed < 0 ? -failed : failed);
    found.gid = entry.gid;
    found.type = entry.type;
    return found;
  }
  if (verbs().query_gid(device.context(), uint8_t(port), index, &found.gid) != 0)
    return base::errno_error(ErrorCode::unavailable, "read a GID", errno);
  found.type = base::rdma_gid_is_roce_v2(device.name(), port, index) ? kGidRoceV2 : kGidRoceV1;
  return found;
}

std::vector<IbGid> usable_gids(IbDevice& device, const IbPort& port, const IbSettings& settings) {
  const auto interfaces =
      port.ethernet() ? base::net_interfaces() : std::vector<base::NetInterface>();
  std::vector<IbGid> gids;
  const int end = std::min(port.facts.gids, 256);
  for (int index = 0; index < end; ++index) {
    if (settings.gid_index >= 0 && index != settings.gid_index) continue;
    // InfiniBand: entry 0; a routable entry 1 serves where the subnets differ.
    if (!port.ethernet() && settings.gid_index < 0 && index > 1) break;
    auto gid = read_gid(device, port.number, index);
    if (!gid || is_zero(gid->gid)) continue;
    if (!port.ethernet()) gid->type = kGidIb;
    if (port.ethernet()) gid->net_bits = net_bits(interfaces, gid->gid);
    gids.push_back(*gid);
  }
  if (gids.size() <= kIbMaxGids) return gids;
  // Those that are worth most first: the wanted version, then no link-local ones, then IPv4.
  const uint32_t wanted = settings.roce_version == 1 ? kGidRoceV1 : kGidRoceV2;
  std::stable_sort(gids.begin(), gids.end(), [&](const IbGid& a, const IbGid& b) {
    const auto merit = [&](const IbGid& g) {
      return (g.type == wanted ? 4 : 0) + (is_link_local(g.gid) ? 0 : 2) + (is_ipv4(g.gid) ? 1 : 0);
    };
    return merit(a) > merit(b);
  });
  gids.resize(kIbMaxGids);
  return gids;
}

}  // namespace

Result<std::unique_ptr<IbDevice>> IbDevice::open(VerbsDevice* device) {
  std::unique_ptr<IbDevice> opened(new IbDevice());
  opened->name_ = verbs().name(device);
  const auto failed = [&](const char* what) {
    return base::errno_error(ErrorCode::unavailable, format("{}: {}", opened->name_, what), errno);
  };
  opened->context_ = verbs().open(device);
  if (opened->context_ == nullptr)
    return failed("open it (is /dev/infiniband here, and accessible?)");
  if (verbs().device_facts(opened->context_, &opened->facts_) != 0)
    return failed("query its properties");
  opened->domain_ = verbs().alloc_domain(opened->context_);
  if (opened->domain_ == nullptr) return failed("create a protection domain");
  COLL_TRY_IN(base::set_non_blocking(opened->context_->async_fd), opened->name_);
  opened->numa_ = base::rdma_numa_node(opened->name_);
  return opened;
}

IbDevice::~IbDevice() {
  if (domain_ != nullptr) verbs().free_domain(domain_);
  if (context_ != nullptr) verbs().close(context_);
}

int IbDevice::event_of(uint32_t qp) const {
  const std::scoped_lock lock(mutex_);
  const auto found = qp_events_.find(qp);
  return found == qp_events_.end() ? -1 : found->second;
}

bool IbDevice::failed(const VerbsCq* cq) const {
  const std::scoped_lock lock(mutex_);
  return cq_failures_.contains(cq);
}

std::string IbPort::text() const {
  return format("{}:{}", device->name(), number);
}

Result<std::shared_ptr<IbDevices>> IbDevices::open(const IbSettings& settings) {
  const std::scoped_lock lock(g_mutex);
  auto devices = g_devices.lock();
  if (devices != nullptr && devices->hca_ == settings.hca &&
      devices->gid_index_ == settings.gid_index)
    return devices;
  devices.reset(new IbDevices());
  COLL_TRY(devices->open_all(settings));
  COLL_TRY(devices->start_watch());
  g_devices = devices;
  return devices;
}

Status IbDevices::open_all(const IbSettings& settings) {
  const Verbs& api = verbs();
  if (!api.missing.empty() || !api.transfer_missing.empty())
    return Error(ErrorCode::unavailable, api.missing.empty() ? api.transfer_missing : api.missing,
                 "install libibverbs (rdma-core)");
  COLL_ASSIGN(const IbFilter filter, IbFilter::parse(settings.hca));
  hca_ = settings.hca;
  gid_index_ = settings.gid_index;
  // Before anything is registered: children of this process must not take its pinned pages away.
  if (const int failed = api.fork_init(); failed != 0)
    return base::errno_error(ErrorCode::unavailable, "ibv_fork_init", failed);
  int count = 0;
  VerbsDevice** const list = api.device_list(&count);
  const std::unique_ptr<VerbsDevice*, void (*)(VerbsDevice**)> owner(list, api.free_list);
  if (list == nullptr || count == 0)
    return Error(ErrorCode::unavailable, "this host has no RDMA device",
                 "load the adapter's driver (ls /sys/class/infiniband), or pass the devices into "
                 "the container (/dev/infiniband)");
  for (int i = 0; i < std::min(count, kMostDevices); ++i) {
    bool wanted = false;
    for (int port = 1; port <= 255; ++port) wanted |= filter.allows(api.name(list[i]), port);
    if (!wanted) {
      refused_.push_back(format("{} is not in COLLCTL_IB_HCA", api.name(list[i])));
      continue;
    }
    auto device = IbDevice::open(list[i]);
    if (!device) {
      refused_.push_back(device.error().chain());
      continue;
    }
    devices_.push_back(std::move(*device));
    add_ports(*devices_.back(), settings);
  }
  if (!ports_.empty()) return {};
  std::string why;
  for (const std::string& each : refused_) why += (why.empty() ? "" : "; ") + each;
  return Error(ErrorCode::unavailable, format("no usable RDMA port: {}", why),
               "see `collctl doctor`, or use sockets (COLLCTL_NET=socket)");
}

void IbDevices::add_ports(IbDevice& device, const IbSettings& settings) {
  const auto filter = IbFilter::parse(settings.hca);
  for (int number = 1; number <= device.facts().ports; ++number) {
    auto port = std::make_unique<IbPort>();
    port->device = &device;
    port->number = uint8_t(number);
    if (!filter->allows(device.name(), number)) {
      refused_.push_back(port->text() + " is not in COLLCTL_IB_HCA");
      continue;
    }
    if (verbs().port_facts(device.context(), uint8_t(number), &port->facts) != 0) {
      refused_.push_back(port->text() + " does not answer");
      continue;
    }
    if (port->facts.state != kPortActive) {
      refused_.push_back(format("{} is {}", port->text(), state_text(port->facts.state)));
      continue;
    }
    port->gids = usable_gids(device, *port, settings);
    if (port->gids.empty() && (port->ethernet() || port->facts.lid == 0)) {
      refused_.push_back(settings.gid_index >= 0 ? format("{} has no GID {} (COLLCTL_IB_GID_INDEX)",
                                                          port->text(), settings.gid_index)
                                                 : format("{} has no address", port->text()));
      continue;
    }
    port->index = int(ports_.size());
    ports_.push_back(std::move(port));
  }
}

std::string IbDevices::text() const {
  std::string text;
  for (const auto& port : ports_)
    text += format("{}[{}]{}/{}", text.empty() ? "" : " ", port->index, port->text(),
                   port->ethernet() ? "RoCE" : "IB");
  return text;
}

void IbDevices::add_bell(int fd) {
  const std::scoped_lock lock(bells_mutex_);
  bells_.insert(fd);
}

void IbDevices::remove_bell(int fd) {
  const std::scoped_lock lock(bells_mutex_);
  if (const auto found = bells_.find(fd); found != bells_.end()) bells_.erase(found);
}

}  // namespace collctl::transport
