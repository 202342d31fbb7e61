#include "launcher/ssh/ssh2_auth.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/format.h"
#include "launcher/ssh/prompt.h"
#include "launcher/ssh/ssh2_transport.h"

namespace collctl::launcher {
namespace {

constexpr int kMostPersonTries = 3;

bool signs_rsa_with_sha2() {
  return libssh2_version(0x010b00) != nullptr;
}

std::string last_error(LIBSSH2_SESSION* session) {
  char* text = nullptr;
  int size = 0;
  libssh2_session_last_error(session, &text, &size, 0);
  return text != nullptr ? std::string(text, size_t(size)) : std::string("unknown error");
}

// libssh2 also calls it a refusal when the connection ends in the place of an answer.
bool connection_gone(LIBSSH2_SESSION* session, int rc) {
  const auto* hooks = static_cast<Ssh2Hooks*>(*libssh2_session_abstract(session));
  if (hooks != nullptr && hooks->transport != nullptr && hooks->transport->broken()) return true;
  return rc == LIBSSH2_ERROR_SOCKET_DISCONNECT || rc == LIBSSH2_ERROR_SOCKET_RECV ||
         rc == LIBSSH2_ERROR_SOCKET_SEND || rc == LIBSSH2_ERROR_SOCKET_TIMEOUT;
}

extern "C" void answer_prompts(const char*, int, const char*, int, int count,
                               const LIBSSH2_USERAUTH_KBDINT_PROMPT* prompts,
                               LIBSSH2_USERAUTH_KBDINT_RESPONSE* responses, void** abstract);

}  // namespace

// libssh2 calls it in the middle of libssh2_userauth_publickey; frees *signature itself.
int sign_with_agent(LIBSSH2_SESSION*, unsigned char** signature, size_t* size,
                    const unsigned char* data, size_t data_size, void** abstract) {
  auto* auth = static_cast<Ssh2Auth*>(*abstract);
  const auto& candidate = auth->candidates_[auth->current_];
  auto made =
      agent_sign(auth->plan_.resolved.identity_agent, candidate.agent->blob, {data, data_size});
  if (!made) {
    auth->denial_.notes.push_back(candidate.label + ": " + made.error().chain());
    return -1;
  }
  *signature = static_cast<unsigned char*>(std::malloc(made.value().size()));
  if (*signature == nullptr) return -1;
  std::memcpy(*signature, made.value().data(), made.value().size());
  *size = made.value().size();
  return 0;
}

Ssh2Auth::Ssh2Auth(LIBSSH2_SESSION* session, LoginPlan plan)
    : session_(session), plan_(std::move(plan)) {
  denial_.user = plan_.resolved.user;
}

bool Ssh2Auth::offers(const std::string& method) const {
  return std::find(methods_.begin(), methods_.end(), method) != methods_.end();
}

StepResult Ssh2Auth::broken() {
  std::string tried;
  for (const std::string& one : denial_.tried) tried += (tried.empty() ? "" : ", ") + one;
  std::string detail = last_error(session_);
  if (!tried.empty()) detail += "; tried: " + tried;
  error_ = connection_closed(plan_.host, "", Stage::authentication, detail);
  if (denial_.tried.size() > 2)
    error_->hint =
        "too many keys tried (MaxAuthTries): give the right one with -i, or "
        "IdentitiesOnly in the SSH configuration";
  return StepResult::failed;
}

StepResult Ssh2Auth::progress() {
  while (true) {
    StepResult result = StepResult::busy;
    const Step before = step_;
    const size_t at = current_;
    switch (step_) {
      case Step::methods:
        result = list_methods();
        break;
      case Step::choose:
        result = next();
        break;
      case Step::key:
        result = try_key();
        break;
      case Step::interactive:
      case Step::password:
        result = try_person();
        break;
    }
    if (result != StepResult::busy || (before == step_ && at == current_)) return result;
  }
}

StepResult Ssh2Auth::list_methods() {
  const std::string& user = plan_.resolved.user;
  const char* list = libssh2_userauth_list(session_, user.c_str(), unsigned(user.size()));
  if (list == nullptr) {
    if (libssh2_userauth_authenticated(session_) == 1) {
      how_ = "no authentication";
      return StepResult::done;
    }
    if (libssh2_session_last_errno(session_) == LIBSSH2_ERROR_EAGAIN) return StepResult::busy;
    return broken();
  }
  methods_ = split_list(list, ',');
  for (const std::string& method : methods_)
    denial_.offered += (denial_.offered.empty() ? "" : ", ") + method;
  if (!offers("publickey") && !offers("password") && !offers("keyboard-interactive"))
    incapable_ = "the host wants " + denial_.offered;
  if (offers("publickey")) find_candidates();
  step_ = Step::choose;
  return StepResult::busy;
}

void Ssh2Auth::add_agent_keys(const std::vector<KeyFile>& files, bool only_those) {
  const std::string& socket = plan_.resolved.identity_agent;
  if (socket.empty()) return;
  auto keys = agent_keys(socket);
  if (!keys) {
    denial_.notes.push_back("the agent: " + keys.error().chain());
    return;
  }
  for (AgentKey& key : keys.value()) {
    const bool named = std::any_of(files.begin(), files.end(), [&](const KeyFile& file) {
      return file.public_blob == key.blob;
    });
    if (named != only_those) continue;
    Candidate candidate;
    candidate.label = "agent key " + key.comment;
    candidate.is_rsa = key.type == "ssh-rsa";
    if (key.type.find("cert") != std::string::npos || key.type.rfind("sk-", 0) == 0) {
      denial_.notes.push_back(candidate.label + " is a " + key.type);
      incapable_ = "libssh2 cannot use the agent's " + key.type;
      continue;
    }
    candidate.agent = std::move(key);
    candidates_.push_back(std::move(candidate));
  }
}

void Ssh2Auth::add_file(const std::string& path, const KeyFile& file, bool by_hand) {
  if (file.has_certificate) incapable_ = "libssh2 cannot use the certificate of " + path;
  switch (file.state) {
    case KeyFile::State::missing:
      if (by_hand) denial_.notes.push_back(path + " does not exist");
      return;
    case KeyFile::State::unreadable:
    case KeyFile::State::exposed:
      denial_.notes.push_back(path + ": " + file.problem);
      return;
    case KeyFile::State::unknown_format:
      denial_.notes.push_back(path + " is not a private key that libssh2 knows");
      incapable_ = "libssh2 cannot read " + path;
      return;
    case KeyFile::State::good:
      break;
  }
  if (file.is_hardware) {
    denial_.notes.push_back(path + " is a hardware key");
    incapable_ = "libssh2 cannot use the hardware key " + path;
    return;
  }
  if (file.encrypted && !plan_.may_ask) {
    denial_.notes.push_back(path +
                            " is encrypted and there is no terminal to ask at for its passphrase "
                            "(use ssh-agent)");
    return;
  }
  Candidate candidate;
  candidate.label = "key " + path;
  candidate.path = path;
  candidate.encrypted = file.encrypted;
  candidate.is_rsa = file.is_rsa;
  candidates_.push_back(std::move(candidate));
}

// As OpenSSH: keys of the agent that are also configured, then its others, then files. A key that
// the agent has is not tried again from its file.
void Ssh2Auth::find_candidates() {
  const ResolvedHost& resolved = plan_.resolved;
  if (resolved.certificates) incapable_ = "libssh2 cannot use certificates";
  std::vector<std::string> paths;
  if (!plan_.key.empty()) paths.push_back(plan_.key);
  for (const std::string& path : resolved.identity_files)
    if (std::find(paths.begin(), paths.end(), path) == paths.end()) paths.push_back(path);
  std::vector<KeyFile> files;
  for (const std::string& path : paths) files.push_back(inspect_key(path));
  add_agent_keys(files, true);
  if (!plan_.key.empty()) add_file(paths[0], files[0], true);
  if (!resolved.identities_only) add_agent_keys(files, false);
  for (size_t i = plan_.key.empty() ? 0 : 1; i < paths.size(); ++i) {
    const bool in_agent = std::any_of(
        candidates_.begin(), candidates_.end(),
        [&](const Candidate& c) { return c.agent && c.agent->blob == files[i].public_blob; });
    if (!in_agent) add_file(paths[i], files[i], false);
  }
}

StepResult Ssh2Auth::next() {
  if (current_ < candidates_.size()) {
    const Candidate& candidate = candidates_[current_];
    secret_.clear();
    if (candidate.encrypted) {
      auto secret = kept_secret(candidate.path, "Passphrase for key " + candidate.path + ": ",
                                passphrases_ > 0, plan_.stop_fd);
      if (!secret) {
        denial_.notes.push_back(candidate.path + ": " + secret.error().chain());
        ++current_;
        return StepResult::busy;
      }
      secret_ = secret.value();
    }
    if (passphrases_ == 0) denial_.tried.push_back(candidate.label);
    step_ = Step::key;
    return StepResult::busy;
  }
  if (plan_.may_ask && person_tries_ < kMostPersonTries &&
      (offers("keyboard-interactive") || offers("password"))) {
    const bool interactive = offers("keyboard-interactive") && !interactive_over_;
    if (!interactive && !offers("password")) return fail_login();
    const std::string method = interactive ? "keyboard-interactive" : "password";
    if (denial_.tried.empty() || denial_.tried.back() != method) denial_.tried.push_back(method);
    if (!interactive) {
      const std::string who = plan_.resolved.user + "@" + plan_.host;
      auto secret = kept_secret("password of " + plan_.resolved.user,
                                who + "'s password: ", person_tries_ > 0, plan_.stop_fd);
      if (!secret) {
        denial_.notes.push_back("password: " + secret.error().chain());
        return fail_login();
      }
      secret_ = secret.value();
    }
    step_ = interactive ? Step::interactive : Step::password;
    return StepResult::busy;
  }
  return fail_login();
}

StepResult Ssh2Auth::fail_login() {
  error_ = denied(plan_.host, denial_);
  return StepResult::failed;
}

StepResult Ssh2Auth::try_key() {
  const Candidate& candidate = candidates_[current_];
  const std::string& user = plan_.resolved.user;
  const int rc =
      candidate.agent
          ? libssh2_userauth_publickey(session_, user.c_str(), candidate.agent->blob.data(),
                                       candidate.agent->blob.size(), &sign_with_agent, &signer_)
          : libssh2_userauth_publickey_fromfile_ex(session_, user.c_str(), unsigned(user.size()),
                                                   nullptr, candidate.path.c_str(),
                                                   candidate.encrypted ? secret_.c_str() : nullptr);
  if (rc == LIBSSH2_ERROR_EAGAIN) return StepResult::busy;
  if (rc == 0) {
    how_ = candidate.label;
    return StepResult::done;
  }
  return key_refused(rc);
}

StepResult Ssh2Auth::key_refused(int rc) {
  if (connection_gone(session_, rc)) return broken();
  const Candidate& candidate = candidates_[current_];
  const bool refused =
      rc == LIBSSH2_ERROR_AUTHENTICATION_FAILED || rc == LIBSSH2_ERROR_PUBLICKEY_UNVERIFIED;
  step_ = Step::choose;
  if (!refused && candidate.encrypted && ++passphrases_ < kMostPersonTries)
    return StepResult::busy;  // most likely the passphrase was wrong
  passphrases_ = 0;
  if (!refused) {
    denial_.notes.push_back(candidate.label + ": " + last_error(session_));
    if (!candidate.agent && !candidate.encrypted)
      incapable_ = "libssh2 cannot use " + candidate.path;
  } else if (candidate.is_rsa && !signs_rsa_with_sha2()) {
    denial_.notes.push_back(candidate.label + ": libssh2 " + libssh2_version(0) +
                            " signs with RSA and SHA-1 only, which servers refuse");
    incapable_ = "libssh2 cannot sign with RSA and SHA-2";
  }
  ++current_;
  return StepResult::busy;
}

std::string Ssh2Auth::answer(const std::string& prompt) {
  const std::string& user = plan_.resolved.user;
  auto secret =
      kept_secret("answer of " + user + " to " + prompt, user + "@" + plan_.host + ": " + prompt,
                  person_tries_ > 0, plan_.stop_fd);
  if (secret) return secret.value();
  denial_.notes.push_back("keyboard-interactive: " + secret.error().chain());
  interactive_over_ = true;
  return {};
}

StepResult Ssh2Auth::try_person() {
  const std::string& user = plan_.resolved.user;
  const int rc =
      step_ == Step::interactive
          ? libssh2_userauth_keyboard_interactive_ex(session_, user.c_str(), unsigned(user.size()),
                                                     &answer_prompts)
          : libssh2_userauth_password_ex(session_, user.c_str(), unsigned(user.size()),
                                         secret_.c_str(), unsigned(secret_.size()), nullptr);
  if (rc == LIBSSH2_ERROR_EAGAIN) return StepResult::busy;
  if (rc == 0) {
    how_ = step_ == Step::interactive ? "keyboard-interactive" : "password";
    return StepResult::done;
  }
  if (connection_gone(session_, rc)) return broken();
  ++person_tries_;
  // Where passwords are asked for both ways the second way is tried when the first is used up.
  if (step_ == Step::interactive && person_tries_ == kMostPersonTries && offers("password") &&
      !interactive_over_) {
    interactive_over_ = true;
    person_tries_ = kMostPersonTries - 1;
  }
  step_ = Step::choose;
  return StepResult::busy;
}

namespace {

extern "C" void answer_prompts(const char*, int, const char*, int, int count,
                               const LIBSSH2_USERAUTH_KBDINT_PROMPT* prompts,
                               LIBSSH2_USERAUTH_KBDINT_RESPONSE* responses, void** abstract) {
  Ssh2Auth* auth = static_cast<Ssh2Hooks*>(*abstract)->auth;
  for (int i = 0; i < count; ++i) {
    std::string prompt;
    const auto* text = reinterpret_cast<const char*>(prompts[i].text);
    for (size_t at = 0; text != nullptr && at < size_t(prompts[i].length) && at < 256; ++at)
      prompt += text[at] >= ' ' && text[at] < 127 ? text[at] : '?';
    const std::string answer = auth->answer(prompt);
    responses[i].text = ::strdup(answer.c_str());  // libssh2 frees it
    responses[i].length = responses[i].text != nullptr ? unsigned(answer.size()) : 0;
  }
}

}  // namespace

}  // namespace collctl::launcher
