/* SPDX-License-Identifier: MIT */
/*
** cuDNN on a device: a handle and a workspace for each stream, plans that are kept, and the timing
** of candidates.
**
** Nothing is ever freed here but what failed: a CUDA graph that ridge captured may hold a plan's
** kernels and addresses in the workspace as long as the program runs.  A workspace that became too
** small stays beside the larger one, which is at least twice its size.
**
** What is believed of cuDNN, and how a GPU would show it, is in tests/sim/README.md.  That a plan
** made with a handle is the one that was proposed for the described device (tests/gpu), only a GPU
** can confirm.
*/
#include "gpu/dnn/run.h"
#include "gpu/cache.cuh"

#include <string.h>

#include <new>

#if RG_HAS_DNN

enum {
  STREAMS = 4,   /* of a device that cuDNN works on */
  ENTRIES = 512, /* jobs of all devices; those after them are left to ridge's own kernels */
  RUNS = 3,      /* timed, of each candidate */
  BINDS = 16
};

static const int64_t MOST_WORKSPACE = (int64_t)1 << 30; /* it is never given back */

struct rg_dnn_station {
  cudaStream_t stream;
  cudnnHandle_t handle; /* NULL: none yet */
  bool broken;          /* it was tried once */
  char *room;
  int64_t bytes;
};

struct rg_dnn_entry {
  uint64_t hash;
  char *what;
  rg_dnn_job job; /* its `what` is the copy */
  int32_t device;
  rg_dnn_graph *graph;
  rg_dnn_choice choice[RG_DNN_CHOICES];
  int32_t n;   /* choices that have a plan; 0: cuDNN does not do it */
  int32_t now; /* which is run */
  bool tuned;
};

static std::mutex lock;
static rg_dnn_station stations[RG_DEVICES][STREAMS];
static rg_dnn_entry *entries[ENTRIES];
static int32_t n_entries;

/* -- Stations ----------------------------------------------------------------------------- */

static rg_dnn_station *station_of(int32_t device, bool captured)
{
  cudaStream_t stream = rg_gpu_stream(device);
  rg_dnn_station *s = NULL;

  for (int i = 0; i < STREAMS && s == NULL; i++) {
    rg_dnn_station *at = &stations[device][i];

    if (at->handle != NULL || at->broken ? at->stream == stream : !captured) {
      s = at;
    }
  }
  if (s != NULL && s->handle == NULL && !s->broken) {
    const rg_dnn_library *dnn = rg_dnn_open();

    s->stream = stream;
    s->broken = dnn->Create(&s->handle) != CUDNN_STATUS_SUCCESS ||
                dnn->SetStream(s->handle, stream) != CUDNN_STATUS_SUCCESS;
  }
  return s == NULL || s->broken ? NULL : s;
}

static bool grow(rg_dnn_station *s, int64_t bytes, bool captured)
{
  int64_t more = bytes > 2 * s->bytes ? bytes : 2 * s->bytes;
  void *room = NULL;

  if (s->bytes >= bytes) {
    return true;
  }
  if (captured) {
    return false;
  }
  if (cudaMalloc(&room, (size_t)more) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  s->room = (char *)room;
  s->bytes = more;
  return true;
}

static int64_t padded(int64_t bytes)
{
  return (bytes + 255) / 256 * 256;
}

/* -- Entries ------------------------------------------------------------------------------ */

static uint64_t hash_of(int32_t device, const rg_dnn_job &job)
{
  return rg_hash(job.what, (size_t)job.size, RG_HASH_BEGIN ^ (uint64_t)device);
}

static bool same(const rg_dnn_entry *e, uint64_t hash, int32_t device, const rg_dnn_job &job)
{
  const rg_dnn_rules *a = &e->job.rules;
  const rg_dnn_rules *b = &job.rules;

  return e->hash == hash && e->device == device && e->job.build == job.build &&
         e->job.size == job.size && a->deterministic == b->deterministic && a->exact == b->exact &&
         a->no_tensor_cores == b->no_tensor_cores &&
         memcmp(e->what, job.what, (size_t)job.size) == 0;
}

/* Plan the proposals: one, or all that will be timed.  Those that fail or want too much go.  Where
** the same bits are asked for, what was faster this time is no reason to take another engine. */
static void plan(rg_dnn_entry *e, const rg_dnn_target &target)
{
  rg_dnn_choice proposed[RG_DNN_CHOICES];
  bool times = rg_gpu->modes->autotune != 0 && !e->job.rules.deterministic;
  int32_t most = times ? e->job.most : 1;

  e->job.build(e->graph, e->what);
  rg_dnn_close(e->graph, target);
  int32_t n = rg_dnn_choices(e->graph, target, e->job.rules, proposed);

  for (int32_t i = 0; i < n && e->n < most; i++) {
    if (rg_dnn_plan(e->graph, target, &proposed[i]) == CUDNN_STATUS_SUCCESS &&
        proposed[i].workspace <= MOST_WORKSPACE) {
      e->choice[e->n++] = proposed[i];
    }
  }
}

static rg_dnn_entry *entry_of(int32_t device, const rg_dnn_job &job, const rg_dnn_station *s,
                              bool captured)
{
  uint64_t hash = hash_of(device, job);

  for (int32_t i = 0; i < n_entries; i++) {
    if (same(entries[i], hash, device, job)) {
      return entries[i];
    }
  }
  if (captured || n_entries == ENTRIES) {
    return NULL;
  }
  rg_dnn_entry *e = new (std::nothrow) rg_dnn_entry();
  char *what = new (std::nothrow) char[(size_t)job.size];
  rg_dnn_graph *graph = rg_dnn_begin();

  if (e == NULL || what == NULL || graph == NULL) {
    delete e;
    delete[] what;
    rg_dnn_drop(graph);
    return NULL;
  }
  memcpy(what, job.what, (size_t)job.size);
  e->hash = hash;
  e->what = what;
  e->job = job;
  e->job.what = what;
  e->device = device;
  e->graph = graph;
  plan(e, rg_dnn_target{ s->handle, NULL });
  if (e->n == 0) { /* known for the next time */
    rg_dnn_drop(graph);
    e->graph = NULL;
  }
  entries[n_entries++] = e;
  return e;
}

/* -- Running ------------------------------------------------------------------------------ */

/* cuDNN's workspace, then what the graph has of its own, then the job's. */
static int64_t inner_at(const rg_dnn_entry *e)
{
  int64_t most = 0;

  for (int32_t i = 0; i < e->n; i++) {
    most = e->choice[i].workspace > most ? e->choice[i].workspace : most;
  }
  return padded(most);
}

static int64_t room_at(const rg_dnn_entry *e)
{
  int64_t at = inner_at(e);

  for (int32_t i = 0; i < e->graph->n_inner; i++) {
    at += padded(e->graph->inner_bytes[i]);
  }
  return at;
}

bool rg_dnn_ready(int32_t device, const rg_dnn_job &job, rg_dnn_turn *turn)
{
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

  if (cudaStreamIsCapturing(rg_gpu_stream(device), &status) != cudaSuccess) {
    return false;
  }
  bool captured = status != cudaStreamCaptureStatusNone;

  turn->held = std::unique_lock<std::mutex>(lock);
  turn->station = station_of(device, captured);
  turn->entry = turn->station != NULL ? entry_of(device, job, turn->station, captured) : NULL;
  if (turn->entry == NULL || turn->entry->n == 0 ||
      !grow(turn->station, room_at(turn->entry) + padded(job.room), captured)) {
    turn->held.unlock();
    return false;
  }
  turn->room = turn->station->room + room_at(turn->entry);
  rg_gpu_poison(device, turn->station->room, room_at(turn->entry) + padded(job.room));
  return true;
}

/* Pointers by the tensors' uids: the caller's, the graph's own, and its numbers. */
static cudnnStatus_t pack(const rg_dnn_turn *turn, const rg_dnn_bind *bind, int32_t n,
                          rg_dnn_desc into)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_graph *g = turn->entry->graph;
  int64_t uid[BINDS];
  void *data[BINDS];
  void *workspace = turn->station->room;
  char *at = turn->station->room + inner_at(turn->entry);
  cudnnStatus_t status;
  int64_t k = 0;

  for (int32_t i = 0; i < n && k < BINDS; i++, k++) {
    uid[k] = bind[i].uid;
    data[k] = bind[i].data;
  }
  for (int32_t i = 0; i < g->n_inner && k < BINDS; i++, k++) {
    uid[k] = g->inner_uid[i];
    data[k] = at;
    at += padded(g->inner_bytes[i]);
  }
  for (int32_t i = 0; i < g->n_values && k < BINDS; i++, k++) {
    uid[k] = g->value_uid[i];
    data[k] = &g->value[i];
  }
  status =
      dnn->BackendSetAttribute(into, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, k, uid);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = dnn->BackendSetAttribute(into, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                      CUDNN_TYPE_VOID_PTR, k, data);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    status = dnn->BackendSetAttribute(into, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR,
                                      1, &workspace);
  }
  return status == CUDNN_STATUS_SUCCESS ? dnn->BackendFinalize(into) : status;
}

/* Seconds of a candidate, in thousandths; below 0 where it does not run. */
static float time_of(const rg_dnn_turn *turn, rg_dnn_desc plan, rg_dnn_desc pack)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_station *s = turn->station;
  cudaEvent_t begin = NULL;
  cudaEvent_t end = NULL;
  float ms = -1;
  bool runs = cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess &&
              dnn->BackendExecute(s->handle, plan, pack) == CUDNN_STATUS_SUCCESS &&
              cudaEventRecord(begin, s->stream) == cudaSuccess;

  for (int i = 0; i < RUNS && runs; i++) {
    runs = dnn->BackendExecute(s->handle, plan, pack) == CUDNN_STATUS_SUCCESS;
  }
  runs = runs && cudaEventRecord(end, s->stream) == cudaSuccess &&
         cudaEventSynchronize(end) == cudaSuccess &&
         cudaEventElapsedTime(&ms, begin, end) == cudaSuccess;
  if (begin != NULL) {
    (void)cudaEventDestroy(begin);
  }
  if (end != NULL) {
    (void)cudaEventDestroy(end);
  }
  if (!runs) {
    (void)cudaGetLastError();
  }
  return runs ? ms : -1;
}

static void tune(const rg_dnn_turn *turn, rg_dnn_desc pack)
{
  rg_dnn_entry *e = turn->entry;
  float best = -1;

  for (int32_t i = 0; i < e->n; i++) {
    float ms = time_of(turn, e->choice[i].plan, pack);

    if (ms >= 0 && (best < 0 || ms < best)) {
      best = ms;
      e->now = i;
    }
  }
  e->tuned = true;
}

bool rg_dnn_run(rg_dnn_turn *turn, const rg_dnn_bind *bind, int32_t n)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_entry *e = turn->entry;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  rg_dnn_desc into = NULL;
  bool ran = false;

  if (dnn->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &into) ==
          CUDNN_STATUS_SUCCESS &&
      pack(turn, bind, n, into) == CUDNN_STATUS_SUCCESS &&
      cudaStreamIsCapturing(turn->station->stream, &status) == cudaSuccess) {
    if (!e->tuned && e->n > 1 && status == cudaStreamCaptureStatusNone) {
      tune(turn, into);
    }
    ran = dnn->BackendExecute(turn->station->handle, e->choice[e->now].plan, into) ==
          CUDNN_STATUS_SUCCESS;
  }
  if (into != NULL) {
    (void)dnn->BackendDestroyDescriptor(into);
  }
  if (!ran) {
    (void)cudaGetLastError();
    e->n = 0; /* not again */
  }
  return ran;
}

#endif
