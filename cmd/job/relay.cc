#include "cmd/job/relay.h"

#include <algorithm>

#include "base/format.h"
#include "cmd/job/members.h"

namespace collctl::cmd {

using launcher::FrameType;

void FrameSink::put(FrameType type, const std::string& text) {
  Status sent = send_(type, text);
  const std::lock_guard lock(mutex_);
  if (!sent && !broken_) broken_ = sent.error();
}

Status FrameSink::record(const std::string& json) {
  put(FrameType::data, json);
  return {};
}

Status FrameSink::status() const {
  const std::lock_guard lock(mutex_);
  return broken_ ? Status(*broken_) : Status();
}

Status LauncherRelay::send(int rank, ByteView bytes, Deadline deadline) {
  ByteWriter w;
  w.put(int32_t(rank)).put_rest(bytes);
  return channel_.send(FrameType::relay, w.bytes(), deadline);
}

Result<Bytes> LauncherRelay::receive(int from, Deadline deadline) {
  std::unique_lock lock(mutex_);
  std::deque<Bytes>& messages = inbox_[from];
  base::wait_for(changed_, lock, deadline, [&] { return !messages.empty() || ended_; });
  if (ended_) return Error(*ended_);
  if (messages.empty())
    return Error(ErrorCode::deadline,
                 format("nothing came from rank {} through the launcher in time", from))
        .blame(from);
  Bytes first = std::move(messages.front());
  messages.pop_front();
  return first;
}

Status LauncherRelay::arrived(ByteView payload) {
  ByteReader r(payload);
  const auto from = r.get<int32_t>();
  if (!r.ok()) return Error(ErrorCode::lost, "the launcher passed on a malformed message");
  const ByteView rest = payload.subspan(sizeof from);
  const std::lock_guard lock(mutex_);
  inbox_[from].emplace_back(rest.begin(), rest.end());
  changed_.notify_all();
  return {};
}

void LauncherRelay::end(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!ended_) ended_ = why;
  changed_.notify_all();
}

Status pass_on(launcher::RankGroup& job, const std::vector<int>& members, int from,
               ByteView payload) {
  ByteReader r(payload);
  const auto to = r.get<int32_t>();
  const bool known = to == RankRelay::kAll || std::ranges::find(members, to) != members.end();
  if (!r.ok() || !known)
    return Error(ErrorCode::lost, format("rank {} sends to nobody of the job", from)).blame(from);
  ByteWriter w;
  w.put(int32_t(from)).put_rest(payload.subspan(sizeof to));
  for (const int member : members)
    if (member != from && (to == RankRelay::kAll || to == member))
      COLL_TRY(tell(job, member, FrameType::relay, w.bytes()));
  return {};
}

}  // namespace collctl::cmd
