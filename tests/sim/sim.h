// SPDX-License-Identifier: MIT
//
// What the parts of the simulator share: fibers, the state of the one block that runs, and the
// order in which things happen.
#ifndef RIDGE_SIM_SIM_H
#define RIDGE_SIM_SIM_H

#include "cudasim.h"

namespace sim
{

// -- Fibers (cudasim_fiber.cpp) -----------------------------------------------------

struct Fiber {
  void *position; // its stack pointer, or its ucontext_t, while it does not run
  char *stack;    // lowest address; of the host's stack only as the address sanitizer told it
  size_t size;
  void *fake_stack; // the address sanitizer's
  void *tsan;       // the thread sanitizer's idea of it
  Fiber *next;      // for lists of them
};

// A fiber that starts in entry when it is first switched to; entry never returns.
Fiber *fiber_new(void (*entry)(void));

// The stack of the thread of the host that runs the grid, as a fiber to come back to.
void fiber_begin_host(void);
Fiber *fiber_host(void);

// Leaves the running fiber and goes on in another one.
void fiber_switch(Fiber *to);
Fiber *fiber_running(void);

// -- The thread sanitizer: what happens before what -----------------------------------

bool tsan_present(void);
void tsan_release(void *key);
void tsan_acquire(void *key);

// All that any of these fibers did comes before all that any of them does from now on.
void tsan_meet(Fiber *const *fibers, int n, void *key);

// -- Threads of the block (cudasim.cpp) ------------------------------------------------

enum State : unsigned char { FRESH, READY, AT_BARRIER, AT_WARP, DONE };

struct Place {
  const char *what, *file;
  int line;
};

struct Thread {
  rgsim_thread seen; // what the kernel can ask
  int number;
  State state;
  Fiber *fiber;
  Place place; // where it waits

  // The warp operation that it waits in.
  unsigned mask;
  int op, source;
  uint64_t in, out;
  char key; // for tsan_meet
};

struct Warp {
  unsigned waiting, done; // sets of lanes
};

enum { MAX_THREADS = 1024, WARP = 32 };

struct Block {
  Thread threads[MAX_THREADS];
  Warp warps[MAX_THREADS / WARP];
  int n, alive;

  // The barrier that some threads wait at, and the results of the last one.
  int arrived;
  Place barrier;
  int any, all, count;
  int was_any, was_all, was_count;
  char key;
};

extern Block block;
extern Thread *current; // null outside kernels

// The current thread waits until another one has made it READY.
void park(void);

// Says what is wrong, where, and who waits for what; then ends the process.
[[noreturn]] void fail(const Place &place, const char *what);

// -- Warp operations (cudasim_warp.cpp) -------------------------------------------------

// A thread has ended: no other may still wait for it.
void warp_lane_ended(const Thread &t);

// -- Tiles and copies (cudasim_tensor.cpp) ------------------------------------------------

// All 32 lanes of a warp have reached an operation on tiles.
void tensor(Thread *const *lanes, int op);

// A thread has ended: nothing that it copies may be under way.
void copies_thread_ended(const Thread &t);

// -- Shared memory (cudasim_shared.cpp) ---------------------------------------------------

void shared_begin_grid(size_t dynamic_bytes);
void shared_begin_block(void);
void shared_end_grid(void);

// -- Order (cudasim_order.cpp) --------------------------------------------------------------

enum Order { FORWARD, REVERSE, RANDOM };

// Asked again for every grid and every wait, so that a test can change RG_SIM_ORDER.
Order order(void);
uint64_t order_random(uint64_t below);

// Does the first thread of the order go on as long as it can?
bool order_is_ahead(void);

// Work does not wait for anybody to wait for it: a debugger, or a sanitizer of memory that is used
// again, sees each call's own work in it.
bool order_now(void);

} // namespace sim

#endif
