// Faults, the log of posts, and what else control.h offers.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "tests/fake_verbs/pair.h"

namespace fake_verbs {
namespace {

const char* const kOpcodeNames[] = {"write", "write_imm", "send", "send_imm", "read"};

int opcode_of(const std::string& name) {
  for (int i = 0; i < int(std::size(kOpcodeNames)); ++i)
    if (name == kOpcodeNames[i]) return i;
  return -1;
}

bool hits(FaultRow& row, const Request& request, const Device& device, int port) {
  if (!row.used || (row.opcode >= 0 && row.opcode != int(request.opcode))) return false;
  if (row.device[0] != 0 && std::strcmp(row.device, device.name) != 0) return false;
  if (row.host >= 0 && row.host != device.host) return false;
  if (row.port != 0 && row.port != port) return false;
  if (request.bytes < row.min_bytes || request.bytes > row.max_bytes) return false;
  if (row.seen.fetch_add(1) < row.after) return false;
  const uint32_t before = row.hits.fetch_add(1);
  if (row.times == 0 || before < row.times) return true;
  row.hits.fetch_sub(1);
  return false;
}

// When the last byte is through a wire of so many bytes per second.
uint64_t through_wire(Port& port, uint64_t bytes, uint64_t per_second) {
  const uint64_t takes = uint64_t(double(bytes) * 1e9 / double(std::max<uint64_t>(1, per_second)));
  uint64_t free_at = port.free_at_ns, done;
  do {
    done = std::max(free_at, now_ns()) + takes;
  } while (!port.free_at_ns.compare_exchange_weak(free_at, done));
  return done;
}

void apply(const FaultRow& row, QueuePair& pair, Request& request, Device& device) {
  const uint64_t ns = row.us * 1000;
  switch (FaultKind(row.kind)) {
    case FaultKind::kDrop:
      request.losses = row.value == 0 ? 1 : uint32_t(row.value);
      break;
    case FaultKind::kAckLost:
      request.ack_losses = row.value == 0 ? 1 : uint32_t(row.value);
      break;
    case FaultKind::kDelay:
      request.due_ns = std::max(request.due_ns, now_ns() + ns);
      break;
    case FaultKind::kReorder:
      request.reorder_ns = std::max<uint64_t>(ns, 1);
      break;
    case FaultKind::kCorrupt:
      request.corrupt = true;
      break;
    case FaultKind::kTear:
      request.tear_ns = std::max<uint64_t>(ns, 1);
      break;
    case FaultKind::kRevoke:
      request.revoke = true;
      break;
    case FaultKind::kPortDown:
      set_port_of(device, pair.shared().port, false);
      break;
    case FaultKind::kKill:
      ::kill(::getpid(), SIGKILL);
      break;
    case FaultKind::kStatus:
      request.forced_status = int(row.value);
      break;
    case FaultKind::kBandwidth:
      request.due_ns = std::max(
          request.due_ns, through_wire(device.port[pair.shared().port], request.bytes, row.value));
      break;
    case FaultKind::kNone:
      break;
  }
}

bool named(const Device& device, const std::string& name) {
  return device.used && (name == "*" || name == device.name);
}

void fill(LogRow& row, const QueuePair& pair) {
  const Pair& shared = pair.shared();
  row.process = my_row().pid;
  row.pair = pair.base.qp_num;
  row.peer = shared.attr.dest_qp_num;
  row.port = uint8_t(shared.port + 1);
  const char* name = world().devices[shared.device].name;
  std::memcpy(row.device, name, std::min(std::strlen(name) + 1, sizeof row.device));
  row.device[sizeof row.device - 1] = 0;
}

LogRow& next_row(uint64_t& number) {
  World& w = world();
  number = w.log_next.fetch_add(1);
  LogRow& row = w.log[number % kLogEntries];
  row.ready = 0;
  return row;
}

}  // namespace

void judge(QueuePair& pair, Request& request) {
  request.judged = true;
  World& w = world();
  if (w.fault_count == 0) return;
  Device& device = w.devices[pair.shared().device];
  for (FaultRow& row : w.faults)
    if (hits(row, request, device, pair.shared().port + 1)) apply(row, pair, request, device);
}

void log_request(const QueuePair& pair, const Request& request, uint8_t opcode, uint8_t pieces) {
  uint64_t number = 0;
  LogRow& row = next_row(number);
  fill(row, pair);
  row.time_ns = request.posted_ns;
  row.id = request.id;
  row.bytes = request.bytes;
  row.address = pieces > 0 ? request.piece[0].addr : 0;
  row.remote_address = request.remote_address;
  row.immediate = request.immediate;
  row.opcode = opcode;
  row.pieces = pieces;
  row.flags = uint8_t(request.flags);
  row.ready = number + 1;
}

void log_receive(const QueuePair& pair, const ibv_recv_wr& wr) {
  Request request;
  request.id = wr.wr_id;
  request.posted_ns = now_ns();
  for (int i = 0; i < wr.num_sge; ++i) {
    request.piece[i] = wr.sg_list[i];
    request.bytes += wr.sg_list[i].length;
  }
  log_request(pair, request, 0xff, uint8_t(wr.num_sge));
}

void revoke_key(uint32_t remote_key) {
  const uint32_t place = (remote_key & 0x7fffffff) >> 8;
  if (place >= 1 && place <= uint32_t(kRegions)) world().regions[place - 1].revoked = true;
}

void set_port_of(Device& device, int port, bool up) {
  if (device.port[port].up.exchange(up) == up) return;
  World& w = world();
  const int number = int(&device - w.devices);
  for (int i = 0; i < kProcesses; ++i)
    if (w.processes[i].used && w.processes[i].host == device.host)
      tell(i, {up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, number, port + 1, 0, 0});
}

int add_fault(const Fault& fault) {
  World& w = world();
  Locked hold(w.lock);
  for (int i = 0; i < kFaults; ++i) {
    FaultRow& row = w.faults[i];
    if (row.used) continue;
    row.kind = uint8_t(fault.kind);
    row.opcode = opcode_of(fault.opcode);
    std::strncpy(row.device, fault.device.c_str(), sizeof row.device - 1);
    row.host = fault.host;
    row.port = fault.port;
    row.after = fault.after;
    row.times = fault.times;
    row.min_bytes = fault.min_bytes;
    row.max_bytes = fault.max_bytes;
    row.us = fault.us;
    row.value = fault.value;
    row.seen = row.hits = 0;
    row.used = true;
    w.fault_count.fetch_add(1);
    return i;
  }
  return -1;
}

uint32_t hits(int fault) {
  return fault >= 0 && fault < kFaults ? world().faults[fault].hits.load() : 0;
}

void clear_faults() {
  World& w = world();
  Locked hold(w.lock);
  for (FaultRow& row : w.faults) row.used = false;
  w.fault_count = 0;
}

void set_port(const std::string& device, int port, bool up) {
  for (Device& row : world().devices)
    if (named(row, device) && port >= 1 && port <= row.ports) set_port_of(row, port - 1, up);
}

void set_cable(const std::string& device, int port, bool plugged) {
  for (Device& row : world().devices)
    if (named(row, device) && port >= 1 && port <= row.ports) row.port[port - 1].plugged = plugged;
}

void revoke_keys(const std::string& device) {
  World& w = world();
  for (Region& region : w.regions)
    if (region.held && named(w.devices[region.device], device)) region.revoked = true;
}

void break_device(const std::string& device) {
  World& w = world();
  for (int d = 0; d < kDevices; ++d) {
    if (!named(w.devices[d], device) || w.devices[d].broken.exchange(true)) continue;
    for (int i = 0; i < kProcesses; ++i)
      if (w.processes[i].used && w.processes[i].host == w.devices[d].host)
        tell(i, {IBV_EVENT_DEVICE_FATAL, d, 0, 0, 0});
  }
}

std::vector<Posted> posted() {
  World& w = world();
  std::vector<Posted> out;
  const uint64_t end = w.log_next;
  const uint64_t oldest = end > kLogEntries ? end - kLogEntries : 0;
  for (uint64_t i = std::max(oldest, w.log_first.load()); i < end; ++i) {
    const LogRow& row = w.log[i % kLogEntries];
    if (row.ready != i + 1) continue;  // being written
    Posted p{row.time_ns,
             row.process,
             row.pair,
             row.peer,
             row.id,
             row.bytes,
             row.address,
             row.remote_address,
             row.immediate,
             row.opcode,
             row.port,
             row.pieces,
             (row.flags & IBV_SEND_SIGNALED) != 0,
             (row.flags & IBV_SEND_INLINE) != 0,
             {}};
    std::memcpy(p.device, row.device, sizeof p.device);
    out.push_back(p);
  }
  return out;
}

void clear_posted() {
  world().log_first = world().log_next.load();
}

std::vector<std::string> violations() {
  World& w = world();
  std::vector<std::string> out;
  for (uint32_t i = 0; i < std::min<uint32_t>(w.violation_count, kViolations); ++i)
    out.emplace_back(w.violations[i]);
  return out;
}

void clear_violations() {
  world().violation_count = 0;
}

Counts counts() {
  World& w = world();
  Counts out;
  for (const Process& row : w.processes) {
    if (!row.used) continue;
    out.contexts += row.contexts;
    out.domains += row.domains;
    out.channels += row.channels;
  }
  for (const Region& region : w.regions) out.regions += region.held;
  for (const CompletionQueue& queue : w.queues) out.queues += queue.used;
  for (const Pair& pair : w.pairs) out.pairs += pair.used;
  return out;
}

std::string Counts::text() const {
  return "contexts " + std::to_string(contexts) + " domains " + std::to_string(domains) +
         " regions " + std::to_string(regions) + " queues " + std::to_string(queues) + " pairs " +
         std::to_string(pairs) + " channels " + std::to_string(channels);
}

}  // namespace fake_verbs
