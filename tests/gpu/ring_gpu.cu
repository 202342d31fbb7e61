// The contract, the verbs and the algorithms on a GPU: n ranks are n resident blocks of one grid on one device, with
// fifos in device memory. Every result is compared by equality with the sum computed on the host; a missing rank must
// end in a report that names it. Exit 77: no GPU here.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/cuda/run.cuh"

using namespace collctl::kernels;

namespace {

#define CUDA_OK(call)                                                                              \
  do {                                                                                             \
    const cudaError_t rc = (call);                                                                 \
    if (rc != cudaSuccess) {                                                                       \
      std::printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(rc));           \
      std::exit(1);                                                                                \
    }                                                                                              \
  } while (false)

constexpr uint32_t kSlotBytes = 16 * 1024;
constexpr uint32_t kSlots = 4;

// All links of n ranks in device memory: every ordered pair has a fifo for the protocol under test.
struct World {
  World(int ranks, Protocol p) : n(ranks), protocol(p) {
    const size_t pairs = size_t(n) * n;
    const size_t bytes = pairs * (kSlotBytes * kSlots + sizeof(FifoCounters));
    CUDA_OK(cudaMalloc(&memory, bytes));
    CUDA_OK(cudaMemset(memory, 0, bytes));
    CUDA_OK(cudaMalloc(&fifos, 2 * pairs * sizeof(Fifo)));
    CUDA_OK(cudaMalloc(&tables, 2 * pairs * kProtocolCount * sizeof(Fifo*)));
    CUDA_OK(cudaMalloc(&links, n * sizeof(ChannelLinks)));
    std::vector<Fifo> ends(2 * pairs);
    std::vector<Fifo*> pointers(2 * pairs * kProtocolCount, nullptr);
    std::vector<ChannelLinks> host_links(n);
    auto* slots = static_cast<uint8_t*>(memory);
    auto* counters = reinterpret_cast<FifoCounters*>(slots + pairs * kSlotBytes * kSlots);
    for (int from = 0; from < n; ++from)
      for (int to = 0; to < n; ++to) {
        const size_t pair = size_t(from) * n + to;
        Fifo f{};
        f.slots = slots + pair * kSlotBytes * kSlots;
        f.tail = &counters[pair].tail;
        f.head = &counters[pair].head;
        f.slot_bytes = kSlotBytes;
        f.slot_count = kSlots;
        f.bell_fd = -1;
        f.protocol = protocol;
        f.peer = to;
        ends[pair] = f;  // the sender's end
        f.peer = from;
        ends[pairs + pair] = f;  // the receiver's end
        pointers[(size_t(from) * n + to) * kProtocolCount + int(protocol)] = fifos + pair;
        pointers[(pairs + size_t(to) * n + from) * kProtocolCount + int(protocol)] = fifos + pairs + pair;
      }
    for (int r = 0; r < n; ++r)
      host_links[r] = {tables + size_t(r) * n * kProtocolCount, tables + (pairs + size_t(r) * n) * kProtocolCount};
    CUDA_OK(cudaMemcpy(fifos, ends.data(), ends.size() * sizeof(Fifo), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(tables, pointers.data(), pointers.size() * sizeof(Fifo*), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(links, host_links.data(), n * sizeof(ChannelLinks), cudaMemcpyHostToDevice));
    CUDA_OK(cudaHostAlloc(&reports, n * sizeof(Report), cudaHostAllocMapped));
    CUDA_OK(cudaHostAlloc(&abort_word, sizeof(uint32_t), cudaHostAllocMapped));
    std::vector<int32_t> ring(n);
    for (int i = 0; i < n; ++i) ring[i] = i;
    CUDA_OK(cudaMalloc(&order, n * sizeof(int32_t)));
    CUDA_OK(cudaMemcpy(order, ring.data(), n * sizeof(int32_t), cudaMemcpyHostToDevice));
    CUDA_OK(cudaMalloc(&works, n * sizeof(Work)));
  }
  ~World() {
    cudaFree(memory), cudaFree(fifos), cudaFree(tables), cudaFree(links), cudaFree(order), cudaFree(works);
    cudaFreeHost(reports), cudaFreeHost(abort_word);
  }
  int n;
  Protocol protocol;
  void* memory = nullptr;
  Fifo* fifos = nullptr;
  Fifo** tables = nullptr;
  ChannelLinks* links = nullptr;
  Report* reports = nullptr;
  uint32_t* abort_word = nullptr;
  int32_t* order = nullptr;
  Work* works = nullptr;
};

template <class T>
T input_value(int rank, uint64_t i) {
  return T((rank * 7 + i * 3 + 1) % 13);  // sums of 16 ranks stay exact in every type tested
}

Work make_work(const World& w, int rank, AlgorithmId algorithm, DataType type, RedOp op, uint64_t count, const void* in, void* out) {
  Work work{};
  work.input = in;
  work.output = out;
  work.count = count;
  work.part_count = count;
  work.chunk_count = 2 * slot_data_bytes(kSlotBytes, w.protocol) / element_size(type);
  work.ring = {(rank + w.n - 1) % w.n, (rank + 1) % w.n, rank, 0, w.order};
  work.tree.up = rank == 0 ? -1 : (rank - 1) / 2;
  int children = 0;
  for (int d = 0; d < kMaxFanIn; ++d) work.tree.down[d] = -1;
  for (int c = 2 * rank + 1; c <= 2 * rank + 2 && c < w.n; ++c) work.tree.down[children++] = c;
  work.rank = rank;
  work.nranks = w.n;
  work.collective = Collective::all_reduce;
  work.algorithm = algorithm;
  work.protocol = w.protocol;
  work.type = type;
  work.op = op;
  return work;
}

int failures = 0;
int cases = 0;

template <class T, DataType kType, RedOp kOp, Protocol kProtocol>
void all_reduce_case(World& w, AlgorithmId algorithm, uint64_t count, bool in_place, int missing) {
  ++cases;
  const size_t pad = 3;  // elements: unaligned buffers
  std::vector<T*> in(w.n), out(w.n);
  std::vector<Work> works(w.n);
  std::vector<T> host(count + 2 * pad + 1);
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaMalloc(&in[r], host.size() * sizeof(T)));
    CUDA_OK(cudaMalloc(&out[r], host.size() * sizeof(T)));
    for (uint64_t i = 0; i < count; ++i) host[pad + i] = input_value<T>(r, i);
    CUDA_OK(cudaMemset(out[r], 0xa5, host.size() * sizeof(T)));
    CUDA_OK(cudaMemcpy(in_place ? out[r] : in[r], host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    works[r] = make_work(w, r, algorithm, kType, kOp, count, (in_place ? out[r] : in[r]) + pad, out[r] + pad);
  }
  const int blocks = missing >= 0 ? w.n - 1 : w.n;
  CUDA_OK(cudaMemcpy(w.works, works.data(), w.n * sizeof(Work), cudaMemcpyHostToDevice));
  std::memset(w.reports, 0, w.n * sizeof(Report));
  *w.abort_word = 0;
  cuda::Launch launch{w.works, w.links, w.reports, w.abort_word, missing >= 0 ? 200'000'000LL : 10'000'000'000LL};
  cuda::run_works<kType, kOp, kProtocol><<<blocks, 256>>>(launch);
  CUDA_OK(cudaGetLastError());
  CUDA_OK(cudaDeviceSynchronize());
  const auto fail = [&](const std::string& what) {
    ++failures;
    if (failures < 10)
      std::printf("FAIL n=%d %s %s count=%llu: %s\n", w.n, algorithm == AlgorithmId::ring ? "ring" : "tree",
                  kProtocol == Protocol::ll ? "ll" : "simple", static_cast<unsigned long long>(count), what.c_str());
  };
  if (missing >= 0) {
    // Who is first at the deadline is chance; the others follow by the abort word. All say whom they waited for.
    bool named = false, late = false;
    for (int r = 0; r < blocks; ++r) {
      if (w.reports[r].code == ReportCode::none) fail("rank " + std::to_string(r) + " did not give up");
      late |= w.reports[r].code == ReportCode::timeout;
      named |= w.reports[r].peer == missing;
    }
    if (!late || !named) fail("no report names the missing rank");
  } else {
    for (int r = 0; r < w.n; ++r) {
      if (w.reports[r].code != ReportCode::none) fail("rank " + std::to_string(r) + " gave up");
      CUDA_OK(cudaMemcpy(host.data(), out[r], host.size() * sizeof(T), cudaMemcpyDeviceToHost));
      for (uint64_t i = 0; i < count; ++i) {
        T want = 0;
        for (int p = 0; p < w.n; ++p)
          want = kOp == RedOp::max ? (input_value<T>(p, i) > want ? input_value<T>(p, i) : want) : T(want + input_value<T>(p, i));
        if (host[pad + i] != want) {
          fail("rank " + std::to_string(r) + " element " + std::to_string(i));
          break;
        }
      }
      T poison;
      std::memset(&poison, 0xa5, sizeof poison);
      if (!in_place && std::memcmp(&host[pad + count], &poison, sizeof poison) != 0) fail("wrote past the end");
    }
  }
  for (int r = 0; r < w.n; ++r) {
    CUDA_OK(cudaFree(in[r]));
    CUDA_OK(cudaFree(out[r]));
  }
}

template <class T, DataType kType, RedOp kOp, Protocol kProtocol>
void all_cases() {
  for (int n : {1, 2, 3, 4, 7, 8, 16}) {
    World w(n, kProtocol);
    for (AlgorithmId algorithm : {AlgorithmId::ring, AlgorithmId::tree, AlgorithmId::tree_split})
      for (uint64_t count : {uint64_t(0), uint64_t(1), uint64_t(17), uint64_t(4099), uint64_t(200003)})
        for (bool in_place : {false, true}) all_reduce_case<T, kType, kOp, kProtocol>(w, algorithm, count, in_place, -1);
  }
  World broken(4, kProtocol);
  all_reduce_case<T, kType, kOp, kProtocol>(broken, AlgorithmId::ring, 100000, false, 3);
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no CUDA device here\n");
    return 77;
  }
  all_cases<float, DataType::float32, RedOp::sum, Protocol::simple>();
  all_cases<float, DataType::float32, RedOp::sum, Protocol::ll>();
  all_cases<int8_t, DataType::int8, RedOp::sum, Protocol::simple>();
  all_cases<int8_t, DataType::int8, RedOp::sum, Protocol::ll>();
  all_cases<int64_t, DataType::int64, RedOp::max, Protocol::simple>();
  all_cases<int64_t, DataType::int64, RedOp::max, Protocol::ll>();
  std::printf("%d cases, %d failures\n", cases, failures);
  return failures == 0 ? 0 : 1;
}
