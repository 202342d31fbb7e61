// Ranks that do not call the same: every rank ends with code 5 (lost) and both calls or both sizes.
#include "runtime/communicator/call_log.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace communicator_calls_differ_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;

namespace {

Operation call(Collective collective, uint64_t count, int root = 0) {
  return {.collective = collective, .count = count, .root = root};
}

CommOptions ring_over(const char* transport, const char* proto) {
  CommOptions options;
  options.transport = transport;
  options.algo = "ring";
  options.proto = proto;
  options.channels = 1;
  options.op_timeout_s = 20;
  return options;
}

// Each rank's error after it has called its own operation.
std::vector<Error> errors_of(const Communicators& job,
                             const std::function<Operation(int rank)>& called) {
  std::vector<Error> errors(job.size());
  on_all(int(job.size()), [&](int rank) {
    Stream stream(*job[size_t(rank)]);
    Operation op = called(rank);
    std::vector<float> in(op.count, 1.0f), out(op.count);
    op.input = in.data();
    op.output = out.data();
    Status done = job[size_t(rank)]->start(op, stream);
    if (done) done = stream.synchronize();
    if (!done) errors[size_t(rank)] = done.error();
  });
  return errors;
}

void check_lost(const std::vector<Error>& errors, std::initializer_list<const char*> words) {
  for (const Error& error : errors) {
    INFO(error.chain());
    CHECK(error.code == ErrorCode::lost);
    for (const char* word : words) {
      INFO(word);
      CHECK(error.chain().find(word) != std::string::npos);
    }
  }
}

}  // namespace

TEST_CASE("the first call that differs is told, as far as both logs go") {
  CallLog ours, theirs;
  const auto difference = [&] { return ours.difference(0, 1, theirs.encode()); };
  CHECK_FALSE(difference());
  ours.note(call(Collective::all_reduce, 10));
  CHECK_FALSE(difference());  // the other has not come so far
  theirs.note(call(Collective::all_reduce, 10, 3));
  CHECK_FALSE(difference());  // an all-reduce has no root
  ours.note({.collective = Collective::send_recv, .count = 5, .peer = 1});
  ours.note(call(Collective::barrier, 1));
  theirs.note(call(Collective::barrier, 0));
  CHECK_FALSE(difference());  // messages are each rank's own, a barrier has no size
  ours.note(call(Collective::broadcast, 7, 2));
  theirs.note(call(Collective::broadcast, 7, 1));
  ours.note(call(Collective::all_reduce, 1));
  theirs.note(call(Collective::all_reduce, 2));
  const auto error = difference();
  REQUIRE(error);
  CHECK(error->code == ErrorCode::lost);
  CHECK(error->rank == 1);
  CHECK(error->message ==
        "call 2: rank 0 called broadcast of 28 bytes (7 float32, root 2), rank 1 broadcast of 28 "
        "bytes (7 float32, root 1)");

  CallLog types;
  types.note({.collective = Collective::all_reduce, .count = 8, .type = DataType::int8});
  const auto by_type = types.difference(4, 5, ours.encode());
  REQUIRE(by_type);
  CHECK(by_type->message.find("rank 4 called allreduce of 8 bytes (8 int8, sum)") !=
        std::string::npos);
}

TEST_CASE("sends and receives are counted, and the last call of either kind is told") {
  CallLog log;
  CHECK(log.last() == "");
  float data[5] = {};
  log.note({.collective = Collective::send_recv, .input = data, .count = 5, .peer = 1});
  CHECK(log.last() == "send of 20 bytes");
  log.note({.collective = Collective::send_recv, .output = data, .count = 0, .peer = 1});
  CHECK(log.last() == "receive of 0 bytes");
  CHECK(log.messages() == 2);
  CHECK(log.noted() == 0);
  log.note(call(Collective::all_gather, 4));
  CHECK(log.last() == "allgather of 16 bytes (4 float32)");
  CHECK(log.noted() == 1);
}

TEST_CASE("a log forgets what is long ago, and is not believed when it is damaged") {
  CallLog ours, theirs;
  ours.note(call(Collective::all_reduce, 1));
  theirs.note(call(Collective::all_reduce, 2));
  CHECK(ours.difference(0, 1, theirs.encode()));
  for (int i = 0; i < 32; ++i) {
    ours.note(call(Collective::all_gather, 4));
    theirs.note(call(Collective::all_gather, 4));
  }
  CHECK_FALSE(ours.difference(0, 1, theirs.encode()));
  theirs.note(call(Collective::all_gather, 5));
  ours.note(call(Collective::all_gather, 4));
  Bytes log = theirs.encode();
  CHECK(ours.difference(0, 1, log));
  for (size_t bytes = 0; bytes < log.size(); ++bytes)  // never more than it says, never a crash
    (void)ours.difference(0, 1, ByteView(log).first(bytes));
  log[0] = 0xff;  // it claims calls of which it has none
  CHECK_FALSE(ours.difference(0, 1, log));
}

TEST_CASE("ranks that call with different sizes are told both, by whatever protocol", "[faults]") {
  // A ring of two cuts the elements in halves: 48 and 160 of 4 bytes.
  for (const char* transport : {"loopback", "shm", "net"})
    for (const char* proto : {"simple", "ll"}) {
      INFO(transport << " " << proto);
      const Communicators job = start_job(2, ring_over(transport, proto));
      check_lost(
          errors_of(job,
                    [](int rank) { return call(Collective::all_reduce, rank == 0 ? 96 : 320); }),
          {"192", "640"});
    }
}

TEST_CASE("ranks that wait for each other because their calls differ are told the calls",
          "[faults]") {
  // Each is the root to itself, and waits for the other's data.
  const auto called = [](int rank) { return call(Collective::reduce, 100, rank); };
  const std::initializer_list<const char*> words = {
      "call 0: rank ", "reduce of 400 bytes (100 float32, sum, root 0)",
      "reduce of 400 bytes (100 float32, sum, root 1)"};
  for (const char* transport : {"shm", "net"}) {
    INFO(transport);
    CommOptions options = ring_over(transport, "ll");
    options.op_timeout_s = 3;
    check_lost(errors_of(start_job(2, options), called), words);
  }
  set_up_gpus(2);
  GpuJob job;
  job.options = ring_over("p2p", "ll");
  job.options.op_timeout_s = 3;
  {
    const Communicators gpus = start_gpu_job(job);
    check_lost(errors_of(gpus, called), words);
  }
  CHECK(fake_cuda::counts().text() == fake_cuda::Counts{}.text());
}

}  // namespace communicator_calls_differ_tests
