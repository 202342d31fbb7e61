#include "transport/net/plugin/connection.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "transport/device/device.h"
#include "transport/edge.h"

namespace collctl::transport {

namespace {

constexpr int kPluginShift = 24;
constexpr uint32_t kPluginControlRounds = 32;  // a look at the TCP connection takes a system call
constexpr int64_t kSettleMs = 2000;            // for requests that are left at the goodbye

}  // namespace

Result<std::unique_ptr<NetConnection>> PluginConnection::make(PluginParts parts) {
  COLL_ASSIGN(PluginTimer timer, PluginTimer::make());
  return std::unique_ptr<NetConnection>(new PluginConnection(std::move(parts), std::move(timer)));
}

PluginConnection::PluginConnection(PluginParts parts, PluginTimer timer)
    : parts_(std::move(parts)),
      control_(std::move(parts_.control)),
      via_(format("NET/{}/{}", parts_.lines.plugin().name(), parts_.lines.device_index())),
      timer_(std::move(timer)) {
  for (size_t s = 0; s < std::size(streams_); ++s)
    streams_[s].messages.resize(
        std::min(parts_.end.streams[s].window, uint32_t(calls().most_requests())));
}

PluginConnection::~PluginConnection() {
  (void)PluginConnection::let_go();
}

// From the lines that hold no request.
void PluginConnection::release(Memory& memory) {
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    if (!memory.held[size_t(s)] || streams_[s].waits()) continue;
    const NetPluginCode code = calls().deregister(parts_.lines[s], memory.handles[size_t(s)]);
    if (code != kNetPluginOk) COLL_INFO(net, "{}", parts_.lines.error("deregMr", code).message);
    memory.held[size_t(s)] = false;
  }
}

// A registration belongs to a line: all of them get one.
template <class Register>
Result<uint64_t> PluginConnection::add_memory(const Memory& wanted, const char* call,
                                              Register with) {
  Memory memory = wanted;
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    if (parts_.lines[s] == nullptr) continue;
    const NetPluginCode code = with(parts_.lines[s], &memory.handles[size_t(s)]);
    if (code != kNetPluginOk) {
      release(memory);
      return net_plugin_error(parts_.lines.plugin().entry(), call, code, ErrorCode::unavailable);
    }
    memory.held[size_t(s)] = true;
  }
  memories_.push_back(memory);
  return uint64_t(memories_.size());
}

Result<uint64_t> PluginConnection::register_memory(void* address, size_t bytes) {
  return add_memory({.address = address}, "regMr", [&](void* line, void** handle) {
    return calls().register_memory(line, address, bytes, kNetPluginHost, handle);
  });
}

bool PluginConnection::may_reach_devices() const {
  return parts_.device != nullptr &&
         (parts_.lines.device().pointers & (kNetPluginCuda | kNetPluginDmaBuf)) != 0;
}

Result<uint64_t> PluginConnection::register_device_memory(void* address, size_t bytes,
                                                          bool in_order, std::string& how) {
  if (in_order)
    return Error(ErrorCode::unavailable,
                 "plugins do not say in which order their network writes GPU memory");
  const int pointers = parts_.lines.device().pointers;
  std::string refused;
  if ((pointers & kNetPluginDmaBuf) != 0 && calls().takes_dmabuf() && parts_.dmabuf) {
    auto exported = parts_.device->export_dmabuf(address, bytes);
    if (exported) {
      const Memory memory{.address = address, .on_device = true};
      auto registered = add_memory(memory, "regMrDmaBuf", [&](void* line, void** handle) {
        return calls().register_dmabuf(line, address, bytes, kNetPluginCuda, exported->offset,
                                       exported->fd.get(), handle);
      });
      how = "DMA-BUF";
      if (registered) return registered;
      refused = registered.error().message;
    } else {
      refused = "no DMA-BUF: " + exported.error().message;
    }
  }
  if ((pointers & kNetPluginCuda) == 0)
    return Error(ErrorCode::unavailable,
                 refused.empty() ? "this device of the plugin supports DMA-BUF only" : refused);
  how = "the plugin" + (refused.empty() ? "" : "; " + refused);
  const Memory memory{.address = address, .on_device = true};
  return add_memory(memory, "regMr", [&](void* line, void** handle) {
    return calls().register_memory(line, address, bytes, kNetPluginCuda, handle);
  });
}

// --- messages ---

// After the peer's goodbye its end may go at any time; what came before that still counts.
Status PluginConnection::broken(const char* call, int code) {
  Error error = parts_.lines.error(call, code);
  if (!control_.closed()) (void)control_.pump();  // the goodbye may have arrived just now
  over_ = control_.peer_done();
  if (over_) return {};
  return std::move(error).within(
      format("connection with {}", net_address(parts_.end.spec.peer).text()));
}

NetRequest PluginConnection::enter(int stream_index, const Message& message) {
  Stream& stream = streams_[stream_index];
  stream.refused = message.request == nullptr;
  if (stream.refused) return kNoRequest;
  const auto index = uint32_t(stream.posted++ % stream.messages.size());
  stream.messages[index] = message;
  if (sends() && sizes_ == Sizes::by_peer && !peer_posted_)
    tell_sizes(stream_index, stream.posted - 1);
  return uint32_t(stream_index) << kPluginShift | index;
}

Result<NetRequest> PluginConnection::begin_send(int stream, const Message& wanted) {
  Message message = wanted;
  const Memory& memory = memories_[size_t(message.memory) - 1];
  const NetPluginCode code = calls().send(parts_.lines[stream], message.data, message.bytes, stream,
                                          memory.handles[size_t(stream)], &message.request);
  if (code != kNetPluginOk) COLL_TRY(broken("isend", code));
  return enter(stream, message);
}

Result<NetRequest> PluginConnection::post_send(int stream, const void* data, uint32_t bytes,
                                               uint64_t memory) {
  if (streams_[stream].full() || over_ || leaving_) return kNoRequest;
  streams_[stream].refused = awaits_answer(streams_[stream]);
  if (streams_[stream].refused) return kNoRequest;
  COLL_CHECK(bytes <= parts_.end.streams[stream].max_bytes);
  return begin_send(stream, {.data = const_cast<void*>(data), .bytes = bytes, .memory = memory});
}

Result<NetRequest> PluginConnection::post_recv(int stream, void* data, uint32_t capacity,
                                               uint64_t memory) {
  if (streams_[stream].full() || over_ || leaving_) return kNoRequest;
  Message message{.data = data, .bytes = capacity, .memory = memory};
  const NetPluginCode code =
      calls().receive(parts_.lines[stream], data, capacity, stream,
                      memories_[size_t(memory) - 1].handles[size_t(stream)], &message.request);
  if (code != kNetPluginOk) COLL_TRY(broken("irecv", code));
  return enter(stream, message);
}

// Whether the oldest message of a stream is done, flushed where it must be.
Result<bool> PluginConnection::look(int stream_index) {
  Stream& stream = streams_[stream_index];
  Message& message = stream.messages[stream.tested % stream.messages.size()];
  if (message.unsized) return find_size(stream_index, -1);
  if (message.done || over_) return message.done;
  int done = 0, bytes = -1;  // some (FastSocket) leave it as it was
  const NetPluginCode code = calls().test(message.request, &done, &bytes);
  message.failed = code != kNetPluginOk;
  if (message.failed) COLL_TRY(broken("test", code));
  if (done == 0 || over_) return false;
  message.done = true;
  timer_.moved();
  if (!sends() && !message.flushing) return find_size(stream_index, bytes);
  return message.done;
}

// The size of the oldest message, which has arrived; `bytes` from the plugin, -1: none given.
Result<bool> PluginConnection::find_size(int stream_index, int bytes) {
  Stream& stream = streams_[stream_index];
  Message& message = stream.messages[stream.tested % stream.messages.size()];
  if (sizes_ == Sizes::unknown && !leaving_) {
    sizes_ = bytes == -1 ? Sizes::by_peer : Sizes::by_plugin;
    control_.push(IbControlKind::sizes, ByteWriter().put(uint8_t(bytes == -1 ? 1 : 0)).bytes());
  }
  if (bytes == -1 && sizes_ == Sizes::by_peer && !leaving_) {
    message.unsized = stream.told.empty();
    message.done = !message.unsized;
    if (message.unsized) return false;
    bytes = int(std::min(stream.told.front(), uint32_t(INT32_MAX)));
    stream.told.pop_front();
  } else if (bytes == -1 && leaving_) {
    bytes = 0;  // it is no message any more
    message.unsized = false;
    message.done = true;
  }
  COLL_TRY(received(stream_index, message, bytes));
  return message.done;
}

// Send end: of the messages from this one on.
void PluginConnection::tell_sizes(int stream_index, uint64_t from) {
  const Stream& stream = streams_[stream_index];
  ByteWriter w;
  w.put(uint8_t(stream_index));
  for (uint64_t i = from; i < stream.posted; ++i)
    w.put(stream.messages[i % stream.messages.size()].bytes);
  if (from < stream.posted) control_.push(IbControlKind::sizes, w.bytes());
}

// The answer at the send end; at the receive end, sizes.
Status PluginConnection::hear_sizes(ByteReader& body) {
  constexpr size_t kMostTold = 1u << 20;  // not taken yet
  const auto first = body.get<uint8_t>();
  if (sends()) {
    if (!body.ok() || !body.at_end() || first > 1 || sizes_ != Sizes::unknown) return unexpected();
    sizes_ = first == 1 ? Sizes::by_peer : Sizes::by_plugin;
    const bool tells = first == 1 && !peer_posted_;  // which leaves, and wants none any more
    for (int s = 0; s < kernels::kProtocolCount && tells; ++s) tell_sizes(s, 0);
    return {};
  }
  if (!body.ok() || first >= kernels::kProtocolCount || sizes_ != Sizes::by_peer)
    return unexpected();
  std::deque<uint32_t>& told = streams_[first].told;
  while (body.ok() && !body.at_end() && told.size() < kMostTold)
    told.push_back(body.get<uint32_t>());
  return body.ok() && body.at_end() ? Status() : unexpected();
}

Status PluginConnection::unexpected() const {
  return Error(ErrorCode::lost,
               format("unexpected data from {} on the connection beside the plugin's",
                      peer_text(parts_.end.spec.peer)));
}

Status PluginConnection::received(int stream, Message& message, int bytes) {
  if (bytes == -1)
    return Error(ErrorCode::unavailable,
                 format("network plugin {}: its test does not say how many bytes have arrived",
                        parts_.lines.plugin().name()),
                 "COLLCTL_NET_PLUGIN=none uses the networks of collctl itself");
  if (bytes < 0 || uint32_t(bytes) > message.bytes)
    return Error(
        ErrorCode::lost,
        format("network plugin {}: a message of {} bytes arrived, but there is room for {}",
               parts_.lines.plugin().name(), bytes, message.bytes),
        "all ranks must call an operation with the same size and type");
  message.bytes = uint32_t(bytes);
  Memory& memory = memories_[size_t(message.memory) - 1];
  if (!parts_.flush || !memory.on_device || bytes == 0) return {};
  if (!calls().flushes())
    return Error(ErrorCode::lost, format("network plugin {} cannot flush GPU memory (no iflush)",
                                         parts_.lines.plugin().name()));
  message.request = nullptr;
  const NetPluginCode code = calls().flush(parts_.lines[stream], message.data, bytes,
                                           memory.handles[size_t(stream)], &message.request);
  if (code != kNetPluginOk) return broken("iflush", code);
  message.flushing = true;
  message.done = message.request == nullptr;  // there was nothing to flush
  return {};
}

Result<NetDone> PluginConnection::test(NetRequest request) {
  const int stream_index = int(request >> kPluginShift);
  Stream& stream = streams_[stream_index];
  const uint64_t index = request & ((1u << kPluginShift) - 1);
  // At the end what is left is settled here, and is no message.
  if (leaving_ || !stream.waits() || stream.tested % stream.messages.size() != index)
    return NetDone{};
  COLL_ASSIGN(const bool done, look(stream_index));
  if (!done) return NetDone{};
  ++stream.tested;
  return NetDone{.done = true, .bytes = stream.messages[index].bytes};
}

// --- driving ---

Result<bool> PluginConnection::progress() {
  if (error_) return *error_;
  if (leaving_) COLL_TRY(settle());
  // Its end shows in poll as well; between sleeps it is enough to look now and then.
  const bool rests = !leaving_ && !control_.sending() && sizes_ == Sizes::by_plugin;
  if (rests && ++rounds_ % kPluginControlRounds != 0) return false;
  auto moved = control_.pump();
  while (auto message = control_.next()) COLL_TRY(hear(*message));
  if (!moved) {
    Error error = std::move(moved.error());
    error.code = ErrorCode::lost;
    error.message = format("{} at {}: {}", peer_text(parts_.end.spec.peer),
                           net_address(parts_.end.spec.peer).text(), error.message);
    return error;
  }
  return *moved;
}

// --- the end ---

void PluginConnection::say_goodbye() {
  leaving_ = true;
  settle_until_ = Deadline::after_ms(kSettleMs);
  if (!sends()) {
    ByteWriter w;
    for (const Stream& stream : streams_) w.put(stream.posted);
    control_.push(IbControlKind::receives, w.bytes());
  }
  control_.push(IbControlKind::goodbye);
}

Status PluginConnection::hear(const IbMessage& message) {
  ByteReader r(message.body);
  if (message.kind == IbControlKind::sizes) return hear_sizes(r);
  std::array<uint64_t, kernels::kProtocolCount> posted{};
  bool sound = sends() && message.kind == IbControlKind::receives && !peer_posted_;
  for (size_t s = 0; s < posted.size(); ++s) {
    posted[s] = r.get<uint64_t>();
    sound = sound && posted[s] <= streams_[s].posted + streams_[s].messages.size();
  }
  if (!sound || !r.ok() || !r.at_end()) return unexpected();
  peer_posted_ = posted;
  return {};
}

// Send end: empty messages for the receives that are left. Both: whatever is done is over.
Status PluginConnection::settle() {
  for (int s = 0; s < kernels::kProtocolCount && !over_; ++s) {
    Stream& stream = streams_[s];
    while (peer_posted_ && stream.posted < (*peer_posted_)[size_t(s)] && !stream.full()) {
      COLL_ASSIGN(const NetRequest request,
                  begin_send(s, {.data = memories_[0].address, .memory = 1}));
      if (request == kNoRequest) break;
    }
    while (stream.waits()) {
      COLL_ASSIGN(const bool done, look(s));
      if (!done) break;
      ++stream.tested;
    }
  }
  return {};
}

bool PluginConnection::settled() const {
  for (size_t s = 0; s < std::size(streams_); ++s) {
    if (streams_[s].waits()) return false;
    const bool filled = !peer_posted_ || streams_[s].posted >= (*peer_posted_)[s];
    if (!filled && !control_.closed()) return false;
  }
  return !sends() || peer_posted_ || control_.closed();
}

bool PluginConnection::delivered() const {
  if (!control_.delivered()) return false;
  return !leaving_ || over_ || settled() || settle_until_.passed();
}

// A request that has failed is over as well.
bool PluginConnection::given_back(Message& message) const {
  if (message.done || message.failed || message.unsized) return true;
  int done = 0, bytes = 0;
  message.failed = calls().test(message.request, &done, &bytes) != kNetPluginOk;
  return message.failed || done != 0;
}

bool PluginConnection::let_go() {
  if (let_go_) return *let_go_;
  size_t left = 0;
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    Stream& stream = streams_[s];
    while (stream.waits() && given_back(stream.messages[stream.tested % stream.messages.size()]))
      ++stream.tested;
    left += size_t(stream.posted - stream.tested);
  }
  if (left != 0)
    COLL_INFO(net, "{} : {}: the plugin still holds {} requests: their memory is not freed", via_,
              edge_text(parts_.end.spec), left);
  for (Memory& memory : memories_) release(memory);
  let_go_ = left == 0;
  return *let_go_;
}

// --- sleeping ---

void PluginConnection::add_interest(std::vector<pollfd>& fds) {
  fds.push_back({timer_.fd(), POLLIN, 0});
  if (!control_.closed())
    fds.push_back({control_.fd(), short(POLLIN | (control_.sending() ? POLLOUT : 0)), 0});
}

bool PluginConnection::arm() {
  if (error_) return false;
  if (over_) return true;
  bool waits = false;
  for (int s = 0; s < kernels::kProtocolCount; ++s) {
    waits |= streams_[s].refused;  // nothing will tell when it would be taken
    if (!streams_[s].waits()) continue;
    waits = true;
    auto done = look(s);
    if (!done) error_ = std::move(done.error());
    if (error_ || *done) return false;
  }
  if (waits) timer_.set();
  return true;
}

void PluginConnection::disarm() {
  timer_.drain();
  rounds_ = kPluginControlRounds - 1;  // it may have been the TCP connection that was ready
}

}  // namespace collctl::transport
