#include "tests/unit/runtime/ranks.h"

#include <span>

namespace collctl::runtime::testing {
namespace {

constexpr float kPoison = -12345.5f;

bool in_blocks(Collective c) {
  return c == Collective::all_to_all || c == Collective::reduce_scatter || c == Collective::scatter;
}
bool out_blocks(Collective c) {
  return c == Collective::all_to_all || c == Collective::all_gather || c == Collective::gather;
}

// The value at element i of rank r's output afterwards.
float expected(const Case& t, int n, int r, uint64_t i) {
  const auto sum = [&](uint64_t at) {
    float total = 0;
    for (int k = 0; k < n; ++k) total += value_of(k, at);
    return total;
  };
  const uint64_t count = t.count;
  switch (t.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return sum(i);
    case Collective::broadcast:
      return value_of(t.root, i);
    case Collective::all_gather:
    case Collective::gather:
      return value_of(int(i / count), i % count);
    case Collective::reduce_scatter:
      return sum(uint64_t(r) * count + i);
    case Collective::scatter:
      return value_of(t.root, uint64_t(r) * count + i);
    case Collective::all_to_all:
      return value_of(int(i / count), uint64_t(r) * count + i % count);
    default:
      return kPoison;
  }
}

}  // namespace

std::string run_case(Communicator& c, Stream& stream, const Case& t, Communicator::Launch launch) {
  const int n = c.size(), r = c.rank();
  const uint64_t blocks = uint64_t(n);
  const uint64_t in_count = t.count * (in_blocks(t.collective) ? blocks : 1);
  const uint64_t out_count = t.count * (out_blocks(t.collective) ? blocks : 1);
  const bool rooted = t.collective == Collective::reduce || t.collective == Collective::gather;
  const bool writes = !rooted || r == t.root;
  const uint64_t whole_count = t.in_place ? std::max(in_count, out_count) : 0;
  // Not cleared: each part is filled below.
  std::unique_ptr<float[]> own;
  if (t.memory == nullptr) own.reset(new float[in_count + out_count + whole_count]);
  float* const memory = t.memory == nullptr ? own.get() : t.memory;
  const std::span<float> input(memory, in_count), output(memory + in_count, out_count);
  const std::span<float> whole(memory + in_count + out_count, whole_count);
  std::fill(output.begin(), output.end(), kPoison);
  for (uint64_t i = 0; i < in_count; ++i) input[i] = value_of(r, i);
  Operation op{.collective = t.collective,
               .input = input.data(),
               .output = output.data(),
               .count = t.count,
               .root = t.root};
  float* result = output.data();
  if (t.in_place) {
    std::fill(whole.begin(), whole.end(), kPoison);
    // This rank's own block of the larger buffer, where there is one.
    const uint64_t block = in_count != out_count ? uint64_t(r) * t.count : 0;
    const bool input_is_large = in_count > out_count;
    std::copy(input.begin(), input.end(), whole.begin() + long(input_is_large ? 0 : block));
    op.input = whole.data() + (input_is_large ? 0 : block);
    result = whole.data() + (input_is_large ? block : 0);
    op.output = result;
    if (rooted && !writes) op.input = input.data(), result = output.data(), op.output = result;
    if (t.collective == Collective::scatter && r != t.root)
      op.input = nullptr, result = output.data(), op.output = result;
  }
  if (Status started = c.start(op, stream, launch); !started)
    return format("start: {}", started.error().chain());
  if (Status done = stream.synchronize(); !done) return format("run: {}", done.error().chain());
  if (!writes) return "";
  for (uint64_t i = 0; i < out_count; ++i)
    if (result[i] != expected(t, n, r, i))
      return format("{} count {} root {}{}: rank {} of {}, element {} is {}, expected {}",
                    kernels::name_of(t.collective), t.count, t.root, t.in_place ? " in place" : "",
                    r, n, i, result[i], expected(t, n, r, i));
  return "";
}

}  // namespace collctl::runtime::testing
