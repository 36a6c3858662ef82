// A multiprocessor of Hopper on the host, as far as kernels see it, so that what they do can be
// tested where there is no GPU: threads that wait for each other, barriers that
// count arrivals and bytes, the copy engine, products that are done some time before they are
// waited for. Each thread is a fiber, all of them share one thread of the host, and a seed says who
// comes next. What is not here: the order in which different engines see memory, and what a
// compiler makes of registers.
//
// When products and copies are done is a choice (When): as soon as they are asked for, or as late
// as the instructions allow, reading their operands then. A kernel that is right both ways waits
// for everything that it must wait for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>

namespace norma::hopper {

enum class When : std::uint8_t { at_once, late };

/// Numbers or sizes in three dimensions, of which the first changes fastest.
struct Extent {
  unsigned x, y, z;

  constexpr Extent(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1)  // NOLINT: as CUDA's dim3
      : x(x_), y(y_), z(z_) {}
  constexpr unsigned count() const { return x * y * z; }
  constexpr Extent at(unsigned i) const { return {i % x, i / x % y, i / x / y}; }
};

/// The most that a block may have of shared memory. Its addresses begin at kSharedBase, as they do
/// not begin at 0 on a card.
inline constexpr unsigned kSharedBase = 1024;
inline constexpr std::size_t kSharedBytes = 232448;  // 227 KiB

struct Launch {
  Extent blocks = 1;
  Extent threads = 128;
  std::size_t shared_bytes = kSharedBytes;
  When when = When::at_once;
  std::uint64_t seed = 1;
  bool together = false;  // blocks may wait for each other; else one comes after the other
  unsigned cluster = 1;   // neighbours that reach each other's memory and barriers; 1 or 2
};
/// Runs the kernel for all blocks. Throws std::runtime_error with what happened where
/// threads wait for each other for ever, or where something is asked for and never waited for.
void run(const Launch& launch, const std::function<void()>& kernel);

/// What run() throws where a kernel asks for its cluster and the launch has none, before it has
/// done anything else.
struct WantsCluster : std::runtime_error {
  WantsCluster() : std::runtime_error("a kernel asks for its cluster and has none") {}
};

// What a kernel's threads ask for while they run.

/// Where the thread that runs is, of how many.
struct Place {
  Extent thread, block, threads, blocks;
};
extern Place here;
int thread();
unsigned rank();  // of the block in its cluster
[[noreturn]] void trap();

unsigned char* shared_memory();
std::byte* shared(unsigned address, std::size_t bytes);  // throws where there is none
unsigned address_of(const void* at);

/// Waits until `count` threads have come to the barrier of this number.
void meet(int number, int count);
void meet_block();
void meet_cluster();
/// Meets the block, and says whether any thread said so.
bool meet_block_or(bool mine);
/// Every lane of the warp gives four words and sees those of all lanes.
struct Words {
  unsigned at[4];
};
using OfLanes = Words[32];
const OfLanes& exchange(const Words& mine);

void make_barrier(unsigned address, int arrivals);
/// Arrives, after copies of so many bytes were announced.
void arrive(unsigned address, unsigned expected_bytes = 0);
bool is_over(unsigned address, unsigned phase);  // lets others run where it is not
/// Arrives at a barrier of a block of the cluster, which must not have ended.
void arrive_at(unsigned address, unsigned rank);

/// The copy engine does it, and tells the barrier of the bytes.
void copy(const std::function<void()>& work, unsigned barrier, unsigned bytes);
/// The same at these places of both blocks of a cluster.
void copy_to_both(const std::function<void()>& work, unsigned barrier, unsigned bytes);
/// A store of this thread out of shared memory: `read` takes what is there and returns what puts it
/// where it belongs. read_stores() says that all must have been read, finish_stores() that they
/// must have arrived; the rest arrives when the thread has ended.
using Arrival = std::function<void()>;
void store(const std::function<Arrival()>& read);
void read_stores();
void finish_stores();

/// Copies of this thread into shared memory: groups of them are closed and waited for in order.
void own_copy(const std::function<void()>& work);
void close_own_copies();
void wait_for_own_copies(int groups_pending);

/// A look at what another block may change: where it is not there yet, lets others run.
bool looked(bool there);

/// Products of this thread: groups of them are closed and waited for in order.
void product(const std::function<void()>& work);
void close_products();
void wait_for_products(int groups_pending);

}  // namespace norma::hopper
