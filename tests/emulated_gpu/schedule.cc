// The order in which launches, turns of warps and stores on their way go on.
#include <algorithm>
#include <cstring>

#include "tests/emulated_gpu/machine.h"
#include "tests/emulated_gpu/machine_parts.h"

namespace emulated {

namespace {

std::map<const void*, Binder>& known() {
  static std::map<const void*, Binder> table;
  return table;
}

}  // namespace

void know(const void* kernel, const Binder& binder) {
  known().try_emplace(kernel, binder);
}
bool launch(const void* kernel, int blocks, int threads, void* stream, void** arguments) {
  const auto found = known().find(kernel);
  if (found == known().end()) return false;
  machine().launch(stream, blocks, threads, found->second(arguments));
  return true;
}

void Machine::behave(const Manners& manners) {
  manners_ = manners;
  state_ = manners.seed;
  look_mask_ = manners.looks - 1;
}

void Machine::launch(void* stream, int blocks, int threads, std::function<void()> kernel) {
  auto made = std::make_unique<Launch>();
  made->stream = stream;
  made->blocks = blocks;
  made->threads = threads;
  made->kernel = std::move(kernel);
  streams_[stream].push_back(std::move(made));
}

void Machine::begin(Launch& launch) {
  launch.left = launch.blocks * launch.threads;
  ++under_way_;
  for (int b = 0; b < launch.blocks; ++b) {
    launch.parts.push_back(std::make_unique<Block>());
    Block& block = *launch.parts.back();
    block.launch = &launch;
    block.number = unsigned(b);
    for (int w = 0; w * 32 < launch.threads; ++w) {
      block.warps.push_back(std::make_unique<Warp>());
      Warp& warp = *block.warps.back();
      warp.block = &block;
      warp.number = w;
      const int lanes = std::min(32, launch.threads - w * 32);
      warp.live = lanes == 32 ? ~0u : (1u << lanes) - 1;
      for (int lane = 0; lane < lanes; ++lane) {
        Fiber* const f = take_fiber();
        f->warp = &warp;
        f->lane = lane;
        warp.lanes[lane] = f;
      }
      wake(warp, warp.live);
    }
  }
}
void Machine::begin_next() {
  for (auto& [stream, queue] : streams_)
    if (!queue.empty() && queue.front()->parts.empty()) begin(*queue.front());
}

void Machine::finish(Warp& warp, int lane) {
  warp.live &= ~(1u << lane);
  warp.ready &= ~(1u << lane);
  free_.push_back(warp.lanes[lane]);
  warp.lanes[lane] = nullptr;
  --warp.block->launch->left;
}
// The first of the stores to one place comes first; returns which it was.
size_t Machine::deliver(size_t index) {
  const Posted chosen = posted_[index];
  const auto meets = [&](const Posted& p) {
    return p.to < chosen.to + chosen.bytes && chosen.to < p.to + p.bytes;
  };
  const auto first = std::find_if(posted_.begin(), posted_.end(), meets);
  std::memcpy(first->to, first->data, first->bytes);
  const auto which = size_t(first - posted_.begin());
  posted_.erase(first);
  return which;
}
// All that blocks of which this is true have stored.
template <class Which>
void Machine::deliver_all(Which which) {
  for (size_t i = 0; i < posted_.size();)
    if (!which(posted_[i].by))
      ++i;
    else if (deliver(i) < i)
      --i;
}
void Machine::fence() {
  const Block* const mine = current_->warp->block;
  deliver_all([&](const Block* by) { return by == mine; });
  look();
}
// Everything that the launch has stored arrives.
void Machine::finish_launch(Launch& launch) {
  deliver_all([&](const Block* by) { return by->launch == &launch; });
  ready_.erase(std::remove_if(ready_.begin(), ready_.end(),
                              [&](const Warp* w) { return w->block->launch == &launch; }),
               ready_.end());
  --under_way_;
  streams_[launch.stream].pop_front();
}

void Machine::deliver_some() {
  if (posted_.empty() || random(manners_.arrivals) != 0) return;
  for (uint64_t n = random(posted_.size() + 1); n > 0; --n) deliver(random(posted_.size()));
}

bool Machine::held_up(Warp& warp) {
  Block& block = *warp.block;
  Launch& launch = *block.launch;
  if (std::max({warp.until, block.until, launch.until}) > turns_) return true;
  if (manners_.pauses == 0 || random(manners_.pauses) != 0) return false;
  const uint64_t until = turns_ + random(manners_.longest_pause);
  const uint64_t whom = random(16);
  (whom == 0 ? launch.until : whom < 4 ? block.until : warp.until) = until;
  return until > turns_;
}

void Machine::take_turn(Warp& warp) {
  Launch& launch = *warp.block->launch;
  const uint32_t lanes = warp.ready;
  const int first = int(random(32));
  for (int i = 0; i < 32; ++i) {
    const int lane = (first + i) % 32;
    if ((lanes >> lane & 1) == 0) continue;
    resume(warp, lane);
    ++looks_;
    if (!forbidden_.empty()) return;
  }
  if (launch.left == 0) {
    finish_launch(launch);
    begin_next();
  }
}

std::string Machine::run(uint64_t most_looks) {
  const uint64_t last = looks_ + most_looks;
  begin_next();
  while (under_way_ > 0) {
    ++turns_;
    deliver_some();
    if (ready_.empty() || looks_ > last || !forbidden_.empty()) {
      if (ready_.empty() && !posted_.empty()) continue;
      const std::string why = !forbidden_.empty() ? forbidden_
                              : ready_.empty()    ? "nothing can go on"
                                                  : "no end of it";
      std::string all = why + "\n" + state();
      forget();
      return all;
    }
    next_ = random(16) == 0 ? random(ready_.size()) : (next_ + 1) % ready_.size();
    Warp& warp = *ready_[next_];
    if (warp.ready == 0) {
      warp.listed = false;
      ready_[next_] = ready_.back();
      ready_.pop_back();
    } else if (!held_up(warp)) {
      take_turn(warp);
    }
  }
  return "";
}

std::string Machine::state() const {
  static const char* const names[] = {"__syncwarp", "any", "all", "shuffle", "a store together"};
  std::string text;
  int number = -1;
  for (const auto& [stream, queue] : streams_) {
    ++number;
    if (queue.empty()) continue;
    for (const auto& block : queue.front()->parts) {
      int live = 0, ready = 0;
      std::string waits;
      for (const auto& warp : block->warps) {
        live += __builtin_popcount(warp->live);
        ready += __builtin_popcount(warp->ready);
        for (const Met& met : warp->met)
          if (met.arrived != 0)
            waits += ", " + std::to_string(__builtin_popcount(met.arrived)) + " lanes of warp " +
                     std::to_string(warp->number) + " in " + names[int(met.what)];
      }
      for (int b = 0; b < 16; ++b)
        if (block->barriers[b].arrived > 0)
          waits += ", " + std::to_string(block->barriers[b].arrived) + " of " +
                   std::to_string(block->barriers[b].wanted) + " at barrier " + std::to_string(b);
      if (live > 0)
        text += "stream " + std::to_string(number) + " block " + std::to_string(block->number) +
                ": " + std::to_string(live) + " threads, " + std::to_string(ready) + " go on" +
                waits + "\n";
    }
  }
  return text;
}

// Threads that will never end are left where they are.
void Machine::forget() {
  streams_.clear();
  ready_.clear();
  posted_.clear();
  forbidden_.clear();
  next_ = 0;
  under_way_ = 0;
}

}  // namespace emulated
