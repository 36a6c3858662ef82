#include "norma/base/threads.h"

#include <omp.h>

#include "norma/base/error.h"
#include "norma/base/text.h"

namespace norma {

int thread_count() { return omp_get_max_threads(); }

void set_thread_count(int count) {
  if (count < 1) throw RequestError(say("threads must be 1 or more, got ", count, "."));
  omp_set_num_threads(count);
}

int core_count() { return omp_get_num_procs(); }

}  // namespace norma
