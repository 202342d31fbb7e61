#include "launcher/adopt/pmi1.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/format.h"
#include "base/socket.h"
#include "base/split.h"
#include "base/whole_number.h"

namespace collctl::launcher {
namespace {

constexpr size_t kMostLineBytes = 1 << 16;
constexpr size_t kLeastValueBytes = 16, kMostValueBytes = 1024;  // of a put, whatever is offered

int number_in(const std::string& text, int otherwise) {
  return base::whole_number(text).value_or(otherwise);
}

std::string command_in(const std::string& line) {
  const size_t at = line.find("cmd=");
  return at == std::string::npos ? line.substr(0, 32)
                                 : line.substr(at + 4, line.find(' ', at) - at - 4);
}

bool is_blocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

// The flag belongs to the open socket, which whoever started us may share.
void set_blocking(int fd, bool blocking) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags >= 0) ::fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

}  // namespace

std::string Pmi1Client::Answer::word(const std::string& name) const {
  const auto found = words.find(name);
  return found == words.end() ? "" : found->second;
}

int Pmi1Client::Answer::number(const std::string& name, int otherwise) const {
  return number_in(word(name), otherwise);
}

Pmi1Client::~Pmi1Client() {
  if (fd_ && was_blocking_) set_blocking(fd_.get(), true);
}

Error Pmi1Client::trouble(Error error, const std::string& asked) const {
  const std::string command = command_in(asked);
  if (error.code == ErrorCode::deadline) {
    error.message = format("the PMI server at {} did not answer '{}' in time", where_, command);
    error.hint = command == "barrier_in"
                     ? "not every rank of this job has arrived: all must run collctl; "
                       "--start-timeout sets how long this one waits"
                     : "the engine that started this process is in trouble; "
                       "COLLCTL_COMM_ID and COLLCTL_TOKEN work without it";
    return error;
  }
  error.code = ErrorCode::lost;
  error.message = format("the PMI server at {} closed the connection at '{}': {}", where_, command,
                         error.message);
  error.hint =
      "another rank has failed, or this is the second program of this rank that uses PMI "
      "(an engine serves one)";
  return error;
}

Result<std::string> Pmi1Client::read_line(const std::string& asked, Deadline deadline) {
  while (true) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    if (buffer_.size() > kMostLineBytes)
      return Error(ErrorCode::lost, format("the PMI server at {} sent a line of more than {} bytes",
                                           where_, kMostLineBytes));
    char piece[4096];
    auto n = base::read_some(fd_.get(), piece, sizeof piece);
    if (!n) return trouble(std::move(n.error()), asked);
    buffer_.append(piece, *n);
    if (*n > 0) continue;
    pollfd p{fd_.get(), POLLIN, 0};
    // Ends with the server's answer or its end, else by the deadline.
    COLL_ASSIGN(const int ready, base::poll_fds({&p, 1}, deadline));
    if (ready == 0) return trouble(Error(ErrorCode::deadline, ""), asked);
  }
}

Result<Pmi1Client::Answer> Pmi1Client::read_answer(const std::string& asked, const char* expected,
                                                   Deadline deadline) {
  COLL_ASSIGN(const std::string line, read_line(asked, deadline));
  Answer answer;
  for (const std::string_view token : base::split(line, ' '))
    if (const size_t equals = token.find('='); equals != token.npos)
      answer.words[std::string(token.substr(0, equals))] = token.substr(equals + 1);
  answer.command = answer.word("cmd");
  // The server's answer may hold the secret: errors name the command, not the values.
  if (answer.command != expected)
    return Error(ErrorCode::lost,
                 format("the PMI server at {} answered '{}' to '{}': expected '{}'", where_,
                        answer.command.substr(0, 32), command_in(asked), expected),
                 "COLLCTL_COMM_ID and COLLCTL_TOKEN work without the engine's PMI");
  if (const int rc = answer.number("rc", 0); rc != 0)
    return Error(ErrorCode::lost, format("the PMI server at {} refused '{}': rc={} {}", where_,
                                         command_in(asked), rc, answer.word("msg").substr(0, 64)));
  return answer;
}

Status Pmi1Client::send_line(const std::string& line, Deadline deadline) {
  const std::string text = line + "\n";
  Status sent = base::write_exact(fd_.get(), text.data(), text.size(), deadline);
  if (!sent) return trouble(std::move(sent.error()), line);
  return {};
}

Result<Pmi1Client::Answer> Pmi1Client::ask(const std::string& line, const char* expected,
                                           Deadline deadline) {
  COLL_TRY(send_line(line, deadline));
  return read_answer(line, expected, deadline);
}

Status Pmi1Client::inherit_fd(const std::string& fd, const Lookup& environment) {
  where_ = "PMI_FD=" + fd;
  const int number = number_in(fd, -1);
  int type = 0;
  socklen_t bytes = sizeof type;
  if (number < 0 || ::getsockopt(number, SOL_SOCKET, SO_TYPE, &type, &bytes) != 0 ||
      type != SOCK_STREAM)
    return Error(ErrorCode::usage, format("{} is not an open socket in this process", where_),
                 "the variable was inherited without its descriptor: unset it, or start collctl "
                 "directly under mpiexec or srun --mpi=pmi2");
  // Our own copy: it goes with us and into no child.
  fd_ = base::Fd(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  if (!fd_) return base::errno_error(ErrorCode::unavailable, "duplicate " + where_, errno);
  was_blocking_ = is_blocking(number);
  set_blocking(fd_.get(), false);
  rank_ = number_in(environment("PMI_RANK").value_or(""), -1);
  size_ = number_in(environment("PMI_SIZE").value_or(""), 0);
  return {};
}

Status Pmi1Client::connect_port(const std::string& port, const std::string& id, Deadline deadline) {
  where_ = "PMI_PORT=" + port;
  COLL_ASSIGN(const Address at, base::parse_address(port, deadline));
  auto connected = base::connect_tcp(at, deadline, false);
  if (!connected) return std::move(connected.error()).within("connect to " + where_);
  fd_ = std::move(*connected);
  COLL_TRY(base::set_no_delay(fd_.get()));
  const std::string hello_line = format("cmd=initack pmiid={}", id);
  COLL_ASSIGN(const Answer ack, ask(hello_line, "initack", deadline));
  // Then: size, rank and debug, one line each.
  for (int i = 0; i < 3; ++i) {
    COLL_ASSIGN(const Answer set, read_answer(hello_line, "set", deadline));
    rank_ = set.number("rank", rank_);
    size_ = set.number("size", size_);
  }
  return {};
}

Status Pmi1Client::hello(Deadline deadline) {
  COLL_ASSIGN(const Answer version,
              ask("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init", deadline));
  if (version.number("pmi_version", 0) != 1)
    return Error(ErrorCode::unavailable,
                 format("the PMI server at {} speaks version {}.{}: expected 1.1", where_,
                        version.word("pmi_version"), version.word("pmi_subversion")),
                 "COLLCTL_COMM_ID and COLLCTL_TOKEN work without the engine's PMI");
  COLL_ASSIGN(const Answer limits, ask("cmd=get_maxes", "maxes", deadline));
  most_key_bytes_ = size_t(std::max(0, limits.number("keylen_max", 0)));
  // The limits count the final zero of a C string.
  const int value_limit = limits.number("vallen_max", 0) - 1;
  if (most_key_bytes_ < 32 || value_limit < int(kLeastValueBytes))
    return Error(ErrorCode::unavailable,
                 format("the PMI server at {} allows keys of {} and values of {} bytes: too short",
                        where_, most_key_bytes_, value_limit));
  most_value_bytes_ = std::min(size_t(value_limit), kMostValueBytes);
  COLL_ASSIGN(const Answer name, ask("cmd=get_my_kvsname", "my_kvsname", deadline));
  space_ = name.word("kvsname");
  if (rank_ >= 0 && rank_ < size_ && !space_.empty()) return {};
  return Error(ErrorCode::lost,
               format("the PMI server at {} gives no valid rank (rank {}, size {}) or "
                      "no key-value space",
                      where_, rank_, size_));
}

Result<std::unique_ptr<Pmi1Client>> Pmi1Client::open(const Lookup& environment, Deadline deadline) {
  std::unique_ptr<Pmi1Client> client(new Pmi1Client);
  const std::string fd = environment("PMI_FD").value_or("");
  const std::string port = environment("PMI_PORT").value_or("");
  if (!fd.empty())
    COLL_TRY(client->inherit_fd(fd, environment));
  else if (!port.empty())
    COLL_TRY(client->connect_port(port, environment("PMI_ID").value_or(""), deadline));
  else
    return Error(ErrorCode::usage, "neither PMI_FD nor PMI_PORT is set");
  COLL_TRY(client->hello(deadline));
  return client;
}

Status Pmi1Client::put(const std::string& key, const std::string& value, Deadline deadline) {
  const bool fits = key.size() < most_key_bytes_ && value.size() <= most_value_bytes_;
  if (!fits || (key + value).find_first_of(" \n") != std::string::npos)
    return Error(ErrorCode::defect, format("PMI cannot carry the value of '{}'", key));
  COLL_TRY(ask(format("cmd=put kvsname={} key={} value={}", space_, key, value), "put_result",
               deadline));
  return {};
}

Status Pmi1Client::fence(Deadline deadline) {
  COLL_TRY(ask("cmd=barrier_in", "barrier_out", deadline));
  return {};
}

Result<std::string> Pmi1Client::get(int, const std::string& key, Deadline deadline) {
  COLL_ASSIGN(const Answer answer,
              ask(format("cmd=get kvsname={} key={}", space_, key), "get_result", deadline));
  return answer.word("value");
}

Status Pmi1Client::finish(Deadline deadline) {
  COLL_TRY(ask("cmd=finalize", "finalize_ack", deadline));
  return {};
}

}  // namespace collctl::launcher
