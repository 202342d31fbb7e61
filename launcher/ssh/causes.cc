#include "launcher/ssh/causes.h"

#include <cerrno>
#include <cstring>

#include "base/format.h"

namespace collctl::launcher {
namespace {

Error about(const std::string& host, ErrorCode code, std::string message, std::string hint) {
  Error e(code, host + ": " + std::move(message), std::move(hint));
  e.host = host;
  return e;
}

Error launch(const std::string& host, Cause cause, std::string message, std::string hint) {
  Error e = about(host, ErrorCode::launch, std::move(message), std::move(hint));
  e.cause = cause;
  return e;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

std::string at(const std::string& where) {
  return where.empty() ? "" : " (" + where + ")";
}

std::string words(const HostKeyName& key) {
  return key.type + " key " + key.fingerprint;
}

std::string errno_text(int number) {
  std::string text = std::strerror(number);
  if (!text.empty()) text[0] = char(std::tolower(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace

Error no_such_name(const std::string& host, const std::string& name, const std::string& why) {
  const std::string as =
      name == host ? "the name" : "its name in the SSH configuration, " + name + ",";
  return launch(host, Cause::unresolved, format("{} does not resolve: {}", as, why),
                "check the spelling, /etc/hosts and DNS; getent hosts " + name);
}

Error not_connected(const std::string& host, const std::string& where, int error_number) {
  const char* hint = "";
  const Cause cause = error_number == ETIMEDOUT      ? Cause::silent
                      : error_number == ECONNREFUSED ? Cause::refused
                                                     : Cause::unreachable;
  if (error_number == ECONNREFUSED)
    hint =
        "the host is up but nothing listens there: is sshd running, and is the port right (port=)?";
  else if (error_number == EHOSTUNREACH || error_number == ENETUNREACH)
    hint = "the host is down, or the address or route is wrong";
  else if (error_number == ETIMEDOUT)
    hint = "the host is down, or a firewall drops the packets";
  return launch(host, cause, format("cannot connect to {}: {}", where, errno_text(error_number)),
                hint);
}

Error timed_out(const std::string& host, const std::string& where, Stage stage, double seconds) {
  const std::string limit = format("within {:g} s", seconds);
  const std::string more = "; or a longer --connect-timeout";
  switch (stage) {
    case Stage::configuration:
      return launch(
          host, Cause::silent, "its SSH configuration was not read " + limit,
          "what hangs in `ssh -G " + host + "`? A command in the configuration, or a file");
    case Stage::name:
      return launch(host, Cause::unresolved, "its name was not resolved " + limit,
                    "the name server does not answer: check /etc/resolv.conf" + more);
    case Stage::tcp:
      return launch(host, Cause::silent, format("no answer to TCP connect{} {}", at(where), limit),
                    "the host is down, or a firewall drops the packets" + more);
    case Stage::banner:
      return launch(
          host, Cause::silent, format("no SSH banner{} {}", at(where), limit),
          "something accepts connections there but does not speak: sshd hangs or the host "
          "is overloaded" +
              more);
    case Stage::key_exchange:
    case Stage::host_key:
      return launch(
          host, Cause::silent, format("the key exchange{} did not end {}", at(where), limit),
          "the host stopped answering: overloaded, or large packets are lost (MTU)" + more);
    case Stage::authentication:
      return launch(host, Cause::silent, format("the login{} did not end {}", at(where), limit),
                    "sshd waits for something (DNS, PAM, a directory service): see its log" + more);
    case Stage::command:
      break;
  }
  return launch(host, Cause::silent, format("the command was not started{} {}", at(where), limit),
                "the login shell or a start-up file hangs, or large packets are lost on the way "
                "(MTU)" +
                    more);
}

Error shell_hangs(const std::string& host, double seconds) {
  return launch(
      host, Cause::silent,
      format("logged in, but its login shell has not started the agent within {:g} s", seconds),
      format("a start-up file of the shell waits there (~/.bashrc, ~/.profile, "
             "/etc/profile.d), or large packets are lost on the way (MTU): `ssh {} true` "
             "must end by itself; or a longer --connect-timeout",
             host));
}

Error connection_closed(const std::string& host, const std::string& where, Stage stage,
                        const std::string& detail) {
  const char* during = stage <= Stage::banner           ? "before its SSH banner"
                       : stage < Stage::authentication  ? "during the key exchange"
                       : stage == Stage::authentication ? "during the login"
                                                        : "before the command ran";
  const std::string why = detail.empty() ? "" : ": " + detail;
  return launch(
      host, Cause::closed, format("the host{} closed the connection {}{}", at(where), during, why),
      stage <= Stage::banner
          ? "too many connections at once (MaxStartups), a block list, or no SSH server there"
          : "see the log of its sshd");
}

Error unknown_host_key(const std::string& host, const HostKeyName& offered, const std::string& file,
                       const std::string& entry_name, int port) {
  const std::string scan =
      format("ssh-keyscan {}{} >> {}", port == 22 ? "" : format("-p {} ", port), entry_name, file);
  return launch(
      host, Cause::unknown_key, "its host key is unknown: " + words(offered),
      "if that is the host's key, add it: " + scan + " ; or use --known-hosts accept-new");
}

Error only_certified(const std::string& host, const HostKeyName& offered,
                     const std::string& authority_at) {
  return launch(host, Cause::unknown_key,
                format("its host key is not known by itself ({}), only by certificates of the "
                       "authority at {}, which libssh2 cannot check",
                       words(offered), authority_at),
                "use --ssh-client openssh");
}

Error changed_host_key(const std::string& host, const HostKeyName& offered,
                       const HostKeyName& known, const std::string& known_at,
                       const std::string& entry_name) {
  const std::string file = known_at.substr(0, known_at.rfind(':'));
  return launch(host, Cause::changed_key,
                format("its host key has changed: it shows {}, but {} has {}", words(offered),
                       known_at, words(known)),
                format("someone may be intercepting the connection. If the host was reinstalled: "
                       "ssh-keygen -f '{}' "
                       "-R '{}' and add the new key",
                       file, entry_name));
}

Error revoked_host_key(const std::string& host, const HostKeyName& offered,
                       const std::string& known_at) {
  return launch(host, Cause::changed_key,
                format("its host key is revoked ({}): {}", known_at, words(offered)),
                "the host needs a new key");
}

Error no_common_algorithm(const std::string& host, const std::string& what, const std::string& ours,
                          const std::string& theirs) {
  std::string lists = ours.empty() ? "" : "; ours: " + ours;
  lists += "; the host's: " + (theirs.empty() ? std::string("none") : theirs);
  return launch(host, Cause::unsaid, format("key exchange failed: no common {}{}", what, lists),
                "allow one of ours in its sshd_config, or use --ssh-client openssh");
}

Error denied(const std::string& host, const Denial& denial) {
  std::string message = format("{} was refused by the host",
                               denial.user.empty() ? "the user" : "user " + denial.user);
  message += denial.tried.empty() ? ": there was no login method to try"
                                  : "; tried: " + joined(denial.tried);
  if (!denial.notes.empty()) message += "; note: " + joined(denial.notes);
  if (!denial.offered.empty()) message += "; the host offers: " + denial.offered;
  return launch(
      host, Cause::login, message,
      "is the public key in its ~/.ssh/authorized_keys, and is the user right (--ssh-user, "
      "-i FILE, ssh-add)?");
}

Error connection_lost(const std::string& host, const std::string& why) {
  return about(host, ErrorCode::lost, "the connection was lost: " + why,
               "the host, its sshd, or the network in between failed");
}

}  // namespace collctl::launcher
