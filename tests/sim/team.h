// The ranks of one job as they work together: who waits for whom when one is stopped or cannot be
// reached, and who hears what of whom. A coarse runtime: checking in, connecting, working in rounds
// in which each needs all others, finishing. Threads: the world's.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "tests/sim/cable.h"
#include "tests/sim/ranks.h"

namespace collctl::sim {

struct TeamOptions {
  int64_t works_ns = 5 * kSecond;  // from the last to connect to the end
  int64_t looks_ns = 0;            // as Plan has it
  bool ring = true;                // each waits for its predecessor; else for whoever is late
};

class Team {
 public:
  Team(World& world, Network& network, const TeamOptions& options)
      : world_(world), network_(network), options_(options) {}
  World& world() { return world_; }
  const TeamOptions& options() const { return options_; }

  void add(const std::shared_ptr<SimRank>& rank) { ranks_[rank->number()] = rank; }
  // Null: it was never started.
  SimRank* rank(int number) const;
  std::vector<int> numbers() const;
  int running() const;

  // --- ranks ---
  void begins(SimRank& rank, int generation, const std::vector<int>& members);
  void check_in(SimRank& rank);
  bool passes(const SimRank& a, const SimRank& b) const;
  // A connection ended without a word to the others.
  void closed(const SimRank& rank);
  void notify(const SimRank& from, Error error);
  // Whom this one waits for now; -1: nobody keeps it.
  int awaited(const SimRank& rank) const;
  bool no_way(const SimRank& rank, int peer) const;
  // To whom of those that it sends to nothing passes; -1: to all it does.
  int unreached(const SimRank& rank) const;

  // --- faults: something has changed between them ---
  void disturbed();

 private:
  struct Generation {
    std::vector<int> members;
    std::set<int> there;
    bool connecting = false, working = false, over = false;
  };
  Generation& of(const SimRank& rank) { return generations_[rank.generation()]; }
  bool stuck(int generation, int number) const;
  bool all_move(int generation) const;
  bool are_linked(const Generation& g, int a, int b) const;
  void connect(int generation);
  void work(int generation);
  void tick(int generation, int64_t finish_at);
  void missing(SimRank& root);

  World& world_;
  Network& network_;
  TeamOptions options_;
  std::map<int, std::shared_ptr<SimRank>> ranks_;
  std::map<int, Generation> generations_;
};

}  // namespace collctl::sim
