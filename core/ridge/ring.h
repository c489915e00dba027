/* SPDX-License-Identifier: MIT */
/*
** What happened: one ring of events for each thread.  Profiles, timelines and whatever else looks
** on are readers of it: while none is on, nothing is recorded, and that costs a call one branch.
*/
#ifndef RIDGE_RING_H
#define RIDGE_RING_H

#include "ridge/base.h"

/* What an event is of. */
enum {
  RG_EVENT_OP,    /* a call of an operation */
  RG_EVENT_VIEW,  /* a view was made */
  RG_EVENT_COPY,  /* a copy between devices */
  RG_EVENT_PLAN,  /* replays of a plan, asked for together */
  RG_EVENT_STEP,  /* a step of one of them */
  RG_EVENT_RANGE, /* what has a name and others in it: a module's call, ridge.profile_range, a call
                  ** of an operation that is made of several (it has shapes) */
  RG_EVENT_ALLOC, /* a block was taken, `bytes` large */
  RG_EVENT_FREE,  /* or given back */
  RG_EVENT_WAIT,  /* the host waited for a device */
  RG_EVENT_COUNT
};

/* One event.  Texts are kept for as long as the process lives. */
typedef struct rg_happening {
  const char *name;   /* of the operation, the range, what was waited for */
  const char *path;   /* the kernel or library that ran; "" where there is one only */
  const char *module; /* the module whose call it was in, as a path: "encoder.3.mlp"; NULL: none */
  const char *line;   /* that made it, where lines are told (rg_line_set); NULL: not known */
  int64_t serial;     /* events of a thread are numbered in the order they began */
  int64_t parent;     /* serial of the plan or range it was in; -1: of none */
  int64_t origin;     /* of part of a gradient: serial of the call whose gradient it is; -1: of
                      ** none, or of one that was not heard */
  int64_t begin_ns;   /* on the host's clock */
  int64_t end_ns;     /* -1: it failed, or goes on */
  double from_ns;     /* beginning and end as its stream saw them, on the host's clock; NaN of a */
  double to_ns;       /* device where the reader has no axis */
  double device_ns;   /* what a device needed, by its own clock; NaN on the CPU */
  double flops;
  double bytes;       /* read and written, copied, taken */
  int64_t live_bytes; /* of its device, when it had ended */
  int64_t block;      /* where it lies, of one that was taken or given back; else 0 */
  int32_t kind;
  int32_t device;
  int32_t stream;
  int32_t thread;    /* threads that record are numbered from 1 */
  int32_t shapes;    /* see rg_shapes_text; -1: not known */
  int32_t step;      /* of its plan, from 0; of a plan its number; -1: neither */
  int32_t n_threads; /* that the CPU computed with */
  uint32_t readers;  /* that were on, a bit each */
} rg_happening;

enum { RG_EVENT_BYTES = 128 }; /* that one takes in a ring */

/* How a reader reads. */
enum {
  RG_READ_FIRST = 1, /* the first events, as many as its capacity, instead of the last */
  RG_READ_AXIS = 2   /* from_ns and to_ns on one axis: waits for all devices first */
};

/*
** A new reader of this thread's events, which is on.
**
** kinds    a bit for each kind that it hears: 1 << RG_EVENT_OP ...  While somebody hears steps, a
**          CUDA graph is replayed step by step
** how      RG_READ_...
** capacity events, 1 .. 2^24, that are kept at least; but a thread's ring has at most 64 MB
** reader   out: its number
** RG_EARG, also for more than 24 of a thread; RG_ENOMEM, RG_EDEVICE.
*/
RG_API rg_status rg_reader_open(int32_t kinds, int32_t how, int64_t capacity,
                                int32_t *reader) RG_CHECK;

/* Take memory for the next n events of a reader, as far as its capacity: where the system gives it
** page by page while events come, each of them is slower.  Where there is none nothing happens. */
RG_API void rg_reader_reserve(int32_t reader, int64_t n);

/* Let a reader hear nothing for a while (on: 0), or go on (1). */
RG_API void rg_reader_hear(int32_t reader, int32_t on);

/*
** The next event that the reader heard.
**
** at       in: the serial to begin at, 0 at first; out: where to go on
** out      filled; waits for a device to be through with it
** Behind the last one the name is NULL.  RG_EARG, RG_EDEVICE.
*/
RG_API rg_status rg_reader_next(int32_t reader, int64_t *at, rg_happening *out) RG_CHECK;

typedef struct rg_reader_facts {
  int64_t n_seen;    /* events that began while it was on */
  int64_t n_dropped; /* of them, those that are not there any more, or never were */
  int64_t n_graphs;  /* replays that would have been CUDA graphs, and went step by step for it */
  int64_t begin_ns;  /* it was opened */
} rg_reader_facts;

/* What a reader has seen.  out: filled.  RG_EARG. */
RG_API rg_status rg_reader_facts_of(int32_t reader, rg_reader_facts *out) RG_CHECK;

/* The serial that the next event of this thread has. */
RG_API int64_t rg_ring_serial(void);

/* Release a reader; without any a thread's ring has no memory. */
RG_API void rg_reader_close(int32_t reader);

/* Tensors of an event by its `shapes`: "f32[2,3] f32[4,3] f32[4] -> f32[2,4]"; "" for -1.  A
** process remembers 8,192 combinations: those of further ones are "(too many shapes)".  A reference
** that stays. */
RG_API const char *rg_shapes_text(int32_t shapes);

/* -- Ranges ------------------------------------------------------------------------------------ */

/* Where a thread is: the event that others are in, the module, the line of the caller's source,
** NULL where nobody asks for it, and the call whose gradient is being computed, -1 of none. */
typedef struct rg_place {
  int64_t parent;
  const char *module;
  const char *line;
  int64_t origin;
} rg_place;

/* Calls from here on are made by this line, "user.lua:12": the tape and recordings of graphs
** remember it.  NULL: not known.  The text is copied, once for all calls of the line. */
RG_API void rg_line_set(const char *line);

/*
** A range begins.  Steps of a plan that is captured remember the module too.
**
** name     is copied, once for all ranges of the name
** module   1: it is the call of a module, and name its path
** before   out: for the end
** Returns its serial; -1: nobody looks on.
*/
RG_API int64_t rg_range_begin(const char *name, int32_t module, rg_place *before);

/* The name of ranges that begin often, kept once: a reference that stays; NULL of NULL.  Where
** there are too many names it is "(too many names)", for all further ones. */
RG_API const char *rg_range_name(const char *name);

/* A range that begins often: its name is not looked up, and all that is told of it is one pointer,
** because each argument of a call from Lua costs as much as a part of the event. */
typedef struct rg_range {
  rg_place before;  /* its beginning fills it */
  int64_t serial;   /* and this: -1 where nobody looks on */
  const char *name; /* of rg_range_name */
  int32_t module;   /* as rg_range_begin has it */
} rg_range;

/* It begins. */
RG_API void rg_range_enter(rg_range *range);

/* It ends. */
RG_API void rg_range_leave(const rg_range *range);

/* It ends.  range, before: what its beginning gave. */
RG_API void rg_range_end(int64_t range, const rg_place *before);

/* Let another place be this thread's, as coroutines have each their own.  Gives the one before. */
RG_API void rg_place_swap(rg_place *place);

#endif
