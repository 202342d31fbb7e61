// One operation of all ranks, compared with sums made on the host.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/gpu/window_world.h"

namespace window_tests {

namespace {

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
  if (number_kind(type) == NumberKind::integer) {
    const auto x = int64_t(v);
    std::memcpy(to, &x, element_size(type));
    return;
  }
  switch (type) {
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

bool served(const World& w, const Case& c) {
  const uint64_t bytes = c.count * element_size(c.type);
  if (w.in == In::host && (c.direct != DirectPath::none || c.protocol == Protocol::ll128))
    return false;
  // Have no such form.
  if (c.in_place &&
      (c.collective == Collective::all_to_all || c.collective == Collective::send_recv))
    return false;
  if (c.direct == DirectPath::none)
    return window_serves(c.collective, c.algorithm, c.protocol, c.type, c.op, w.n, bytes);
  return window_direct(c.collective, c.type, c.op, w.n, bytes);
}

}  // namespace

void run_case(const World& w, const Case& c) {
  const uint64_t size = element_size(c.type), block = c.count * size;
  if (!served(w, c)) return;
  const bool direct = c.direct != DirectPath::none;
  // Some ranks' buffers are aligned, others not.
  const auto shift_of = [&](int r) { return c.shift * (r + 1) % 16; };
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
    if (c.in_place) {  // as nccl-tests' in place: the own block of the larger buffer
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
      if (c.collective == Collective::send_recv) {
        const PairStep step = w.shift(r, works[r]);
        CUDA_OK(launch_window(w.message(r, step, works[r], c.blocks)));
      } else {
        CUDA_OK(launch_window(w.launch(r, works[r], c.blocks, c.direct)));
      }
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
        std::printf("BESIDE n=%d collective %d path %d count %llu: rank %d byte %llu of %llu\n",
                    w.n, int(c.collective), int(c.direct), (unsigned long long)c.count, r,
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
        case Collective::send_recv:
          v = value_of((r + w.n - 1) % w.n, e, RedOp::sum);
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
          "WRONG n=%d collective %d algorithm %d protocol %d path %d type %d op %d count %llu "
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

}  // namespace window_tests
