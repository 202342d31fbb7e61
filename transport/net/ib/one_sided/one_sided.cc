#include "transport/net/ib/one_sided/one_sided.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/edge.h"
#include "transport/net/ib/route.h"

namespace collctl::transport {

using namespace base::drivers;

namespace {

constexpr int kCollectAtOnce = 16;
constexpr int kMostCollects = 8;  // in one step, of one queue

}  // namespace

// --- set-up ---

Result<std::unique_ptr<IbOneSided>> IbOneSided::open(Options options) {
  std::unique_ptr<IbOneSided> made(new IbOneSided(std::move(options)));
  COLL_ASSIGN(made->settings_, read_ib_settings());
  COLL_ASSIGN(made->devices_, IbDevices::open(made->settings_));
  made->seen_events_ = made->devices_->events() - 1;
  COLL_TRY(made->choose_ports_of_links());
  COLL_TRY(made->make_rails());
  const size_t bytes = size_t(IbOneSidedLink::kSlots) * kStageBytes;
  COLL_ASSIGN(made->stages_, pages_for_rdma(bytes));
  COLL_ASSIGN(made->stage_memory_, IbMemory::host(made->ports(), made->stages_.get(), bytes,
                                                  data_order(made->settings_)));
  for (const LinkSpec& spec : made->o_.peers)
    made->links_[spec.peer.rank] = std::make_unique<IbOneSidedLink>(IbOneSidedLink::Options{
        .spec = spec,
        .settings = made->settings_,
        .rails = made->rails_,
        .uses = made->uses_[spec.peer.rank],
        .signals = made->o_.signals,
        .flush = must_flush(made->o_.services.device.get(), spec.nic.gdr, made->settings_),
        .on_signal = made->o_.on_signal});
  return made;
}

IbOneSided::~IbOneSided() {
  attach_bell(-1);
}

// Links to hosts of other link layers may take other ports.
Status IbOneSided::choose_ports_of_links() {
  for (const LinkSpec& spec : o_.peers) {
    COLL_ASSIGN(const auto chosen, ports_towards(*devices_, spec, o_.services, settings_));
    for (IbPort* port : chosen) {
      auto rail = std::find_if(rails_.begin(), rails_.end(),
                               [&](const IbOneSidedRail& each) { return each.port == port; });
      if (rail == rails_.end()) {
        rails_.emplace_back().port = port;
        rail = rails_.end() - 1;
      }
      uses_[spec.peer.rank].push_back(size_t(rail - rails_.begin()));
    }
  }
  return {};
}

// Room for the completions of every link.
Status IbOneSided::make_rails() {
  for (size_t r = 0; r < rails_.size(); ++r) {
    uint32_t links = 0;
    for (const auto& [peer, uses] : uses_)
      links += uint32_t(std::count(uses.begin(), uses.end(), r));
    const auto pairs = links * uint32_t(settings_.qps);
    IbDevice& device = *rails_[r].port->device;
    COLL_ASSIGN(rails_[r].asked, IbCompletions::make(device, pairs * IbOneSidedLink::kSends));
    const uint32_t receives =
        settings_.failover ? pairs * IbOneSidedLink::kReceives : links * IbOneSidedLink::kReceives;
    COLL_ASSIGN(rails_[r].arrivals, IbCompletions::make(device, pairs + receives));
  }
  return {};
}

std::vector<IbPort*> IbOneSided::ports() const {
  std::vector<IbPort*> ports;
  for (const IbOneSidedRail& rail : rails_) ports.push_back(rail.port);
  return ports;
}

IbOneSidedLink* IbOneSided::link(int peer) {
  const auto found = links_.find(peer);
  return found == links_.end() ? nullptr : found->second.get();
}

Result<Bytes> IbOneSided::describe(int peer) {
  IbOneSidedLink& link = *links_.at(peer);
  COLL_TRY(link.make());
  for (const auto& pair : link.queue_pairs()) owners_[pair] = &link;
  return link.describe();
}

void IbOneSided::drop(int peer) {
  std::erase_if(owners_, [&](const auto& each) { return each.second->rank() == peer; });
  links_.erase(peer);
}

Status IbOneSided::connect(int peer, ByteView described, Deadline deadline) {
  return links_.at(peer)->connect(described, deadline);
}

void IbOneSided::adopt(int peer, base::Fd control) {
  links_.at(peer)->adopt(std::move(control));
}

// --- windows ---

Result<IbMemory> IbOneSided::register_window(const Range& window, const Range& pages) {
  const Device* const gpu = o_.services.device.get();
  if (gpu == nullptr)
    return IbMemory::host(ports(), window.address, window.bytes, data_order(settings_));
  // A window is registered with the ports of all links.
  for (const LinkSpec& spec : o_.peers)
    for (const std::string* no : {&spec.nic.gdr.no_read, &spec.nic.gdr.no_write})
      if (!no->empty()) return Error(ErrorCode::unavailable, *no);
  std::string how;
  auto memory = IbMemory::device(ports(), *gpu, pages.address, pages.bytes, settings_,
                                 data_order(settings_), how);
  if (memory) COLL_INFO(net, "NET/IB : window of {} bytes by {}", window.bytes, how);
  return memory;
}

IbOneSidedLink::LocalWindow IbOneSided::admit(uint64_t number, const Range& window,
                                              const Range& pages) {
  IbOneSidedLink::LocalWindow local{.number = number,
                                    .address = reinterpret_cast<uintptr_t>(window.address),
                                    .bytes = window.bytes,
                                    .memory = nullptr,
                                    .why = {}};
  // Peers may have puts in flight that name it as it is.
  const auto known = windows_.find(number);
  if (known != windows_.end() && known->second.range == window) {
    local.memory = &known->second.memory;
    return local;
  }
  auto memory = register_window(window, pages);
  if (!memory) {
    local.why = memory.error().chain();
    return local;
  }
  Window& entry = windows_[number];
  entry.range = window;
  entry.memory = std::move(*memory);
  by_address_[window.address] = number;
  local.memory = &entry.memory;
  return local;
}

void IbOneSided::dismiss(uint64_t number) {
  const auto found = windows_.find(number);
  if (found == windows_.end()) return;
  by_address_.erase(found->second.range.address);
  windows_.erase(found);
}

const IbMemory* IbOneSided::memory_of(const void* at, uint64_t bytes) const {
  const auto* const first = static_cast<const uint8_t*>(at);
  const auto after = by_address_.upper_bound(first);
  if (after == by_address_.begin()) return nullptr;
  const Window& window = windows_.at(std::prev(after)->second);
  const auto offset = uint64_t(first - window.range.address);
  const bool inside = offset <= window.range.bytes && bytes <= window.range.bytes - offset;
  return inside ? &window.memory : nullptr;
}

// --- what happens ---

bool IbOneSided::take_all(size_t rail, IbCompletions& queue) {
  VerbsCompletion batch[kCollectAtOnce];
  bool moved = false;
  for (int i = 0; i < kMostCollects; ++i) {
    const int taken = queue.collect(batch);
    if (taken < 0) {
      for (const auto& [peer, link] : links_) moved |= link->rail_gone(rail, IbCompletions::gone());
      return moved;
    }
    for (int k = 0; k < taken; ++k)
      if (const auto owner = owners_.find({rail, batch[k].qp}); owner != owners_.end())
        owner->second->take(rail, batch[k]);
    moved |= taken != 0;
    if (taken < kCollectAtOnce) break;
  }
  return moved;
}

bool IbOneSided::step() {
  bool moved = false;
  const int64_t began = now_ns();
  for (size_t r = 0; r < rails_.size(); ++r) {
    moved |= take_all(r, rails_[r].asked);
    moved |= take_all(r, rails_[r].arrivals);
  }
  for (const auto& [peer, link] : links_)
    if (link->restless()) link->look_after_moving(moved ? 0 : began);
  if (devices_->events() == seen_events_ && !port_down_) return moved;
  seen_events_ = devices_->events();
  port_down_ = false;
  for (const auto& [peer, link] : links_) link->look_at_ports(port_down_);
  return moved;
}

void IbOneSided::arm(IbCompletions IbOneSidedRail::*queue) {
  for (size_t r = 0; r < rails_.size(); ++r)
    if (Status armed = (rails_[r].*queue).arm(); !armed)
      for (const auto& [peer, link] : links_) link->rail_gone(r, armed.error());
}

void IbOneSided::arm_came() {
  arm(&IbOneSidedRail::arrivals);
}

void IbOneSided::arm_asked() {
  arm(&IbOneSidedRail::asked);
}

void IbOneSided::add_interest(std::vector<pollfd>& fds) const {
  for (const IbOneSidedRail& rail : rails_) {
    fds.push_back({rail.asked.fd(), POLLIN, 0});
    fds.push_back({rail.arrivals.fd(), POLLIN, 0});
  }
  for (const auto& [peer, link] : links_)
    if (const int fd = link->control_fd(); fd >= 0 && !link->error())
      fds.push_back({fd, short(POLLIN | (link->control_sending() ? POLLOUT : 0)), 0});
}

void IbOneSided::look(std::span<const pollfd> fds) {
  for (IbOneSidedRail& rail : rails_) {
    rail.asked.take_events();
    rail.arrivals.take_events();
  }
  for (const pollfd& each : fds) {
    if (each.revents == 0) continue;
    for (const auto& [peer, link] : links_)
      if (link->control_fd() == each.fd) link->look_at_control();
  }
}

void IbOneSided::attach_bell(int fd) {
  if (bell_fd_ >= 0) devices_->remove_bell(bell_fd_);
  bell_fd_ = fd;
  if (fd >= 0) devices_->add_bell(fd);
}

}  // namespace collctl::transport
