// SPDX-License-Identifier: MIT
//
// The scheduler of the simulator: runs the blocks of a grid one after the other, and the threads of
// a block as fibers that change at barriers and warp operations only. A thread that never waits
// costs no switch: the next one starts on the same stack.
//
// Never compiled with a sanitizer. memcpy would be checked by one all the same; values of threads
// are copied as numbers here.
#include "sim.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

const rgsim_thread *rgsim_self;
rgsim_grid rgsim_here;

namespace sim
{

Block block;
Thread *current;

static const rgsim_job *job;
static Order grid_order;
static bool grid_ahead;
static int turns[MAX_THREADS]; // the order of threads in this round
static int turn;
static Thread *starting;            // what the next fiber to be entered at its top shall run
static Fiber *idle;                 // a list of fibers at their top
static Fiber *own[MAX_THREADS];     // with the thread sanitizer: one fiber for each thread
static char grid_starts, grid_ends; // keys for the thread sanitizer

// -- Reports ---------------------------------------------------------------------------

static bool same(const Place &a, const Place &b)
{
  return a.line == b.line && !strcmp(a.file, b.file) && !strcmp(a.what, b.what);
}

static bool waits(const Thread &t)
{
  return t.state == AT_BARRIER || t.state == AT_WARP;
}

// Neighbours that wait at one place share a line.
static void print_waiting(void)
{
  enum { LINES = 12 };
  int lines = 0;
  for (int first = 0, last; first < block.n && lines < LINES; first = last + 1) {
    const Thread &t = block.threads[first];
    last = first;
    if (!waits(t)) continue;
    while (last + 1 < block.n && waits(block.threads[last + 1]) &&
           same(block.threads[last + 1].place, t.place)) {
      last++;
    }
    fprintf(stderr, "  threads %d to %d wait in %s at %s:%d\n", first, last, t.place.what,
            t.place.file, t.place.line);
    lines++;
  }
}

void fail(const Place &place, const char *what)
{
  fprintf(stderr, "cudasim: %s: %s", place.what, what);
  if (place.line) fprintf(stderr, " at %s:%d", place.file, place.line);
  const uint3 &b = rgsim_here.block_index;
  fprintf(stderr, ", block (%u,%u,%u)", b.x, b.y, b.z);
  if (current) {
    const uint3 &t = current->seen.index;
    fprintf(stderr, ", thread (%u,%u,%u)", t.x, t.y, t.z);
  }
  fputc('\n', stderr);
  print_waiting();
  abort();
}

// -- Which thread next -------------------------------------------------------------------

static void begin_round(void)
{
  turn = 0;
  if (grid_order != RANDOM) return;
  for (int i = block.n - 1; i > 0; i--) {
    std::swap(turns[i], turns[order_random(static_cast<uint64_t>(i) + 1)]);
  }
}

// Threads take turns; null when all have ended.
static Thread *next_thread(void)
{
  if (!block.alive) return nullptr;
  if (grid_ahead) turn = 0;
  for (int rounds = 0; rounds < 2; rounds++) {
    while (turn < block.n) {
      Thread *t = &block.threads[turns[turn++]];
      if (t->state <= READY) return t;
    }
    begin_round();
  }
  current = nullptr;
  fail({ "deadlock", "", 0 }, "every thread of the block that has not ended waits");
}

static void thread_body(void);

static void enter(Thread *t)
{
  if (t->state != FRESH) {
    fiber_switch(t->fiber);
    return;
  }
  Fiber *f;
  if (tsan_present()) {
    f = own[t->number];
  } else if (idle) {
    f = idle;
    idle = f->next;
  } else {
    f = fiber_new(thread_body);
  }
  starting = t;
  fiber_switch(f);
}

void park(void)
{
  Thread *t = current;
  enter(next_thread());
  current = t;
  rgsim_self = &t->seen;
}

// -- The life of a thread ------------------------------------------------------------------

// True when all live threads of the block are at the barrier; then they may go on.
static bool open_barrier(void)
{
  Block &b = block;
  if (!b.arrived || b.arrived < b.alive) return false;
  b.was_any = b.any;
  b.was_all = b.all;
  b.was_count = b.count;
  b.arrived = 0;
  Fiber *fibers[MAX_THREADS];
  int n = 0;
  for (int i = 0; i < b.n; i++) {
    Thread &t = b.threads[i];
    if (t.state != AT_BARRIER) continue;
    t.state = READY;
    fibers[n++] = t.fiber;
  }
  tsan_meet(fibers, n, &b.key);
  return true;
}

static void run_thread(Thread *t, Fiber *self)
{
  t->fiber = self;
  t->state = READY;
  current = t;
  rgsim_self = &t->seen;
  tsan_acquire(&grid_starts);
  job->call(job->closure);
  tsan_release(&grid_ends);
  copies_thread_ended(*t);
  t->state = DONE;
  block.alive--;
  warp_lane_ended(*t);
  open_barrier();
}

// What every fiber does, for ever: runs the thread that it is given, then looks for more.
static void thread_body(void)
{
  Fiber *self = fiber_running();
  for (;;) {
    run_thread(starting, self);
    Thread *next = next_thread();
    if (next && next->state == FRESH && !tsan_present()) {
      starting = next;
      continue;
    }
    self->next = idle;
    idle = self;
    if (next) {
      enter(next);
    } else {
      fiber_switch(fiber_host());
    }
  }
}

// -- Blocks and grids ------------------------------------------------------------------------

static void number_threads(dim3 size)
{
  block.n = 0;
  for (unsigned z = 0; z < size.z; z++) {
    for (unsigned y = 0; y < size.y; y++) {
      for (unsigned x = 0; x < size.x; x++) {
        Thread &t = block.threads[block.n];
        t.number = block.n++;
        t.seen.index = { x, y, z };
        t.seen.lane = static_cast<unsigned>(t.number) % WARP;
      }
    }
  }
  for (int i = 0; i < block.n; i++)
    turns[i] = grid_order == REVERSE ? block.n - 1 - i : i;
}

// With the thread sanitizer each thread keeps a fiber of its own: a stack that others have used
// would look like a race with them. And the host makes them all: who makes a fiber comes before it.
static void make_own_fibers(void)
{
  for (int i = 0; i < block.n && tsan_present(); i++) {
    if (!own[i]) own[i] = fiber_new(thread_body);
  }
}

static void run_block(uint64_t number)
{
  const dim3 &grid = rgsim_here.grid;
  rgsim_here.block_index = { static_cast<unsigned>(number % grid.x),
                             static_cast<unsigned>(number / grid.x % grid.y),
                             static_cast<unsigned>(number / grid.x / grid.y) };
  for (int i = 0; i < block.n; i++)
    block.threads[i].state = FRESH;
  for (int i = 0; i < block.n; i += WARP)
    block.warps[i / WARP] = {};
  block.alive = block.n;
  block.arrived = 0;
  shared_begin_block();
  tsan_release(&grid_starts);
  begin_round();
  enter(next_thread());
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
  return b ? gcd(b, a % b) : a;
}

// Any order of so many blocks without a list of them: steps of a length that shares no factor with
// their number.
static void run_blocks(uint64_t n)
{
  uint64_t first = 0, step = 1;
  if (grid_order == REVERSE) {
    first = n - 1;
    step = n - 1;
  } else if (grid_order == RANDOM) {
    first = order_random(n);
    do {
      step = 1 + order_random(n);
    } while (gcd(step, n) != 1);
  }
  for (uint64_t i = 0, at = first; i < n; i++, at = (at + step) % n)
    run_block(at);
}

} // namespace sim

void rgsim_run(const rgsim_job *what)
{
  using namespace sim;
  job = what;
  grid_order = order();
  grid_ahead = order_is_ahead();
  rgsim_here.grid = job->grid;
  rgsim_here.block = job->block;
  number_threads(job->block);
  fiber_begin_host();
  make_own_fibers();
  shared_begin_grid(job->smem);
  run_blocks(static_cast<uint64_t>(job->grid.x) * job->grid.y * job->grid.z);
  tsan_acquire(&grid_ends);
  shared_end_grid();
  current = nullptr;
  rgsim_self = nullptr;
  job = nullptr;
}

int rgsim_barrier(int kind, int predicate, const char *what, const char *file, int line)
{
  using namespace sim;
  Block &b = block;
  Thread &t = *current;
  t.place = { what, file, line };
  if (!b.arrived) {
    b.barrier = t.place;
    b.any = 0;
    b.all = 1;
    b.count = 0;
  } else if (!same(b.barrier, t.place)) {
    fail(t.place, "other threads of the block wait at another barrier");
  }
  b.any |= predicate;
  b.all &= predicate;
  b.count += predicate;
  b.arrived++;
  t.state = AT_BARRIER;
  if (!open_barrier()) park();
  return kind == RGSIM_OR ? b.was_any : kind == RGSIM_AND ? b.was_all : b.was_count;
}

void rgsim_trap(const char *file, int line)
{
  sim::fail({ "__trap", file, line }, "called");
}
