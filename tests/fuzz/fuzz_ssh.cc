// libFuzzer target: any bytes as what `ssh -G` prints, a jump host, a known_hosts file, a private
// key with its public half, the first packets of a server, and the log of an ssh client.
#include "launcher/ssh/config.h"
#include "launcher/ssh/kexinit.h"
#include "launcher/ssh/key_file.h"
#include "launcher/ssh/known_hosts.h"
#include "launcher/ssh/openssh_log.h"
#include "tests/fuzz/fuzz.h"

using namespace collctl;
using namespace collctl::launcher;

namespace {

void configuration(const std::string& text) {
  const ConfigPlace place{
      .name = "node01", .local_user = "me", .home = "/home/me", .agent_socket = "/tmp/agent"};
  const ResolvedHost host = parse_resolved(text, place);
  for (const std::string& jump : host.jumps) static_cast<void>(parse_jump(jump));
  for (const std::string& file : host.identity_files)
    static_cast<void>(expand_path(file, place, host));
}

void known_hosts(const std::string& text, const std::string& name) {
  const auto keys = parse_known_hosts(text, "known_hosts");
  static_cast<void>(known_types(keys, name));
  for (const KnownKey& key : keys) {
    const auto verdict = judge_host_key(keys, name, key.type, key.blob);
    fuzz::must((verdict.kind == HostKeyVerdict::Kind::unknown) == (verdict.entry == nullptr));
    // A key that stands there for this name is not unknown.
    if (!key.authority && names_host(key.hosts, name))
      fuzz::must(verdict.kind != HostKeyVerdict::Kind::unknown);
    if (const auto blob = from_base64(key.blob)) static_cast<void>(fingerprint(*blob));
    static_cast<void>(host_key_name(key.type, key.blob));
  }
}

// In pieces and at once it says the same.
void server(ByteView input) {
  const size_t piece = 1 + fuzz::choose(input, 64);
  KexInitListener whole, pieces;
  whole.feed(input);
  for (size_t at = 0; at < input.size(); at += piece)
    pieces.feed(input.subspan(at, std::min(piece, input.size() - at)));
  fuzz::must(whole.lists().has_value() == pieces.lists().has_value());
  if (whole.lists()) static_cast<void>(find_disagreement(*whole.lists(), *pieces.lists()));
}

void client_log(ByteView input) {
  const size_t piece = 1 + fuzz::choose(input, 64);
  OpensshLog log;
  for (size_t at = 0; at < input.size(); at += piece)
    log.feed(fuzz::text_of(input.subspan(at, std::min(piece, input.size() - at))));
  static_cast<void>(log.explain({.host = "node01", .user = "me", .seconds = 3}));
  static_cast<void>(log.authenticated_by());
  static_cast<void>(log.last_words());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteView input(data, size);
  const size_t kind = fuzz::choose(input, 6);
  const auto texts = fuzz::parts(input, 2);
  switch (kind) {
    case 0:
      configuration(std::string(fuzz::text_of(input)));
      break;
    case 1:
      static_cast<void>(parse_jump(texts[0]));
      static_cast<void>(matches_pattern(texts[0], texts[1]));
      break;
    case 2:
      known_hosts(texts[0], texts[1].empty() ? "node01" : texts[1]);
      break;
    case 3:
      static_cast<void>(inspect_key_text(texts[0], texts[1]));
      break;
    case 4:
      server(input);
      break;
    default:
      client_log(input);
  }
  return 0;
}
