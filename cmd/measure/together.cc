#include "cmd/measure/together.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "runtime/communicator/members.h"

namespace collctl::cmd {

using runtime::in_numbers_of;

namespace {

constexpr uint32_t kMostRecords = 1 << 10, kMostRecordBytes = 1 << 24;
// A stretch may take so many times what its first operation has let expect.
constexpr double kSlower = 4;

void renumber(const std::vector<int>&, BenchHeader&) {}
void renumber(const std::vector<int>&, BenchTrace&) {}

void renumber(const std::vector<int>& members, BenchRow& row) {
  for (Timing* timing : {&row.out_of_place, &row.in_place})
    timing->slowest_rank = in_numbers_of(members, timing->slowest_rank);
}

void renumber(const std::vector<int>& members, DataFault& fault) {
  fault.message = in_numbers_of(members, fault.message);
  fault.rank = in_numbers_of(members, fault.rank);
  fault.peer = in_numbers_of(members, fault.peer);
  for (DataFault::Hop& hop : fault.hops)
    hop = {in_numbers_of(members, hop.from), in_numbers_of(members, hop.to)};
}

void renumber(const std::vector<int>& members, BenchClosing& closing) {
  for (ThrottledGpu& gpu : closing.throttled) gpu.rank = in_numbers_of(members, gpu.rank);
}

}  // namespace

void in_job_numbers(const std::vector<int>& members, BenchRecord& record) {
  std::visit([&](auto& r) { renumber(members, r); }, record);
}

Result<std::vector<Bytes>> Everyone::gather(ByteView mine) {
  return own_.gather_blobs(mine, deadline());
}

Result<int64_t> Everyone::largest(int64_t mine) {
  COLL_ASSIGN(const auto blobs, gather(ByteWriter().put(mine).bytes()));
  int64_t most = mine;
  for (const Bytes& blob : blobs) {
    ByteReader reader(blob);
    most = std::max(most, reader.get<int64_t>());
    if (!reader.ok()) return Error(ErrorCode::defect, "a rank's time has the wrong length");
  }
  return most;
}

std::unique_ptr<Barrier> Everyone::barrier(runtime::Stream& stream) {
  return std::make_unique<StreamBarrier>(own_, stream, timeout_s_);
}

uint64_t Everyone::most_moved(const RowToMeasure& row) const {
  return row.key.size.bytes * uint64_t(own_.size());
}

Together::Together(runtime::Communicator& whole, runtime::Communicator& group, const Groups& groups,
                   BenchOut& out, double timeout_s, const Continued* continued)
    : Everyone(group, out, timeout_s),
      whole_(whole),
      groups_(groups),
      mine_(group_of(groups, whole.rank())),
      own_out_{out.task,
               [this](const BenchRecord& record) {
                 records_.push_back(encode_record(record));
                 return Status();
               }},
      continued_(continued),
      stream_(whole),
      at_once_(whole, stream_, timeout_s) {}

void Together::tell(HeaderFacts& facts) const {
  facts.group = &own();
  facts.groups = &groups_;
}

// By the largest group; sizes are rounded to each group's own ranks.
uint64_t Together::most_moved(const RowToMeasure& row) const {
  const auto ranks = [](const std::vector<int>& members) { return members.size(); };
  return row.asked * uint64_t(std::ranges::max(groups_, {}, ranks).size());
}

// A group that has to tell of a failure of its own has had its time before.
Deadline Together::patience() const {
  return Deadline::after_seconds(2 * timeout_s() + kSlower * slowest_s_);
}

template <class T>
Result<T> Together::of_whole(Result<T> result) {
  whole_failed_ |= !result.ok();
  return result;
}

Result<std::vector<Bytes>> Together::gather(ByteView mine) {
  COLL_TRY(own().barrier(deadline()));
  return of_whole(whole_.gather_blobs(mine, patience()));
}

Status Together::meet() {
  COLL_ASSIGN([[maybe_unused]] const auto blobs, gather({}));
  return of_whole(at_once_());
}

std::unique_ptr<Barrier> Together::barrier(runtime::Stream&) {
  struct OfAllGroups : Barrier {
    explicit OfAllGroups(Together& all) : together(all) {}
    Status operator()() override { return together.meet(); }
    Together& together;
  };
  return std::make_unique<OfAllGroups>(*this);
}

Status Together::agree(const std::vector<uint64_t>& sizes, std::vector<uint64_t>& able,
                       std::map<uint64_t, Error>& refused) {
  Bytes serves(sizes.size(), 0);
  for (size_t i = 0; i < sizes.size(); ++i)
    serves[i] = std::ranges::find(able, sizes[i]) != able.end();
  COLL_ASSIGN(const auto all, gather(serves));
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].size() != sizes.size())
      return Error(ErrorCode::defect, "what a rank can serve has the wrong length");
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (all[rank][i] != 0 || std::erase(able, sizes[i]) == 0) continue;
      // Without its ranks: what a run says counts within its own group (told()).
      refused.insert_or_assign(
          sizes[i], Error(ErrorCode::usage,
                          format("group {} cannot serve it", group_of(groups_, int(rank)))));
    }
  }
  return {};
}

Status Together::probe(Timed& timed, int operations) {
  const int64_t from = now_ns();
  slowest_s_ = timeout_s() / kSlower;  // it may take all of that
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
  const std::vector<std::string> records = std::exchange(records_, {});
  writer.put(uint32_t(records.size()));
  for (const std::string& record : records) writer.put_string(record);
  COLL_ASSIGN(const auto all, gather(writer.bytes()));
  if (whole_.rank() != 0 && !out().every_rank) return {};
  struct OfGroup {
    std::vector<BenchRow> rows;
    std::vector<DataFault> faults;
    double time_us() const { return rows.empty() ? -1 : rows[0].first_timing().time_us; }
  };
  std::vector<OfGroup> groups(groups_.size());
  for (size_t g = 0; g < groups.size(); ++g)
    for (const int rank : groups_[g]) {
      ByteReader reader(all[size_t(rank)]);
      const auto count = std::min(reader.get<uint32_t>(), kMostRecords);
      for (uint32_t i = 0; i < count && reader.ok(); ++i) {
        COLL_ASSIGN(BenchRecord record, decode_record(reader.get_string(kMostRecordBytes)));
        in_job_numbers(groups_[g], record);
        if (auto* row = std::get_if<BenchRow>(&record)) groups[g].rows.push_back(std::move(*row));
        if (auto* fault = std::get_if<DataFault>(&record))
          groups[g].faults.push_back(std::move(*fault));
      }
      if (!reader.ok() || !reader.at_end())
        return of_whole(
            Status(Error(ErrorCode::defect, format("what rank {} hands over is cut short", rank))));
    }
  const auto slowest = std::ranges::max_element(groups, {}, &OfGroup::time_us);
  for (size_t g = 0; g < groups.size(); ++g) {
    for (BenchRow& row : groups[g].rows) {
      row.group = int(g);
      row.group_ranks = int(groups_[g].size());
      if (continued_ != nullptr && groups_[g].size() < continued_->groups[g].size())
        row.ranks = row.group_ranks;
      row.slowest_group = groups.size() > 1 && &groups[g] == &*slowest;
      COLL_TRY(out().on(std::move(row)));
    }
    for (DataFault& fault : groups[g].faults) {
      fault.message = format("{}: {}", group_name(int(g), groups_[g]), fault.message);
      COLL_TRY(out().on(std::move(fault)));
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
