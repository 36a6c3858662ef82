#include "tests/hopper/machine.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/hopper/fiber.h"

// As attention's kernels on Hopper's products declare their shared memory, and what all others
// take.
namespace norma::kernels::wgmma {
alignas(1024) thread_local unsigned char memory[hopper::kSharedBytes];
}  // namespace norma::kernels::wgmma

namespace norma::hopper {

Place here;

namespace {

constexpr int kLanes = 32;
constexpr int kMeetings = 16;  // barriers of a block by number; the first is that of all threads

struct Barrier {
  int arrivals = 0;
  int missing = 0;
  std::int64_t bytes = 0;  // announced and not yet there
  unsigned phase = 0;
};

struct Meeting {
  int come = 0;
  unsigned round = 0;
};

struct Copy {
  std::function<void()> work;
  unsigned barrier;
  unsigned bytes;
};

using Group = std::vector<std::function<void()>>;

/// What was asked for and may be done later, in groups, of which the last one is open.
class Groups {
 public:
  void add(const std::function<void()>& work) { open().push_back(work); }
  void close() {
    open();
    groups_.emplace_back();
  }
  bool empty() const {
    return std::all_of(
        groups_.begin(), groups_.end(), [](const Group& group) { return group.empty(); });
  }
  /// The next group that must be done so that at most `pending` closed ones are left, if any.
  std::optional<Group> next(int pending) {
    if (static_cast<int>(groups_.size()) - 1 <= pending) return std::nullopt;
    Group group = std::move(groups_.front());
    groups_.erase(groups_.begin());
    return group;
  }

 private:
  Group& open() {
    if (groups_.empty()) groups_.emplace_back();
    return groups_.back();
  }
  std::vector<Group> groups_;
};

struct Thread {
  Fiber fiber;
  bool done = false;
  Groups products;
  Groups copies;
  std::vector<std::function<Arrival()>> stores;
  std::vector<Arrival> arrivals;  // of stores that were read
};

/// Lanes that see each other's words. The words of two exchanges lie apart: who writes those of the
/// next has not yet been told by all that they have read those of the last.
struct Warp {
  int lanes = 0;
  int come = 0;
  unsigned round = 0;
  std::array<Words, kLanes> words[2];
};

class Block;

/// Blocks that reach each other; null where one has ended.
struct Cluster {
  std::vector<Block*> blocks;
  Meeting meeting;
};

class Block {
 public:
  Block(const Launch& launch,
        unsigned index,
        std::shared_ptr<Cluster> cluster,
        const std::function<void()>& kernel)
      : launch_(launch),
        index_(index),
        cluster_(std::move(cluster)),
        kernel_(kernel),
        threads_(launch.threads.count()),
        warps_((threads_.size() + kLanes - 1) / kLanes),
        random_(launch.seed * 1000 + index),
        shared_(launch.shared_bytes, 0xFF) {  // NaN
    cluster_->blocks.push_back(this);
    for (std::size_t i = 0; i < threads_.size(); ++i) ++warps_[i / kLanes].lanes;
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (resident() == this) resident() = nullptr;
    cluster_->blocks[rank()] = nullptr;
  }

  bool is_left() const;
  /// Every thread runs until it waits, and a copy may be done. False where nothing could.
  bool turn();
  void let_others_run();

  const Launch& launch() const { return launch_; }
  unsigned index() const { return index_; }
  unsigned rank() const { return index_ % launch_.cluster; }
  void require_cluster() const {
    if (launch_.cluster == 1) throw WantsCluster();
  }
  Meeting& meeting_of_cluster() { return cluster_->meeting; }
  Block& of_cluster(unsigned rank) {
    Block* const there = cluster_->blocks.at(rank);
    if (there == nullptr) throw std::runtime_error("that block of the cluster has ended");
    return *there;
  }
  int current() const { return current_; }
  Thread& thread() { return threads_[static_cast<std::size_t>(current_)]; }
  Warp& warp() { return warps_[static_cast<std::size_t>(current_ / kLanes)]; }
  Meeting& meeting(int number) { return meetings_.at(static_cast<std::size_t>(number)); }
  Barrier& barrier(unsigned address) {
    const auto at = barriers_.find(address);
    if (at == barriers_.end()) throw std::runtime_error("there is no barrier there");
    return at->second;
  }
  void make_barrier(unsigned address, int arrivals) {
    barriers_[address] = {.arrivals = arrivals, .missing = arrivals};
  }
  void queue(Copy copy) { copies_.push_back(std::move(copy)); }
  void progress() { ++progress_; }
  void look_at(Barrier& barrier) {
    progress();
    if (barrier.missing > 0 || barrier.bytes != 0) return;
    barrier.phase ^= 1U;
    barrier.missing = barrier.arrivals;
  }
  void do_copy(std::size_t i);
  void do_copies() {
    while (!copies_.empty()) do_copy(0);
  }
  bool& answer() { return answer_; }  // of meet_block_or()
  /// Others go ahead, a little or far: the first lane of a warp stays behind.
  void linger() {
    if (current_ % kLanes != 0) return;
    for (auto turns = random_() % (random_() % 4 == 0 ? 400 : 8); turns > 0; --turns) {
      progress();
      let_others_run();
    }
  }
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }

 private:
  /// The block whose memory is where kernels look.
  static Block*& resident() {
    static Block* block = nullptr;
    return block;
  }
  static void begin();
  void move_in();
  void round();
  void finish_thread();

  Launch launch_;
  unsigned index_;
  std::shared_ptr<Cluster> cluster_;
  const std::function<void()>& kernel_;
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::array<Meeting, kMeetings> meetings_{};
  std::map<unsigned, Barrier> barriers_;
  std::vector<Copy> copies_;
  bool answer_ = false;
  bool wants_cluster_ = false;
  std::mt19937_64 random_;
  std::vector<unsigned char> shared_;  // while another block's memory is where kernels look
  int current_ = 0;
  std::uint64_t progress_ = 0;
  std::string failure_;
};

Block*& at_work() {
  static Block* block = nullptr;
  return block;
}

void Block::begin() { at_work()->finish_thread(); }

void Block::finish_thread() {
  try {
    kernel_();
    if (!thread().products.empty()) fail("a thread ended before its products were waited for");
    if (!thread().copies.empty()) fail("a thread ended before its copies were waited for");
    if (!thread().stores.empty()) fail("a thread ended before its stores were read");
    for (const Arrival& arrive : thread().arrivals) arrive();
  } catch (const WantsCluster&) {
    wants_cluster_ = true;
    fail("no cluster");
  } catch (const std::exception& error) {
    fail(error.what());
  }
  thread().done = true;
  progress();
  thread().fiber.go_home();
}

void Block::let_others_run() { thread().fiber.go_home(); }

void Block::do_copy(std::size_t i) {
  const Copy copy = std::move(copies_[i]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
  copy.work();
  Barrier& told = barrier(copy.barrier);
  told.bytes -= copy.bytes;
  look_at(told);
}

/// Every thread that is left gets a turn, whole warps in an order that changes.
void Block::round() {
  std::vector<int> warps(warps_.size());
  std::iota(warps.begin(), warps.end(), 0);
  std::shuffle(warps.begin(), warps.end(), random_);
  for (const int warp : warps) {
    for (int lane = 0; lane < warps_[static_cast<std::size_t>(warp)].lanes; ++lane) {
      current_ = warp * kLanes + lane;
      if (thread().done) continue;
      here.thread = launch_.threads.at(static_cast<unsigned>(current_));
      if (!thread().fiber.started()) thread().fiber.start(&Block::begin);
      thread().fiber.go_on();
      if (thread().done) thread().fiber.end();
      if (!failure_.empty()) return;
    }
  }
}

bool Block::is_left() const {
  return std::any_of(
      threads_.begin(), threads_.end(), [](const Thread& thread) { return !thread.done; });
}

void Block::move_in() {
  if (resident() == this) return;
  if (resident() != nullptr) {
    std::vector<unsigned char>& theirs = resident()->shared_;
    std::copy_n(shared_memory(), theirs.size(), theirs.begin());
  }
  std::copy(shared_.begin(), shared_.end(), shared_memory());
  resident() = this;
}

bool Block::turn() {
  at_work() = this;
  here = {{}, launch_.blocks.at(index_), launch_.threads, launch_.blocks};
  move_in();
  const std::uint64_t before = progress_;
  if (launch_.when == When::at_once) do_copies();  // that another block has sent
  round();
  bool goes_on = progress_ != before;
  if (failure_.empty() && !copies_.empty() && (!goes_on || random_() % 4 == 0)) {
    do_copy(random_() % copies_.size());
    goes_on = true;
  }
  at_work() = nullptr;
  if (wants_cluster_) throw WantsCluster();
  if (!failure_.empty()) {
    throw std::runtime_error("block " + std::to_string(index_) + ": " + failure_);
  }
  return goes_on;
}

/// Turns of these blocks until all have ended. Now this block is slow, now another.
void run_to_the_end(std::vector<std::unique_ptr<Block>>& blocks, std::uint64_t seed) {
  constexpr int kStretch = 500;  // rounds for which the same one is
  std::mt19937_64 random(seed);
  std::size_t slow = 0;
  for (int round = 0; !blocks.empty(); ++round) {
    if (round % kStretch == 0) slow = random();
    bool goes_on = false;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const bool waits = blocks.size() > 1 && i == slow % blocks.size() && round % kStretch != 0;
      goes_on = (!waits && blocks[i]->turn()) || goes_on;
    }
    if (!goes_on && round % kStretch == 0) {
      throw std::runtime_error("threads wait for each other for ever");
    }
    if (!goes_on) round += kStretch - 1 - round % kStretch;  // all wait for the slow one
    std::erase_if(blocks, [](const auto& block) { return !block->is_left(); });
  }
}

}  // namespace

void run(const Launch& launch, const std::function<void()>& kernel) {
  std::vector<std::unique_ptr<Block>> blocks;
  std::shared_ptr<Cluster> cluster;
  for (unsigned i = 0; i < launch.blocks.count(); ++i) {
    if (i % launch.cluster == 0) cluster = std::make_shared<Cluster>();
    blocks.push_back(std::make_unique<Block>(launch, i, cluster, kernel));
    const bool whole = (i + 1) % launch.cluster == 0;
    if (!launch.together && whole) run_to_the_end(blocks, launch.seed);
  }
  run_to_the_end(blocks, launch.seed);
}

int thread() { return at_work()->current(); }
unsigned rank() {
  at_work()->require_cluster();
  return at_work()->rank();
}
void trap() { throw std::runtime_error("a kernel gave up"); }

unsigned char* shared_memory() { return kernels::wgmma::memory; }
std::byte* shared(unsigned address, std::size_t bytes) {
  const std::size_t size = at_work()->launch().shared_bytes;
  if (address < kSharedBase || address - kSharedBase + bytes > size) {
    throw std::runtime_error("there is no shared memory at address " + std::to_string(address));
  }
  return reinterpret_cast<std::byte*>(shared_memory()) + (address - kSharedBase);
}
unsigned address_of(const void* at) {
  return kSharedBase +
         static_cast<unsigned>(static_cast<const unsigned char*>(at) - shared_memory());
}

namespace {
void meet_at(Meeting& meeting, int count) {
  const unsigned round = meeting.round;
  at_work()->progress();
  if (++meeting.come == count) {
    meeting.come = 0;
    ++meeting.round;
    return;
  }
  while (meeting.round == round) at_work()->let_others_run();
}
}  // namespace

void meet(int number, int count) { meet_at(at_work()->meeting(number), count); }
void meet_block() { meet(0, static_cast<int>(at_work()->launch().threads.count())); }
void meet_cluster() {
  at_work()->require_cluster();
  const Launch& launch = at_work()->launch();
  meet_at(at_work()->meeting_of_cluster(),
          static_cast<int>(launch.threads.count() * launch.cluster));
}
bool meet_block_or(bool mine) {
  bool& any = at_work()->answer();
  meet_block();
  any = false;
  meet_block();
  if (mine) any = true;
  meet_block();
  return any;
}

const OfLanes& exchange(const Words& mine) {
  Block& block = *at_work();
  Warp& warp = block.warp();
  const unsigned round = warp.round;
  std::array<Words, kLanes>& all = warp.words[round % 2];
  all[static_cast<std::size_t>(block.current() % kLanes)] = mine;
  block.progress();
  if (++warp.come == warp.lanes) {
    warp.come = 0;
    ++warp.round;
  }
  while (warp.round == round) block.let_others_run();
  return *reinterpret_cast<const OfLanes*>(all.data());
}

void make_barrier(unsigned address, int arrivals) { at_work()->make_barrier(address, arrivals); }
namespace {
void arrive_in(Block& block, unsigned address, unsigned expected_bytes) {
  Barrier& barrier = block.barrier(address);
  if (barrier.missing == 0)
    throw std::runtime_error("more threads arrive at a barrier than it counts");
  barrier.bytes += expected_bytes;
  --barrier.missing;
  block.look_at(barrier);
}
}  // namespace
void arrive(unsigned address, unsigned expected_bytes) {
  arrive_in(*at_work(), address, expected_bytes);
}
void arrive_at(unsigned address, unsigned rank) {
  at_work()->progress();
  arrive_in(at_work()->of_cluster(rank), address, 0);
}
bool is_over(unsigned address, unsigned phase) {
  const auto over = [&] { return at_work()->barrier(address).phase != phase; };
  return looked(over()) || over();
}
bool looked(bool there) {
  if (there) {
    at_work()->progress();
  } else {
    at_work()->let_others_run();
  }
  return there;
}

void copy(const std::function<void()>& work, unsigned barrier, unsigned bytes) {
  Block& block = *at_work();
  block.queue({work, barrier, bytes});
  if (block.launch().when == When::at_once) block.do_copies();
}
void copy_to_both(const std::function<void()>& work, unsigned barrier, unsigned bytes) {
  at_work()->of_cluster(1 - rank()).queue({work, barrier, bytes});
  copy(work, barrier, bytes);
}

void store(const std::function<Arrival()>& read) {
  if (at_work()->launch().when == When::at_once) return read()();
  at_work()->thread().stores.push_back(read);
}
void read_stores() {
  Thread& thread = at_work()->thread();
  if (!thread.stores.empty()) at_work()->linger();
  for (const auto& read : thread.stores) thread.arrivals.push_back(read());
  thread.stores.clear();
}
void finish_stores() {
  read_stores();
  std::vector<Arrival>& arrivals = at_work()->thread().arrivals;
  if (!arrivals.empty()) at_work()->linger();
  for (const Arrival& arrive : arrivals) arrive();
  arrivals.clear();
}

namespace {
void ask_for(Groups Thread::*groups, const std::function<void()>& work) {
  if (at_work()->launch().when == When::at_once) return work();
  (at_work()->thread().*groups).add(work);
}
void wait_for(Groups Thread::*groups, int pending) {
  // Lanes exchange their operands: a thread may be left in the middle of it.
  while (const std::optional<Group> group = (at_work()->thread().*groups).next(pending)) {
    if (!group->empty()) at_work()->linger();
    for (const std::function<void()>& work : *group) work();
  }
}
}  // namespace

void product(const std::function<void()>& work) { ask_for(&Thread::products, work); }
void close_products() { at_work()->thread().products.close(); }
void wait_for_products(int groups_pending) { wait_for(&Thread::products, groups_pending); }

void own_copy(const std::function<void()>& work) { ask_for(&Thread::copies, work); }
void close_own_copies() { at_work()->thread().copies.close(); }
void wait_for_own_copies(int groups_pending) { wait_for(&Thread::copies, groups_pending); }

}  // namespace norma::hopper
