// Streams, events and graphs of the fake driver, as its files share them.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "tests/fake_drivers/cuda_world.h"

namespace fake_cuda {

using Work = std::function<void()>;
struct Stream;

struct Capture {
  std::vector<Work> works;
  const Stream* origin = nullptr;
  bool invalid = false;
  // Other streams that were drawn in, and whether the capture has waited for all they have.
  std::map<const Stream*, bool> joined;
};

// Shared with its thread, which ends when the stream was destroyed and its queue is empty.
struct Stream {
  int ordinal = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  bool running = false, destroyed = false;
  std::shared_ptr<Capture> capture;  // under captures_mutex()
};

struct Event {
  int ordinal = 0;
  bool timed = true;
  // Under events_mutex().
  uint64_t recorded = 0, completed = 0;
  std::chrono::steady_clock::time_point at;
  double gpu_us = 0;               // what the stream's works said they took, up to here
  std::weak_ptr<Capture> capture;  // of the last record, when that was captured
  const Stream* captured_on = nullptr;
};

struct Graph {
  std::vector<Work> works;
};

std::mutex& events_mutex();
std::condition_variable& events_changed();
std::mutex& captures_mutex();

struct Tables {
  std::mutex mutex;
  std::map<void*, std::shared_ptr<Stream>> streams;
  std::map<void*, std::shared_ptr<Event>> events;
  int graphs = 0;  // and executables
};
Tables& tables();
std::shared_ptr<Stream> find_stream(void* stream);

// The device's context, injected failures, the stream itself.
int stream_entry(const char* function, void* handle, std::shared_ptr<Stream>& stream);
void queue_now(Stream& stream, Work work);
// Queues, or records while the stream captures.
int submit(Stream& stream, Work work);
bool capturing(Stream& stream);

}  // namespace fake_cuda
