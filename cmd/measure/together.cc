#include "cmd/measure/together.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "cmd/measure/job_numbers.h"
#include "runtime/communicator/members.h"

namespace collctl::cmd {

using runtime::in_numbers_of;

namespace {

constexpr uint32_t kMostRecords = 1 << 10, kMostRecordBytes = 1 << 24;
// A stretch may take so many times what its first operation has let expect.
constexpr double kSlower = 4;

// The row and the faults of one group.
class OneGroup : public BenchSink {
 public:
  void header(const BenchHeader&) override {}
  void row(const BenchRow& row) override { rows.push_back(row); }
  void closing(const BenchClosing&) override {}
  void fault(const DataFault& fault) override { faults.push_back(fault); }
  void progress(const std::string&) override {}
  void phase(int, const std::string&) override {}

  std::vector<BenchRow> rows;
  std::vector<DataFault> faults;
};

}  // namespace

void Together::GroupSink::progress(const std::string& text) {
  if (together_.whole_.rank() == 0) together_.sink_.progress(text);
}

void Together::GroupSink::phase(int, const std::string& name) {
  together_.sink_.phase(together_.whole_.rank(), name);
}

Together::Together(runtime::Communicator& whole, runtime::Communicator& group, const Groups& groups,
                   BenchSink& sink, double timeout_s, const Continued* continued)
    : whole_(whole),
      group_(group),
      groups_(groups),
      mine_(group_of(groups, whole.rank())),
      sink_(sink),
      own_sink_(*this),
      timeout_s_(timeout_s),
      continued_(continued),
      stream_(whole),
      at_once_(whole, stream_, timeout_s) {}

int Together::largest() const {
  size_t most = 0;
  for (const auto& members : groups_) most = std::max(most, members.size());
  return int(most);
}

// A group that has to tell of a failure of its own has had its time before.
Deadline Together::patience() const {
  return Deadline::after_seconds(2 * timeout_s_ + kSlower * slowest_s_);
}

template <class T>
Result<T> Together::of_whole(Result<T> result) {
  whole_failed_ |= !result.ok();
  return result;
}

Result<std::vector<Bytes>> Together::gather(ByteView mine) {
  COLL_TRY(group_.barrier(Deadline::after_seconds(timeout_s_)));
  return of_whole(whole_.gather_blobs(mine, patience()));
}

Status Together::barrier() {
  COLL_ASSIGN([[maybe_unused]] const auto blobs, gather({}));
  return of_whole(at_once_());
}

Status Together::probe(Timed& timed, int operations) {
  const int64_t from = now_ns();
  slowest_s_ = timeout_s_ / kSlower;  // it may take all of that
  COLL_TRY(timed.enqueue());
  COLL_TRY(timed.wait());
  const double took_s = base::seconds_since(from);
  COLL_ASSIGN(const auto all, gather(ByteWriter().put(took_s).bytes()));
  double slowest_s = 0;
  for (const Bytes& one : all) {
    ByteReader reader(one);
    slowest_s = std::max(slowest_s, reader.get<double>());
    if (!reader.ok()) return Error(ErrorCode::defect, "a rank's time has the wrong length");
  }
  slowest_s_ = slowest_s * std::max(operations, 1);
  return {};
}

Status Together::hand_over() {
  ByteWriter writer;
  const std::vector<std::string> records = own_sink_.take();
  writer.put(uint32_t(records.size()));
  for (const std::string& record : records) writer.put_string(record);
  COLL_ASSIGN(const auto all, gather(writer.bytes()));
  if (whole_.rank() != 0 && !sink_.every_rank()) return {};
  std::vector<OneGroup> groups(groups_.size());
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int rank : groups_[g]) {
      ByteReader reader(all[size_t(rank)]);
      const auto count = std::min(reader.get<uint32_t>(), kMostRecords);
      for (uint32_t i = 0; i < count && reader.ok(); ++i)
        COLL_TRY(deliver_record(reader.get_string(kMostRecordBytes), groups[g]));
      if (!reader.ok() || !reader.at_end())
        return of_whole(
            Status(Error(ErrorCode::defect, format("what rank {} hands over is cut short", rank))));
    }
  const auto time_of = [](const OneGroup& group) {
    return group.rows.empty() ? -1 : group.rows[0].first_timing().time_us;
  };
  const auto slowest = std::max_element(
      groups.begin(), groups.end(),
      [&](const OneGroup& a, const OneGroup& b) { return time_of(a) < time_of(b); });
  for (size_t g = 0; g < groups.size(); ++g) {
    for (BenchRow& row : groups[g].rows) {
      in_job_numbers(groups_[g], row);
      row.group = int(g);
      row.group_ranks = int(groups_[g].size());
      if (continued_ != nullptr && groups_[g].size() < continued_->groups[g].size())
        row.ranks = row.group_ranks;
      row.slowest_group = groups.size() > 1 && &groups[g] == &*slowest;
      sink_.row(row);
    }
    for (DataFault& fault : groups[g].faults) {
      in_job_numbers(groups_[g], fault);
      fault.message = format("{}: {}", group_name(int(g), groups_[g]), fault.message);
      sink_.fault(fault);
    }
  }
  return {};
}

Error Together::told(Error error) const {
  if (whole_failed_) return error;
  return in_numbers_of(groups_[size_t(mine_)], std::move(error))
      .within(group_name(mine_, groups_[size_t(mine_)]));
}

}  // namespace collctl::cmd
