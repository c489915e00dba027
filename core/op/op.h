/* SPDX-License-Identifier: MIT */
/*
** The contract of an operation: everything about it that is not a kernel is one rg_op record, and
** every call of it goes through rg_run (core/op/run.c).
**
** The dispatcher does, in this order: check the inputs (types that are only stored go to operations
** that say so), apply autocast, infer the outputs, convert the inputs to one element type where the
** record asks for it, allocate, take the random numbers, pick the backend's kernel, run it, count
** the writes, tell the recorders.  While a plan is captured the kernel runs inside the plan's new
** step, so that what it keeps in its memo is there when the step is replayed.
*/
#ifndef RIDGE_OP_OP_H
#define RIDGE_OP_OP_H

#include "base/base.h"
#include "op/schema.h"
#include "ridge/op.h"
#include "tensor/tensor.h"

typedef struct rg_op rg_op;
typedef struct rg_call rg_call;
typedef struct rg_frame rg_frame;

/* A backend's implementation.  out[i] is allocated and has the shape and type of call->out[i]; it
** is contiguous unless the caller chose to write into a tensor of his own (then any strides).
** A kernel runs no operations: a plan would replay them twice, by themselves and inside it. */
typedef rg_status rg_kernel(const rg_call *call, rg_tensor *const *out, rg_frame *frame);

/* What one call costs at best; the profiler divides it by the time taken. */
typedef struct rg_cost {
  double flops; /* arithmetic operations */
  double bytes; /* each tensor crossing memory once */
} rg_cost;

/*
** Random numbers of one call: n numbers from offset on.  They are others at each replay, so what a
** gradient has to know of them (dropout's mask) is a hidden result, never the call's copy.
*/
typedef struct rg_draw {
  uint64_t seed;
  uint64_t offset;
} rg_draw;

enum {
  RG_NO_VIEW = -1,        /* see rg_op.view */
  RG_MAX_OUT = 8,         /* results and hidden results together; inputs have no maximum */
  RG_SAVE_ALL = INT32_MIN /* in save_in, save_out: every one */
};

/* One call in flight.  Plan steps and the tape keep a copy, args and inputs included. */
struct rg_call {
  const rg_op *op;
  const rg_tensor *const *in; /* optional inputs may be NULL */
  int32_t n_in;
  int32_t device;
  const void *args;        /* the op's own struct, op->args_size bytes, no pointers inside */
  rg_generator *generator; /* for ops that draw: where from; NULL for the default */
  bool tracked;            /* the tape will be told: filled by the dispatcher */
  bool whole;              /* hidden results are handed out like others: rg_run_whole */
  bool drew;               /* it took numbers, and no recorder knows: given back if it fails */
  /* filled by infer */
  int32_t compute;     /* dtype the inputs are converted to first (but see the roles of schema.h);
                          ** -1: they stay as they are.  Products set it to rg_autocast_for(call) */
  int32_t weight_cast; /* type that weights (RG_ROLE_WEIGHT) are read in, RG_BF16 or RG_F16, or any
                          ** other: then as they are */
  int32_t n_out;       /* results and, behind them, hidden results for the gradient */
  int64_t scratch_bytes; /* needed while the kernel runs, 64-byte aligned */
  int64_t n_draws;       /* random numbers taken */
  rg_meta out[RG_MAX_OUT];
  /* filled by the dispatcher */
  rg_draw draw;
  const rg_draw *draw_at; /* where a kernel of a device finds it instead, in its memory; or NULL */
};

/* What a kernel gets beside the call. */
struct rg_frame {
  void *scratch;    /* call->scratch_bytes */
  rg_memo **memo;   /* a step's place to keep what was worked out once; NULL in eager calls */
  const char *path; /* the kernel may name itself, or its library, for events */
};

struct rg_choice;

/* Kept between replays by a step, released with it.  Kernels derive their own struct from it. */
struct rg_memo {
  void (*release)(rg_memo *memo);
  /* The i-th product whose path was chosen, and by what, RG_BY_...; RG_BY_NONE: there is none.
  ** NULL where a kernel chooses nothing. */
  int32_t (*chosen)(const rg_memo *memo, int32_t i, struct rg_choice *out);
};

/* What a gradient rule gets: it writes new references into dx for the inputs that need one. */
typedef struct rg_grad rg_grad;
struct rg_grad {
  const rg_call *call;    /* in[i] only where save_in says so; out[] as infer filled it */
  const rg_meta *in;      /* type and shape of every input, saved or not */
  rg_tensor *const *out;  /* only where save_out says so; hidden results always */
  rg_tensor *const *dout; /* NULL where no gradient flows */
  const bool *needs;      /* n_in of them */
  rg_tensor **dx;         /* n_in, NULL at first */
  /* The rule does not read out[i] any more: its memory may go before the rule's end. */
  void (*let_go)(rg_grad *g, int32_t i);
  /* Where dx[i] is to be made, or NULL: anywhere (rg_target, rg_rule_into). */
  rg_tensor *(*target)(const rg_grad *g, int32_t i);
};

/* How a view lies in the memory of its tensor. */
typedef struct rg_layout {
  int32_t ndim;          /* x's at first; RG_NO_VIEW: the strides allow none, and the body runs */
  uint32_t flags;        /* RG_TENSOR_... beside those that x hands on; 0 at first */
  int64_t offset;        /* elements from x's first to the view's; 0 at first */
  const int64_t *shape;  /* x's at first */
  const int64_t *stride; /* strides at first */
  int64_t sizes[RG_MAX_DIMS]; /* room for both */
  int64_t strides[RG_MAX_DIMS];
} rg_layout;

/* Everything about an operation that is not a kernel. */
struct rg_op {
  const char *name;
  const char *doc; /* one line, for help and tables */
  int32_t id;      /* RG_OP_...; -1 for an operation outside list.h, which brings its own kernel */
  int32_t amp;     /* RG_AMP_... */
  int32_t save_in; /* bit i: the gradient reads input i */
  int32_t save_out;
  const rg_input *input; /* RG_INPUTS: what each is, in the order of the call */
  int32_t n_inputs;
  int32_t n_args;
  const rg_arg *arg; /* RG_ARGS: what each is */
  uint32_t args_size;
  int32_t n_hidden;               /* results behind the visible ones that only the gradient reads */
  const char *result[RG_MAX_OUT]; /* names of the results, hidden ones too */
  bool draws;                     /* takes random numbers */
  bool writes;                    /* some input is RG_ROLE_STATE */
  bool method;                    /* a method of tensors, under its own name */
  bool into;    /* as a method it writes into its tensor: what it makes has the shape of that */
  int32_t over; /* input, from 1, in whose memory the kernel may make its result; 0: in none's */
  bool stored;  /* results may be of a type that is only stored (f8e4m3, f8e5m2) */
  bool moves;   /* from one device to another: its gradient goes back as early as it can */

  /* Check the inputs and fill the call.  Runs before any allocation. */
  rg_status (*infer)(rg_call *call);

  /* The gradient, made of operations; NULL if there is none (yet). */
  rg_status (*grad)(rg_grad *g);

  /* Where it depends on the arguments what the gradient reads: takes bits out of the masks, which
  ** come as save_in and save_out say.  NULL: it does not depend. */
  void (*save)(const rg_call *call, int32_t *in, int32_t *out);

  rg_cost (*cost)(const rg_call *call);

  /* For operations outside list.h only. */
  rg_kernel *kernel;

  /* Records without a kernel have one of these, or both; rg_run_view and rg_run_compound are their
  ** doors.
  **
  ** view    checks the arguments, resolves what is negative in them, and says how the view lies
  ** expand  runs the body, operations that go through the dispatcher themselves, and makes new
  ** results;
  **         infer then only checks the inputs and sets call->n_out */
  rg_status (*view)(const rg_op *op, const rg_tensor *x, void *args, rg_layout *at);
  rg_status (*expand)(const rg_call *call, rg_tensor **out);
};

/* -- The dispatcher ---------------------------------------------------------------- */

/*
** Run one call.
**
** call     op, in, n_in, args, generator set; the rest is filled here
** out      the visible results: NULL entries are allocated and are new references on success;
**          others are written into (their shape and type must be the result's) and keep their owner
** Hidden results are made only when a recorder wants them.
*/
rg_status rg_run(rg_call *call, rg_tensor **out) RG_CHECK;

/* The same with hidden results handed out too: out has room for them, and NULL entries of theirs
** are allocated.  For who keeps them himself, and has no tape to do it. */
rg_status rg_run_whole(rg_call *call, rg_tensor **out) RG_CHECK;

/* Run one call whose visible results are all new; what lies in out before does not matter. */
rg_status rg_run_fresh(rg_call *call, rg_tensor **out) RG_CHECK;

/* The usual case: n inputs, args, one new result. */
rg_status rg_run1(const rg_op *op, const rg_tensor *const *in, int32_t n_in, const void *args,
                  rg_tensor **out) RG_CHECK;

/* The same with the result written into x. */
rg_status rg_run_into(const rg_op *op, const rg_tensor *const *in, int32_t n_in, const void *args,
                      rg_tensor *x) RG_CHECK;

/*
** Where a result of a call to come is to be made, for a caller who does not make that call himself:
** the next call of op on this thread makes result i of the type and size of x in x's memory, unless
** it reads that.  x, contiguous: its whole storage; NULL: nothing is asked for.  It is borrowed
** until the call or rg_targets_clear; rg_target_drop takes back what was asked for x.
*/
void rg_target(const rg_op *op, int32_t i, rg_tensor *x);
void rg_target_drop(const rg_tensor *x);
void rg_targets_clear(void);

/* Result i of a call, undefined so far: where it is to be made, else in new memory. */
rg_status rg_make_result(const rg_call *call, int32_t i, rg_tensor **out) RG_CHECK;

/* A view of x; args: the record's own struct, whose negative axes are resolved in it. */
rg_status rg_run_view(const rg_op *op, const rg_tensor *x, void *args, rg_tensor **out) RG_CHECK;

/* A call of a record with a body.  call: as for rg_run; out: new results.  Where somebody looks on
** it is a range, and what runs in it says so. */
rg_status rg_run_compound(rg_call *call, rg_tensor **out) RG_CHECK;

/* The same, of n inputs and args. */
rg_status rg_run_body(const rg_op *op, const rg_tensor *const *in, int32_t n_in, const void *args,
                      rg_tensor **out) RG_CHECK;

/* -- Recorders ---------------------------------------------------------------- */

/*
** Told of every call of a kernel on this thread, after it ran and its writes were counted, and
** before the tape: a recorder may yet fail the call, as that of rg_grad_anomaly does.  The plan
** under capture is none: it runs the call itself; nor is the ring of events (observe.c).
**
** out[i] may be a tensor the call was told to write into, which then shares storage with what was
** there before (an input, a view of a larger tensor).  Where that overlaps an input in another
** arrangement, the recorder sees the call write into a fresh tensor and then a copy of that.
*/
typedef struct rg_recorder rg_recorder;
struct rg_recorder {
  rg_status (*ran)(rg_recorder *self, const rg_call *call, rg_tensor *const *out);
  rg_recorder *next;
};

void rg_recorder_push(rg_recorder *recorder);
void rg_recorder_pop(rg_recorder *recorder);

/* -- Events (observe.c) -------------------------------------------------------- */

/*
** A call begins, while rg_ring_on: an operation's (RG_EVENT_OP) or a step's.  Gives what ends it,
** -1 where there is nothing to end; a call that fails is never ended.
*/
int64_t rg_observe_begin(const rg_call *call, int32_t kind);
void rg_observe_end(int64_t begun, const rg_call *call, rg_tensor *const *out, const char *path);

/*
** The same of a plan's step.  A replay repeats calls with the same tensors and arguments, so what
** they cost and their shapes are found once, a third of what an event costs.
*/
typedef struct rg_observed {
  rg_cost cost;
  int32_t shapes; /* rg_shapes_of */
  bool is_there;
} rg_observed;

void rg_observe_step_end(int64_t begun, const rg_call *call, rg_tensor *const *out,
                         const char *path, int32_t step, rg_observed *known);

/* An id for the types and shapes of a call's inputs and results, for rg_shapes_text. */
int32_t rg_shapes_of(const rg_call *call, rg_tensor *const *out);

/*
** The tape registers itself, so that op does not need to know what one is.  check: may the call
** run, given its results?  ran: as a recorder's, for calls that gradient flows through.
*/
typedef struct rg_tape_hooks {
  rg_status (*check)(const rg_call *call, rg_tensor *const *out);
  rg_status (*ran)(const rg_call *call, rg_tensor *const *out);
} rg_tape_hooks;

extern const rg_tape_hooks *rg_tape;

/*
** The recorder of a graph registers itself while it is on (RG_RING_GRAPH), for the same reason.  It
** is told of every kernel's call and every view behind it, and of the beginning and end of every
** body; out NULL: the body failed.  knows: has it met the storage?
*/
typedef struct rg_graph_hooks {
  bool (*knows)(const rg_storage *storage);
  rg_status (*ran)(const rg_call *call, rg_tensor *const *out);
  rg_status (*begin)(const rg_call *call, int32_t *node);
  rg_status (*end)(const rg_call *call, int32_t node, rg_tensor *const *out);
} rg_graph_hooks;

extern _Thread_local const rg_graph_hooks *rg_graph_recorder;

/* How many numbers calls of this thread have drawn from the default stream. */
extern _Thread_local uint64_t rg_numbers_drawn;

/*
** A capture runs the call inside a new step: set while one is under way on this thread.  Graph
** registers it, so that op does not need to know what a plan is.
*/
typedef rg_status rg_capture_hook(const rg_call *call, rg_kernel *kernel, rg_tensor *const *out,
                                  rg_frame *frame);
extern _Thread_local rg_capture_hook *rg_capture_active;

/* The same capture is dry: steps are made and no kernel runs, so that nothing is drawn, counted as
** written or told to recorders. */
extern _Thread_local bool rg_capture_dry;

/* Run a kernel with its scratch; used by the dispatcher and by replay. */
rg_status rg_execute(const rg_call *call, rg_kernel *kernel, rg_tensor *const *out,
                     rg_frame *frame) RG_CHECK;

/* -- Weights in a lower-precision type (weight_cast.c) ------------------------------------- */

enum { RG_MAX_WEIGHT_CASTS = 4 }; /* inputs of a call */

/* Is x a weight that is kept in this type beside its own? */
bool rg_weight_casts(const rg_tensor *x, int32_t dtype);

/* x, for which rg_weight_casts, in that type: as it is kept, or made and kept.  as: filled; it is
** no tensor of its own, and its storage is a reference to be released. */
rg_status rg_weight_cast(const rg_tensor *x, int32_t dtype, rg_tensor *as) RG_CHECK;

/* The same as a tensor, for calls that read it in that type: a graph that is recorded has the
** conversion as a node.  out: new reference. */
rg_status rg_weight_cast_view(const rg_tensor *x, int32_t dtype, rg_tensor **out) RG_CHECK;

/* This thread's capture is over: what was made in it belongs to the plan alone. */
void rg_weight_cast_end(void);

/* A step of this thread's dry capture writes to a storage. */
void rg_weight_cast_wrote(const rg_storage *of);

/* -- Backends ------------------------------------------------------------------ */

/* Kernels of one kind of device, by op id; NULL where it has none. */
typedef struct rg_backend {
  const char *name;
  rg_kernel *const *kernels;
  const bool *varies; /* by op id: may it give other bits from run to run, unless the modes are
                      ** deterministic?  NULL: none does */
  rg_status (*foresee)(const rg_call *call, rg_tensor *const *out); /* NULL: nothing is known */
} rg_backend;

/* In a dry capture: ask for what the call's kernel will take when it runs, beside its scratch, and
** give it back.  Not all kernels tell. */
rg_status rg_backend_foresee(const rg_call *call, rg_tensor *const *out) RG_CHECK;

void rg_backend_register(int32_t device, const rg_backend *backend);
rg_kernel *rg_backend_kernel(int32_t device, const rg_op *op);

/* May the operation give other bits from run to run on a device, by these modes? */
bool rg_backend_varies(int32_t device, const rg_op *op, const rg_modes *modes);

/* The records of list.h, by id. */
extern const rg_op *const rg_ops[];

/* Copy y into x, which is on another device (device.c). */
rg_status rg_copy_across(rg_tensor *x, const rg_tensor *y) RG_CHECK;

/* -- For infer functions --------------------------------------------------------- */

/* Type and shape of a tensor. */
rg_meta rg_meta_of(const rg_tensor *x);
int64_t rg_meta_count(const rg_meta *meta);
int64_t rg_meta_bytes(const rg_meta *meta);
bool rg_meta_same(const rg_meta *a, const rg_meta *b);

/* Does the call write into input i? */
static inline bool rg_call_writes(const rg_call *call, int32_t i)
{
  return call->op->writes && rg_input_of(call, i)->role == RG_ROLE_STATE;
}

/* Resolve a negative axis; RG_EAXIS names the op, the axis and the shape. */
rg_status rg_axis_resolve(const rg_op *op, const rg_tensor *x, int32_t axis, int32_t *out) RG_CHECK;

/* The type two types meet at. */
int32_t rg_promote(int32_t a, int32_t b);

/* Is it a floating type that is computed with?  Those that are only stored are none. */
bool rg_dtype_is_float(int32_t dtype);

/* RG_EDTYPE, with what to do about it, for a type that is only stored (f8e4m3, f8e5m2). */
rg_status rg_check_computes(const rg_op *op, int32_t dtype) RG_CHECK;

/* The shape two shapes broadcast to, into out->shape and ndim. */
rg_status rg_broadcast(const rg_op *op, const rg_tensor *x, const rg_tensor *y,
                       rg_meta *out) RG_CHECK;

/* The autocast type for the float inputs of call (its class and this thread's setting), or -1. */
int32_t rg_autocast_for(const rg_call *call);

/* Cost of reading every input and writing every output once, with flops arithmetic operations. */
rg_cost rg_cost_of(const rg_call *call, double flops);

/* Is x stored row-major without gaps? */
static inline bool rg_is_contiguous(const rg_tensor *x)
{
  return (x->_flags & RG_TENSOR_CONTIGUOUS) != 0;
}

#endif
