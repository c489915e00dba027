/* SPDX-License-Identifier: MIT */
/*
** Communicators by NCCL, as base/comms.h wants them.
**
** Each has a stream of its own, of the highest priority.  NCCL is told not to block (2.14 and
** later): where it would wait for another rank, its functions answer that they are in progress, and
** whoever waits can give up.  Until it says that it is through, its kernels may not be in the
** stream yet, so no mark is set behind them before.
*/
#include <mutex>
#include <stdio.h>
#include <string.h>
#include <vector>

#include "gpu/nccl/comm.cuh"
#include "gpu/nccl/library.cuh"
#include "gpu/pack.cuh"

typedef struct comm {
  int32_t device;
  int32_t rank;
  int32_t size;
  int32_t leaving;
  rg_nccl_comm *handle; /* NULL behind abort */
  cudaStream_t stream;
  rg_comm_call back; /* a max or min of floats, whose keys become them again; count 0: none */
  void *back_from;
  char *room;
  int64_t room_bytes;
  std::vector<void *> outgrown; /* freeing waits for the device, which may wait for a rank */
} comm;

/* Why what is on a device cannot be trusted; empty where it can. */
static char spoilt[RG_DEVICES][512];
static std::mutex lock;

rg_status rg_nccl_told(int32_t device)
{
  std::lock_guard<std::mutex> held(lock);

  return spoilt[device][0] == '\0'
             ? RG_OK
             : rg_gpu->fail(RG_ENET, "%s; what is on the device depends on it", spoilt[device]);
}

/* -- Errors ------------------------------------------------------------------------------------ */

static rg_status failed(const comm *c, const char *what, rg_nccl_result result)
{
  const rg_nccl_library *nccl = rg_nccl_open();
  const char *more = nccl->GetLastError(c != NULL ? c->handle : NULL);
  const bool some = more != NULL && more[0] != '\0';

  return rg_gpu->fail(RG_ENET, "dist: %s: NCCL says: %s%s%.200s%s", what,
                      nccl->GetErrorString(result), some ? " (" : "", some ? more : "",
                      some ? ")" : "");
}

/* Of a function that need not have ended when it returns. */
static rg_status asked(const comm *c, const char *what, rg_nccl_result result)
{
  return result == RG_NCCL_SUCCESS || result == RG_NCCL_IN_PROGRESS ? RG_OK
                                                                    : failed(c, what, result);
}

/* -- Joining ----------------------------------------------------------------------------------- */

static rg_status open_nccl(void)
{
  return rg_nccl_open() != NULL ? RG_OK : rg_gpu->fail(RG_ENOSUP, "NCCL is %s", rg_nccl_note());
}

static rg_status make_id(char *id)
{
  rg_nccl_id made;
  rg_nccl_result result;

  static_assert(sizeof(made) == RG_COMM_ID, "what ranks tell each other");
  RG_TRY(open_nccl());
  result = rg_nccl_open()->GetUniqueId(&made);
  if (result != RG_NCCL_SUCCESS) {
    return failed(NULL, "the id of a communicator", result);
  }
  memcpy(id, &made, sizeof(made));
  return RG_OK;
}

static void release(void *self)
{
  comm *c = (comm *)self;

  (void)cudaSetDevice(c->device - 1);
  if (c->handle != NULL) {
    (void)rg_nccl_open()->CommDestroy(c->handle);
  }
  if (c->stream != NULL) {
    (void)cudaStreamDestroy(c->stream);
  }
  c->outgrown.push_back(c->room);
  for (void *room : c->outgrown) {
    (void)cudaFree(room);
  }
  (void)cudaGetLastError();
  delete c;
}

static rg_status make_stream(comm *c)
{
  int least = 0;
  int greatest = 0;

  RG_CUDA("dist", cudaSetDevice(c->device - 1));
  RG_CUDA("dist", cudaDeviceGetStreamPriorityRange(&least, &greatest));
  return rg_gpu_status("dist",
                       cudaStreamCreateWithPriority(&c->stream, cudaStreamNonBlocking, greatest));
}

static rg_status join(int32_t device, const char *id, int32_t rank, int32_t size, void **out)
{
  rg_nccl_config config = { sizeof(config), (unsigned)RG_NCCL_MAGIC, RG_NCCL_OLDEST, 0, 0 };
  rg_nccl_id given;
  comm *c;
  rg_status status;

  RG_TRY(open_nccl());
  c = new comm();
  c->device = device;
  c->rank = rank;
  c->size = size;
  memcpy(&given, id, sizeof(given));
  status = make_stream(c);
  if (status == RG_OK) {
    status = asked(c, "joining the communicator",
                   rg_nccl_open()->CommInitRankConfig(&c->handle, size, given, rank, &config));
  }
  if (status != RG_OK) {
    c->handle = NULL;
    release(c);
    return status;
  }
  *out = c;
  return RG_OK;
}

static rg_status leave(void *self)
{
  comm *c = (comm *)self;

  RG_CUDA("dist", cudaSetDevice(c->device - 1));
  c->leaving = 1;
  return asked(c, "leaving the communicator", rg_nccl_open()->CommFinalize(c->handle));
}

/* -- Calls ------------------------------------------------------------------------------------- */

/* Room for elements on their way; calls use it in turn, as they are in one stream. */
static rg_status take_room(comm *c, int64_t bytes)
{
  if (bytes > c->room_bytes) {
    const int64_t size = rg_max_i64(bytes, c->room_bytes * 2);
    void *made = NULL;

    RG_CUDA("dist", cudaMalloc(&made, (size_t)size));
    c->outgrown.push_back(c->room);
    c->room = (char *)made;
    c->room_bytes = size;
  }
  return RG_OK;
}

/* The type that elements are added up or compared in, as NCCL has it. */
static int type_of(int32_t dtype)
{
  switch (dtype) {
  case RG_F32:
    return RG_NCCL_F32;
  case RG_F64:
    return RG_NCCL_F64;
  case RG_F16:
    return RG_NCCL_F16;
  case RG_BF16:
    return RG_NCCL_BF16;
  case RG_I64:
    return RG_NCCL_I64;
  case RG_I32:
    return RG_NCCL_I32;
  case RG_I8:
    return RG_NCCL_I8;
  default:
    return RG_NCCL_U8; /* bytes, true and false */
  }
}

/* A reduction as it is asked of NCCL. */
typedef struct reduction {
  const char *from;
  char *to;
  int type;
  int op;
  int64_t bytes; /* of an element */
} reduction;

/* Whose result is which part of the elements: base/comms.h, rg_comm_call.unit. */
static void part_of(const comm *c, const rg_comm_call *call, int32_t rank, int64_t *first,
                    int64_t *n)
{
  const int64_t units = call->count / call->unit;
  const int64_t each = units / c->size;
  const int64_t more = units % c->size; /* of the first ranks one each */

  *first = (rank * each + rg_min_i64(rank, more)) * call->unit;
  *n = (each + (rank < more)) * call->unit;
}

/* Parts that are not all as long: to each rank its own by a reduction of its own, in one group. */
static rg_nccl_result scatter(comm *c, const rg_comm_call *call, const reduction *r)
{
  const rg_nccl_library *nccl = rg_nccl_open();
  rg_nccl_result result = nccl->GroupStart();
  rg_nccl_result end;

  for (int32_t rank = 0; rank < c->size && result == RG_NCCL_SUCCESS; rank++) {
    int64_t first;
    int64_t n;

    part_of(c, call, rank, &first, &n);
    if (n > 0) {
      result = nccl->Reduce(r->from + first * r->bytes, r->to, (size_t)n, r->type, r->op, rank,
                            c->handle, c->stream);
      result = result == RG_NCCL_IN_PROGRESS ? RG_NCCL_SUCCESS : result;
    }
  }
  end = nccl->GroupEnd();
  return result != RG_NCCL_SUCCESS ? result : end;
}

static rg_status reduce(comm *c, const rg_comm_call *call, const reduction *r)
{
  const rg_nccl_library *nccl = rg_nccl_open();
  const int64_t units = call->count / call->unit;

  if (call->kind == RG_COMM_ALL_REDUCE) {
    return asked(
        c, "all_reduce",
        nccl->AllReduce(r->from, r->to, (size_t)call->count, r->type, r->op, c->handle, c->stream));
  }
  if (units % c->size == 0) {
    return asked(c, "reduce_scatter",
                 nccl->ReduceScatter(r->from, r->to, (size_t)(call->count / c->size), r->type,
                                     r->op, c->handle, c->stream));
  }
  return asked(c, "reduce_scatter", scatter(c, call, r));
}

/* Elements of the result that this rank gets. */
static int64_t count_out(const comm *c, const rg_comm_call *call)
{
  int64_t first;
  int64_t n = call->count;

  if (call->kind == RG_COMM_REDUCE_SCATTER) {
    part_of(c, call, c->rank, &first, &n);
  }
  return n;
}

/* The largest or smallest, by keys; what came out becomes floats again when NCCL has taken the
** call. */
static rg_status pick(comm *c, const rg_comm_call *call)
{
  const bool most = call->op == RG_COMM_MAX;
  const bool wide = call->dtype == RG_F64;
  const int64_t bytes = (wide ? (int64_t)sizeof(int64_t) : (int64_t)sizeof(int32_t));
  const int64_t all = call->count * bytes;

  RG_TRY(take_room(c, 2 * all));
  RG_CUDA("dist", rg_nccl_keys(call->dtype, most, call->in, c->room, call->count, c->stream));
  const reduction r = { c->room, c->room + all, wide ? RG_NCCL_I64 : RG_NCCL_I32,
                        most ? RG_NCCL_MAX : RG_NCCL_MIN, bytes };

  c->back = *call;
  c->back_from = r.to;
  return reduce(c, call, &r);
}

/* A sum to which each rank's elements count by a share of their own. */
static rg_status add_shares(comm *c, const rg_comm_call *call, double share)
{
  const int64_t bytes = rg_bytes_of(call->dtype);
  char *scaled = (char *)call->out;

  if (call->kind != RG_COMM_ALL_REDUCE) { /* `out` is shorter */
    RG_TRY(take_room(c, call->count * bytes));
    scaled = c->room;
  }
  RG_CUDA("dist", rg_nccl_scale(call->dtype, call->in, share, scaled, call->count, c->stream));
  const reduction r = { scaled, (char *)call->out, type_of(call->dtype), RG_NCCL_SUM, bytes };

  return reduce(c, call, &r);
}

static rg_status reduction_of(comm *c, const rg_comm_call *call)
{
  const bool floats = rg_dtype_of_kind(call->dtype, RG_KINDS_FLOAT);
  const bool narrow = rg_dtype_of_kind(call->dtype, RG_KIND_HALF);
  const int64_t bytes = rg_bytes_of(call->dtype);
  /* by base/comms.h, which has no 3 */
  const int ops[] = { RG_NCCL_SUM, RG_NCCL_AVG, RG_NCCL_MAX, -1, RG_NCCL_MIN, RG_NCCL_PROD };
  reduction r = { (const char *)call->in, (char *)call->out, type_of(call->dtype), ops[call->op],
                  bytes };

  if ((call->op == RG_COMM_MAX || call->op == RG_COMM_MIN) && floats) {
    return pick(c, call);
  }
  if (call->op == RG_COMM_MEAN && narrow) {
    return add_shares(c, call, 1.0 / c->size);
  }
  if (call->op == RG_COMM_SUM && call->share != 1) {
    return add_shares(c, call, call->share);
  }
  if (call->kind == RG_COMM_REDUCE_SCATTER && call->in == call->out) {
    RG_TRY(take_room(c, call->count * bytes));
    RG_CUDA("dist", cudaMemcpyAsync(c->room, call->in, (size_t)(call->count * bytes),
                                    cudaMemcpyDeviceToDevice, c->stream));
    r.from = c->room;
  }
  return reduce(c, call, &r);
}

static rg_status start(void *self, const rg_comm_call *call)
{
  const rg_nccl_library *nccl = rg_nccl_open();
  comm *c = (comm *)self;
  const size_t bytes = (size_t)(call->count * rg_bytes_of(call->dtype));

  RG_CUDA("dist", cudaSetDevice(c->device - 1));
  RG_CUDA("dist", cudaStreamWaitEvent(c->stream, (cudaEvent_t)call->behind, 0));
  RG_CUDA("dist", cudaEventRecord((cudaEvent_t)call->begun, c->stream));
  switch (call->kind) {
  case RG_COMM_BROADCAST:
    return asked(
        c, "broadcast",
        nccl->Broadcast(call->in, call->out, bytes, RG_NCCL_U8, call->root, c->handle, c->stream));
  case RG_COMM_ALL_GATHER:
    return asked(c, "all_gather",
                 nccl->AllGather(call->in, call->out, bytes, RG_NCCL_U8, c->handle, c->stream));
  default:
    return reduction_of(c, call);
  }
}

/* -- Waiting ----------------------------------------------------------------------------------- */

static rg_status settled(void *self, bool *done)
{
  comm *c = (comm *)self;
  rg_nccl_result state = RG_NCCL_SUCCESS;
  rg_nccl_result result = rg_nccl_open()->CommGetAsyncError(c->handle, &state);

  if (result != RG_NCCL_SUCCESS) {
    return failed(c, "the communicator", result);
  }
  RG_TRY(asked(c, "the communicator", state));
  *done = state == RG_NCCL_SUCCESS;
  if (*done && c->back.count > 0) {
    const rg_comm_call call = c->back;

    const int64_t n = count_out(c, &call);

    c->back.count = 0;
    if (n > 0) { /* else no row of a reduce_scatter is this rank's */
      RG_CUDA("dist", cudaSetDevice(c->device - 1));
      RG_CUDA("dist", rg_nccl_from_keys(call.dtype, c->back_from, call.out, n, c->stream));
    }
  }
  return RG_OK;
}

static rg_status set(void *self, void *mark)
{
  comm *c = (comm *)self;

  RG_CUDA("dist", cudaSetDevice(c->device - 1));
  return rg_gpu_status("dist", cudaEventRecord((cudaEvent_t)mark, c->stream));
}

static rg_status passed(void *self, void *mark, bool *out)
{
  comm *c = (comm *)self;
  cudaError_t error = cudaSetDevice(c->device - 1);

  error = error == cudaSuccess ? cudaEventQuery((cudaEvent_t)mark) : error;
  *out = error == cudaSuccess;
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();
    return RG_OK;
  }
  return rg_gpu_status("dist", error);
}

/* What is said first, so that nobody who waits for the device goes on without having heard it. */
static void give_up(void *self, const char *why)
{
  comm *c = (comm *)self;
  rg_nccl_comm *handle = c->handle;

  if (why != NULL) {
    std::lock_guard<std::mutex> held(lock);

    snprintf(spoilt[c->device], sizeof(spoilt[c->device]), "%.480s", why);
  }
  c->handle = NULL;
  if (handle != NULL) {
    (void)cudaSetDevice(c->device - 1);
    (void)rg_nccl_open()->CommAbort(handle);
  }
}

const rg_comms rg_nccl_comms = { "NCCL", open_nccl, make_id, join,  start,  settled,
                                 set,    passed,    give_up, leave, release };
