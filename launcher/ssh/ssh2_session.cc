#include "launcher/ssh/ssh2_session.h"

#include <algorithm>
#include <mutex>

#include "base/format.h"
#include "launcher/ssh/known_hosts.h"

namespace collctl::launcher {
namespace {

constexpr int kFreeTries = 16;

extern "C" {

ssize_t ssh2_receive(libssh2_socket_t, void* to, size_t size, int, void** abstract) {
  const auto* hooks = static_cast<Ssh2Hooks*>(*abstract);
  const ssize_t n = hooks->transport->receive(to, size);
  if (n > 0) hooks->listener->feed({static_cast<const uint8_t*>(to), size_t(n)});
  return n;
}

ssize_t ssh2_send(libssh2_socket_t, const void* from, size_t size, int, void** abstract) {
  return static_cast<Ssh2Hooks*>(*abstract)->transport->send(from, size);
}

}  // extern "C"

void set_callbacks(LIBSSH2_SESSION* session) {
#if LIBSSH2_VERSION_NUM >= 0x010b01
  libssh2_session_callback_set2(session, LIBSSH2_CALLBACK_RECV,
                                reinterpret_cast<libssh2_cb_generic*>(&ssh2_receive));
  libssh2_session_callback_set2(session, LIBSSH2_CALLBACK_SEND,
                                reinterpret_cast<libssh2_cb_generic*>(&ssh2_send));
#else
  libssh2_session_callback_set(session, LIBSSH2_CALLBACK_RECV,
                               reinterpret_cast<void*>(&ssh2_receive));
  libssh2_session_callback_set(session, LIBSSH2_CALLBACK_SEND, reinterpret_cast<void*>(&ssh2_send));
#endif
}

bool start_library() {
  static const bool works = libssh2_init(0) == 0;
  return works;
}

std::vector<std::string> supported(LIBSSH2_SESSION* session, int method) {
  std::vector<std::string> names;
  const char** list = nullptr;
  const int count = libssh2_session_supported_algs(session, method, &list);
  for (int i = 0; i < count; ++i) names.emplace_back(list[i]);
  if (count > 0) libssh2_free(session, list);
  return names;
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

std::string lower(const std::string& text) {
  std::string out;
  for (const char c : text) out += char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// Algorithms by which a key of this type can prove itself.
bool proves(const std::string& algorithm, const std::string& type) {
  return algorithm == type || (type == "ssh-rsa" && algorithm.rfind("rsa-sha2-", 0) == 0);
}

std::vector<std::string> all_files(const ResolvedHost& host) {
  std::vector<std::string> files = host.user_known_hosts;
  files.insert(files.end(), host.global_known_hosts.begin(), host.global_known_hosts.end());
  return files;
}

std::string known_name(const ResolvedHost& host) {
  return host.host_key_alias.empty() ? known_host_name(lower(host.host), host.port)
                                     : lower(host.host_key_alias);
}

// The type stands at the beginning of the key.
std::string type_of(ByteView blob) {
  if (blob.size() < 4 || blob[0] != 0 || blob[1] != 0 || blob[2] != 0) return {};
  const size_t size = blob[3];
  if (blob.size() < 4 + size) return {};
  return {reinterpret_cast<const char*>(blob.data()) + 4, size};
}

}  // namespace

Ssh2Session::Ssh2Session(std::unique_ptr<Ssh2Transport> transport, int fd, SessionPlan plan)
    : plan_(std::move(plan)), transport_(std::move(transport)), fd_(fd) {
  hooks_.transport = transport_.get();
  hooks_.listener = &listener_;
  session_ =
      start_library() ? libssh2_session_init_ex(nullptr, nullptr, nullptr, &hooks_) : nullptr;
  if (session_ == nullptr) {
    error_ = Error(ErrorCode::unavailable, "libssh2 cannot be initialized");
    return;
  }
  libssh2_session_set_blocking(session_, 0);
  set_callbacks(session_);
  prefer_known_types();
}

Ssh2Session::~Ssh2Session() {
  if (session_ == nullptr) return;
  // Cut first: with a peer that does not answer freeing would ask to be called again for ever.
  transport_->cut();
  for (int i = 0; i < kFreeTries; ++i)
    if (libssh2_session_free(session_) != LIBSSH2_ERROR_EAGAIN) return;
}

std::string Ssh2Session::last_error() const {
  char* text = nullptr;
  int size = 0;
  libssh2_session_last_error(session_, &text, &size, 0);
  return text != nullptr ? std::string(text, size_t(size)) : std::string("unknown error");
}

StepResult Ssh2Session::fail(Error e, std::string incapable) {
  error_ = std::move(e);
  incapable_ = std::move(incapable);
  return StepResult::failed;
}

Stage Ssh2Session::stage() const {
  if (step_ == Step::login) return Stage::authentication;
  if (step_ == Step::host_key) return Stage::host_key;
  return listener_.banner_seen() ? Stage::key_exchange : Stage::banner;
}

// A server shows the key of the first type both know: ask for one that we can check.
void Ssh2Session::prefer_known_types() {
  if (plan_.known_hosts == KnownHosts::off) return;
  const ResolvedHost& host = plan_.login.resolved;
  const auto keys = read_known_hosts(all_files(host));
  if (!keys) return;  // check_host_key() reports it
  std::vector<std::string> types = known_types(keys.value(), known_name(host));
  if (types.empty()) types = known_types(keys.value(), lower(host.host));
  std::vector<std::string> ours = supported(session_, LIBSSH2_METHOD_HOSTKEY);
  std::stable_partition(ours.begin(), ours.end(), [&](const std::string& algorithm) {
    return std::any_of(types.begin(), types.end(),
                       [&](const std::string& type) { return proves(algorithm, type); });
  });
  if (!types.empty() && !ours.empty())
    static_cast<void>(  // refused: the library's own order, and the check decides
        libssh2_session_method_pref(session_, LIBSSH2_METHOD_HOSTKEY, comma_list(ours).c_str()));
}

AlgorithmLists Ssh2Session::our_lists() const {
  AlgorithmLists lists;
  lists.kex = comma_list(supported(session_, LIBSSH2_METHOD_KEX));
  lists.host_key = comma_list(supported(session_, LIBSSH2_METHOD_HOSTKEY));
  lists.cipher = comma_list(supported(session_, LIBSSH2_METHOD_CRYPT_CS));
  lists.mac = comma_list(supported(session_, LIBSSH2_METHOD_MAC_CS));
  return lists;
}

StepResult Ssh2Session::progress() {
  if (error_) return StepResult::failed;
  if (step_ == Step::handshake)
    if (const StepResult r = handshake(); r != StepResult::done) return r;
  if (step_ == Step::host_key)
    if (const StepResult r = check_host_key(); r != StepResult::done) return r;
  const StepResult result = auth_->progress();
  if (result == StepResult::failed) return fail(*auth_->error(), auth_->incapable());
  return result;
}

StepResult Ssh2Session::handshake() {
  const int rc = libssh2_session_handshake(session_, fd_);
  if (rc == LIBSSH2_ERROR_EAGAIN) return StepResult::busy;
  if (rc != 0) return handshake_failed(rc);
  step_ = Step::host_key;
  return StepResult::done;
}

StepResult Ssh2Session::handshake_failed(int rc) {
  const std::string& host = plan_.login.host;
  if (listener_.lists())
    if (const auto d = find_disagreement(our_lists(), *listener_.lists()))
      return fail(no_common_algorithm(host, d->what, d->ours, d->theirs),
                  "no common " + d->what + " with libssh2");
  if (transport_->broken() || rc == LIBSSH2_ERROR_BANNER_RECV ||
      rc == LIBSSH2_ERROR_SOCKET_DISCONNECT || rc == LIBSSH2_ERROR_SOCKET_RECV)
    return fail(connection_closed(host, plan_.where, stage(), {}));
  Error e(ErrorCode::launch,
          format("{}: key exchange with {} failed: {}", host,
                 listener_.banner().empty() ? plan_.where : listener_.banner(), last_error()),
          "try --ssh-client openssh");
  e.host = host;
  return fail(std::move(e), "libssh2: " + last_error());
}

StepResult Ssh2Session::check_host_key() {
  size_t size = 0;
  int unused = 0;
  const char* key = libssh2_session_hostkey(session_, &size, &unused);
  const ByteView blob(reinterpret_cast<const uint8_t*>(key), key == nullptr ? 0 : size);
  const std::string type = type_of(blob);
  if (type.empty())
    return fail(connection_closed(plan_.login.host, plan_.where, Stage::host_key, "no host key"));
  if (plan_.known_hosts != KnownHosts::off)
    if (const StepResult r = judge(type, base64(blob)); r != StepResult::done) return r;
  auth_ = std::make_unique<Ssh2Auth>(session_, plan_.login);
  hooks_.auth = auth_.get();
  step_ = Step::login;
  return StepResult::done;
}

StepResult Ssh2Session::judge(const std::string& type, const std::string& blob) {
  const std::string& host = plan_.login.host;
  const ResolvedHost& resolved = plan_.login.resolved;
  auto keys = read_known_hosts(all_files(resolved));
  if (!keys) {
    keys.error().host = host;
    return fail(std::move(keys.error()));
  }
  const std::string name = known_name(resolved);
  HostKeyVerdict verdict = judge_host_key(keys.value(), name, type, blob);
  if (verdict.kind == HostKeyVerdict::Kind::unknown && resolved.port != 22) {
    // As OpenSSH: a key known for the host itself serves its other ports.
    const auto plain = judge_host_key(keys.value(), lower(resolved.host), type, blob);
    if (plain.kind == HostKeyVerdict::Kind::match) verdict = plain;
  }
  if (verdict.kind == HostKeyVerdict::Kind::match) return StepResult::done;
  const HostKeyName shown = host_key_name(type, blob);
  if (verdict.kind == HostKeyVerdict::Kind::revoked)
    return fail(revoked_host_key(host, shown, verdict.entry->where));
  const KnownKey* authority = authority_of(keys.value(), name);
  if (authority == nullptr) authority = authority_of(keys.value(), lower(resolved.host));
  const bool takes_new =
      verdict.kind == HostKeyVerdict::Kind::unknown && plan_.known_hosts == KnownHosts::accept_new;
  if (authority != nullptr && !takes_new)
    return fail(only_certified(host, shown, authority->where),
                "libssh2 cannot check the certificate of the host's key");
  if (verdict.kind == HostKeyVerdict::Kind::unknown) return accept_host_key(name, type, blob);
  Error changed =
      changed_host_key(host, shown, host_key_name(verdict.entry->type, verdict.entry->blob),
                       verdict.entry->where, name);
  // The host did not show the type we know: perhaps because this library cannot check that one.
  const bool cannot = verdict.kind == HostKeyVerdict::Kind::other_type &&
                      !can_check(known_types(keys.value(), name));
  return fail(std::move(changed), cannot ? "libssh2 cannot check the known type of host key" : "");
}

bool Ssh2Session::can_check(const std::vector<std::string>& types) const {
  const auto ours = supported(session_, LIBSSH2_METHOD_HOSTKEY);
  return std::any_of(types.begin(), types.end(), [&](const std::string& type) {
    return std::any_of(ours.begin(), ours.end(), [&](const std::string& algorithm) {
      // RSA with SHA-1 is what servers no longer offer.
      return proves(algorithm, type) && algorithm != "ssh-rsa";
    });
  });
}

StepResult Ssh2Session::accept_host_key(const std::string& name, const std::string& type,
                                        const std::string& blob) {
  const std::string& host = plan_.login.host;
  const ResolvedHost& resolved = plan_.login.resolved;
  const std::string file = resolved.user_known_hosts.empty() ? "" : resolved.user_known_hosts[0];
  if (plan_.known_hosts == KnownHosts::strict || file.empty())
    return fail(unknown_host_key(host, host_key_name(type, blob),
                                 file.empty() ? "~/.ssh/known_hosts" : file, resolved.host,
                                 resolved.port));
  if (auto added = append_known_host(file, name, type, blob); !added) {
    added.error().host = host;
    return fail(std::move(added.error()).within(host));
  }
  return StepResult::done;
}

void Ssh2Session::disconnect() {
  static_cast<void>(  // a peer that hears no goodbye sees the connection end
      libssh2_session_disconnect_ex(session_, SSH_DISCONNECT_BY_APPLICATION, "done", ""));
  transport_->flush();
}

}  // namespace collctl::launcher
