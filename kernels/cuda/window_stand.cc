#include "kernels/cuda/window_stand.h"

#include <algorithm>
#include <array>

#include "kernels/cuda/window_layout.h"

namespace collctl::kernels::cuda {
namespace {

class Look {
 public:
  Look(const PeerMemory& memory, const ReadMemory& read)
      : memory_(memory), read_(read), layout_(layout_of(memory)) {}

  // The number of launches that all blocks have ended.
  bool ended(uint64_t& count) const {
    std::array<uint64_t, kWindowBlocks> epochs;
    const MemoryRead all{epochs.data(), own(memory_.rank) + layout_.epochs, sizeof(epochs)};
    if (!read_({&all, 1})) return false;
    count = *std::min_element(epochs.begin(), epochs.end());
    return true;
  }

  // Whether each of `writers` has left something of the epoch at `reader`.
  bool begun(int reader, std::span<const int> writers, uint64_t epoch,
             std::vector<bool>& answers) const {
    std::vector<Counts> counts(writers.size());
    std::vector<MemoryRead> list;
    for (size_t i = 0; i < writers.size(); ++i) {
      counts[i].fill(UINT64_MAX);  // nothing has a greater one
      if (const void* from = counts_of(reader, writers[i]); from != nullptr)
        list.push_back({&counts[i], from, sizeof(Counts)});
    }
    if (!read_(list)) return false;
    for (size_t i = 0; i < writers.size(); ++i)
      if (writers[i] == memory_.rank && memory_.own != nullptr) {
        counts[i][kReceived] = counts[i][kSent];
        counts[i][kResultReceived] = counts[i][kResultSent];
      }
    list.clear();
    std::vector<Signs> signs(writers.size());
    for (size_t i = 0; i < writers.size(); ++i)
      ask(reader, writers[i], epoch, counts[i], signs[i], list);
    if (!read_(list)) return false;
    for (size_t i = 0; i < writers.size(); ++i) answers.push_back(signs[i].say(epoch, counts[i]));
    return true;
  }

 private:
  using Counts = std::array<uint64_t, kCounts>;
  // The places that a rank may write first, by the kernel that runs.
  struct Signs {
    PeerCounters counters;
    std::array<uint64_t, 2> ll;  // the first line
    uint64_t ll128;              // the first line's flag
    uint64_t arrived, result;    // beside the slot of the next chunk
    bool say(uint64_t epoch, const Counts& before) const {
      return counters.arrived >= epoch || counters.closed >= epoch ||
             (counters.announced[0].epoch & kEpochMask) == (epoch & kEpochMask) ||
             (ll[0] >> 32 == uint32_t(epoch) && ll[1] >> 32 == second_flag(epoch)) ||
             ll128 == epoch || arrived > before[kReceived] || result > before[kResultReceived];
    }
  };

  const uint8_t* part(int rank) const { return memory_.base + uint64_t(rank) * memory_.stride; }
  const uint8_t* own(int rank) const { return memory_.own != nullptr ? memory_.own : part(rank); }
  uint64_t place(int writer, int reader) const {
    return uint64_t(place_of(writer, reader, memory_.nranks));
  }
  // The reader's counts about the writer. Where each rank's counts are on its own GPU, what this
  // rank counts as one of the two, and of two others nothing (null): who has come is seen by what
  // it left here.
  const void* counts_of(int reader, int writer) const {
    const auto peers = [&](int rank, int peer) {
      return reinterpret_cast<const OwnBlock*>(own(rank) + layout_.own)
          ->peers[place(peer, rank)]
          .count;
    };
    if (memory_.own == nullptr || reader == memory_.rank) return peers(reader, writer);
    return writer == memory_.rank ? peers(writer, reader) : nullptr;
  }
  void ask(int reader, int writer, uint64_t epoch, const Counts& counts, Signs& to,
           std::vector<MemoryRead>& list) const {
    const uint8_t* const from = part(reader);
    const auto lines = [&](uint64_t region, uint64_t bank) {
      const uint64_t bank_before = (epoch & 1) * uint64_t(memory_.nranks - 1);
      return from + region + (bank_before + place(writer, reader)) * bank;
    };
    const auto beside_slot = [&](uint64_t region, uint64_t number) {
      const uint64_t slot = place(writer, reader) * layout_.slots + (number & (layout_.slots - 1));
      return from + region + slot * sizeof(uint64_t);
    };
    constexpr uint64_t kLineBytes = 128;
    list.insert(list.end(),
                {{&to.counters, from + layout_.peers + place(writer, reader) * sizeof(PeerCounters),
                  sizeof(to.counters)},
                 {&to.ll, lines(layout_.ll, ll_bank_bytes(memory_.nranks)), sizeof(to.ll)},
                 {&to.arrived, beside_slot(layout_.arrived, counts[kReceived]), sizeof(to.arrived)},
                 {&to.result, beside_slot(layout_.result_arrived, counts[kResultReceived]),
                  sizeof(to.result)}});
    if (layout_.ll128_bank_bytes > 0)
      list.push_back(
          {&to.ll128,
           lines(layout_.ll128, layout_.ll128_bank_bytes) + kLineBytes - sizeof(to.ll128),
           sizeof(to.ll128)});
  }

  const PeerMemory& memory_;
  const ReadMemory& read_;
  const WindowLayout layout_;
};

}  // namespace

bool window_stand(const PeerMemory& memory, const ReadMemory& read, WindowStand& stand) {
  stand = {};
  const Look look(memory, read);
  if (!look.ended(stand.ended)) return false;
  // Not every rank writes to every other: who has left nothing at the first may have elsewhere.
  std::vector<int> unseen;
  for (int r = 0; r < memory.nranks; ++r) unseen.push_back(r);
  for (int k = 0; k < memory.nranks && !unseen.empty(); ++k) {
    const int reader = (memory.rank + k) % memory.nranks;
    std::vector<int> writers = unseen;
    std::erase(writers, reader);
    std::vector<bool> begun;
    if (!look.begun(reader, writers, stand.ended + 1, begun)) return false;
    for (size_t i = 0; i < writers.size(); ++i)
      if (begun[i]) std::erase(unseen, writers[i]);
  }
  uint64_t now = 0;
  if (!look.ended(now) || now != stand.ended) return false;
  stand.inside = !std::count(unseen.begin(), unseen.end(), memory.rank);
  if (stand.inside) stand.missing = unseen;
  return true;
}

}  // namespace collctl::kernels::cuda
