#include "cmd/rails/memory_end.h"

#include <algorithm>

#include "base/format.h"
#include "base/wait.h"

namespace collctl::runtime {

using transport::DeviceEvent;
using transport::DeviceMemory;
using transport::DeviceStream;
using transport::kNoRequest;
using transport::PinnedMemory;

namespace {

constexpr double kCopySeconds = 30;  // of a GPU that does not go on
constexpr uint8_t kUntouched = 0xa5;
constexpr size_t kWholePages = 64 << 10;  // whole pages, whatever their size

Error late() {
  return {ErrorCode::deadline, "nothing arrived before the deadline"};
}

}  // namespace

Result<std::unique_ptr<MemoryArea>> MemoryArea::make(transport::DevicePointer device,
                                                     uint32_t message_bytes) {
  auto area = std::make_unique<MemoryArea>();
  area->message_bytes_ = message_bytes;
  const size_t bytes = area->bytes();
  if (device == nullptr) {
    area->host_.resize(bytes);
    area->data_ = area->host_.data();
    return area;
  }
  const size_t pages = (bytes + kWholePages - 1) / kWholePages * kWholePages;
  COLL_ASSIGN(area->memory_, DeviceMemory::make(device, pages, false));
  COLL_ASSIGN(area->pinned_, PinnedMemory::make(device, pages));
  COLL_ASSIGN(area->stream_, DeviceStream::make(device));
  area->device_ = std::move(device);
  area->data_ = area->memory_.data();
  return area;
}

Status MemoryArea::write(const std::vector<uint8_t>& bytes) {
  if (device_ == nullptr) {
    std::copy(bytes.begin(), bytes.end(), data_);
    return {};
  }
  COLL_TRY(stream_.copy(data_, bytes.data(), bytes.size()));
  COLL_TRY(stream_.synchronize(Deadline::after_seconds(kCopySeconds)));
  // So that what is staged there comes out of the GPU's, or from the network.
  std::fill_n(pinned_.data(), pinned_.bytes(), kUntouched);
  return {};
}

Status MemoryArea::read(std::vector<uint8_t>& bytes) const {
  bytes.resize(this->bytes());
  if (device_ == nullptr) {
    std::copy_n(data_, bytes.size(), bytes.data());
    return {};
  }
  COLL_TRY(stream_.copy(bytes.data(), data_, bytes.size()));
  return stream_.synchronize(Deadline::after_seconds(kCopySeconds));
}

Status MemoryEnd::prepare(Deadline deadline) {
  if (area_.device() == nullptr) {
    COLL_ASSIGN(memory_, connection_.register_memory(area_.data(0), area_.bytes()));
  } else {
    const size_t pages = (area_.bytes() + kWholePages - 1) / kWholePages * kWholePages;
    if (!connection_.may_reach_devices()) {
      use_ = {MemoryWay::staged, "sockets carry host memory"};
    } else if (!forbidden_.empty()) {
      use_ = {MemoryWay::by_rule, forbidden_};
    } else if (auto memory =
                   connection_.register_device_memory(area_.data(0), pages, false, use_.how)) {
      memory_ = *memory;
      use_.way = MemoryWay::direct;
    } else if (memory.error().code == ErrorCode::unavailable) {
      use_ = {MemoryWay::refused, memory.error().message};
    } else {
      return std::move(memory.error());
    }
    if (!is_direct()) {
      COLL_ASSIGN(memory_, connection_.register_memory(area_.beside(0), pages));
      for (DeviceEvent& event : copies_) {
        COLL_ASSIGN(event, DeviceEvent::make(area_.device(), false));
      }
    }
  }
  if (deadline.passed()) return late();
  if (sends_) return {};
  COLL_TRY(post_receives());
  return {};
}

uint8_t MemoryEnd::pattern(size_t slot, size_t at) const {
  return uint8_t(seed_ * 31 + slot * 7 + (at >> 8) + at + 1);
}

Status MemoryEnd::fill() {
  std::vector<uint8_t> bytes(area_.bytes(), kUntouched);
  const size_t each = area_.message_bytes();
  if (sends_)
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(i / each, i % each);
  return area_.write(bytes);
}

Status MemoryEnd::compare(uint32_t bytes) const {
  std::vector<uint8_t> got;
  COLL_TRY(area_.read(got));
  const size_t each = area_.message_bytes();
  for (size_t i = 0; i < got.size(); ++i) {
    const bool sent = i % each < bytes;
    const uint8_t wanted = sent ? pattern(i / each, i % each) : kUntouched;
    if (got[i] != wanted)
      return Error(
          ErrorCode::bad_data,
          sent ? format("byte {} of a message is {:#x}, {:#x} was sent", i % each, got[i], wanted)
               : format("byte {} behind a message of {} was written to", i % each, bytes));
  }
  return {};
}

Status MemoryEnd::run(uint64_t count, uint32_t bytes, Deadline deadline) {
  GBps_ = 0;
  first_ns_ = 0;
  return sends_ ? send(done_ + count, bytes, deadline) : receive(done_ + count, bytes, deadline);
}

Status MemoryEnd::copy(uint64_t number, uint32_t bytes) {
  const auto slot = uint32_t(number % kWindow);
  uint8_t *const data = area_.data(slot), *const beside = area_.beside(slot);
  COLL_TRY(area_.stream().copy(sends_ ? beside : data, sends_ ? data : beside, bytes));
  return copies_[slot].record(area_.stream().get());
}

Result<bool> MemoryEnd::is_copied(uint64_t number) const {
  return copies_[number % kWindow].done();
}

Result<bool> MemoryEnd::post(uint64_t number, uint32_t bytes) {
  const auto slot = uint32_t(number % kWindow);
  COLL_ASSIGN(requests_[slot],
              sends_ ? connection_.post_send(RailPath::kStream, wire(slot), bytes, memory_)
                     : connection_.post_recv(RailPath::kStream, wire(slot), area_.message_bytes(),
                                             memory_));
  return requests_[slot] != kNoRequest;
}

// Those of the window are always there, as they are announced several at a time.
Result<bool> MemoryEnd::post_receives() {
  bool moved = false;
  while (posted_ < done_ + kWindow) {
    COLL_ASSIGN(const bool taken, post(posted_, 0));
    if (!taken) break;
    ++posted_;
    moved = true;
  }
  return moved;
}

Status MemoryEnd::send(uint64_t end, uint32_t bytes, Deadline deadline) {
  while (done_ < end) {
    bool moved = false;
    for (; !is_direct() && copied_ < std::min(end, done_ + kWindow); ++copied_, moved = true)
      COLL_TRY(copy(copied_, bytes));
    while (posted_ < std::min(end, done_ + kWindow)) {
      if (!is_direct()) {
        COLL_ASSIGN(const bool copied, is_copied(posted_));
        if (!copied) break;
      }
      COLL_ASSIGN(const bool taken, post(posted_, bytes));
      if (!taken) break;
      ++posted_;
      moved = true;
    }
    COLL_ASSIGN(const bool carried, connection_.progress());
    while (done_ < posted_) {
      COLL_ASSIGN(const transport::NetDone sent, connection_.test(requests_[done_ % kWindow]));
      if (!sent.done) break;
      ++done_;
      moved = true;
    }
    if (moved || carried) continue;
    if (deadline.passed()) return late();
    base::yield_thread();
  }
  return {};
}

void MemoryEnd::count_arrival(uint64_t first, uint32_t bytes) {
  const int64_t now = now_ns();
  if (done_ == first) first_ns_ = now;
  if (done_ > first && now > first_ns_)
    GBps_ = double(done_ - first) * double(bytes) / double(now - first_ns_);
}

Status MemoryEnd::receive(uint64_t end, uint32_t bytes, Deadline deadline) {
  const uint64_t first = done_;
  while (done_ < end) {
    COLL_ASSIGN(const bool carried, connection_.progress());
    bool moved = false;
    while (arrived_ < std::min(posted_, end)) {
      COLL_ASSIGN(const transport::NetDone got, connection_.test(requests_[arrived_ % kWindow]));
      if (!got.done) break;
      if (got.bytes != bytes)
        return Error(ErrorCode::bad_data,
                     format("a message of {} bytes arrived with {}", bytes, got.bytes));
      if (!is_direct()) COLL_TRY(copy(arrived_, bytes));
      ++arrived_;
      moved = true;
    }
    while (done_ < arrived_) {
      if (!is_direct()) {
        COLL_ASSIGN(const bool copied, is_copied(done_));
        if (!copied) break;
      }
      count_arrival(first, bytes);
      ++done_;
      moved = true;
    }
    COLL_ASSIGN(const bool posted, post_receives());
    if (moved || posted || carried) continue;
    if (deadline.passed()) return late();
    base::yield_thread();
  }
  return {};
}

}  // namespace collctl::runtime
