#include "transport/p2p/head_pages.h"

#include <cstring>
#include <map>
#include <mutex>

#include "base/auth.h"

namespace collctl::transport {

namespace {

constexpr size_t kPageBytes = 2u << 20, kAlign = 128;

struct OpenPage {
  std::weak_ptr<DeviceMemory> page;
  uint64_t id = 0;
  size_t used = 0;
};

// By device: its memory keeps it alive, so that an address stands for one device as long as a page
// of it is there.
struct Pages {
  std::mutex mutex;
  std::map<const Device*, OpenPage> own;
  std::map<std::pair<const Device*, uint64_t>, std::weak_ptr<DeviceMemory>> mapped;
};
Pages& pages() {
  static Pages instance;
  return instance;
}

template <class Map, class Expired>
void forget(Map& map, Expired expired) {
  for (auto it = map.begin(); it != map.end();) it = expired(it->second) ? map.erase(it) : ++it;
}

}  // namespace

Result<HeadPlace> take_heads(const DevicePointer& device, size_t bytes) {
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  forget(all.own, [](const OpenPage& open) { return open.page.expired(); });
  const size_t wanted = (bytes + kAlign - 1) / kAlign * kAlign;
  OpenPage& open = all.own[device.get()];
  std::shared_ptr<DeviceMemory> page = open.page.lock();
  if (page == nullptr || open.used + wanted > kPageBytes) {
    COLL_ASSIGN(DeviceMemory made,
                DeviceMemory::make(device, kPageBytes, device->facts().fd_handles));
    COLL_ASSIGN(const base::Secret random, base::random_secret());
    page = std::make_shared<DeviceMemory>(std::move(made));
    open = {.page = page, .id = 0, .used = 0};
    std::memcpy(&open.id, random.bytes.data(), sizeof open.id);
  }
  HeadPlace place{.page = std::move(page), .page_id = open.id, .offset = open.used};
  open.used += wanted;
  return place;
}

std::shared_ptr<DeviceMemory> find_mapped(const Device& user, uint64_t page_id) {
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  const auto found = all.mapped.find({&user, page_id});
  return found == all.mapped.end() ? nullptr : found->second.lock();
}

void remember_mapped(const Device& user, uint64_t page_id,
                     const std::shared_ptr<DeviceMemory>& page) {
  Pages& all = pages();
  const std::scoped_lock lock(all.mutex);
  forget(all.mapped, [](const std::weak_ptr<DeviceMemory>& old) { return old.expired(); });
  all.mapped[{&user, page_id}] = page;
}

}  // namespace collctl::transport
