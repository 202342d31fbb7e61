// A client of the PMI-1 wire protocol: lines of "cmd=... name=value ..." over the socket that
// MPICH's Hydra and Slurm (srun --mpi=pmi2, which supports PMI-1.1 on request) give
// their processes in PMI_FD, or at the address in PMI_PORT with the name in PMI_ID. Source: the
// PMI-1 description in MPICH's documentation of the "simple" PMI.
#pragma once
#include <map>

#include "base/fd.h"
#include "launcher/adopt/adopt.h"
#include "launcher/hosts/key_value.h"

namespace collctl::launcher {

class Pmi1Client final : public KeyValueStore {
 public:
  // Connects by PMI_FD (with PMI_RANK and PMI_SIZE) or PMI_PORT, greets and asks for the
  // limits. Not collective.
  static Result<std::unique_ptr<Pmi1Client>> open(const Lookup& environment, Deadline deadline);
  // The descriptor goes back to how it was; without finish() the engine sees a failure.
  ~Pmi1Client() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  size_t most_value_bytes() const override { return most_value_bytes_; }
  Status put(const std::string& key, const std::string& value, Deadline deadline) override;
  Status fence(Deadline deadline) override;
  Result<std::string> get(int from_rank, const std::string& key, Deadline deadline) override;
  Status finish(Deadline deadline) override;

 private:
  // An answer: the words behind cmd=NAME.
  struct Answer {
    std::string command;
    std::map<std::string, std::string> words;
    std::string word(const std::string& name) const;
    int number(const std::string& name, int otherwise) const;
  };

  Pmi1Client() = default;
  Status connect_port(const std::string& port, const std::string& id, Deadline deadline);
  Status inherit_fd(const std::string& fd, const Lookup& environment);
  Status hello(Deadline deadline);
  Result<Answer> ask(const std::string& line, const char* expected, Deadline deadline);
  Status send_line(const std::string& line, Deadline deadline);
  Result<std::string> read_line(const std::string& asked, Deadline deadline);
  Result<Answer> read_answer(const std::string& asked, const char* expected, Deadline deadline);
  Error trouble(Error error, const std::string& asked) const;

  base::Fd fd_;
  bool was_blocking_ = false;
  std::string where_;   // "PMI_FD=6", for errors
  std::string buffer_;  // read, not yet used
  std::string space_;   // the name of our key-value space
  int rank_ = -1, size_ = 0;
  size_t most_key_bytes_ = 0, most_value_bytes_ = 0;
};

}  // namespace collctl::launcher
