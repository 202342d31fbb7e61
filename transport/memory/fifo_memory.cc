#include "transport/memory/fifo_memory.h"

#include <cerrno>
#include <cstring>

#include "base/format.h"

namespace collctl::transport {

namespace {

constexpr size_t kLine = 128;
constexpr size_t kPage = 4096;
constexpr size_t kMostWhy = 200;
constexpr size_t kLargeSlots = 4 * kPage;  // from here on slots start on a page of their own
constexpr size_t kDevicePage = 2u << 20;
constexpr uint64_t kMagic = 0x31304f464946434cu;

struct BlockHead {
  uint64_t magic;
  uint64_t total_bytes;
  FifoGeometry geometry[kernels::kProtocolCount];
};
static_assert(sizeof(BlockHead) <= kLine);

size_t round_up(size_t value, size_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace

Result<FifoLayout> fifo_layout(const FifoGeometry (&geometry)[kernels::kProtocolCount],
                               unsigned elsewhere) {
  FifoLayout layout;
  size_t at = kLine;
  bool any = false;
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    const FifoGeometry& g = geometry[p];
    if (g.slot_bytes == 0) continue;
    if (g.slot_bytes % 16 != 0 || g.slot_bytes > kMaxSlotBytes || g.slot_count == 0 ||
        g.slot_count > kMaxSlots)
      return Error(ErrorCode::usage,
                   format("a buffer of {} slots of {} bytes is invalid: expected 1 to {} "
                          "slots, each a multiple of 16 and at most {} bytes",
                          g.slot_count, g.slot_bytes, kMaxSlots, kMaxSlotBytes),
                   "see BUFFSIZE, LL_BUFFSIZE and STEPS in `collctl env`");
    any = true;
    layout.parts[p].geometry = g;
    layout.parts[p].counters = at;
    at += sizeof(kernels::FifoCounters);
    layout.parts[p].records = at;
    at = round_up(at + g.slot_count * sizeof(kernels::SlotRecord), kLine);
  }
  if (!any) return Error(ErrorCode::usage, "a connection without any protocol was requested");
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    FifoPart& part = layout.parts[p];
    if (part.geometry.slot_bytes == 0) continue;
    if ((elsewhere & protocol_bit(kernels::Protocol(p))) != 0) continue;
    const size_t bytes = size_t(part.geometry.slot_bytes) * part.geometry.slot_count;
    at = round_up(at, bytes >= kLargeSlots ? kPage : kLine);
    part.slots = at;
    at += bytes;
  }
  layout.total_bytes = round_up(at, kPage);
  return layout;
}

size_t exported_bytes(const FifoGeometry& geometry) {
  return round_up(size_t(geometry.slot_bytes) * geometry.slot_count, kDevicePage);
}

DeviceSlots device_slots(const FifoGeometry (&geometry)[kernels::kProtocolCount]) {
  DeviceSlots slots;
  for (const auto protocol : {kernels::Protocol::simple, kernels::Protocol::ll128}) {
    const FifoGeometry& g = geometry[int(protocol)];
    if (g.slot_bytes == 0) continue;
    slots.protocols |= protocol_bit(protocol);
    slots.at[int(protocol)] = slots.bytes;
    slots.bytes += exported_bytes(g);
  }
  return slots;
}

Result<base::Mapping> private_fifo_memory(const FifoLayout& layout) {
  void* block = ::mmap(nullptr, layout.total_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED)
    return base::errno_error(ErrorCode::unavailable,
                             format("{} bytes of memory for a connection", layout.total_bytes),
                             errno);
  fifo_memory_init(block, layout);
  return base::Mapping(block, layout.total_bytes);
}

void fifo_memory_init(void* block, const FifoLayout& layout) {
  BlockHead head{};
  head.magic = kMagic;
  head.total_bytes = layout.total_bytes;
  for (int p = 0; p < kernels::kProtocolCount; ++p) head.geometry[p] = layout.parts[p].geometry;
  std::memcpy(block, &head, sizeof head);
}

Status fifo_memory_check(const void* block, size_t bytes, const FifoLayout& layout) {
  if (bytes < layout.total_bytes)
    return Error(ErrorCode::lost, format("the peer's memory has {} bytes, but {} were agreed",
                                         bytes, layout.total_bytes));
  BlockHead head;
  std::memcpy(&head, block, sizeof head);
  if (head.magic != kMagic)
    return Error(ErrorCode::lost, "the peer's memory does not hold a connection");
  for (int p = 0; p < kernels::kProtocolCount; ++p) {
    const FifoGeometry& mine = layout.parts[p].geometry;
    if (head.geometry[p].slot_bytes != mine.slot_bytes ||
        head.geometry[p].slot_count != mine.slot_count)
      return Error(ErrorCode::usage,
                   format("the ranks disagree on buffers: {} slots of {} bytes here, {} of {} at "
                          "the peer",
                          mine.slot_count, mine.slot_bytes, head.geometry[p].slot_count,
                          head.geometry[p].slot_bytes),
                   "BUFFSIZE, LL_BUFFSIZE and STEPS must be the same on every rank");
  }
  return {};
}

kernels::Fifo fifo_end(void* block, const FifoLayout& layout, kernels::Protocol protocol,
                       const LinkSpec& spec) {
  const FifoPart& part = layout.parts[int(protocol)];
  auto* base = static_cast<uint8_t*>(block);
  auto* counters = reinterpret_cast<kernels::FifoCounters*>(base + part.counters);
  kernels::Fifo fifo{};
  fifo.slots = base + part.slots;
  fifo.tail = &counters->tail;
  fifo.head = &counters->head;
  if (spec.self.kind == DeviceKind::cpu) {
    fifo.consumer_sleeps = &counters->consumer_sleeps;
    fifo.producer_sleeps = &counters->producer_sleeps;
  }
  fifo.records = reinterpret_cast<kernels::SlotRecord*>(base + part.records);
  fifo.slot_bytes = part.geometry.slot_bytes;
  fifo.slot_count = part.geometry.slot_count;
  fifo.peer = spec.peer.rank;
  fifo.bell_fd = -1;
  fifo.channel = uint16_t(spec.channel);
  fifo.protocol = protocol;
  return fifo;
}

Lending try_lending(const LinkSpec& receiver) {
  if (receiver.self.kind != DeviceKind::cpu || receiver.peer.kind != DeviceKind::cpu) return {};
  if (receiver.self.mark.address == 0 || receiver.peer.mark.address == 0) return {};
  std::string why = base::why_unreadable(receiver.peer.pid, receiver.peer.mark);
  return {why.empty(), std::move(why)};
}

void put_lending(ByteWriter& blob, const Lending& lending) {
  blob.put(uint8_t(lending.possible)).put_string(lending.why_not.substr(0, kMostWhy));
}

Lending get_lending(ByteReader& blob) {
  const bool possible = blob.get<uint8_t>() != 0;
  return {possible, blob.get_string(kMostWhy)};
}

MemoryLink::MemoryLink(void* block, const FifoLayout& layout, const LinkSpec& spec, std::string via,
                       std::shared_ptr<void> keep, const Lending& lending)
    : via_(std::move(via) + (lending.possible ? "/CMA" : "")), keep_(std::move(keep)) {
  if (!lending.why_not.empty()) why_ = "messages are copied twice, not by CMA: " + lending.why_not;
  for (int p = 0; p < kernels::kProtocolCount; ++p)
    if (layout.parts[p].geometry.slot_bytes != 0)
      fifos_[p] = fifo_end(block, layout, kernels::Protocol(p), spec);
  kernels::Fifo& simple = fifos_[int(kernels::Protocol::simple)];
  if (!lending.possible || simple.slots == nullptr) return;
  simple.flags |= kernels::kFifoLends;
  if (spec.direction == Direction::recv) simple.process = spec.peer.pid;
}

kernels::Fifo* MemoryLink::fifo(kernels::Protocol protocol) {
  kernels::Fifo* fifo = &fifos_[int(protocol)];
  return fifo->slots == nullptr ? nullptr : fifo;
}

}  // namespace collctl::transport
