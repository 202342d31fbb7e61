// GPU ranks as processes: memory travels between them as descriptors.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/runtime/alone.h"
#include "tests/unit/runtime/gpu_ranks.h"

namespace collctl::runtime::testing {

// Each rank in a child process; what they complain of. `killed`: a rank that is to be killed, so
// that the others cannot finalize.
inline std::string in_processes(const GpuJob& job,
                                const std::function<void(Communicator&, Complaints&)>& body,
                                int killed = -1) {
  int pipe_fds[2];
  REQUIRE(::pipe(pipe_fds) == 0);
  const base::Fd reader(pipe_fds[0]);
  base::Fd writer(pipe_fds[1]);
  const auto address = base::parse_address("127.0.0.1:0");
  const auto secret = base::random_secret();
  REQUIRE((address && secret));
  // The root's thread is started after the children, who know its address before it listens.
  int ids[2];
  REQUIRE(::pipe(ids) == 0);
  const base::Fd id_reader(ids[0]);
  base::Fd id_writer(ids[1]);
  std::vector<pid_t> children;
  wait_until_alone();
  for (int r = 0; r < job.ranks; ++r) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    UniqueId id;
    Complaints complaints;
    if (::read(id_reader.get(), &id, sizeof id) != ssize_t(sizeof id)) ::_exit(1);
    CommOptions options = job.options;
    options.device = r;
    options.launcher = job.launcher;
    if (!job.hosts.empty()) options.host_id = format("host-{}", job.hosts[size_t(r)]);
    auto made = Communicator::init(id, r, job.ranks, options);
    if (!made) {
      complaints.add(format("rank {}: {}", r, made.error().chain()));
    } else {
      body(**made, complaints);
      if (killed < 0) complaints.add(r, (*made)->finalize(Deadline::after_seconds(60)));
      made->reset();
    }
    if (fake_cuda::counts() != fake_cuda::Counts{})
      complaints.add("left behind: " + fake_cuda::counts().text());
    const std::string text = complaints.text();
    const ssize_t written = ::write(writer.get(), text.data(), text.size());
    ::_exit(written == ssize_t(text.size()) ? 0 : 1);
  }
  writer.reset();
  const auto root = BootstrapRoot::start({.listen_at = *address, .secret = *secret});
  REQUIRE(root);
  const UniqueId id = UniqueId::make((*root)->address(), *secret);
  for (int r = 0; r < job.ranks; ++r)
    REQUIRE(::write(id_writer.get(), &id, sizeof id) == ssize_t(sizeof id));
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = ::read(reader.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(n));
  for (int r = 0; r < job.ranks; ++r) {
    int status = 0;
    REQUIRE(::waitpid(children[size_t(r)], &status, 0) == children[size_t(r)]);
    if (r == killed) {
      CHECK(WIFSIGNALED(status));
      continue;
    }
    CHECK(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0);
  }
  return text;
}

}  // namespace collctl::runtime::testing
