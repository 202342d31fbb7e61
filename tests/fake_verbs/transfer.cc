#include "tests/fake_verbs/transfer.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace fake_verbs {
namespace {

bool copy_plain(const Memory& from, const Memory& to, uint64_t bytes);

std::array<iovec, kMaxPieces> vectors(const Memory& memory) {
  std::array<iovec, kMaxPieces> out{};
  for (size_t i = 0; i < size_t(memory.pieces); ++i)
    out[i] = {reinterpret_cast<void*>(memory.piece[i].address), memory.piece[i].bytes};
  return out;
}

void copy_here(const Memory& from, const Memory& to, uint64_t bytes) {
  size_t i = 0, j = 0;
  uint64_t from_done = 0, to_done = 0;
  while (bytes > 0) {
    const uint64_t now =
        std::min({bytes, from.piece[i].bytes - from_done, to.piece[j].bytes - to_done});
    copy_words(reinterpret_cast<void*>(to.piece[j].address + to_done),
               reinterpret_cast<const void*>(from.piece[i].address + from_done), now);
    bytes -= now;
    if ((from_done += now) == from.piece[i].bytes) ++i, from_done = 0;
    if ((to_done += now) == to.piece[j].bytes) ++j, to_done = 0;
  }
}

// The kernel copies between processes; false: the other one is gone.
bool copy_across(const Memory& from, const Memory& to, uint64_t bytes) {
  const bool out = from.process == local().process();
  const Memory& mine = out ? from : to;
  const Memory& theirs = out ? to : from;
  const pid_t pid = process_row(theirs.process).pid;
  for (uint64_t done = 0; done < bytes;) {
    const Memory a = part(mine, done, bytes - done), b = part(theirs, done, bytes - done);
    const auto here = vectors(a), there = vectors(b);
    const ssize_t n = out ? ::process_vm_writev(pid, here.data(), size_t(a.pieces), there.data(),
                                                size_t(b.pieces), 0)
                          : ::process_vm_readv(pid, here.data(), size_t(a.pieces), there.data(),
                                               size_t(b.pieces), 0);
    if (n <= 0) {
      if (errno != ESRCH)
        violation("cannot copy between processes: %s (FAKE_VERBS_STAGED=1 needs no right to)",
                  std::strerror(errno));
      return false;
    }
    done += uint64_t(n);
  }
  return true;
}

bool by_mover(const Memory& memory) {
  return std::any_of(memory.piece.begin(), memory.piece.begin() + memory.pieces,
                     [](const Piece& piece) { return piece.by_mover; });
}

// One side of a copy through a buffer of this process.
bool move_pieces(const Memory& memory, uint8_t* buffer, bool read) {
  for (int i = 0; i < memory.pieces; ++i) {
    const Piece& piece = memory.piece[size_t(i)];
    if (piece.by_mover) {
      const GpuMemory place{piece.gpu, piece.driver, piece.address};
      if (!move_by(memory.process, place, buffer, piece.bytes, read)) return false;
    } else {
      Memory one;
      one.process = memory.process;
      one.piece[0] = piece;
      one.pieces = 1;
      const Memory mine = plain_memory(buffer, piece.bytes);
      if (!(read ? copy_plain(one, mine, piece.bytes) : copy_plain(mine, one, piece.bytes)))
        return false;
    }
    buffer += piece.bytes;
  }
  return true;
}

bool copy_through_buffer(const Memory& from, const Memory& to, uint64_t bytes) {
  constexpr uint64_t kAtOnce = 1 << 20;
  std::vector<uint8_t> buffer(std::min(bytes, kAtOnce));
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t now = std::min(kAtOnce, bytes - done);
    if (!move_pieces(part(from, done, now), buffer.data(), true)) return false;
    if (!move_pieces(part(to, done, now), buffer.data(), false)) return false;
    done += now;
  }
  return true;
}

bool copy_plain(const Memory& from, const Memory& to, uint64_t bytes) {
  if (bytes == 0) return true;
  if (by_mover(from) || by_mover(to)) return copy_through_buffer(from, to, bytes);
  if (from.process == to.process) return copy_here(from, to, bytes), true;
  // The end of a message may be what its reader waits for: it comes last.
  const uint64_t last = from.process == local().process() ? std::min<uint64_t>(bytes, 8) : bytes;
  if (bytes > last &&
      !copy_across(part(from, 0, bytes - last), part(to, 0, bytes - last), bytes - last))
    return false;
  return copy_across(part(from, bytes - last, last), part(to, bytes - last, last), last);
}

// As an adapter would that does not keep a line together.
bool move_ends_of_lines(const Memory& from, const Memory& to, uint64_t bytes) {
  constexpr uint64_t kLine = 128, kEnd = 8, kMost = 4 * kLine;
  for (uint64_t end = kLine; end <= std::min(bytes, kMost); end += kLine)
    if (!copy_plain(part(from, end - kEnd, kEnd), part(to, end - kEnd, kEnd), kEnd)) return false;
  return true;
}

}  // namespace

Piece piece_of(const Pinned& pinned, uint64_t first, uint64_t bytes) {
  const Region& region = pinned.region();
  // The host's memory of this process needs nobody else.
  const bool by_mover = region.gpu >= 0 || (region.by_mover && region.process != local().process());
  return {pinned.address(first), bytes, by_mover, region.driver, region.gpu};
}

Memory plain_memory(uint8_t* at, uint64_t bytes) {
  Memory out;
  out.process = local().process();
  out.piece[0] = {reinterpret_cast<uint64_t>(at), bytes};
  out.pieces = 1;
  out.bytes = bytes;
  return out;
}

Memory part(const Memory& whole, uint64_t first, uint64_t bytes) {
  Memory out;
  out.process = whole.process;
  for (size_t i = 0; i < size_t(whole.pieces) && bytes > 0; ++i) {
    const Piece& piece = whole.piece[i];
    if (first < piece.bytes) {
      const uint64_t now = std::min(bytes, piece.bytes - first);
      Piece& cut = out.piece[size_t(out.pieces++)] = piece;
      cut.address += first;
      cut.bytes = now;
      out.bytes += now;
      bytes -= now;
      first = 0;
    } else {
      first -= piece.bytes;
    }
  }
  return out;
}

bool transfer(const Memory& from, const Memory& to, uint64_t bytes, const TransferFaults& faults) {
  if (faults.tear_ns > 0) {
    if (!move_ends_of_lines(from, to, bytes)) return false;
    std::this_thread::sleep_for(std::chrono::nanoseconds(faults.tear_ns));
  }
  if (!copy_plain(from, to, bytes)) return false;
  if (!faults.corrupt || bytes == 0) return true;
  uint8_t byte = 0;
  const Memory spot = plain_memory(&byte, 1);
  if (!copy_plain(part(from, 0, 1), spot, 1)) return false;
  byte ^= 0x5a;
  return copy_plain(spot, part(to, 0, 1), 1);
}

}  // namespace fake_verbs
