// The end of an object waits for the acknowledgement of each of its events that somebody has taken:
// for ever. Here for a while, and then it is written down.
#pragma once
#include <pthread.h>
#include <time.h>

#include "tests/fake_verbs/world.h"

namespace fake_verbs {

template <class Done>
void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& changed, const char* call, Done done) {
  timespec until{};
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 2;
  pthread_mutex_lock(&mutex);
  int rc = 0;
  while (!done() && rc == 0) rc = pthread_cond_timedwait(&changed, &mutex, &until);
  if (!done()) violation("%s before all of its events are acknowledged: hangs", call);
  pthread_mutex_unlock(&mutex);
}

}  // namespace fake_verbs
