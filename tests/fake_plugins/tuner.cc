// One structure of the tuner interface, of the version that the build names (FAKE_TUNER_VERSION).
#include "tests/fake_plugins/tuner.h"

#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/tuner/versions/v3.h"

#define FAKE_EXPORT __attribute__((visibility("default")))

namespace fake_tuner {
namespace {

using namespace collctl::runtime;

std::atomic<int> sessions{0}, calls{0}, registered_calls{0}, begun{0};
std::atomic<TunerLog> logger{nullptr};

struct Context {
  int number;
};

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

int refuse(const char* why) {
  if (const TunerLog log = logger.load(); log != nullptr)
    log(2, ~0ul, __FILE__, __LINE__, "%s", why);
  return 3;
}

int fault(const char* call) {
  if (std::strcmp(variable("FAKE_TUNER_FAIL"), call) != 0) return 0;
  char text[64];
  std::snprintf(text, sizeof text, "%s was to fail", call);
  refuse(text);
  return 2;
}

int begin(size_t ranks, size_t nodes, TunerLog log, void** context) {
  logger = log;
  if (log == nullptr || ranks < 2 || nodes < 1 || nodes > ranks) return refuse("odd start");
  log(3, ~0ul, __FILE__, __LINE__, "version %d begins", FAKE_TUNER_VERSION);
  if (const int wrong = fault("init"); wrong != 0) return wrong;
  *context = new Context{begun++};
  ++sessions;
  return 0;
}

#if FAKE_TUNER_VERSION >= 5
int init(void** context, uint64_t, size_t ranks, size_t nodes, TunerLog log, TunerDomains* domains,
         TunerConstants* constants) {
  if (domains == nullptr || constants == nullptr || size_t(domains->count) != nodes ||
      domains->least_ranks < 1 || domains->most_ranks < domains->least_ranks ||
      size_t(domains->most_ranks) > ranks || !(constants->base_us[1][0] > 0) ||
      !(constants->hop_us[2][0][2] > 0) || !(constants->caps[3][2][0] > 0))
    return 3;
  if (std::strcmp(variable("FAKE_TUNER_NONSENSE"), "constants") == 0) constants->base_us[1][0] = 1;
  return begin(ranks, nodes, log, context);
}
#else
int init(size_t ranks, size_t nodes, TunerLog log, void** context) {
  return begin(ranks, nodes, log, context);
}
#endif

struct Place {
  int a = -1, p = -1;
  float us = 0;
};
Place place_of(const char* name) {
  Place place;
  std::sscanf(variable(name), "%d:%d:%f", &place.a, &place.p, &place.us);
  return place;
}

int cost_of(void* context, int collective, size_t bytes, int operations, float** rows,
            int algorithms, int protocols, int* channels) {
  auto* table = reinterpret_cast<float*>(rows);
  if (context == nullptr || collective < 0 || collective > 4 || bytes == 0 || operations != 1 ||
      algorithms != kTunerAlgorithms || protocols != kTunerProtocols || *channels != 0)
    return refuse("odd arguments");
  ++calls;
  int there = 0;
  for (int i = 0; i < algorithms * protocols; ++i) there += table[i] >= 0 ? 1 : 0;
  if (there == 0 && variable("FAKE_TUNER_PICK")[0] == 0) return refuse("an empty table");
  for (const int none : {2, 4, 5, 6})
    for (int p = 0; p < protocols; ++p)
      if (table[none * protocols + p] != kTunerIgnore) return refuse("a time of what is not there");
  if (const int wrong = fault("getCollInfo"); wrong != 0) return wrong;
  const auto at = [&](const Place& place) -> float& {
    return table[place.a * protocols + place.p];
  };
  if (const Place only = place_of("FAKE_TUNER_ONLY"); only.a >= 0) {
    const float kept = at(only);
    for (int i = 0; i < algorithms * protocols; ++i) table[i] = kTunerIgnore;
    at(only) = kept;
  }
  if (const Place pick = place_of("FAKE_TUNER_PICK"); pick.a >= 0) at(pick) = 0;
  if (const Place other = place_of("FAKE_TUNER_DIFFERS");
      other.a >= 0 && static_cast<Context*>(context)->number % 2 != 0)
    at(other) = 0;
  if (const Place time = place_of("FAKE_TUNER_TIME"); time.a >= 0) at(time) = time.us;
  if (variable("FAKE_TUNER_CHANNELS")[0] != 0)
    *channels = std::atoi(variable("FAKE_TUNER_CHANNELS"));
  const char* nonsense = variable("FAKE_TUNER_NONSENSE");
  if (std::strcmp(nonsense, "nan") == 0) table[protocols] = std::nanf("");
  if (std::strcmp(nonsense, "nothing") == 0)
    for (int i = 0; i < algorithms * protocols; ++i) table[i] = kTunerIgnore;
  return 0;
}

int finalize(void* context) {
  const int wrong = fault("finalize");
  delete static_cast<Context*>(context);
  --sessions;
  return wrong;
}

#if FAKE_TUNER_VERSION >= 4
int cost(void* context, int collective, size_t bytes, int operations, float** rows, int algorithms,
         int protocols, int registered, int* channels) {
  registered_calls += registered;
  if (registered != 0) logger.load()(3, ~0ul, __FILE__, __LINE__, "registered buffers");
  return cost_of(context, collective, bytes, operations, rows, algorithms, protocols, channels);
}
#else
constexpr auto cost = cost_of;
#endif

#define FAKE_JOIN(a, b) a##b
#define FAKE_NAME(a, b) FAKE_JOIN(a, b)
using Structure = FAKE_NAME(Tuner, FAKE_TUNER_VERSION);

Structure structure() {
  Structure s{};
  s.name = "Scales";
  s.init = init;
  s.cost = cost;
#ifdef FAKE_TUNER_HOLED
  s.cost = nullptr;
#endif
  s.finalize = finalize;
  return s;
}

}  // namespace
}  // namespace fake_tuner

using namespace fake_tuner;

#ifdef FAKE_TUNER_OLD
#define FAKE_STRUCTURE ncclTunerPlugin_v2
#else
#define FAKE_STRUCTURE FAKE_NAME(ncclTunerPlugin_v, FAKE_TUNER_VERSION)
#endif
extern "C" {
FAKE_EXPORT extern const Structure FAKE_STRUCTURE;
const Structure FAKE_STRUCTURE = structure();
FAKE_EXPORT Counts fake_tuner_counts() {
  return {sessions, calls, registered_calls};
}
}
