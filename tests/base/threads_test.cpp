#include "norma/base/threads.h"

#include <gtest/gtest.h>

#include "norma/base/error.h"
#include "tests/support/expect.h"

namespace norma {
namespace {

TEST(Threads, ScopeSetsAndRestores) {
  const int before = thread_count();
  {
    const ThreadScope three(3);
    EXPECT_EQ(thread_count(), 3);
    {
      const ThreadScope one(1);
      EXPECT_EQ(thread_count(), 1);
    }
    EXPECT_EQ(thread_count(), 3);
  }
  EXPECT_EQ(thread_count(), before);
}

TEST(Threads, ScopeRestoresWhenAnErrorPassesThrough) {
  const int before = thread_count();
  EXPECT_THROW(
      {
        const ThreadScope five(5);
        throw Error("on the way out");
      },
      Error);
  EXPECT_EQ(thread_count(), before);
}

TEST(Threads, ACountBelowOneIsRefusedAndChangesNothing) {
  const int before = thread_count();
  EXPECT_TRUE(
      test::throws<RequestError>([] { set_thread_count(0); }, {"threads", "1 or more", "0"}));
  EXPECT_TRUE(test::throws<RequestError>([] { const ThreadScope bad(-2); }, {"threads", "-2"}));
  EXPECT_EQ(thread_count(), before);
}

TEST(Threads, ThereIsACore) { EXPECT_GE(core_count(), 1); }

}  // namespace
}  // namespace norma
