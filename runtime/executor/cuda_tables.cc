#include "runtime/executor/cuda_tables.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/format.h"
#include "base/wait.h"

namespace collctl::runtime {
namespace {

constexpr uint64_t kBlockBytes = 512 << 10;
constexpr uint64_t kLeastPiece = 256;
constexpr size_t kParts = 4;
constexpr uint64_t kPartBytes = 128 << 10;

}  // namespace

Result<DevicePieces::Piece> DevicePieces::take(uint64_t bytes) {
  const uint64_t size = std::max(kLeastPiece, std::bit_ceil(bytes));
  auto& free = free_[size];
  if (!free.empty()) {
    const Piece piece{free.back(), size};
    free.pop_back();
    return piece;
  }
  if (blocks_.empty() || blocks_.back().bytes() - used_ < size) {
    const uint64_t block = std::max(kBlockBytes, size);
    COLL_ASSIGN(auto memory, transport::DeviceMemory::make(device_, block, false));
    held_ += memory.held_bytes();
    blocks_.push_back(std::move(memory));
    used_ = 0;
  }
  const Piece piece{blocks_.back().data() + used_, size};
  used_ += size;
  return piece;
}

void DevicePieces::give_back(const Piece& piece) {
  if (piece.data != nullptr) free_[piece.bytes].push_back(piece.data);
}

Result<std::unique_ptr<Uploads>> Uploads::make(const transport::DevicePointer& device) {
  std::unique_ptr<Uploads> made(new Uploads);
  made->device_text_ = device->text();
  COLL_ASSIGN(made->ring_, transport::PinnedMemory::make(device, kParts * kPartBytes));
  for (size_t i = 0; i < kParts; ++i) {
    COLL_ASSIGN(auto event, transport::DeviceEvent::make(device, false));
    made->parts_.push_back({std::move(event), false});
  }
  return made;
}

Status Uploads::next_part(const transport::DeviceStream& stream, const Aborted& aborted) {
  COLL_TRY(parts_[part_].copied.record(stream.get()));
  parts_[part_].in_use = true;
  part_ = (part_ + 1) % kParts;
  at_ = 0;
  Part& next = parts_[part_];
  while (next.in_use) {
    COLL_ASSIGN(const bool done, next.copied.done());
    if (done) break;
    if (aborted())
      return Error(ErrorCode::lost, format("{} does not complete copies to it", device_text_));
    base::sleep_until(Deadline::after_ns(20'000));
  }
  next.in_use = false;
  return {};
}

Status Uploads::upload(const transport::DeviceStream& stream, void* to, const void* from,
                       uint64_t bytes, const Aborted& aborted) {
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  while (bytes > 0) {
    if (at_ == kPartBytes) COLL_TRY(next_part(stream, aborted));
    const uint64_t n = std::min(bytes, kPartBytes - at_);
    uint8_t* staged = ring_.data() + part_ * kPartBytes + at_;
    std::memcpy(staged, source, n);
    COLL_TRY(stream.copy(target, staged, n));
    at_ += (n + 63) / 64 * 64;
    target += n;
    source += n;
    bytes -= n;
  }
  return {};
}

Result<LinkTables> LinkTables::make(DevicePieces& pieces, int nranks) {
  LinkTables made;
  made.nranks_ = nranks;
  COLL_ASSIGN(const auto piece,
              pieces.take(sizeof(kernels::ChannelLinks) * size_t(kernels::kMaxChannels)));
  made.table_ = piece.data;
  return made;
}

void LinkTables::collect(bool sends, const kernels::ChannelLinks& host, Channel& channel,
                         Fresh& fresh) const {
  kernels::Fifo* const* side = sends ? host.send : host.recv;
  for (size_t i = 0; i < entries(); ++i) {
    kernels::Fifo*& known = channel.pointers[(sends ? 0 : entries()) + i];
    if (side[i] == nullptr || known != nullptr) continue;
    fresh.fifos.push_back(*side[i]);
    fresh.places.push_back(&known);
    fresh.counters.push_back(sends ? side[i]->head : side[i]->tail);
  }
}

Status LinkTables::place(const Fresh& fresh, DevicePieces& pieces, Uploads& uploads,
                         DevicePulse& pulse, const transport::DeviceStream& stream,
                         const Uploads::Aborted& aborted) {
  if (fresh.fifos.empty()) return {};
  const uint64_t bytes = fresh.fifos.size() * sizeof(kernels::Fifo);
  COLL_ASSIGN(const auto piece, pieces.take(bytes));
  COLL_TRY(uploads.upload(stream, piece.data, fresh.fifos.data(), bytes, aborted));
  for (size_t i = 0; i < fresh.places.size(); ++i) {
    *fresh.places[i] = reinterpret_cast<kernels::Fifo*>(piece.data) + i;
    pulse.add(*fresh.places[i], sizeof(kernels::Fifo));  // a kernel leaves its step there
    pulse.add(fresh.counters[i], sizeof(uint64_t));
  }
  return {};
}

Status LinkTables::update(Wire& wire, DevicePieces& pieces, Uploads& uploads, DevicePulse& pulse,
                          const transport::DeviceStream& stream, const Uploads::Aborted& aborted) {
  const size_t count = size_t(wire.channel_count());
  const uint64_t side_bytes = entries() * sizeof(kernels::Fifo*);
  channels_.resize(std::max(channels_.size(), count));
  Fresh fresh;
  for (size_t c = 0; c < count; ++c) {
    Channel& channel = channels_[c];
    if (channel.memory.data == nullptr) {
      COLL_ASSIGN(channel.memory, pieces.take(2 * side_bytes));
      channel.pointers.resize(2 * entries());
    }
    const kernels::ChannelLinks& host = wire.channel(int(c));
    collect(true, host, channel, fresh);
    collect(false, host, channel, fresh);
  }
  COLL_TRY(place(fresh, pieces, uploads, pulse, stream, aborted));
  for (const kernels::Fifo& fifo : fresh.fifos) {
    uint32_t& least = least_slot_bytes_[size_t(fifo.protocol)];
    least = least == 0 ? fifo.slot_bytes : std::min(least, fifo.slot_bytes);
  }
  if (host_window_) {
    COLL_ASSIGN(const auto piece, pieces.take(sizeof(kernels::Window)));
    COLL_TRY(uploads.upload(stream, piece.data, &*host_window_, sizeof(kernels::Window), aborted));
    window_ = reinterpret_cast<kernels::Window*>(piece.data);
    pulse.add(window_, sizeof(kernels::Window));
    host_window_.reset();
  }
  std::vector<kernels::ChannelLinks> table(kernels::kMaxChannels);
  table[0].window = window_;
  host_table_.assign(count, {});
  for (size_t c = 0; c < count; ++c) {
    auto* pointers = reinterpret_cast<kernels::Fifo**>(channels_[c].memory.data);
    table[c] = {
        .send = pointers, .recv = pointers + entries(), .window = c == 0 ? window_ : nullptr};
    kernels::Fifo** const here = channels_[c].pointers.data();
    host_table_[c] = {.send = here, .recv = here + entries(), .window = nullptr};
    COLL_TRY(
        uploads.upload(stream, pointers, channels_[c].pointers.data(), 2 * side_bytes, aborted));
  }
  COLL_TRY(uploads.upload(stream, table_, table.data(),
                          table.size() * sizeof(kernels::ChannelLinks), aborted));
  links_seen_ = wire.link_count();
  up_ = true;
  return {};
}

}  // namespace collctl::runtime
