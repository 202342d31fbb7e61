// Set-up of a group of heads.
#include "transport/net/plugin/reducer.h"

#include "base/format.h"
#include "base/log.h"
#include "base/wait.h"
#include "transport/edge.h"

namespace collctl::transport {

namespace {

constexpr int64_t kAbortLookMs = 20, kAskAgainMs = 1;
constexpr int64_t kLetGoMs = 1000;  // a plugin that does not wait in its connect is out by then

void note(const NetPluginEntry& entry, const char* call, NetPluginCode code) {
  if (code != kNetPluginOk)
    COLL_INFO(net, "{}", net_plugin_error(entry, call, code, ErrorCode::lost).message);
}

}  // namespace

// State of the thread that is in the plugin's connect; shared, because it may outlive the rest.
struct ReducerHalf::Attempt {
  std::shared_ptr<NetPlugin> plugin;
  std::vector<PluginHandle> handles;
  int index = 0;
  void* listener = nullptr;

  std::mutex mutex;
  std::condition_variable changed;
  bool done = false, aborted = false;
  void* group = nullptr;
  Status outcome;

  const NetPluginEntry& entry() const { return plugin->reducer()->entry(); }
  Result<void*> ask() {
    std::vector<void*> pointers;
    for (PluginHandle& handle : handles) pointers.push_back(handle.data());
    void* made = nullptr;
    const NetPluginCode code = collective_calls(entry()).connect(
        pointers.data(), int(pointers.size()), index, listener, &made);
    if (code != kNetPluginOk)
      return net_plugin_error(entry(), "connect", code, ErrorCode::unavailable);
    return made;
  }
  void run() {
    std::unique_lock lock(mutex);
    while (!aborted && outcome.ok() && group == nullptr) {
      lock.unlock();
      auto made = ask();
      lock.lock();
      if (!made)
        outcome = std::move(made.error());
      else if (group = *made; group == nullptr)  // not yet: some plugins do not wait
        base::wait_for(changed, lock, Deadline::after_ms(kAskAgainMs), [&] { return aborted; });
    }
    if (aborted && group != nullptr)
      note(entry(), "closeColl", collective_calls(entry()).close_group(group));
    note(entry(), "closeListen", collective_calls(entry()).close_listener(listener));
    done = true;
    changed.notify_all();
  }
};

ReducerHalf::ReducerHalf(const ReducerSpec& spec, const Services& services, int device)
    : spec_(spec), services_(services), device_(device) {}

ReducerHalf::~ReducerHalf() {
  if (listener_ == nullptr) return;
  const NetPluginEntry& entry = services_.plugin->reducer()->entry();
  note(entry, "closeListen", collective_calls(entry).close_listener(listener_));
}

Result<std::unique_ptr<ReducerHalf>> ReducerHalf::listen(const ReducerSpec& spec,
                                                         const Services& services) {
  NetPluginSession& session = *services.plugin->reducer();
  const int device = plugin_device(session, spec.nic, spec.channel, spec.self);
  std::unique_ptr<ReducerHalf> half(new ReducerHalf(spec, services, device));
  COLL_ASSIGN(half->listener_, session.listen(device, half->handle_.data()));
  return half;
}

Result<std::unique_ptr<ReducerLink>> ReducerHalf::connect(std::span<const PluginHandle> handles,
                                                          Deadline deadline) {
  COLL_ASSIGN(PluginTimer timer, PluginTimer::make());
  auto attempt = std::make_shared<Attempt>();
  attempt->plugin = services_.plugin;
  attempt->handles.assign(handles.begin(), handles.end());
  attempt->index = spec_.index;
  attempt->listener = std::exchange(listener_, nullptr);
  std::thread thread([attempt] { attempt->run(); });

  std::unique_lock lock(attempt->mutex);
  bool aborted = false;
  while (!base::wait_for(attempt->changed, lock, deadline.earlier(Deadline::after_ms(kAbortLookMs)),
                         [&] { return attempt->done; })) {
    aborted = std::atomic_ref<uint32_t>(*services_.abort_word).load() != 0;
    if (aborted || deadline.passed()) break;
  }
  if (!attempt->done) {
    attempt->aborted = true;
    attempt->changed.notify_all();
    const bool out = base::wait_for(attempt->changed, lock, Deadline::after_ms(kLetGoMs),
                                    [&] { return attempt->done; });
    lock.unlock();
    if (out)
      thread.join();
    else
      thread.detach();
    const std::string what = format("{} waits in CollNet ({}) for its {} heads",
                                    peer_text(spec_.self), attempt->entry().name, spec_.heads);
    if (aborted) return Error(ErrorCode::lost, what + ": the start was aborted");
    return Error(ErrorCode::deadline, what,
                 "COLLCTL_COLLNET_ENABLE=0 turns it off; --start-timeout allows more time");
  }
  lock.unlock();
  thread.join();
  COLL_TRY(std::move(attempt->outcome));
  std::unique_ptr<ReducerLink> link(
      new ReducerLink(spec_, services_.plugin, device_, attempt->group, std::move(timer)));
  COLL_TRY(link->prepare(services_));
  return link;
}

}  // namespace collctl::transport
