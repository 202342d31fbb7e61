// The inside of the fake driver: devices, what fails, and locks. One mutex for everything that is
// not a stream's own queue.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/fake_drivers/cuda_control.h"

namespace fake_cuda {

constexpr int kOk = 0, kInvalidValue = 1, kOutOfMemory = 2, kNotInitialised = 3, kNoDevice = 100,
              kInvalidDevice = 101, kInvalidContext = 201, kPeerUnsupported = 217,
              kInvalidHandle = 400, kNotReady = 600, kIllegalAddress = 700, kPeerAlready = 704,
              kPeerNotEnabled = 705, kAlreadyRegistered = 712, kNotRegistered = 713,
              kNotPermitted = 800, kNotSupported = 801, kCaptureUnsupported = 900,
              kCaptureInvalidated = 901, kCaptureMerge = 902, kCaptureUnmatched = 903,
              kCaptureUnjoined = 904, kCaptureIsolation = 905, kCapturedEvent = 907;

constexpr int kFirstHandle = 1000;  // CUdevice of ordinal 0

struct Context {
  int ordinal = 0, retained = 0, broken = 0;
  uint64_t used_bytes = 0;
  std::set<int> peers_enabled;
};

struct World {
  std::mutex mutex;
  Setup setup;
  Context contexts[64];
  std::set<std::pair<int, int>> cut_off;  // pairs that do not reach each other
  bool all_cut_off = false;
  struct Failure {
    int code, after;
    bool breaks = false;
  };
  std::map<std::string, Failure> failures;
  std::map<std::string, int> calls;

  // The caller holds the mutex.
  bool reaches(int a, int b) const {
    return a == b || (!all_cut_off && !cut_off.contains({a, b}) && !cut_off.contains({b, a}));
  }
  int due_failure(const char* function);
};
World& world();

Context* current();  // of the calling thread; null
void set_current(Context* context);
// A call's result before it does anything: an injected failure, no context, a broken one.
int entry(const char* function, bool needs_context = true);
// Held by a launch that waits for a place in a full queue of kernels: all other calls wait, too.
std::mutex& full_queue();
constexpr size_t kQueueDepth = 1024;

// --- memory, as streams look at it; the caller holds the mutex ---
// The device may load and store these bytes; host memory always may.
bool may_use(int ordinal, const void* at, uint64_t bytes);
bool is_of_device(const void* at);
bool is_pageable(const void* at);  // host memory that nobody pinned
void count_memory(Counts& counts);
void count_pinned(Counts& counts);
void count_streams(Counts& counts);

}  // namespace fake_cuda
