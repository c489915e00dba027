/* SPDX-License-Identifier: MIT */
/*
** What the core itself uses of base, beyond the public header.
*/
#ifndef RIDGE_BASE_BASE_H
#define RIDGE_BASE_BASE_H

#include <stdatomic.h>

#include "base/shared.h"
#include "ridge/device.h"
#include "ridge/activity.h"
#include "ridge/ring.h"

/* The compiler sees that a failure returns its code, and so which outputs are written where. */
#define rg_fail(code, ...) ((void)rg_fail(code, __VA_ARGS__), (code))

/* Pass a failure up. */
#define RG_TRY(expression)              \
  do {                                  \
    rg_status rg_try_ = (expression);   \
    if (__builtin_expect(rg_try_, 0)) { \
      return rg_try_;                   \
    }                                   \
  } while (0)

typedef struct rg_memo rg_memo;

/* The CPU is device 0; tensor.h calls it RG_CPU.  Pinned memory comes from a pool of its own, as if
** from one more device. */
enum { RG_CPU_DEVICE = 0, RG_DEVICES = 17 };

/* -- Host memory ---------------------------------------------------------------- */

/* malloc and free under the failure injection, for structures; NULL on failure and never else: of 0
** bytes there is a block too. */
void *rg_host_alloc(size_t bytes);
void *rg_host_zeroed(size_t bytes);
void rg_host_free(void *block);

/*
** The same for structs of 1 .. 8192 bytes that are made and freed with every call: the freeing
** thread keeps them for its next one.  bytes: the same at both ends; larger ones are not kept.
*/
void *rg_struct_alloc(size_t bytes);
void rg_struct_free(void *block, size_t bytes);

/* Count such structs: the thread that runs Lua counts for itself, without an atomic operation. */
typedef struct rg_tally {
  _Atomic int64_t own;
  _Atomic int64_t others;
} rg_tally;

void rg_tally_add(rg_tally *tally, int64_t n);
int64_t rg_tally_read(const rg_tally *tally);

/* True when this allocation is the one that has to fail. */
bool rg_alloc_injected(void);

/* -- Devices ------------------------------------------------------------------- */

/* Who tells what devices of a driver did (ridge/activity.h).  begin and end, at and release are
** called under one lock. */
typedef struct rg_tracer {
  rg_status (*begin)(int64_t capacity);
  rg_status (*end)(rg_activity_facts *out);
  void (*at)(int64_t i, rg_activity *out);
  void (*release)(void);
  /* What this thread asks for belongs to an event from now on, until leave.  Between begin and end
  ** only, by the thread that began. */
  void (*enter)(int64_t serial);
  void (*leave)(void);
} rg_tracer;

/* This thread asks a device for an event (the serial of the ring), or with -1 has done so: the
** event before, which may have failed, has ended.  Under RG_RING_TRACED only. */
void rg_activity_asked(int32_t device, int64_t serial);

/*
** What a device beside the CPU brings, apart from kernels.  What is asked of it goes to the stream
** that this thread entered last; marks and graphs are the driver's own handles.
*/
typedef struct rg_driver {
  /* Memory of the device's, 256-byte aligned; RG_ENOMEM. */
  rg_status (*take)(int32_t device, int64_t bytes, void **out);
  void (*give)(int32_t device, void *data);
  /* RG_OK, or RG_EDEVICE and why nothing runs on the device in this process any more. */
  rg_status (*lost)(int32_t device);
  /* Fill memory with 0xff, behind what this thread's stream was asked for; the caller does not
  ** wait.  Only asked for under RIDGE_ALLOC_POISON. */
  void (*spoil)(int32_t device, void *data, int64_t bytes);
  /* Host memory that the device's copies reach by themselves; RG_ENOMEM. */
  rg_status (*pin)(int64_t bytes, void **out);
  void (*unpin)(void *data);
  /* Bytes between two devices, one of which is this driver's, behind what was asked of it before.
  ** Host memory has been read and written when it returns, unless `behind` allows it to be later:
  ** then only memory from pin is still in use. */
  rg_status (*copy)(int32_t to_device, void *to, int32_t from_device, const void *from,
                    int64_t bytes, bool behind);
  /* Wait until everything that was asked of the device is done, on every stream. */
  rg_status (*wait)(int32_t device);
  rg_status (*facts)(int32_t device, rg_device_facts *out);
  /* How it is now (rg_device_state_of); fills all of out, and never fails. */
  void (*state)(int32_t device, rg_device_state *out);
  /* Which libraries there are (rg_device_libraries_of); fills all of out, and never fails. */
  void (*libraries)(int32_t device, bool open, rg_device_libraries *out);
  /* A range begins, or with NULL ends (rg_device_named). */
  void (*named)(const char *name);

  /* This thread's stream. */
  void (*enter)(int32_t device, int32_t stream);
  /* Order stream `to` after everything queued on the streams of a mask. */
  rg_status (*join)(int32_t device, int32_t to, uint32_t streams);

  rg_status (*mark_new)(int32_t device, void **mark);
  void (*mark_free)(int32_t device, void *mark);
  rg_status (*mark_set)(int32_t device, void *mark);
  rg_status (*mark_follow)(int32_t device, void *mark);
  rg_status (*mark_wait)(int32_t device, void *mark);
  rg_status (*mark_between)(int32_t device, void *from, void *to, double *ns);

  /* What is asked for between begin and end is not done but captured; end gives the graph, or NULL
  ** and why it cannot be had.  Nothing in between may wait or take memory. */
  rg_status (*graph_begin)(int32_t device);
  rg_status (*graph_end)(int32_t device, void **graph);
  rg_status (*graph_run)(int32_t device, void *graph);
  void (*graph_free)(int32_t device, void *graph);

  const rg_tracer *tracer;      /* NULL: what its devices do is not reported */
  const struct rg_comms *comms; /* base/comms.h; NULL: its devices have none */
} rg_driver;

void rg_driver_register(int32_t device, const rg_driver *driver);

/* A device's driver; NULL for the CPU, and for a device that was not opened. */
const rg_driver *rg_driver_of(int32_t device);

/* A backend of devices beside the CPU. */
typedef struct rg_device_source {
  /* what stands before a device's number in its name; always the same text */
  const char *(*prefix)(void);
  /* called once for each device that is asked for and has no driver, until it has one */
  rg_status (*open)(int32_t device);
} rg_device_source;

/* source: is kept; before any device is named. */
void rg_device_source_register(const rg_device_source *source);

/* The streams of a device that anybody ever entered, a bit each; 0 is always one of them. */
uint32_t rg_streams_used(int32_t device);

/* Bytes between any two devices; behind: see rg_driver. */
rg_status rg_device_copy(int32_t to_device, void *to, int32_t from_device, const void *from,
                         int64_t bytes, bool behind) RG_CHECK;

/* How kernels are chosen. */
typedef struct rg_modes {
  rg_device_modes device;
  int32_t gemm; /* path of products on the CPU, RG_GEMM_... */
} rg_modes;

/* What the process is set to (rg_device_modes_now, rg_set_gemm_path). */
rg_modes *rg_modes_of_process(void);

/* Those of this thread: of the process, or, while a plan replays or a graph is emitted, those that
** it was recorded under.  Kernels ask on the thread that called them. */
const rg_modes *rg_modes_now(void);

extern _Thread_local const rg_modes *rg_modes_entered;

/* Set the modes of this thread, which stay the caller's; NULL: those of the process.  Returns what
** was set before.  Inline: each replay does so. */
static inline const rg_modes *rg_modes_enter(const rg_modes *modes)
{
  const rg_modes *before = rg_modes_entered;

  rg_modes_entered = modes;
  return before;
}

bool rg_modes_same(const rg_modes *a, const rg_modes *b);

/* The driver that has pinned memory: that of the device that was opened first; NULL: none was. */
const rg_driver *rg_driver_that_pins(void);

/* The device an event is of. */
int32_t rg_event_device(const rg_event *event);

/* What is freed is freed because a collector found it dead: that pays no debt (rg_memory). */
extern _Thread_local bool rg_memory_collects;

/* A block was taken, or given back, on any device.  cpu: the counters of the CPU, under the lock of
** whoever counts. */
void rg_debt_took(rg_memory *cpu, int64_t bytes);
void rg_debt_gave(rg_memory *cpu, int64_t bytes);

/* -- The ring of events ------------------------------------------------------------ */

/* A bit for each kind of event that a reader of this thread's hears (ridge/ring.h), one for
** rg_call_names, one for recorders at the dispatcher (op/op.h), one for rg_activity_begin.  Who
** runs a call asks this first; 0: nobody looks on. */
extern _Thread_local uint32_t rg_ring_on;
enum {
  RG_RING_NAMED = 1 << 16,
  RG_RING_TOLD = 1 << 17,
  RG_RING_GRAPH = 1 << 18,
  RG_RING_TRACED = 1 << 19,
  RG_RING_ALL_KINDS = (1 << 16) - 1,
  /* what a view asks for, whose own work is less than an event's: the others' kinds are not its */
  RG_RING_VIEWS = RG_RING_NAMED | RG_RING_TOLD | RG_RING_GRAPH | 1 << RG_EVENT_VIEW
};

extern _Thread_local rg_place rg_place_now;

/* The call that was heard last: serial of its event. */
extern _Thread_local int64_t rg_ring_last;

/* Asked where a call that is heard begins, before its time does, and where it has ended (name: NULL
** where it begins, else of its operation), while somebody counts by operation; else NULL. */
typedef struct rg_probe {
  void (*at)(struct rg_probe *self, const char *name);
} rg_probe;
extern _Thread_local rg_probe *rg_ring_probe;

/* An event as it is kept, in two cache lines; what all events of a thread share is not in it.  See
** rg_happening. */
typedef struct rg_noted {
  const char *name;
  const char *path;
  const char *module;
  const char *line;
  int64_t parent;
  int64_t origin;
  int64_t begin; /* by the counter of ring.c */
  int64_t end;   /* -1: it failed, or goes on */
  double flops;
  double bytes;
  int64_t live_bytes;
  union {
    rg_event *from; /* NULL on the CPU, and where it could not be had */
    int64_t block;  /* of RG_EVENT_ALLOC and RG_EVENT_FREE, which have no marks */
  };
  rg_event *to;
  uint32_t readers;
  int32_t shapes;
  int32_t step;
  int32_t stream;
  int32_t n_threads;
  uint8_t kind;
  uint8_t device;
} rg_noted;

/* An event of this thread begins, on its stream of a device.  name: stays.  Gives its serial, or -1
** where nobody hears it or there is no room. */
int64_t rg_ring_begin(int32_t kind, int32_t device, const char *name);

/* It ends.  Gives what is to be filled in, until the next event; NULL: it is not there any more. */
rg_noted *rg_ring_end(int64_t serial);

/* One that takes no time. */
void rg_ring_moment(int32_t kind, int32_t device, const char *name, int64_t bytes,
                    const void *block);

/* So many replays of a CUDA graph went step by step for readers of steps. */
void rg_ring_graph(int64_t n);

/* FNV-1a of a text. */
uint32_t rg_text_hash(const char *text);

/* A text that is kept once for as long as the process lives; NULL: there are too many. */
const char *rg_text_keep(const char *text);

/* -- Work that cannot be stopped ------------------------------------------------- */

/*
** Run a long call of a library that never looks at Ctrl-C, on a thread of its own, while the caller
** waits.  RG_OK: it has run.  Else work is no longer the caller's, and drop(work) ends it: with
** RG_EINTR the caller was asked to stop and goes, while the call runs on to its end, so work may
** not lie on the caller's stack nor use what is the caller's.  One such call at a time: the next
** waits for an abandoned one.
*/
rg_status rg_aside(void (*run)(void *work), void (*drop)(void *work), void *work) RG_CHECK;

/* The same beside an abandoned call, for one that has no compute threads: waking those takes longer
** than a short call. */
rg_status rg_aside_at_once(void (*run)(void *work), void (*drop)(void *work), void *work) RG_CHECK;

/* The library a function is of stays in memory to the end of the process, as an abandoned call
** needs it, whoever unloads it. */
void rg_aside_stays(void (*function)(void));

/* Wait for an abandoned call, as a measurement does. */
rg_status rg_aside_settle(void) RG_CHECK;

/* Is there one? */
bool rg_aside_left(void);

/* The caller's threads that nobody waits for any more, some more or fewer: where the process ends
** while there are any, it ends under them as it does under an abandoned call. */
void rg_aside_stray(int32_t more);

/*
** A kernel asks its stream for several things one after the other, with a workspace of the stream
** between them: other threads that are on the same stream do not come between.  Nothing happens on
** the CPU.
**
** returns  the stream, for rg_stream_let_go
*/
int32_t rg_stream_hold(int32_t device);
void rg_stream_let_go(int32_t device, int32_t stream);

/* -- Device memory --------------------------------------------------------------- */

typedef struct rg_arena rg_arena;

/*
** A block of device memory, 64-byte aligned.
**
** It is used again on the stream it was taken on; whoever uses it on another one says so
** (stream_order.c), and the first is ordered after that when the block is freed.
*/
typedef struct rg_block {
  void *data;
  int64_t bytes;   /* the size class, at least what was asked for */
  rg_arena *arena; /* where it goes back to */
  int32_t device;  /* or RG_PINNED */
  uint8_t stream;
  uint8_t tag;           /* counted under it; 0: none */
  uint16_t site;         /* of the line that took it; 0: not counted by line */
  uint8_t writer;        /* the stream that wrote it last */
  _Atomic uint8_t seen;  /* streams ordered after that write, a bit each */
  _Atomic uint8_t users; /* streams that used it since */
  uint16_t size_class;   /* by which it goes back */
  rg_event **behind; /* pinned: copies that may be under way, RG_DEVICES of them; NULL: none was */
} rg_block;

/* This thread's tag, and what the allocator says to it under its lock (tag.c). */
extern _Thread_local uint8_t rg_tag_now;
void rg_tag_took(int32_t device, uint8_t tag, int64_t bytes);
void rg_tag_gave(int32_t device, uint8_t tag, int64_t bytes);
void rg_tag_reset_peaks(int32_t device);

/* Is memory counted by line, and what the allocator says to that under its lock (site.c). */
extern _Atomic bool rg_sites_on;
uint16_t rg_site_took(int32_t device, int64_t bytes);
void rg_site_gave(int32_t device, uint16_t number, int64_t bytes);
void rg_site_reset_peaks(int32_t device);

/* Memory from the system for the pool, of a size of its own; NULL when there is none. */
void *rg_system_take(int32_t device, int64_t bytes);
void rg_system_give(int32_t device, void *data, int64_t bytes);

/*
** A block of the host's memory with addresses behind it, room in all, into which it may grow: what
** is behind its end is touched by nobody and takes no memory.
**
** rg_system_take_room  NULL: there are no such addresses
** rg_system_grow       false: there is no memory for so much more
** rg_system_give_room  bytes: with all that it grew by
*/
void *rg_system_take_room(int64_t bytes, int64_t room);
bool rg_system_grow(int64_t more);
void rg_system_give_room(void *data, int64_t bytes, int64_t room);

/* Bytes that the system can still give to this process, as files below root ("", or a folder of
** tests) say; INT64_MAX where they do not (available.c). */
int64_t rg_memory_available(const char *root);

/* Bytes of this process that are its own and have been touched; -1 where nothing says so. */
int64_t rg_memory_resident(const char *root);

/* Where the files that say so are: "" but in tests. */
void rg_system_root(const char *root);

/* Is RIDGE_ALLOC_POISON set: is memory full of 0xff whenever it is handed out? */
bool rg_alloc_poisons(void);

/* Take a block: from this thread's arena while a plan is captured, else from the device's pool. */
rg_status rg_block_alloc(int32_t device, int64_t bytes, rg_block *out) RG_CHECK;

/* The same from the device's pool whatever is captured: for what outlives the plan. */
rg_status rg_block_alloc_shared(int32_t device, int64_t bytes, rg_block *out) RG_CHECK;

void rg_block_free(rg_block *block);

/*
** An arena is a private pool: what is freed into it is used again only inside it, so that a plan's
** steps find their buffers undisturbed at replay.  It ends when it is closed and its last block
** came back.
*/
rg_status rg_arena_new(rg_arena **out) RG_CHECK;
void rg_arena_close(rg_arena *arena);

/* A request for the arena's memory may get a larger block that is free: for what is asked for in
** turn, of many sizes, and given back. */
void rg_arena_lends(rg_arena *arena);

/*
** Requests for the CPU's memory may get what another arena's layout leaves free at a time, and what
** that one can grow by: a plan's scratch, while one of its steps runs for the first time.
**
** from  outlives what was borrowed
** at    rg_arena_time when the step was captured; below 0: nothing is known of it, or none runs
*/
void rg_arena_borrow(rg_arena *arena, rg_arena *from, int32_t at);

/* Blocks that it borrowed and has not given back. */
int32_t rg_arena_borrowed(const rg_arena *arena);

/* The time by the layout that the arena obeys; -1: it obeys none. */
int32_t rg_arena_time(const rg_arena *arena);

/* Make an arena this thread's (NULL: none); returns the one before. */
rg_arena *rg_arena_swap(rg_arena *arena);
rg_arena *rg_arena_current(void);

/* A plan ran on a stream: its blocks are free when that is done. */
void rg_arena_ran(rg_arena *arena, int32_t stream);

/* Bytes of system memory the arena holds. */
int64_t rg_arena_bytes(const rg_arena *arena);

/* -- Threads --------------------------------------------------------------------- */

/*
** How many threads a kernel should use for so many elementary operations: one below about a
** million, because waking the second core costs more than it brings (docs/why/decisions.md).
*/
int32_t rg_threads_for(double operations);

/*
** Call f on the processors that this process was given, wherever the calling thread is bound: a
** child would inherit the binding.
*/
void rg_as_given(void (*f)(void *), void *argument);

/*
** Called before several threads compute: where other programs want the processors too they wait for
** each other asleep, and busily where they do not (waits.c).  A look at the clock; of other threads
** than the one that loaded the library, nothing.
*/
void rg_waits_look(void);
bool rg_waits_asleep(void);

/* What it goes by. */
typedef struct rg_waits {
  int64_t looked;  /* clock, ns; 0: never */
  int64_t delayed; /* ns that the thread was ready and did not run */
  double share;    /* of the time, averaged */
  bool asleep;
} rg_waits;

/* A look, with what the thread has waited since it began, ns: are waits asleep from now on? */
bool rg_waits_decide(rg_waits *w, int64_t now, int64_t delayed);

/* At once.  returns  false: the system gives no threads for it */
bool rg_waits_set(bool asleep);

static inline void rg_waits_for(int32_t threads)
{
  if (threads > 1) {
    rg_waits_look();
  }
}

/*
** A lock for a few instructions that two threads hardly ever want at once: one atomic operation,
** where a mutex takes two and a call.  Whoever has to wait longer lets others run.
*/
typedef _Atomic int32_t rg_spin;

void rg_spin_wait(rg_spin *lock);

static inline void rg_spin_enter(rg_spin *lock)
{
  if (atomic_exchange_explicit(lock, 1, memory_order_acquire) != 0) {
    rg_spin_wait(lock);
  }
}

static inline void rg_spin_leave(rg_spin *lock)
{
  atomic_store_explicit(lock, 0, memory_order_release);
}

/* -- Blocks that are handed out again -------------------------------------------- */

/*
** Brings the first lines of a block into L1, to be written: what a collector freed by thousands
** and a list hands out again one after the other lies in L3 at best by then.  `block` may be NULL.
*/
static inline void rg_prefetch_block(const void *block, int64_t bytes)
{
  enum { LINE = 64, MOST_LINES = 4 }; /* from there on the machine's own prefetchers follow */

  for (int64_t at = 0; block != NULL && at < bytes && at < LINE * MOST_LINES; at += LINE) {
    __builtin_prefetch((const char *)block + at, 1);
  }
}

/* -- Signals --------------------------------------------------------------------- */

/* In a compute thread: signals that somebody sends are for others (base/signals.c). */
void rg_signals_elsewhere(void);

/* Before code that moves the stack pointer runs on so many threads, this one among them. */
rg_status rg_signals_ready(int32_t threads);

/* -- Mapped files ---------------------------------------------------------------- */

/*
** Call f(argument), which reads mapped files: false where a page of one was not there any more, and
** f did not come to its end.  f holds no lock and makes nothing that would be lost.
*/
bool rg_guarded(void (*f)(void *), void *argument);

/* -- Random numbers -------------------------------------------------------------- */

/* Take n numbers: the offset before, after which the stream moves on by n. */
uint64_t rg_generator_take(rg_generator *generator, uint64_t n);

/* Numbers that were taken and not used: the next one to ask gets them.  False where somebody has
** taken more since. */
bool rg_generator_give_back(rg_generator *generator, uint64_t offset, uint64_t n);

/* -- Machine --------------------------------------------------------------------- */

/*
** The processor's name, sockets and cores, as a file like /proc/cpuinfo has them.  Without a line
** for it the name stays; without one for sockets or cores there is one, and one core in each.
*/
void rg_machine_read(const char *path, rg_machine *out);

/* -- Clamp ----------------------------------------------------------------------- */

static inline int64_t rg_min_i64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static inline int64_t rg_max_i64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

#endif
