/* SPDX-License-Identifier: MIT */
/*
** cuDNN on a device: a handle and a workspace for each stream, plans that are kept, and the timing
** of candidates.
**
** A plan takes cuDNN up to seconds.  So a job is planned when it comes for the second time, at once
** only where it will come again (a plan's step), where bits must not change from the first call to
** the second, and where it is known from a file; and one plan is made, of the heuristic's first
** proposal, unless more were asked for (rg_device_modes.autotune).  Which of them was the fastest
** is kept in cudnn.txt (gpu/cache.cuh): lines of a job's hash, the number of the proposal, and a
** checksum.  The last line for a job counts; a line that is anything else is left out.
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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>
#include <unordered_map>
#include <unordered_set>

#include "gpu/cache.cuh"
#include "gpu/stream.cuh"

#if RG_HAS_DNN

enum {
  STREAMS = 4,    /* of a device that cuDNN works on */
  ENTRIES = 4096, /* jobs of all devices; those after them are left to ridge's own kernels */
  SEEN = 1 << 16, /* that came once; then they are forgotten */
  RUNS = 3,       /* timed, of each candidate */
  BINDS = 16
};

static const int64_t MOST_WORKSPACE = (int64_t)1 << 30; /* it is never given back */

struct rg_dnn_station {
  int32_t index;        /* of the stream */
  cudaStream_t stream;  /* the handle works on: another one while a graph is captured */
  cudnnHandle_t handle; /* NULL: none yet */
  bool broken;          /* it was tried once */
  char *room;
  int64_t bytes;
};

struct rg_dnn_entry {
  char *what;
  rg_dnn_job job; /* its `what` is the copy */
  int32_t device;
  rg_dnn_graph *graph;
  rg_dnn_choice choice[RG_DNN_CHOICES];
  int32_t number[RG_DNN_CHOICES]; /* of the proposal */
  int32_t n;                      /* choices that have a plan; 0: cuDNN does not do it */
  int32_t now;                    /* which is run */
  bool tuned;
  rg_dnn_entry *next; /* of the same hash */
};

static std::mutex lock;
static rg_dnn_station stations[RG_DEVICES][STREAMS];
/* Never destroyed: the program may compute while it exits. */
static auto &entries = *new std::unordered_map<uint64_t, rg_dnn_entry *>;
static auto &seen = *new std::unordered_set<uint64_t>;
static auto &winners = *new std::unordered_map<uint64_t, int32_t>;
static int32_t n_entries;

/* -- Stations ----------------------------------------------------------------------------- */

static rg_dnn_station *station_of(int32_t device, bool captured)
{
  cudaStream_t stream = rg_gpu_stream(device);
  int32_t index = rg_gpu_stream_now(device);
  rg_dnn_station *s = NULL;

  for (int i = 0; i < STREAMS && s == NULL; i++) {
    rg_dnn_station *at = &stations[device][i];

    if (at->handle != NULL || at->broken ? at->index == index : !captured) {
      s = at;
    }
  }
  if (s != NULL && s->handle == NULL && !s->broken) {
    s->index = index;
    s->broken = rg_dnn_open()->Create(&s->handle) != CUDNN_STATUS_SUCCESS;
  }
  if (s != NULL && !s->broken && s->stream != stream) {
    s->broken = rg_dnn_open()->SetStream(s->handle, stream) != CUDNN_STATUS_SUCCESS;
    s->stream = stream;
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

/* -- Winners ------------------------------------------------------------------------------ */

static const char NAME[] = "cudnn.txt";
static const size_t MOST_BYTES = 4 << 20; /* of lines; then the file starts again */

static uint64_t checked(uint64_t job, int32_t number)
{
  return rg_hash(&number, sizeof(number), rg_hash(&job, sizeof(job), RG_HASH_BEGIN));
}

/* A job for every process with this cuDNN on this kind of GPU; what is built is in its size. */
static uint64_t lasting(int32_t device, const rg_dnn_job &job)
{
  const int64_t facts[] = { (int64_t)rg_dnn_open()->version, rg_gpu_identity(device), job.size,
                            job.rules.deterministic | job.rules.exact << 1 |
                                job.rules.no_tensor_cores << 2 };

  return rg_hash(job.what, (size_t)job.size, rg_hash(facts, sizeof(facts), RG_HASH_BEGIN));
}

static void load_winners(void)
{
  static bool loaded;
  size_t bytes = 0;
  size_t n = 0;

  if (loaded) {
    return;
  }
  loaded = true;
  char *all = rg_cache_read(NAME, MOST_BYTES, &bytes);
  const char *at = all;
  const char *from;

  while (all != NULL && (from = rg_cache_line(&at, all + bytes, &n)) != NULL) {
    char line[64];
    unsigned long long job;
    unsigned long long check;
    int number;

    (void)snprintf(line, sizeof(line), "%.*s", (int)(n < 64 ? n : 0), from);
    if (sscanf(line, "%16llx %d %16llx", &job, &number, &check) == 3 && number >= 0 &&
        number < RG_DNN_CHOICES && checked(job, number) == check) {
      winners[job] = number;
    }
  }
  free(all);
}

/* -1: nobody knows. */
static int32_t winner_of(int32_t device, const rg_dnn_job &job)
{
  load_winners();
  auto found = winners.find(lasting(device, job));

  return found == winners.end() ? -1 : found->second;
}

/* The last line for a job counts. */
static void keep_winner(const rg_dnn_entry *e)
{
  uint64_t job = lasting(e->device, e->job);
  int32_t number = e->number[e->now];
  char line[64];

  winners[job] = number;
  (void)snprintf(line, sizeof(line), "%016llx %d %016llx\n", (unsigned long long)job, (int)number,
                 (unsigned long long)checked(job, number));
  (void)rg_cache_append(NAME, line, MOST_BYTES);
}

/* -- Entries ------------------------------------------------------------------------------ */

static uint64_t hash_of(int32_t device, const rg_dnn_job &job)
{
  return rg_hash(job.what, (size_t)job.size, RG_HASH_BEGIN ^ (uint64_t)device);
}

static bool same(const rg_dnn_entry *e, int32_t device, const rg_dnn_job &job)
{
  const rg_dnn_rules *a = &e->job.rules;
  const rg_dnn_rules *b = &job.rules;

  return e->device == device && e->job.build == job.build && e->job.size == job.size &&
         a->deterministic == b->deterministic && a->exact == b->exact &&
         a->no_tensor_cores == b->no_tensor_cores &&
         memcmp(e->what, job.what, (size_t)job.size) == 0;
}

/* Are candidates timed?  Where the same bits are asked for, what was faster this time is no reason
** to take another engine. */
static bool times(const rg_dnn_job &job)
{
  return rg_gpu->modes()->autotune > 1 && !job.rules.deterministic;
}

/* Plan a proposal, unless that fails or it wants too much. */
static void plan_one(rg_dnn_entry *e, const rg_dnn_target &target, rg_dnn_choice *proposed,
                     int32_t number)
{
  if (rg_dnn_plan(e->graph, target, proposed) == CUDNN_STATUS_SUCCESS &&
      proposed->workspace <= MOST_WORKSPACE) {
    e->number[e->n] = number;
    e->choice[e->n++] = *proposed;
  }
}

/* Plan the winner that is known, else all that will be timed, else the first that can be. */
static void plan(rg_dnn_entry *e, const rg_dnn_target &target)
{
  rg_dnn_choice proposed[RG_DNN_CHOICES];
  int32_t winner = e->job.rules.deterministic ? -1 : winner_of(e->device, e->job);
  int32_t most = winner < 0 && times(e->job) ? e->job.most : 1;

  e->job.build(e->graph, e->what);
  rg_dnn_close(e->graph, target);
  int32_t n = rg_dnn_choices(e->graph, target, e->job.rules, proposed);

  if (winner >= 0 && winner < n) {
    plan_one(e, target, &proposed[winner], winner);
  }
  for (int32_t i = 0; i < n && e->n < most; i++) {
    if (i != winner) {
      plan_one(e, target, &proposed[i], i);
    }
  }
}

/* Is a job that is new to this process worth its plan now? */
static bool is_due(uint64_t hash, int32_t device, const rg_dnn_job &job)
{
  if (job.stays || job.rules.deterministic || times(job) || winner_of(device, job) >= 0) {
    return true;
  }
  if (seen.size() >= SEEN) {
    seen.clear();
  }
  return !seen.insert(hash).second;
}

static rg_dnn_entry *entry_of(int32_t device, const rg_dnn_job &job, const rg_dnn_station *s,
                              bool captured)
{
  uint64_t hash = hash_of(device, job);
  auto found = entries.find(hash);
  rg_dnn_entry *first = found != entries.end() ? found->second : NULL;

  for (rg_dnn_entry *e = first; e != NULL; e = e->next) {
    if (same(e, device, job)) {
      return e;
    }
  }
  if (captured || n_entries == ENTRIES || !is_due(hash, device, job)) {
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
  e->what = what;
  e->job = job;
  e->job.what = what;
  e->device = device;
  e->graph = graph;
  e->next = first;
  plan(e, rg_dnn_target{ s->handle, NULL });
  if (e->n == 0) { /* known for the next time */
    rg_dnn_drop(graph);
    e->graph = NULL;
  }
  entries[hash] = e;
  n_entries++;
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

bool rg_dnn_ready(int32_t device, const rg_dnn_job &job, rg_dnn_exec *exec)
{
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;

  if (cudaStreamIsCapturing(rg_gpu_stream(device), &status) != cudaSuccess) {
    return false;
  }
  bool captured = status != cudaStreamCaptureStatusNone;

  exec->held = std::unique_lock<std::mutex>(lock);
  exec->station = station_of(device, captured);
  exec->entry = exec->station != NULL ? entry_of(device, job, exec->station, captured) : NULL;
  if (exec->entry == NULL || exec->entry->n == 0 ||
      !grow(exec->station, room_at(exec->entry) + padded(job.room), captured)) {
    exec->held.unlock();
    return false;
  }
  exec->room = exec->station->room + room_at(exec->entry);
  rg_gpu_poison(device, exec->station->room, room_at(exec->entry) + padded(job.room));
  return true;
}

/* Pointers by the tensors' uids: the caller's, the graph's own, and its numbers. */
static cudnnStatus_t pack(const rg_dnn_exec *exec, const rg_dnn_bind *bind, int32_t n,
                          rg_dnn_desc into)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_graph *g = exec->entry->graph;
  int64_t uid[BINDS];
  void *data[BINDS];
  void *workspace = exec->station->room;
  char *at = exec->station->room + inner_at(exec->entry);
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
static float time_of(const rg_dnn_exec *exec, rg_dnn_desc plan, rg_dnn_desc pack)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_station *s = exec->station;
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

static void tune(const rg_dnn_exec *exec, rg_dnn_desc pack)
{
  rg_dnn_entry *e = exec->entry;
  float best = -1;

  for (int32_t i = 0; i < e->n; i++) {
    float ms = time_of(exec, e->choice[i].plan, pack);

    if (ms >= 0 && (best < 0 || ms < best)) {
      best = ms;
      e->now = i;
    }
  }
  e->tuned = true;
  if (best >= 0) {
    keep_winner(e);
  }
}

bool rg_dnn_run(rg_dnn_exec *exec, const rg_dnn_bind *bind, int32_t n)
{
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_entry *e = exec->entry;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  rg_dnn_desc into = NULL;
  bool ran = false;

  if (dnn->BackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &into) ==
          CUDNN_STATUS_SUCCESS &&
      pack(exec, bind, n, into) == CUDNN_STATUS_SUCCESS &&
      cudaStreamIsCapturing(exec->station->stream, &status) == cudaSuccess) {
    if (!e->tuned && e->n > 1 && status == cudaStreamCaptureStatusNone) {
      tune(exec, into);
    }
    ran = dnn->BackendExecute(exec->station->handle, e->choice[e->now].plan, into) ==
          CUDNN_STATUS_SUCCESS;
  }
  if (into != NULL) {
    (void)dnn->BackendDestroyDescriptor(into);
  }
  if (!ran && rg_gpu_lost(e->device, "cuDNN") == RG_OK) {
    e->n = 0; /* not again */
  }
  return ran;
}

const char *rg_dnn_trouble(void)
{
  std::lock_guard<std::mutex> held(lock);

  return n_entries < ENTRIES ? "" : "there are 4096 plans; other shapes go to ridge's own kernels";
}

bool rg_dnn_tries(int32_t device, char *why, size_t size)
{
  std::lock_guard<std::mutex> held(lock);
  const rg_dnn_library *dnn = rg_dnn_open();
  rg_dnn_station *s = dnn != NULL ? station_of(device, rg_gpu_captures(device)) : NULL;
  rg_dnn_graph *graph = s != NULL ? rg_dnn_begin() : NULL;
  rg_dnn_choice proposed[RG_DNN_CHOICES];
  bool good = false;
  rg_dnn_sdpa a;

  if (graph == NULL) {
    (void)snprintf(why, size, "%s", dnn == NULL ? rg_dnn_note() : "it does not start there");
    return false;
  }
  memset(&a, 0, sizeof(a));
  a.q = a.k = a.v = a.o = rg_dnn_dense(CUDNN_DATA_BFLOAT16, 1, 1, 64, 64);
  a.scale = 0.125f;
  rg_dnn_sdpa_build(graph, &a);
  rg_dnn_close(graph, rg_dnn_target{ s->handle, NULL });
  int32_t n =
      rg_dnn_choices(graph, rg_dnn_target{ s->handle, NULL }, { false, true, false }, proposed);

  if (n > 0) {
    good =
        rg_dnn_plan(graph, rg_dnn_target{ s->handle, NULL }, &proposed[0]) == CUDNN_STATUS_SUCCESS;
  }
  (void)snprintf(why, size, "%s", good ? "" : graph->why);
  rg_dnn_drop(graph);
  return good;
}

#else

const char *rg_dnn_trouble(void)
{
  return "";
}

bool rg_dnn_tries(int32_t, char *why, size_t size)
{
  (void)snprintf(why, size, "%s", rg_dnn_note());
  return false;
}

#endif
