/* SPDX-License-Identifier: MIT */
/*
** What a device did, by CUPTI's Activity API. The library asks for buffers and fills them, on
** threads of its own too, and gives each back; it is read at once, and what is wanted of it is
** kept: records of kernels, copies and fills, and which event each launch was for. They come in any
** order, the ids of events behind the kernels too, so both are joined at the end.
**
** Kinds of records that are switched on:
**   CONCURRENT_KERNEL, MEMCPY, MEMCPY2, MEMSET   what is told
**   EXTERNAL_CORRELATION, RUNTIME, DRIVER        the event behind a launch: its record comes with
**                                                those of calls, which are read for nothing else
*/
#include <cxxabi.h>
#include <math.h>
#include <mutex>
#include <new>
#include <set>
#include <stdlib.h>
#include <string.h>
#include <string>
#include <time.h>

#include "gpu/cupti/activity.cuh"
#include "gpu/cupti/library.cuh"

enum {
  BUFFER = 1 << 20, /* bytes of one: NVIDIA advises 1 to 10 MB */
  BUFFERS = 64,     /* at the same time; where there are no more the library drops records */
  ALIGNED = 8,
  IDS = 4, /* of events that are kept, for each record: calls that launch nothing have some too */
  FORCED = 1,
  MAX_LIMIT_REACHED = 12 /* no record is left in a buffer */
};

static const int kinds[] = { RG_CUPTI_KERNEL,     RG_CUPTI_MEMCPY,  RG_CUPTI_MEMCPY_PEER,
                             RG_CUPTI_MEMSET,     RG_CUPTI_RUNTIME, RG_CUPTI_DRIVER,
                             RG_CUPTI_CORRELATION };
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

/* Which event a call of the driver was for. */
typedef struct asked_by {
  uint32_t correlation;
  int64_t serial;
} asked_by;

/* A record as it is kept. */
typedef struct kept_record {
  rg_activity what;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
} kept_record;

/* What grows: by doubling, as far as its limit. */
template <class T> struct list {
  T *items;
  int64_t n;
  int64_t room;
  int64_t most;

  bool add(const T &item)
  {
    if (n == room) {
      int64_t wanted = room == 0 ? 1024 : 2 * room;

      wanted = wanted < most ? wanted : most;
      T *larger = n < most ? (T *)realloc((void *)items, (size_t)wanted * sizeof(T)) : NULL;

      if (larger == NULL) {
        return false;
      }
      items = larger;
      room = wanted;
    }
    items[n++] = item;
    return true;
  }
  void forget(void)
  {
    free((void *)items);
    items = NULL;
    n = room = 0;
  }
};

/* The library's clock and the host's, at one moment. */
typedef struct moment {
  uint64_t theirs;
  double host;
} moment;

static const rg_cupti_library *library;
static void *subscriber;
static std::mutex lock; /* of all below: buffers come back on the library's threads */
static bool collecting;
static int n_buffers; /* that the library has */
static list<kept_record> records;
static list<asked_by> ids;
static rg_activity_facts facts;
static moment first, last;

/* -- Names ------------------------------------------------------------------------------------- */

/* A name that stays, as the source has it; "?" where there is no memory for it. */
static const char *name_of(const char *symbol)
{
  static auto &names = *new std::set<std::string>;
  static std::string before; /* kernels come in rows of one name */
  static const char *found;

  try {
    if (found == NULL || before != symbol) {
      int status = 0;
      char *text = abi::__cxa_demangle(symbol, NULL, NULL, &status);

      found = names.insert(text != NULL ? text : symbol).first->c_str();
      free(text);
      before = symbol;
    }
    return found;
  } catch (const std::bad_alloc &) {
    found = NULL;
    return "?";
  }
}

/* By CUpti_ActivityMemcpyKind. */
static const char *direction_of(uint8_t kind)
{
  static const char *const names[] = {
    "copy",           "host to device",  "device to host",  "host to array",    "array to host",
    "array to array", "array to device", "device to array", "device to device", "host to host",
    "between devices"
  };

  return names[kind < sizeof(names) / sizeof(names[0]) ? kind : 0];
}

/* -- Reading ----------------------------------------------------------------------------------- */

template <class R> static void keep(kept_record *k, const R *r, int32_t kind)
{
  k->what.kind = kind;
  k->what.device = r->device < RG_DEVICES - 1 ? (int32_t)r->device + 1 : -1;
  k->what.stream = (int32_t)r->stream;
  k->what.serial = -1;
  k->start = r->start;
  k->end = r->end;
  k->correlation = r->correlation;
  if (!records.add(*k)) {
    facts.n_full++;
  }
}

static void keep_kernel(const rg_cupti_kernel *r)
{
  kept_record k = {};

  k.what.name = name_of(r->name != NULL ? r->name : "?");
  k.what.registers = r->registers;
  k.what.static_bytes = r->static_bytes;
  k.what.dynamic_bytes = r->dynamic_bytes;
  memcpy(k.what.grid, r->grid, sizeof(k.what.grid));
  memcpy(k.what.block, r->block, sizeof(k.what.block));
  keep(&k, r, RG_ACTIVITY_KERNEL);
}

template <class R> static void keep_moved(const R *r, int32_t kind, const char *name)
{
  kept_record k = {};

  k.what.name = name;
  k.what.bytes = (int64_t)r->bytes;
  keep(&k, r, kind);
}

/* Read one; `left` bytes of its buffer lie behind its beginning. False: it is not whole. */
static bool read_record(const void *record, size_t left)
{
  uint32_t kind;

  if (left < sizeof(kind)) {
    return false;
  }
  memcpy(&kind, record, sizeof(kind));
#define WHOLE(type) (left >= sizeof(type))
  switch (kind) {
  case RG_CUPTI_KERNEL:
    if (WHOLE(rg_cupti_kernel)) {
      keep_kernel((const rg_cupti_kernel *)record);
    }
    return WHOLE(rg_cupti_kernel);
  case RG_CUPTI_MEMCPY:
    if (WHOLE(rg_cupti_copy)) {
      const rg_cupti_copy *r = (const rg_cupti_copy *)record;

      keep_moved(r, RG_ACTIVITY_COPY, direction_of(r->direction));
    }
    return WHOLE(rg_cupti_copy);
  case RG_CUPTI_MEMCPY_PEER:
    if (WHOLE(rg_cupti_peer)) {
      keep_moved((const rg_cupti_peer *)record, RG_ACTIVITY_COPY, "between devices");
    }
    return WHOLE(rg_cupti_peer);
  case RG_CUPTI_MEMSET:
    if (WHOLE(rg_cupti_fill)) {
      keep_moved((const rg_cupti_fill *)record, RG_ACTIVITY_FILL, "fill");
    }
    return WHOLE(rg_cupti_fill);
  case RG_CUPTI_CORRELATION:
    if (WHOLE(rg_cupti_correlation)) {
      const rg_cupti_correlation *r = (const rg_cupti_correlation *)record;

      if (r->whose == RG_CUPTI_CUSTOM) {
        (void)ids.add({ r->correlation, (int64_t)r->id });
      }
    }
    return WHOLE(rg_cupti_correlation);
  case RG_CUPTI_RUNTIME:
  case RG_CUPTI_DRIVER:
    return true;
  default:
    facts.n_unknown++;
    return true;
  }
#undef WHOLE
}

static void read_buffer(uint8_t *buffer, size_t valid)
{
  const void *record = NULL;
  rg_cupti_result code;

  while ((code = library->ActivityGetNextRecord(buffer, valid, &record)) == 0) {
    size_t at = (size_t)((const uint8_t *)record - buffer);

    if (at >= valid || !read_record(record, valid - at)) {
      facts.n_damaged++;
      return;
    }
  }
  if (code != MAX_LIMIT_REACHED) {
    facts.n_damaged++;
  }
}

/* -- Buffers ----------------------------------------------------------------------------------- */

static void request(uint8_t **buffer, size_t *bytes, size_t *most)
{
  std::lock_guard<std::mutex> held(lock);

  *buffer = n_buffers < BUFFERS ? (uint8_t *)aligned_alloc(ALIGNED, BUFFER) : NULL;
  *bytes = *buffer != NULL ? BUFFER : 0;
  *most = 0; /* as many records as fit */
  n_buffers += *buffer != NULL;
}

/* One that comes back after the end of a profile is none of the next one's. */
static void complete(void *, uint32_t, uint8_t *buffer, size_t, size_t valid)
{
  std::lock_guard<std::mutex> held(lock);

  if (buffer == NULL) {
    return;
  }
  if (collecting && valid > 0) {
    read_buffer(buffer, valid);
  }
  n_buffers--;
  free(buffer);
}

/* No call of CUDA is told to anybody: being subscribed says that no other profiler is. */
static void ignore(void *, int, uint32_t, const void *)
{
}

/* -- Beginning and end ------------------------------------------------------------------------- */

static double host_ns(void)
{
  struct timespec t;

  (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t); /* as rg_clock_ns */
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static rg_status clocks(moment *out)
{
  uint64_t theirs = 0;
  double before = host_ns();
  rg_cupti_result code = library->GetTimestamp(&theirs);

  *out = { theirs, (before + host_ns()) / 2 };
  return rg_cupti_status(library, "GetTimestamp", code);
}

static void disable(int n)
{
  while (n > 0) {
    (void)library->ActivityDisable(kinds[--n]);
  }
}

/* All kinds, or none. */
static rg_status enable(void)
{
  for (int i = 0; i < KINDS; i++) {
    rg_status status =
        rg_cupti_status(library, "ActivityEnable", library->ActivityEnable(kinds[i]));

    if (status != RG_OK) {
      disable(i);
      return status;
    }
  }
  return RG_OK;
}

static rg_status start(void)
{
  size_t none = 0;

  RG_TRY(rg_cupti_status(library, "ActivityRegisterCallbacks",
                         library->ActivityRegisterCallbacks(request, complete)));
  RG_TRY(clocks(&first));
  (void)library->ActivityGetNumDroppedRecords(NULL, 0, &none); /* of before */
  return enable();
}

static void forget(void)
{
  std::lock_guard<std::mutex> held(lock);

  records.forget();
  ids.forget();
}

static rg_status begin(int64_t capacity)
{
  rg_status status;

  RG_TRY(rg_cupti_open(&library));
  RG_TRY(rg_cupti_status(library, "Subscribe", library->Subscribe(&subscriber, ignore, NULL)));
  forget();
  {
    std::lock_guard<std::mutex> held(lock);

    records.most = capacity;
    ids.most = IDS * capacity;
    facts = rg_activity_facts{};
    facts.version = library->version;
    collecting = true;
  }
  status = start();
  if (status != RG_OK) {
    collecting = false;
    (void)library->Unsubscribe(subscriber);
  }
  return status;
}

static int by_correlation(const void *a, const void *b)
{
  const uint32_t x = ((const asked_by *)a)->correlation;
  const uint32_t y = ((const asked_by *)b)->correlation;

  return x < y ? -1 : x > y;
}

static int by_start(const void *a, const void *b)
{
  const kept_record *x = (const kept_record *)a;
  const kept_record *y = (const kept_record *)b;

  return x->start < y->start ? -1 : x->start > y->start;
}

/* A time of the library's on the host's clock, from differences: its nanoseconds since 1970 are
** more than a double holds. What drifts is shared out over the time that was recorded. */
static double on_host(uint64_t theirs)
{
  double whole = (double)(int64_t)(last.theirs - first.theirs);
  double since = (double)(int64_t)(theirs - first.theirs);

  return first.host + (whole > 0 ? since * ((last.host - first.host) / whole) : since);
}

/* Events of records by the ids of their calls, times on the host's clock, in their order. */
static void join(void)
{
  if (ids.n > 0) {
    qsort(ids.items, (size_t)ids.n, sizeof(asked_by), by_correlation);
  }
  if (records.n > 0) {
    qsort(records.items, (size_t)records.n, sizeof(kept_record), by_start);
  }
  for (int64_t i = 0; i < records.n; i++) {
    kept_record *k = &records.items[i];
    const asked_by key = { k->correlation, 0 };
    const asked_by *found = ids.n == 0
                                ? NULL
                                : (const asked_by *)bsearch(&key, ids.items, (size_t)ids.n,
                                                            sizeof(asked_by), by_correlation);

    k->what.serial = found != NULL ? found->serial : -1;
    k->what.from_ns = k->what.to_ns = NAN;
    if (k->start != 0 && k->end >= k->start) {
      k->what.from_ns = on_host(k->start);
      k->what.to_ns = on_host(k->end);
    } else {
      facts.n_untimed++;
    }
  }
}

/* Buffers with records that are not whole come too: devices were waited for, so no more is to come.
** Twice: what calls leave until the kinds are off comes after them. */
static rg_status stop(void)
{
  size_t dropped = 0;
  rg_cupti_result code = library->ActivityFlushAll(FORCED);
  rg_status status;

  disable(KINDS);
  code = code != 0 ? code : library->ActivityFlushAll(FORCED);
  status = rg_cupti_status(library, "ActivityFlushAll", code);
  if (status == RG_OK) {
    status = clocks(&last);
  }
  (void)library->ActivityGetNumDroppedRecords(NULL, 0, &dropped);
  (void)library->Unsubscribe(subscriber);
  facts.n_dropped = (int64_t)dropped;
  return status;
}

static rg_status end(rg_activity_facts *out)
{
  rg_status status = stop();

  std::lock_guard<std::mutex> held(lock);

  collecting = false;
  if (status == RG_OK) {
    join();
    facts.n = records.n;
    *out = facts;
  } else {
    records.forget();
  }
  ids.forget();
  return status;
}

static void at(int64_t i, rg_activity *out)
{
  *out = records.items[i].what;
  out->occupancy = out->kind == RG_ACTIVITY_KERNEL ? rg_cupti_occupancy(out) : NAN;
}

static void enter(int64_t serial)
{
  (void)library->ActivityPushExternalCorrelationId(RG_CUPTI_CUSTOM, (uint64_t)serial);
}

static void leave(void)
{
  (void)library->ActivityPopExternalCorrelationId(RG_CUPTI_CUSTOM, NULL);
}

const rg_tracer rg_cupti_tracer = { begin, end, at, forget, enter, leave };
