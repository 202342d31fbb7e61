// Jobs whose hosts have only the network that reduces between them (tests/fake_plugins), as threads
// that act as if on several hosts, and data with known sums. For the tests of CollNet.
#pragma once
#include <dlfcn.h>

#include <cmath>
#include <cstring>

#include "base/env.h"
#include "base/wait.h"
#include "runtime/plan/network_reduction.h"
#include "tests/fake_plugins/control.h"
#include "tests/fake_plugins/narrow.h"
#include "tests/places.h"
#include "tests/unit/runtime/ranks.h"
#include "transport/net/plugin/versions/table.h"

namespace collctl::runtime::testing {

inline std::string plugin_path(const std::string& name) {
  return format("{}/libnccl-net-{}.so", test::fake_plugins(), name);
}

// One plugin for each version of the interface.
inline std::vector<std::string> reducing_plugins() {
  std::vector<std::string> names;
  for (const auto& version : transport::net_plugin_versions())
    names.push_back(format("reduces{}", version.number));
  return names;
}

// A variable for one test.
using Variable = base::ScopedVariable;

inline fake_plugin::Counts counts_of(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return {};
  const auto counts =
      reinterpret_cast<fake_plugin::CountsFunction>(::dlsym(library, fake_plugin::kCountsName));
  const fake_plugin::Counts now = counts();
  ::dlclose(library);
  return now;
}

// The plugin in use; at the end it must have everything back.
struct Plugin {
  explicit Plugin(const std::string& name)
      : path(plugin_path(name)), library("COLLCTL_NET_PLUGIN", path), before(counts_of(path)) {}
  ~Plugin() {
    // Connections that a rank left behind when it aborted are closed by a thread of its own.
    const Deadline deadline = Deadline::after_seconds(10);
    while (held() != held_before && !deadline.passed()) base::sleep_until(Deadline::after_ms(5));
    CHECK(held() == held_before);
  }
  std::vector<int> held() const {
    const auto now = counts_of(path);
    return {name_has_end() ? now.sessions : 0, now.listeners, now.connections, now.memories,
            now.requests};
  }
  // Version 11 and later.
  bool name_has_end() const { return path.ends_with("11.so") || path.ends_with("12.so"); }
  int reductions() const { return counts_of(path).calls - before.calls; }
  std::string path;
  Variable library;
  fake_plugin::Counts before;
  std::vector<int> held_before = held();
};

// hosts[r]: where rank r acts to be.
inline std::vector<int> hosts_of(std::initializer_list<int> ranks_of_each) {
  std::vector<int> hosts;
  int host = 0;
  for (const int n : ranks_of_each) {
    hosts.insert(hosts.end(), size_t(n), host);
    ++host;
  }
  return hosts;
}

inline CommOptions collnet_only() {
  CommOptions options;
  options.algo = "collnet";
  options.op_timeout_s = 60;
  return options;
}

struct Started {
  std::vector<std::optional<Result<std::unique_ptr<Communicator>>>> ranks;
  bool all_well() const {
    return std::all_of(ranks.begin(), ranks.end(), [](const auto& r) { return r->ok(); });
  }
  std::string errors() const {
    std::string text;
    for (const auto& r : ranks) text += r->ok() ? "" : r->error().chain() + "\n";
    return text;
  }
};

inline Started start(const std::vector<int>& hosts, const CommOptions& options) {
  const Root root = make_root();
  Started started;
  started.ranks.resize(hosts.size());
  on_all(int(hosts.size()), [&](int r) {
    CommOptions mine = options;
    mine.host_id = format("host {}", hosts[size_t(r)]);
    started.ranks[size_t(r)] = Communicator::init(root.id, r, int(hosts.size()), mine);
  });
  return started;
}

// As with_ranks(), on hosts.
inline std::string on_hosts(const std::vector<int>& hosts, const CommOptions& options,
                            const std::function<void(Communicator&, Complaints&)>& body) {
  Started started = start(hosts, options);
  if (!started.all_well()) return started.errors();
  Complaints complaints;
  on_all(int(hosts.size()), [&](int r) {
    Communicator& c = **(*started.ranks[size_t(r)]);
    body(c, complaints);
    complaints.add(r, c.finalize(Deadline::after_seconds(60)));
  });
  return complaints.text();
}

// --- data whose every sum, product, smallest and largest is exact in every type ---

inline int value_at(RedOp op, int rank, uint64_t i) {
  if (op == RedOp::prod) return (uint64_t(rank) + i) % 3 == 0 ? 2 : 1;  // at most 2^3 of 8 ranks
  return int((uint64_t(rank) * 3 + i) % 2) + (op == RedOp::sum || op == RedOp::avg ? 0 : rank % 4);
}

inline double expected_at(RedOp op, int ranks, uint64_t i, bool integer) {
  double result = value_at(op, 0, i);
  for (int r = 1; r < ranks; ++r) {
    const double v = value_at(op, r, i);
    result = op == RedOp::prod  ? result * v
             : op == RedOp::min ? std::min(result, v)
             : op == RedOp::max ? std::max(result, v)
                                : result + v;
  }
  if (op == RedOp::avg) result /= ranks;
  return op == RedOp::avg && integer ? std::trunc(result) : result;
}

inline bool is_integer(DataType type) {
  return int(type) <= int(DataType::uint64);
}

inline fake_plugin::Narrow narrow_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return {5, 10, true};
    case DataType::bfloat16:
      return {8, 7, true};
    case DataType::float8e4m3:
      return {4, 3, false};
    default:
      return {5, 2, false};
  }
}

// The bits of a small number, by the meaning of the types.
inline void put(DataType type, void* at, double value) {
  const auto store = [&](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      return store(uint8_t(value));
    case DataType::int32:
    case DataType::uint32:
      return store(uint32_t(value));
    case DataType::int64:
    case DataType::uint64:
      return store(uint64_t(value));
    case DataType::float32:
      return store(float(value));
    case DataType::float64:
      return store(value);
    default: {
      const uint32_t bits = fake_plugin::narrowed(narrow_of(type), value);
      std::memcpy(at, &bits, kernels::element_size(type));
    }
  }
}

inline std::vector<uint8_t> inputs_of(const Operation& op, int rank) {
  const size_t size = kernels::element_size(op.type);
  std::vector<uint8_t> data(op.count * size + 1);
  for (uint64_t i = 0; i < op.count; ++i) put(op.type, &data[i * size], value_at(op.op, rank, i));
  return data;
}

// Empty when the all-reduce of this type, operation and count gives what it must.
inline std::string wrong_in(Communicator& c, Stream& stream, Operation op, bool in_place = false) {
  const size_t size = kernels::element_size(op.type);
  std::vector<uint8_t> in = inputs_of(op, c.rank()), out(in.size(), 0xee);
  op.input = in.data();
  op.output = in_place ? in.data() : out.data();
  const std::string what = format("{} {} of {}{}", kernels::name_of(op.op),
                                  kernels::name_of(op.type), op.count, in_place ? " in place" : "");
  if (Status ran = c.start(op, stream, Communicator::Launch::blocking); !ran)
    return what + ": " + ran.error().chain();
  const auto& result = in_place ? in : out;
  for (uint64_t i = 0; i < op.count; ++i) {
    uint64_t wanted = 0, got = 0;
    put(op.type, &wanted, expected_at(op.op, c.size(), i, is_integer(op.type)));
    std::memcpy(&got, &result[i * size], size);
    if (wanted != got)
      return format("{}: element {} on rank {} is {:#x}, expected {:#x}", what, i, c.rank(), got,
                    wanted);
  }
  if (!in_place && out.back() != 0xee) return what + ": wrote behind the output";
  return "";
}

}  // namespace collctl::runtime::testing
