#include "runtime/bootstrap/mailbox.h"

#include "base/format.h"
#include "base/log.h"

namespace collctl::runtime::boot {
namespace {

// Messages nobody has asked for yet. Above this only the awaited sender is read.
constexpr uint64_t kMaxKeptBytes = uint64_t(256) << 20;
constexpr uint64_t kMaxKeptMessages = 1 << 16;

}  // namespace

void Mailbox::adopt(int from, SealedFd fd) {
  std::unique_ptr<DataLink>& slot = incoming_[from];
  if (slot && slot->open()) {
    COLL_WARN("rank {}: a second message connection from {} was dropped", roster_.rank,
              roster_.name(from));
    return;
  }
  slot = std::make_unique<DataLink>(std::move(fd), from, kMaxBlob);
  slot->expect();
}

bool Mailbox::may_read(const DataLink& link, int awaited_sender) const {
  return link.peer() == awaited_sender || (bytes_ < kMaxKeptBytes && messages_ < kMaxKeptMessages);
}

Status Mailbox::receive(int awaited_sender) {
  for (auto& [peer, link] : incoming_) {
    while (link->open() && may_read(*link, awaited_sender)) {
      // A sender that ended is no failure by itself: who waits for more from it says so.
      if (!link->progress() || !link->received()) break;
      Message message = link->take();
      link->expect();
      put(peer, message.tag, std::move(message.body));
    }
    if (bytes_ > 4 * kMaxKeptBytes || messages_ > 4 * kMaxKeptMessages)
      return Error(ErrorCode::defect,
                   format("{} sent {} messages ({} bytes) that rank {} did not ask for",
                          roster_.name(peer), messages_, bytes_, roster_.rank))
          .blame(peer);
  }
  return {};
}

void Mailbox::add_interest(std::vector<pollfd>& fds, int awaited_sender) const {
  for (const auto& [peer, link] : incoming_)
    if (link->open() && may_read(*link, awaited_sender))
      fds.push_back({link->fd(), link->events(), 0});
}

void Mailbox::put(int from, uint64_t tag, Bytes body) {
  bytes_ += body.size();
  ++messages_;
  kept_[{from, tag}].push_back(std::move(body));
}

Bytes Mailbox::take(int from, uint64_t tag) {
  const auto found = kept_.find({from, tag});
  Bytes message = std::move(found->second.front());
  found->second.pop_front();
  if (found->second.empty()) kept_.erase(found);
  bytes_ -= message.size();
  --messages_;
  return message;
}

bool Mailbox::gone(int from) const {
  const auto link = incoming_.find(from);
  return link != incoming_.end() && !link->second->open();
}

}  // namespace collctl::runtime::boot
