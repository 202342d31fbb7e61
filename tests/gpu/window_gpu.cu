// The window kernels on GPUs. `check`: n ranks on one device (streams), then one rank on each of
// all devices (threads): every collective, algorithm, protocol, types and operations, odd sizes,
// unaligned, in place, equality with sums made on the host; through peer memory and straight
// between buffers that all map; a rank that never comes must end in a report. `time`: microseconds
// by size and number of blocks, streams and graphs, one rank a device. Exit 77: no GPU here.
#include <cuda.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/window_launch.h"

using namespace collctl::kernels;
using namespace collctl::kernels::cuda;

namespace {

#define CUDA_OK(call)                                                                    \
  do {                                                                                   \
    const cudaError_t rc = cudaError_t(call);                                            \
    if (rc != cudaSuccess) {                                                             \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(rc)); \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (false)

template <class F>
F driver(const char* name) {
  void* f = nullptr;
  cudaDriverEntryPointQueryResult found;
  CUDA_OK(cudaGetDriverEntryPointByVersion(name, &f, 12000, cudaEnableDefault, &found));
  return reinterpret_cast<F>(f);
}
#define DRIVER(name) driver<decltype(&name)>(#name)

// Memory of every rank on its device, side by side in one range that all devices may use.
struct Mapped {
  void make(int ranks, bool single, uint64_t bytes) {
    n = ranks;
    stride = (bytes + (2u << 20) - 1) / (2u << 20) * (2u << 20);
    CUdeviceptr at = 0;
    if (DRIVER(cuMemAddressReserve)(&at, stride * n, 0, 0, 0) != CUDA_SUCCESS) std::exit(1);
    std::vector<CUmemAccessDesc> access;
    for (int d = 0; d < (single ? 1 : n); ++d)
      access.push_back({{CU_MEM_LOCATION_TYPE_DEVICE, d}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
    for (int r = 0; r < n; ++r) {
      CUmemAllocationProp prop{};
      prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
      prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, single ? 0 : r};
      CUmemGenericAllocationHandle handle;
      CUDA_OK(DRIVER(cuMemCreate)(&handle, stride, &prop, 0));
      CUDA_OK(DRIVER(cuMemMap)(at + r * stride, stride, 0, handle, 0));
      CUDA_OK(DRIVER(cuMemRelease)(handle));
    }
    CUDA_OK(DRIVER(cuMemSetAccess)(at, stride * n, access.data(), access.size()));
    base = reinterpret_cast<uint8_t*>(at);
    for (int r = 0; r < n; ++r) {
      CUDA_OK(cudaSetDevice(single ? 0 : r));
      CUDA_OK(cudaMemset(base + r * stride, 0, stride));
      CUDA_OK(cudaDeviceSynchronize());
    }
  }
  ~Mapped() {
    DRIVER(cuMemUnmap)(CUdeviceptr(base), stride * n);
    DRIVER(cuMemAddressFree)(CUdeviceptr(base), stride * n);
  }
  int n = 0;
  uint8_t* base = nullptr;
  uint64_t stride = 0;
};

struct World {
  // `user_bytes`: of the buffers that all ranks map, for each rank.
  World(int ranks, bool one_device, uint64_t user_bytes = 80u << 20)
      : n(ranks), single(one_device) {
    peers.make(n, single, window_part_bytes(n));
    users.make(n, single, user_bytes);
    for (int r = 0; r < n; ++r) {
      CUDA_OK(cudaSetDevice(device(r)));
      cudaStream_t s;
      CUDA_OK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
      streams.push_back(s);
    }
    CUDA_OK(cudaHostAlloc(&reports, n * sizeof(Report), cudaHostAllocPortable));
    CUDA_OK(cudaHostAlloc(&abort_word, 4, cudaHostAllocPortable));
    std::memset(static_cast<void*>(reports), 0, n * sizeof(Report));
    *abort_word = 0;
  }
  ~World() {
    for (int r = 0; r < n; ++r) cudaStreamDestroy(streams[r]);
    cudaFreeHost(reports), cudaFreeHost(abort_word);
  }
  // Where rank r's buffers lie in what all map: at other places on other ranks.
  uint8_t* user_input(int r) const { return users.base + r * users.stride + r * 1024; }
  uint8_t* user_output(int r) const {
    return users.base + r * users.stride + users.stride / 2 + (n - r) * 512;
  }
  int device(int r) const { return single ? 0 : r; }
  WindowLaunch launch(int r, Work work, int blocks, DirectWay direct = DirectWay::none) const {
    WindowLaunch l{};
    work.rank = r;
    work.nranks = n;
    work.part_count = work.count;
    l.work = work;
    l.memory = {peers.base, peers.stride, r, n};
    l.direct = direct;
    if (direct != DirectWay::none) l.flat = {users.base, users.stride};
    l.blocks = blocks;
    l.shared.reports = reports + r;
    l.shared.abort_word = abort_word;
    l.shared.timeout_ns = timeout_ns;
    l.stream = streams[r];
    return l;
  }
  int n;
  bool single;
  Mapped peers, users;
  std::vector<cudaStream_t> streams;
  Report* reports = nullptr;
  uint32_t* abort_word = nullptr;
  int64_t timeout_ns = 5'000'000'000;
};

int failures = 0, cases = 0;

// Small whole numbers, exact in every type and in any order of summation.
double value_of(int rank, uint64_t i, RedOp op) {
  if (op == RedOp::prod) return (rank + i) % 3 == 0 ? 2 : 1;
  if (op == RedOp::avg) return double((i * 3 + 1) % 7);  // equal on all ranks: the mean is exact
  return double((uint64_t(rank) * 5 + i * 3 + 1) % 7);
}
double combine(RedOp op, double a, double b) {
  switch (op) {
    case RedOp::prod:
      return a * b;
    case RedOp::min:
      return std::min(a, b);
    case RedOp::max:
      return std::max(a, b);
    default:
      return a + b;
  }
}
// The bits of a small whole number (or of one with few bits) in a type.
void put(DataType type, double v, uint8_t* to) {
  switch (type) {
    case DataType::int8:
    case DataType::uint8:
      *to = uint8_t(int(v));
      break;
    case DataType::int32:
    case DataType::uint32: {
      const uint32_t x = uint32_t(v);
      std::memcpy(to, &x, 4);
      break;
    }
    case DataType::int64:
    case DataType::uint64: {
      const uint64_t x = uint64_t(v);
      std::memcpy(to, &x, 8);
      break;
    }
    case DataType::float32: {
      const float x = float(v);
      std::memcpy(to, &x, 4);
      break;
    }
    case DataType::float64:
      std::memcpy(to, &v, 8);
      break;
    default: {  // sign, exponent, fraction, cut to the type's width
      struct Form {
        int exponent, fraction, bias, bytes;
      };
      const Form f = type == DataType::float16      ? Form{5, 10, 15, 2}
                     : type == DataType::bfloat16   ? Form{8, 7, 127, 2}
                     : type == DataType::float8e4m3 ? Form{4, 3, 7, 1}
                                                    : Form{5, 2, 15, 1};
      uint32_t bits = 0;
      if (v != 0) {
        int e = 0;
        const double m = std::frexp(v, &e);  // 0.5 <= m < 1
        bits = uint32_t(e - 1 + f.bias) << f.fraction | uint32_t((m * 2 - 1) * (1 << f.fraction));
      }
      std::memcpy(to, &bits, f.bytes);
    }
  }
}
bool exact_in(DataType type, double v) {  // float8e5m2 has two bits behind the first one
  if (type != DataType::float8e5m2 && type != DataType::float8e4m3) return true;
  int e = 0;
  const double m = std::frexp(v, &e) * (type == DataType::float8e5m2 ? 8 : 16);
  return m == std::floor(m);
}

struct Case {
  Collective collective;
  AlgorithmId algorithm;
  Protocol protocol;
  DataType type;
  RedOp op;
  uint64_t count;
  int blocks;
  uint64_t shift;  // bytes that the buffers are off 16
  bool in_place;
  DirectWay direct = DirectWay::none;
};

bool served(const World& w, const Case& c) {
  const uint64_t bytes = c.count * element_size(c.type);
  if (c.in_place && c.collective == Collective::all_to_all) return false;  // has no such form
  if (c.direct == DirectWay::none)
    return window_serves(c.collective, c.algorithm, c.protocol, c.type, c.op, w.n, bytes);
  return window_direct(c.collective, c.type, c.op, w.n, bytes);
}

void run_case(const World& w, const Case& c) {
  const uint64_t size = element_size(c.type), block = c.count * size;
  if (!served(w, c)) return;
  const bool direct = c.direct != DirectWay::none;
  // Straight: some ranks' buffers are aligned, others not.
  const auto shift_of = [&](int r) { return direct ? c.shift * (r + 1) % 16 : c.shift; };
  const int root = w.n - 1;
  const bool in_blocks = c.collective == Collective::reduce_scatter ||
                         c.collective == Collective::all_to_all ||
                         c.collective == Collective::scatter;
  const bool out_blocks = c.collective == Collective::all_gather ||
                          c.collective == Collective::all_to_all ||
                          c.collective == Collective::gather;
  const bool reduces = c.collective == Collective::all_reduce ||
                       c.collective == Collective::reduce ||
                       c.collective == Collective::reduce_scatter;
  const uint64_t in_count = c.count * (in_blocks ? w.n : 1),
                 out_count = c.count * (out_blocks ? w.n : 1);
  const uint64_t room = std::max(in_count, out_count) * size + 64;
  std::vector<uint8_t*> in(w.n), out(w.n);
  std::vector<Work> works(w.n);
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaSetDevice(w.device(r)));
    const uint64_t shift = shift_of(r);
    if (direct) {
      in[r] = w.user_input(r), out[r] = w.user_output(r);
    } else {
      CUDA_OK(cudaMalloc(&in[r], room));
      CUDA_OK(cudaMalloc(&out[r], room));
    }
    std::vector<uint8_t> host(room, 0xA5);
    CUDA_OK(cudaMemcpy(out[r], host.data(), room, cudaMemcpyHostToDevice));
    for (uint64_t i = 0; i < in_count; ++i)
      put(c.type, value_of(r, i, reduces ? c.op : RedOp::sum), host.data() + shift + i * size);
    uint8_t* from = in[r];
    uint64_t at = 0;
    if (c.in_place) {  // as the field's in place: the own block of the larger buffer
      from = out[r];
      if (out_blocks && !in_blocks) at = uint64_t(r) * block;
    }
    CUDA_OK(cudaMemcpy(from + at, host.data(), room - at, cudaMemcpyHostToDevice));
    Work& work = works[r];
    work.collective = c.collective;
    work.algorithm = c.algorithm;
    work.protocol = c.protocol;
    work.type = c.type;
    work.op = c.op;
    work.count = c.count;
    work.root = root;
    work.input = from + at + shift;
    work.output = out[r] + shift;
    if (c.in_place && in_blocks && !out_blocks) {
      work.output = static_cast<uint8_t*>(work.output) + uint64_t(r) * block;
    }
    // Copies out of pageable memory may still be on their way, and the streams do not wait for
    // them.
    CUDA_OK(cudaDeviceSynchronize());
  }
  for (int round = 0; round < (c.in_place ? 1 : 3); ++round)
    for (int r = 0; r < w.n; ++r) {
      CUDA_OK(cudaSetDevice(w.device(r)));
      CUDA_OK(launch_window(w.launch(r, works[r], c.blocks, c.direct)));
    }
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaSetDevice(w.device(r)));
    CUDA_OK(cudaStreamSynchronize(w.streams[r]));
  }
  ++cases;
  bool bad = false;
  for (int r = 0; r < w.n && !bad; ++r) {
    const bool gets =
        (c.collective != Collective::reduce && c.collective != Collective::gather) || r == root;
    if (!c.in_place) {  // nothing was written beside the output
      std::vector<uint8_t> around(room);
      CUDA_OK(cudaSetDevice(w.device(r)));
      CUDA_OK(cudaMemcpy(around.data(), out[r], room, cudaMemcpyDeviceToHost));
      const uint64_t first = shift_of(r), last = gets ? first + out_count * size : first;
      for (uint64_t i = 0; i < room && !bad; ++i) {
        if ((i >= first && i < last) || around[i] == 0xA5) continue;
        std::printf("BESIDE n=%d collective %d way %d count %llu: rank %d byte %llu of %llu\n", w.n,
                    int(c.collective), int(c.direct), (unsigned long long)c.count, r,
                    (unsigned long long)i, (unsigned long long)last);
        bad = true;
      }
    }
    if (!gets) continue;
    std::vector<uint8_t> host(out_count * size), want(size);
    CUDA_OK(cudaSetDevice(w.device(r)));
    CUDA_OK(cudaMemcpy(host.data(), works[r].output, host.size(), cudaMemcpyDeviceToHost));
    for (uint64_t i = 0; i < out_count; ++i) {
      const uint64_t e = i % c.count;
      const int from_block = int(i / c.count);
      double v = 0;
      switch (c.collective) {
        case Collective::all_gather:
        case Collective::gather:
          v = value_of(from_block, e, RedOp::sum);
          break;
        case Collective::all_to_all:
          v = value_of(from_block, uint64_t(r) * c.count + e, RedOp::sum);
          break;
        case Collective::broadcast:
          v = value_of(root, e, RedOp::sum);
          break;
        case Collective::scatter:
          v = value_of(root, uint64_t(r) * c.count + e, RedOp::sum);
          break;
        default: {
          const uint64_t at =
              c.collective == Collective::reduce_scatter ? uint64_t(r) * c.count + e : e;
          v = value_of(0, at, c.op);
          for (int o = 1; o < w.n; ++o) v = combine(c.op, v, value_of(o, at, c.op));
          if (c.op == RedOp::avg) v /= w.n;
        }
      }
      if (reduces && !exact_in(c.type, v)) continue;
      put(c.type, v, want.data());
      if (std::memcmp(want.data(), host.data() + i * size, size) == 0) continue;
      uint64_t got = 0;
      std::memcpy(&got, host.data() + i * size, size);
      std::printf(
          "WRONG n=%d collective %d algorithm %d protocol %d way %d type %d op %d count %llu "
          "blocks "
          "%d "
          "shift %llu "
          "in place %d: rank %d element %llu is %llx, expected value %g\n",
          w.n, int(c.collective), int(c.algorithm), int(c.protocol), int(c.direct), int(c.type),
          int(c.op), (unsigned long long)c.count, c.blocks, (unsigned long long)c.shift, c.in_place,
          r, (unsigned long long)i, (unsigned long long)got, v);
      bad = true;
      break;
    }
    if (w.reports[r].code != ReportCode::none) {
      std::printf("REPORT rank %d code %d peer %d wanted %llu seen %llu\n", r,
                  int(w.reports[r].code), w.reports[r].peer,
                  (unsigned long long)w.reports[r].wanted, (unsigned long long)w.reports[r].seen);
      bad = true;
    }
  }
  failures += bad;
  if (failures > 20) {
    std::printf("too many\n");
    std::exit(1);
  }
  for (int r = 0; r < w.n && !direct; ++r) cudaFree(in[r]), cudaFree(out[r]);
}

// `few`: what compute-sanitizer gets through in minutes.
void check_world(World& w, bool only_direct, bool few = false) {
  struct Way {
    AlgorithmId algorithm;
    Protocol protocol;
    DirectWay direct = DirectWay::none;
  };
  const Way ways[] = {{AlgorithmId::one_shot, Protocol::ll},
                      {AlgorithmId::one_shot, Protocol::ll128},
                      {AlgorithmId::one_shot, Protocol::simple},
                      {AlgorithmId::two_shot, Protocol::ll},
                      {AlgorithmId::two_shot, Protocol::ll128},
                      {AlgorithmId::two_shot, Protocol::simple},
                      {AlgorithmId::two_shot, Protocol::simple, DirectWay::store},
                      {AlgorithmId::two_shot, Protocol::simple, DirectWay::load}};
  const Collective collectives[] = {Collective::all_reduce,     Collective::all_gather,
                                    Collective::reduce_scatter, Collective::broadcast,
                                    Collective::reduce,         Collective::gather,
                                    Collective::scatter,        Collective::all_to_all};
  int turn = 0;
  for (const auto& [algorithm, protocol, direct] : ways)
    for (const Collective collective : collectives) {
      if (only_direct && direct == DirectWay::none) continue;
      if (few)
        std::printf("algorithm %d protocol %d way %d collective %d\n", int(algorithm),
                    int(protocol), int(direct), int(collective)),
            std::fflush(stdout);
      // Other collectives have one way.
      if (direct == DirectWay::load && collective != Collective::all_reduce &&
          collective != Collective::broadcast)
        continue;
      for (const uint64_t count : {1ull, 3ull, 7ull, 1000ull, 4097ull, 100'003ull, 1'048'577ull})
        for (const uint64_t shift : {0ull, 4ull, 8ull}) {
          if (few &&
              (shift != (count % 2) * 4 || (count != 1 && count != 1000 && count != 100'003)))
            continue;
          // Straight, all blocks of a launch and those of the next wait for one another.
          const int blocks[] = {1, 5, direct == DirectWay::none ? 16 : 8};
          if (w.n * 16 > 128 && turn % 3 == 2) ++turn;
          run_case(w, {collective, algorithm, protocol, DataType::float32, RedOp::sum, count,
                       blocks[turn++ % 3], shift, false, direct});
          if (collective != Collective::gather && collective != Collective::scatter)
            run_case(w, {collective, algorithm, protocol, DataType::float32, RedOp::sum, count, 8,
                         shift, true, direct});
        }
      for (int t = 0; t < kDataTypeCount; ++t)
        for (int o = 0; o < (few ? t % 4 == 1 : kRedOpCount); ++o)
          for (const uint64_t shift : {0u, 1u})
            run_case(w, {collective, algorithm, protocol, DataType(t), RedOp(o), 5003, 4,
                         shift * element_size(DataType(t)), false, direct});
    }
}

// Random operations one after the other: what was in a bank before differs every time.
void stress(World& w, uint32_t seed, int operations) {
  const auto draw = [&](uint32_t below) {
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
  };
  const Collective collectives[] = {Collective::all_reduce, Collective::all_gather,
                                    Collective::reduce_scatter, Collective::broadcast,
                                    Collective::all_to_all};
  for (int i = 0; i < operations && failures == 0; ++i) {
    Case c{};
    c.collective = collectives[draw(5)];
    c.algorithm = draw(2) == 0 ? AlgorithmId::one_shot : AlgorithmId::two_shot;
    c.protocol = Protocol(draw(3) == 0 ? 0 : draw(4) == 0 ? 1 : 2);
    c.type = DataType(draw(kDataTypeCount));
    c.op = RedOp(draw(4));
    c.count = draw(1u << (4 + draw(14))) + 1;
    c.blocks = draw(2) == 0 ? 0 : int(draw(40)) + 1;
    c.shift = draw(2) == 0 ? 0 : uint64_t(draw(16));
    c.in_place = draw(2) == 0;
    // Among each other, so that counts of slots and epochs serve both.
    if (draw(2) == 0) c.direct = draw(2) == 0 ? DirectWay::best : DirectWay::load;
    run_case(w, c);
    if (failures > 0) std::printf("operation %d\n", i);
  }
}

void check_missing(int n) {
  uint8_t* memory;
  CUDA_OK(cudaSetDevice(0));
  CUDA_OK(cudaMalloc(&memory, 1 << 20));
  for (const Protocol protocol : {Protocol::ll, Protocol::ll128, Protocol::simple}) {
    World w(n, true);
    w.timeout_ns = 200'000'000;
    Work work{};
    work.algorithm = AlgorithmId::one_shot;
    work.protocol = protocol;
    work.type = DataType::float32;
    work.count = 1000;
    work.input = work.output = memory;
    CUDA_OK(launch_window(w.launch(0, work, 2)));  // rank 1 and others never come
    CUDA_OK(cudaStreamSynchronize(w.streams[0]));
    ++cases;
    if (w.reports[0].code != ReportCode::timeout || w.reports[0].peer <= 0 || *w.abort_word == 0) {
      std::printf("WRONG: no report of a missing rank (protocol %d)\n", int(protocol));
      ++failures;
    }
  }
  cudaFree(memory);
}

// Straight between buffers: a rank that never comes, and one that comes with another size.
void check_missing_direct(int n) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter})
    for (const DirectWay way : {DirectWay::store, DirectWay::load})
      for (const bool other_size : {false, true}) {
        if (n < 1) continue;
        World w(n, true);
        w.timeout_ns = 200'000'000;
        for (int r = 0; r < (other_size ? n : 1); ++r) {
          Work work{};
          work.collective = collective;
          work.algorithm = AlgorithmId::two_shot;
          work.protocol = Protocol::simple;
          work.type = DataType::float32;
          work.count = r == 0 ? 1000 : 1001;
          work.input = w.user_input(r);
          work.output = w.user_output(r);
          CUDA_OK(launch_window(w.launch(r, work, 2, way)));
        }
        for (int r = 0; r < n; ++r) CUDA_OK(cudaStreamSynchronize(w.streams[r]));
        ++cases;
        bool told = *w.abort_word != 0;
        if (other_size) {
          bool size = false;
          for (int r = 0; r < n; ++r) {
            size = size || w.reports[r].code == ReportCode::wrong_size;
            told = told && (r > 0 || w.reports[r].code != ReportCode::none);
          }
          told = told && size;
        } else {
          told = told && w.reports[0].code == ReportCode::timeout && w.reports[0].peer > 0;
        }
        // Nothing was put anywhere.
        std::vector<uint8_t> out(4096);
        for (int r = 0; r < n; ++r) {
          CUDA_OK(cudaMemcpy(out.data(), w.user_output(r), out.size(), cudaMemcpyDeviceToHost));
          told = told && std::all_of(out.begin(), out.end(), [](uint8_t b) { return b == 0; });
        }
        if (told) continue;
        std::printf("WRONG: collective %d way %d, %s: no report, or something was written\n",
                    int(collective), int(way), other_size ? "another size" : "a missing rank");
        ++failures;
      }
}

// --- time -------------------------------------------------------------------------------------

double run_timed(World& w, const Work& work, int blocks, uint32_t chunk, bool graph, int iterations,
                 DirectWay direct = DirectWay::none) {
  std::vector<double> us(w.n);
  std::barrier together(w.n);
  std::vector<std::thread> threads;
  for (int r = 0; r < w.n; ++r)
    threads.emplace_back([&, r] {
      CUDA_OK(cudaSetDevice(r));
      Work mine = work;
      const uint64_t room =
          work.count * 4 * (work.collective == Collective::all_reduce ? 1 : w.n) + 64;
      if (direct != DirectWay::none) {
        mine.input = w.user_input(r), mine.output = w.user_output(r);
      } else {
        CUDA_OK(cudaMalloc(const_cast<void**>(&mine.input), room));
        CUDA_OK(cudaMalloc(&mine.output, room));
        CUDA_OK(cudaMemset(const_cast<void*>(mine.input), 0, room));
      }
      WindowLaunch l = w.launch(r, mine, blocks, direct);
      l.chunk_bytes = chunk;
      cudaGraphExec_t exec = nullptr;
      const int each = 20;
      if (graph) {
        cudaGraph_t g;
        CUDA_OK(cudaStreamBeginCapture(w.streams[r], cudaStreamCaptureModeThreadLocal));
        for (int i = 0; i < each; ++i) CUDA_OK(launch_window(l));
        CUDA_OK(cudaStreamEndCapture(w.streams[r], &g));
        CUDA_OK(cudaGraphInstantiate(&exec, g, 0));
      }
      const auto loop = [&](int count) {
        for (int i = 0; i < count; ++i) {
          if (graph)
            CUDA_OK(cudaGraphLaunch(exec, w.streams[r]));
          else
            for (int k = 0; k < each; ++k) CUDA_OK(launch_window(l));
        }
        CUDA_OK(cudaStreamSynchronize(w.streams[r]));
      };
      loop(1);
      std::vector<double> runs;
      for (int k = 0; k < 5; ++k) {
        together.arrive_and_wait();
        const auto from = std::chrono::steady_clock::now();
        loop(iterations);
        runs.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - from)
                .count() /
            (iterations * each));
      }
      std::sort(runs.begin(), runs.end());
      us[r] = runs[2];
      if (exec) cudaGraphExecDestroy(exec);
      if (direct == DirectWay::none) cudaFree(const_cast<void*>(mine.input)), cudaFree(mine.output);
    });
  for (auto& t : threads) t.join();
  return *std::max_element(us.begin(), us.end());
}

void time_world(World& w, Collective collective, bool quick) {
  struct Way {
    AlgorithmId algorithm;
    Protocol protocol;
    const char* name;
    DirectWay direct = DirectWay::none;
  };
  const bool reduces =
      collective == Collective::all_reduce || collective == Collective::reduce_scatter;
  const Way ways[] = {{AlgorithmId::one_shot, Protocol::ll, "one-shot ll"},
                      {AlgorithmId::one_shot, Protocol::ll128, "one-shot ll128"},
                      {AlgorithmId::one_shot, Protocol::simple, "one-shot store"},
                      {AlgorithmId::two_shot, Protocol::ll, "two-shot ll"},
                      {AlgorithmId::two_shot, Protocol::ll128, "two-shot ll128"},
                      {AlgorithmId::two_shot, Protocol::simple, "two-shot store"},
                      {AlgorithmId::two_shot, Protocol::simple,
                       collective == Collective::all_reduce ? "direct store"
                       : reduces                            ? "direct load"
                                                            : "direct put",
                       DirectWay::store},
                      {AlgorithmId::two_shot, Protocol::simple, "direct load", DirectWay::load}};
  for (uint64_t bytes = 256; bytes <= (1ull << 30); bytes *= 4)
    for (const Way& way : ways) {
      if (way.protocol == Protocol::simple && bytes < (64 << 10)) continue;
      Work work{};
      work.collective = collective;
      work.algorithm = way.algorithm;
      work.protocol = way.protocol;
      work.type = DataType::float32;
      work.count = bytes / 4 / (collective == Collective::all_reduce ? 1 : w.n);
      const bool direct = way.direct != DirectWay::none;
      if (!direct && !window_serves(collective, way.algorithm, way.protocol, work.type, work.op,
                                    w.n, work.count * 4))
        continue;
      if (way.direct == DirectWay::load && collective != Collective::all_reduce &&
          (collective != Collective::broadcast || w.n < 3))
        continue;
      std::printf("%-10d %12llu %-15s", int(collective), (unsigned long long)bytes, way.name);
      const int iterations = bytes >= (64 << 20) ? 1 : bytes >= (1 << 20) ? 5 : 20;
      const bool store = way.protocol == Protocol::simple;
      std::vector<std::pair<int, uint32_t>> settings{{0, 0}};
      if (!quick && store)
        for (const uint32_t chunk : {2048u, 4096u, 8192u, 16384u, 32768u, 65536u})
          settings.push_back({128, chunk});
      if (!quick && !store && bytes >= (64 << 10))
        for (const int blocks : {32, 64, 128}) settings.push_back({blocks, 0});
      for (const auto& [blocks, chunk] : settings) {
        const double stream = run_timed(w, work, blocks, chunk, false, iterations, way.direct);
        const double graph = bytes <= (16 << 20)
                                 ? run_timed(w, work, blocks, chunk, true, iterations, way.direct)
                                 : 0;
        std::printf(" | %d/%u: %.2f (%.2f)", blocks, chunk, stream, graph);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
}

// Chunks of what goes by store.
void time_chunks(World& w) {
  for (const Collective c : {Collective::all_reduce, Collective::all_gather,
                             Collective::reduce_scatter, Collective::broadcast})
    for (const uint64_t bytes : {1ull << 20, 4ull << 20, 16ull << 20, 64ull << 20, 256ull << 20})
      for (const AlgorithmId a : {AlgorithmId::one_shot, AlgorithmId::two_shot}) {
        Work work{};
        work.collective = c;
        work.algorithm = a;
        work.protocol = Protocol::simple;
        work.type = DataType::float32;
        work.count =
            bytes / 4 / (c == Collective::all_reduce || c == Collective::broadcast ? 1 : w.n);
        if (!window_serves(c, a, work.protocol, work.type, work.op, w.n, work.count * 4)) continue;
        std::printf("%d %10llu shot %d", int(c), (unsigned long long)bytes, int(a));
        const bool graph = bytes <= (16 << 20);
        for (const uint32_t chunk : {0u, 4096u, 8192u, 16384u, 32768u})
          std::printf(" | %u %.2f", chunk,
                      run_timed(w, work, 0, chunk, graph,
                                bytes >> 26 ? 1
                                : graph     ? 3
                                            : 5));
        std::printf("\n");
        std::fflush(stdout);
      }
}

}  // namespace

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU here\n");
    return 77;
  }
  const std::string what = argc > 1 ? argv[1] : "check";
  if (what == "check") {
    // `check direct`: only what goes straight between buffers. `check few`: a small part, for
    // compute-sanitizer. `check N...`: only so many ranks on one device.
    std::vector<int> sizes{1, 2, 3, 4, 7, 8};
    const bool only_direct = argc > 2 && std::string(argv[2]) == "direct";
    const bool few = argc > 2 && std::string(argv[2]) == "few";
    const int named = only_direct || few ? 3 : 2;
    if (argc > named) sizes.clear();
    for (int i = named; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
    for (const int n : sizes) {
      World w(n, true);
      check_world(w, only_direct, few);
      std::printf("one device, %d ranks: %d cases, %d wrong\n", n, cases, failures);
      std::fflush(stdout);
    }
    if (devices > 1) {
      World w(devices, false);
      check_world(w, only_direct, few);
      std::printf("%d devices: %d cases, %d wrong\n", devices, cases, failures);
    }
    check_missing(2);
    check_missing(3);
    check_missing_direct(2);
    check_missing_direct(3);
    std::printf("%d cases, %d wrong\n", cases, failures);
    return failures == 0 ? 0 : 1;
  }
  if (what == "stress") {
    World w(devices, devices == 1);
    stress(w, argc > 2 ? uint32_t(std::atoi(argv[2])) : 1, argc > 3 ? std::atoi(argv[3]) : 2000);
    std::printf("%d cases, %d wrong\n", cases, failures);
    return failures == 0 ? 0 : 1;
  }
  if (devices < 2) {
    std::printf("skipped: one GPU here\n");
    return 77;
  }
  World w(devices, false, (2ull << 30) + (64u << 20));
  const bool quick = argc > 2 && std::string(argv[2]) == "quick";
  if (argc > 2 && std::string(argv[2]) == "chunks") {
    time_chunks(w);
    return 0;
  }
  time_world(w, Collective::all_reduce, quick);
  time_world(w, Collective::all_gather, true);
  time_world(w, Collective::reduce_scatter, true);
  time_world(w, Collective::all_to_all, true);
  time_world(w, Collective::broadcast, true);
  return 0;
}
