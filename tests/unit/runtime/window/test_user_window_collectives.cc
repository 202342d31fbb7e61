// Collectives whose buffers lie in windows: they move data directly from buffer to buffer, with the
// same results as ever; who is not in a window is told.

#include <algorithm>
#include <cstring>

#include "runtime/plan/planner.h"
#include "tests/unit/runtime/window/window_job.h"

namespace window_user_window_collectives_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

constexpr Collective kServed[] = {Collective::all_reduce,     Collective::all_gather,
                                  Collective::reduce_scatter, Collective::broadcast,
                                  Collective::reduce,         Collective::gather,
                                  Collective::scatter,        Collective::all_to_all};
constexpr uint64_t kMostCount = 40'000;

// Over windows at any size, whatever the model says.
CommOptions forced() {
  CommOptions options;
  options.algo = "one-shot,two-shot";
  options.op_timeout_s = 60;
  return options;
}

uint64_t memory_bytes(const Communicator& c) {
  return 3 * uint64_t(c.size()) * kMostCount * sizeof(float);
}

void all_collectives(Communicator& c, Complaints& complaints, float* memory) {
  Stream stream(c);
  for (const Collective collective : kServed)
    for (const uint64_t count : {uint64_t(1), uint64_t(5), uint64_t(3001), kMostCount})
      for (const bool in_place : {false, true}) {
        if (in_place && collective == Collective::all_to_all) continue;
        const std::string wrong =
            run_case(c, stream, {collective, count, c.size() - 1, in_place, memory},
                     count % 2 == 0 ? Communicator::Launch::async : Communicator::Launch::blocking);
        if (!wrong.empty()) return complaints.add(wrong);
      }
}

bool is_direct(Communicator& c, const Operation& op) {
  const auto plan = c.plan_for({&op, 1});
  return plan && plan->ops[0].direct;
}

}  // namespace

TEST_CASE("every collective directly between windows, ranks as threads", "[user_window]") {
  for (const int n : {1, 2, 3, 4, 7, 12}) {
    INFO(n << " ranks");
    CHECK(with_ranks(n, forced(), [&](Communicator& c, Complaints& complaints) {
            Memory memory(memory_bytes(c));
            const WindowPointer window = registered(c, complaints, {memory.at, memory_bytes(c)});
            if (window == nullptr) return;
            auto* floats = reinterpret_cast<float*>(memory.at);
            const Operation op{.input = floats, .output = floats + 8, .count = 8};
            if (is_direct(c, op) != (n > 1)) complaints.add("planned another way");
            all_collectives(c, complaints, floats);
            complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
            // The same memory, no window: the staged path.
            if (is_direct(c, op)) complaints.add("planned over a window that has gone");
            all_collectives(c, complaints, floats);
          }) == "");
  }
}

TEST_CASE("buffers at other places on other ranks, in two windows", "[user_window]") {
  CHECK(with_ranks(3, forced(), [&](Communicator& c, Complaints& complaints) {
          Memory in(4096), out(4096);
          const WindowRange ranges[] = {{in.at, 4096}, {out.at, 4096}};
          auto windows = c.register_windows(ranges, soon());
          if (!windows) return complaints.add(windows.error().chain());
          // 100 elements from a place that differs from rank to rank; unaligned, too.
          float* input = reinterpret_cast<float*>(in.at) + 17 * c.rank();
          uint8_t* output = out.at + 4 * 31 * (2 - c.rank()) + (c.rank() == 1 ? 1 : 0);
          for (uint64_t i = 0; i < 100; ++i) input[i] = value_of(c.rank(), i);
          const Operation op{.input = input, .output = output, .count = 100};
          if (!is_direct(c, op)) complaints.add("planned another way");
          Stream stream(c);
          complaints.add(c.rank(), c.start(op, stream, Communicator::Launch::blocking));
          for (uint64_t i = 0; i < 100; ++i) {
            float got;
            std::memcpy(&got, output + 4 * i, 4);
            if (got != value_of(0, i) + value_of(1, i) + value_of(2, i))
              return complaints.add(format("rank {}: element {} is {}", c.rank(), i, got));
          }
          // One element beyond a window's end, or an ordinary buffer: the staged path.
          float ordinary[8];
          auto* last = reinterpret_cast<float*>(in.at + 4096) - 7;
          for (const Operation& other :
               {Operation{.input = last, .output = out.at, .count = 8},
                Operation{.input = in.at, .output = ordinary, .count = 8},
                Operation{.input = ordinary, .output = out.at, .count = 8}})
            if (is_direct(c, other)) complaints.add("a buffer that lies in no window is direct");
          complaints.add(c.rank(), c.deregister_windows(*windows, soon()));
        }) == "");
}

TEST_CASE("the model takes windows where they are faster, and choices are obeyed",
          "[user_window]") {
  CHECK(with_ranks(2, {}, [&](Communicator& c, Complaints& complaints) {
          constexpr uint64_t kBytes = 4 << 20;
          Memory memory(2 * kBytes);
          const WindowPointer window = registered(c, complaints, {memory.at, 2 * kBytes});
          if (window == nullptr) return;
          auto* floats = reinterpret_cast<float*>(memory.at);
          // Half the moves of an ordinary two-shot.
          const Operation large{.input = floats, .output = floats + (1 << 20), .count = 1 << 20};
          if (!is_direct(c, large)) complaints.add("1 Mi elements go another way");
          complaints.add(c.rank(), c.set_choices("ring", "", 0));
          if (is_direct(c, large)) complaints.add("ring was asked for");
          complaints.add(c.rank(), c.set_choices("two-shot", "", 0));
          if (!is_direct(c, large)) complaints.add("two-shot was asked for");
          complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
        }) == "");
}

TEST_CASE("a rank whose buffers lie in no window is found out", "[user_window]") {
  CommOptions options = forced();
  options.op_timeout_s = 20;
  const Communicators job = start_job(3, options);
  std::vector<Error> errors(3);
  on_all(3, [&](int r) {
    Communicator& c = *job[size_t(r)];
    Complaints complaints;
    Memory memory(4096);
    std::vector<float> ordinary(200);
    const WindowPointer window = registered(c, complaints, {memory.at, 4096});
    auto* floats =
        reinterpret_cast<float*>(r == 1 ? reinterpret_cast<uint8_t*>(ordinary.data()) : memory.at);
    Stream stream(c);
    const Operation op{.input = floats, .output = floats + 100, .count = 100};
    if (const Status done = c.start(op, stream, Communicator::Launch::blocking); !done)
      errors[size_t(r)] = done.error();
    if (window != nullptr) (void)c.deregister_windows({&window, 1}, soon());
  });
  for (const Error& e : errors) {
    INFO(e.chain());
    CHECK(e.code == ErrorCode::bad_data);
  }
}

TEST_CASE("directly between windows of processes", "[user_window]") {
  CHECK(
      in_processes(
          3,
          [](Communicator& c) {
            Complaints complaints;
            {
              Memory memory(memory_bytes(c));
              const WindowPointer window = registered(c, complaints, {memory.at, memory_bytes(c)});
              if (window == nullptr) return 10;
              all_collectives(c, complaints, reinterpret_cast<float*>(memory.at));
              complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
            }
            complaints.add(c.rank(), c.finalize(soon()));
            if (!complaints.text().empty()) std::fputs(complaints.text().c_str(), stderr);
            return complaints.text().empty() ? 0 : 11;
          },
          forced()) == std::vector<int>{0, 0, 0});
}

// The runtime keeps the last operation's plan (State::repeat), which other calls make untrue: the
// window that it goes through is unmapped by then.
TEST_CASE("an operation that is repeated sees what changed between", "[user_window]") {
  CHECK(with_ranks(2, forced(), [&](Communicator& c, Complaints& complaints) {
          constexpr uint64_t kCount = 5000;
          Memory memory(2 * kCount * sizeof(float));
          auto* in = reinterpret_cast<float*>(memory.at);
          float* out = in + kCount;
          Stream stream(c), other(c);
          const Operation sum{.input = in, .output = out, .count = kCount};
          float next = 1;
          const auto sums = [&](const Operation& op, Stream& on) {
            const auto* from = static_cast<const float*>(op.input);
            auto* to = static_cast<float*>(op.output);
            for (int again = 0; again < 3; ++again) {
              next += 1;
              std::fill_n(const_cast<float*>(from), kCount, next + float(c.rank()));
              complaints.add(c.rank(), c.start(op, on, Communicator::Launch::blocking));
              const float due = op.op == RedOp::max ? next + 1 : 2 * next + 1;
              if (to[0] != due || to[kCount - 1] != due) complaints.add("a wrong sum");
            }
          };
          sums(sum, stream);
          const WindowPointer window =
              registered(c, complaints, {memory.at, 2 * kCount * sizeof(float)});
          if (window == nullptr) return;
          sums(sum, stream);
          sums(sum, other);
          Operation most = sum;
          most.op = RedOp::max;
          sums(most, stream);
          std::vector<float> ordinary(2 * kCount);
          sums({.input = ordinary.data(), .output = ordinary.data() + kCount, .count = kCount},
               stream);
          sums(sum, stream);
          complaints.add(c.rank(), c.set_choices("ring", "", 0));
          sums(sum, stream);
          complaints.add(c.rank(), c.set_choices("", "", 0));
          sums(sum, stream);
          complaints.add(c.rank(), c.deregister_windows({&window, 1}, soon()));
          sums(sum, stream);
        }) == "");
}

}  // namespace window_user_window_collectives_tests
