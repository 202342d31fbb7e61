#include "cmd/rails/meeting.h"

#include "base/format.h"

namespace collctl::runtime {
namespace {

constexpr uint32_t kRailTag = 0x5241494c;        // of messages between two ranks
constexpr int64_t kRootFirstNs = 1'000'000'000;  // rank 0 knows who is missing, others wait for it
constexpr size_t kMostGathered = 64u << 20;

class OverBootstrap : public RailMeeting {
 public:
  explicit OverBootstrap(std::unique_ptr<Bootstrap> bootstrap) : bootstrap_(std::move(bootstrap)) {}
  Status send(int peer, ByteView bytes, Deadline deadline) override {
    return bootstrap_->send(peer, kRailTag, bytes, deadline);
  }
  Result<Bytes> receive(int peer, Deadline deadline) override {
    return bootstrap_->recv(peer, kRailTag, deadline);
  }
  Result<std::vector<Bytes>> gather(ByteView mine, Deadline deadline) override {
    return bootstrap_->all_gather_blobs(mine, deadline);
  }
  void abort(const Error& why) override { bootstrap_->announce_abort(why); }
  Status finish(Deadline deadline) override { return bootstrap_->finish(deadline); }

 private:
  std::unique_ptr<Bootstrap> bootstrap_;
};

class ThroughLauncher : public RailMeeting {
 public:
  ThroughLauncher(cmd::RankRelay& relay, int rank, int size)
      : relay_(relay), rank_(rank), size_(size) {}
  Status send(int peer, ByteView bytes, Deadline deadline) override {
    return relay_.send(peer, bytes, deadline);
  }
  Result<Bytes> receive(int peer, Deadline deadline) override {
    return relay_.receive(peer, deadline);
  }
  // Rank 0 collects, and tells all.
  Result<std::vector<Bytes>> gather(ByteView mine, Deadline deadline) override {
    std::vector<Bytes> all;
    all.resize(size_t(size_));
    if (rank_ != 0) {
      COLL_TRY(relay_.send(0, mine, deadline));
      COLL_ASSIGN(const Bytes told,
                  relay_.receive(0, Deadline::at_ns(deadline.at() + kRootFirstNs)));
      ByteReader r(told);
      for (Bytes& each : all) {
        const ByteView bytes = r.get_bytes(kMostGathered);
        each.assign(bytes.begin(), bytes.end());
      }
      if (!r.ok() || !r.at_end())
        return Error(ErrorCode::lost, "what rank 0 has gathered is malformed").blame(0);
      return all;
    }
    ByteWriter w;
    for (int rank = 0; rank < size_; ++rank) {
      if (rank == 0) {
        all[0].assign(mine.begin(), mine.end());
      } else {
        COLL_ASSIGN(all[size_t(rank)], relay_.receive(rank, deadline));
      }
      w.put_bytes(all[size_t(rank)]);
    }
    COLL_TRY(relay_.send(cmd::RankRelay::kAll, w.bytes(), deadline));
    return all;
  }
  // The launcher hears of it from this rank's end, and tells the others.
  void abort(const Error&) override {}
  Status finish(Deadline deadline) override {
    COLL_TRY(gather({}, deadline));
    return {};
  }

 private:
  cmd::RankRelay& relay_;
  int rank_, size_;
};

}  // namespace

std::unique_ptr<RailMeeting> meet_over(std::unique_ptr<Bootstrap> bootstrap) {
  return std::make_unique<OverBootstrap>(std::move(bootstrap));
}

std::unique_ptr<RailMeeting> meet_through(cmd::RankRelay& relay, int rank, int size) {
  return std::make_unique<ThroughLauncher>(relay, rank, size);
}

}  // namespace collctl::runtime
