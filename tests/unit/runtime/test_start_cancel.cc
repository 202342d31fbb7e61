// Starts that are cancelled: each phase ends at once with the reason, and the other ranks hear it.
#include "runtime/communicator/communicator.h"
#include "tests/unit/runtime/bootstrap/bootstrap_job.h"

namespace start_cancel_tests {

using namespace collctl;
using namespace collctl::runtime;
using namespace collctl::runtime::testing;
using base::Cancel;

namespace {

Error pressed() {
  Error e(ErrorCode::interrupted, "somebody pressed the button");
  e.signal = 2;
  return e;
}

void check_own(const Status& ended) {
  REQUIRE_FALSE(ended.ok());
  CAPTURE(ended.error().chain());
  CHECK(ended.error().code == ErrorCode::interrupted);
  CHECK(ended.error().signal == 2);
  CHECK(says(ended.error(), "somebody pressed the button"));
  CHECK_FALSE(says(ended.error(), "aborted"));
}

void check_told(const Error& told, int rank) {
  CAPTURE(told.chain());
  CHECK(told.code == ErrorCode::interrupted);
  CHECK(told.signal == 2);
  CHECK(told.rank == rank);
  CHECK(says(told, format("rank {} aborted: somebody pressed the button", rank)));
}

// Joins in a thread of its own.
class Joining {
 public:
  explicit Joining(Bootstrap::Options options) {
    options.cancel = off;
    thread_ = std::thread([this, options] {
      auto joined = Bootstrap::join(options);
      if (!joined) ended_ = std::move(joined.error());
    });
  }
  Status cancelled() {
    off->call(pressed());
    thread_.join();
    return std::move(ended_);
  }

 private:
  const std::shared_ptr<Cancel> off = std::make_shared<Cancel>();
  Status ended_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a start is cancelled where no root is yet", "[bootstrap][cancel]") {
  JobShape shape{2};
  Job job(shape);
  job.roots.clear();
  Joining rank(job.options(1));
  check_own(rank.cancelled());
}

TEST_CASE("a rank that waits for its place tells its root why it leaves", "[bootstrap][cancel]") {
  auto root = base::AuthListener::listen(loopback(), secret_of(9));
  REQUIRE(root.ok());
  Job job({2});
  auto options = job.options(1);
  options.id = UniqueId::make((*root)->address(), secret_of(9));
  Joining rank(options);
  auto caller = (*root)->accept_one(soon());
  REQUIRE(caller.ok());
  check_own(rank.cancelled());
  // Cancelled before it knew that it was checked in: then it has just hung up.
  boot::FrameReader reader;
  boot::SealedFd line(std::move(*caller));
  Status state;
  std::optional<boot::Frame> frame;
  while (state && !frame) {
    pollfd p{line.get(), POLLIN, 0};
    REQUIRE(*base::poll_fds({&p, 1}, soon()) == 1);
    state = reader.fill(line);
    frame = reader.next();
  }
  if (!frame) return;
  REQUIRE(frame->type == boot::FrameType::failure);
  check_told(boot::decode_error(frame->payload), 1);
}

TEST_CASE("a rank that connects to its neighbours leaves them a reason", "[bootstrap][cancel]") {
  Job job({2});
  // It accepts no connection.
  auto silent = base::AuthListener::listen(loopback(), secret_of(9));
  REQUIRE(silent.ok());
  auto check_in = check_in_of(job, 1, 2);
  check_in.peers = (*silent)->address();
  auto line = call_root(job, check_in);
  REQUIRE(line.ok());
  Joining rank(job.options(0));
  REQUIRE(answer_on(*line).type == boot::FrameType::place);
  check_own(rank.cancelled());
  const boot::Frame frame = answer_on(*line);
  REQUIRE(frame.type == boot::FrameType::failure);
  check_told(boot::decode_error(frame.payload), 0);
}

TEST_CASE("what a rank says right before its root ends still reaches the others",
          "[bootstrap][cancel]") {
  for (int round = 0; round < 5; ++round) {
    Job job({3});
    std::vector<boot::SealedFd> lines;
    for (const int rank : {0, 1}) {
      auto line = call_root(job, check_in_of(job, rank, 3));
      REQUIRE(line.ok());
      lines.push_back(std::move(*line));
    }
    // That the root knows them: it refuses another rank 0, and another rank 1.
    for (const int rank : {0, 1}) REQUIRE_FALSE(Bootstrap::join(job.options(rank)).ok());
    REQUIRE(boot::send_frame(lines[0], boot::FrameType::failure,
                             boot::encode_brief(start_aborted(pressed(), 0, "b0"))));
    job.roots.clear();
    const boot::Frame frame = answer_on(lines[1]);
    REQUIRE(frame.type == boot::FrameType::failure);
    check_told(boot::decode_error(frame.payload), 0);
  }
}

TEST_CASE("a communicator's start is cancelled behind the bootstrap", "[bootstrap][cancel]") {
  Job job({2});
  const auto off = std::make_shared<Cancel>();
  Status other;
  std::thread rank_1([&] {
    other = [&]() -> Status {
      COLL_ASSIGN(const auto joined, Bootstrap::join(job.options(1)));
      off->call(pressed());
      COLL_ASSIGN([[maybe_unused]] const Bytes nothing, joined->recv(0, 1, soon()));
      return {};
    }();
  });
  CommOptions options;
  options.start_timeout_s = 60;
  options.cancel = off;
  const auto made = Communicator::init(job.ids[0], 0, 2, options);
  rank_1.join();
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().code == ErrorCode::interrupted);
  CHECK(says(made.error(), "start-up"));
  CHECK(says(made.error(), "somebody pressed the button"));
  REQUIRE_FALSE(other.ok());
  check_told(other.error(), 0);
}

}  // namespace start_cancel_tests
