// SPDX-License-Identifier: MIT
//
// The stand-in for CUPTI's Activity API: a library of its own, build/libfakecupti.so, which a test
// names in RIDGE_CUPTI. It looks on at the simulator that RIDGE_GPU names (rgsim_watch) and tells of
// it in records as the toolkit's own headers lay them out; what those do not promise it does not do:
// records of external ids come only beside those of calls, buffers only when they are full or
// flushed, on a thread of the library's, times by the clock of the day.
//
//   RG_CUPTI_VERSION=n     what it says it is; below 130000 it writes the records of before
//   RG_CUPTI_REFUSE=f:n    function f, as Subscribe or ActivityFlushAll, gives the error n
//   RG_CUPTI_REFUSE_KIND=n the kind of records that nobody may have (ActivityEnable)
//   RG_CUPTI_RECORDS=n     so many records fill a buffer
//   RG_CUPTI_REGISTERS=n   of a thread of each kernel; 32
//   RG_CUPTI_STRAY=n       a record of the kind n behind each launch
//   RG_CUPTI_UNTIMED=n     each n-th kernel has no times
//   RG_CUPTI_MIXED=1       records of a buffer come backwards
//   RG_CUPTI_CUT=1         buffers end in the middle of their last record
//   RG_CUPTI_FAST=n        its clock runs n times too fast
//   RG_CUPTI_PEER=1        copies inside of a device are told as ones between two
//   RG_CUPTI_LOG=file      what it was asked for, a line each
#include "fakecuda.h"

#include <cupti.h>

#include <cupti_activity_deprecated.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <dlfcn.h>
#include <map>
#include <set>
#include <thread>

namespace
{

struct Asked {
  rgsim_asked what;
  uint32_t correlation;
  uint64_t start;
  bool told;
};

struct Buffer {
  uint8_t *bytes;
  size_t size, used, most, n;
  std::vector<size_t> at; // where each record begins
};

std::mutex mutex;
auto &asked = *new std::map<uint64_t, Asked>;
auto &full = *new std::deque<Buffer>;
auto &streams = *new std::map<const void *, uint32_t>;
auto &names = *new std::set<std::string>;
Buffer now;
CUpti_BuffersCallbackRequestFunc request;
CUpti_BuffersCallbackCompleteFunc complete;
std::set<int> enabled;
bool subscribed;
size_t dropped, kernels;
uint32_t calls;
thread_local std::vector<uint64_t> externals;

long number(const char *name, long otherwise)
{
  const char *text = getenv(name);
  return text && *text ? atol(text) : otherwise;
}

uint32_t version(void)
{
  return static_cast<uint32_t>(number("RG_CUPTI_VERSION", CUPTI_API_VERSION));
}

void log(const char *what, long n)
{
  const char *path = getenv("RG_CUPTI_LOG");
  FILE *file = path && *path ? fopen(path, "a") : nullptr;
  if (!file) return;
  fprintf(file, "%s %ld\n", what, n);
  fclose(file);
}

// The error that a test wants of a function; success.
CUptiResult refused(const char *name)
{
  const char *text = getenv("RG_CUPTI_REFUSE");
  size_t n = strlen(name);
  if (!text || strncmp(text, name, n) || text[n] != ':') return CUPTI_SUCCESS;
  return static_cast<CUptiResult>(atoi(text + n + 1));
}

uint64_t clock_now(void)
{
  static timespec first;
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  if (!first.tv_sec) first = t;
  uint64_t begin = static_cast<uint64_t>(first.tv_sec) * 1000000000u + first.tv_nsec;
  uint64_t ns = static_cast<uint64_t>(t.tv_sec) * 1000000000u + t.tv_nsec;
  const char *fast = getenv("RG_CUPTI_FAST");
  return begin + static_cast<uint64_t>((ns - begin) * (fast && *fast ? atof(fast) : 1.0));
}

// -- Buffers -------------------------------------------------------------------------------

void new_buffer(void)
{
  now = Buffer();
  request(&now.bytes, &now.size, &now.most);
  if (reinterpret_cast<uintptr_t>(now.bytes) % 8) abort(); // as the library wants it
  long few = number("RG_CUPTI_RECORDS", 0);
  if (few > 0) now.most = static_cast<size_t>(few);
}

void write(const void *record, size_t bytes)
{
  if (now.bytes && (now.used + bytes > now.size || (now.most && now.n == now.most))) {
    full.push_back(now);
    now = Buffer();
  }
  if (!now.bytes) new_buffer();
  if (!now.bytes || bytes > now.size) {
    dropped++;
    return;
  }
  memcpy(now.bytes + now.used, record, bytes);
  now.at.push_back(now.used);
  now.used += bytes;
  now.n++;
}

template <class R> void tell(const R &record)
{
  write(&record, sizeof record);
}

// Other records first, what they are about behind.
void turn(Buffer &b)
{
  std::vector<uint8_t> all;
  for (size_t i = b.at.size(); i-- > 0;) {
    size_t to = i + 1 < b.at.size() ? b.at[i + 1] : b.used;
    all.insert(all.end(), b.bytes + b.at[i], b.bytes + to);
  }
  memcpy(b.bytes, all.data(), all.size());
}

void deliver(std::deque<Buffer> buffers)
{
  std::thread([&] {
    for (Buffer &b : buffers) {
      if (number("RG_CUPTI_MIXED", 0)) turn(b);
      size_t valid = number("RG_CUPTI_CUT", 0) && b.used ? b.used - 8 : b.used;
      complete(nullptr, 0, b.bytes, b.size, valid);
    }
  }).join();
}

// -- What it is told -----------------------------------------------------------------------

int kind_of(const rgsim_asked &what)
{
  switch (what.kind) {
  case RGSIM_ASKED_KERNEL:
    return CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  case RGSIM_ASKED_FILL:
    return CUPTI_ACTIVITY_KIND_MEMSET;
  default:
    return what.direction == cudaMemcpyDeviceToDevice && number("RG_CUPTI_PEER", 0)
               ? CUPTI_ACTIVITY_KIND_MEMCPY2
               : CUPTI_ACTIVITY_KIND_MEMCPY;
  }
}

uint64_t hear(const rgsim_asked *what)
{
  std::lock_guard<std::mutex> held(mutex);
  static uint64_t n;
  Asked a = { *what, ++calls, 0, enabled.count(kind_of(*what)) > 0 };
  if (enabled.count(CUPTI_ACTIVITY_KIND_RUNTIME)) {
    if (enabled.count(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) && !externals.empty()) {
      CUpti_ActivityExternalCorrelation e = {};
      e.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      e.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
      e.externalId = externals.back();
      e.correlationId = a.correlation;
      tell(e);
      e.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_UNKNOWN; // somebody else's
      e.externalId = 0;
      tell(e);
    }
    CUpti_ActivityAPI api = {};
    api.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
    api.correlationId = a.correlation;
    tell(api);
  }
  long stray = number("RG_CUPTI_STRAY", 0);
  if (a.told && stray) {
    CUpti_ActivityAPI other = {};
    other.kind = static_cast<CUpti_ActivityKind>(stray);
    tell(other);
  }
  asked[++n] = a;
  return n;
}

void began(uint64_t n)
{
  std::lock_guard<std::mutex> held(mutex);
  asked[n].start = clock_now();
}

uint32_t stream_of(const void *stream)
{
  return streams.emplace(stream, 7 + static_cast<uint32_t>(streams.size())).first->second;
}

template <class R> R common(const Asked &a, int kind)
{
  R r = {};
  r.kind = static_cast<CUpti_ActivityKind>(kind);
  r.start = a.start;
  r.end = clock_now();
  r.deviceId = static_cast<uint32_t>(a.what.device);
  r.streamId = stream_of(a.what.stream);
  r.correlationId = a.correlation;
  return r;
}

template <class R> void tell_kernel(const Asked &a)
{
  R r = common<R>(a, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  long untimed = number("RG_CUPTI_UNTIMED", 0);
  if (untimed && ++kernels % static_cast<size_t>(untimed) == 0) r.start = r.end = 0;
  r.name = names.insert(a.what.name).first->c_str();
  r.registersPerThread = static_cast<uint16_t>(number("RG_CUPTI_REGISTERS", 32));
  r.dynamicSharedMemory = static_cast<int32_t>(a.what.smem);
  r.gridX = static_cast<int32_t>(a.what.grid.x);
  r.gridY = static_cast<int32_t>(a.what.grid.y);
  r.gridZ = static_cast<int32_t>(a.what.grid.z);
  r.blockX = static_cast<int32_t>(a.what.block.x);
  r.blockY = static_cast<int32_t>(a.what.block.y);
  r.blockZ = static_cast<int32_t>(a.what.block.z);
  r.sharedMemoryExecuted = 0x5a5a5a; // what is not asked for
  tell(r);
}

template <class R> void tell_copy(const Asked &a, int kind)
{
  R r = common<R>(a, kind);
  r.bytes = a.what.bytes;
  r.copyKind = a.what.direction == cudaMemcpyHostToDevice   ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
               : a.what.direction == cudaMemcpyDeviceToHost ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                                            : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  tell(r);
}

void ended(uint64_t n)
{
  std::lock_guard<std::mutex> held(mutex);
  const Asked a = asked[n];
  const bool old = version() < 130000;
  asked.erase(n);
  if (!a.told) return;
  switch (kind_of(a.what)) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    old ? tell_kernel<CUpti_ActivityKernel9>(a) : tell_kernel<CUpti_ActivityKernel10>(a);
    break;
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    old ? tell_copy<CUpti_ActivityMemcpy5>(a, CUPTI_ACTIVITY_KIND_MEMCPY)
        : tell_copy<CUpti_ActivityMemcpy6>(a, CUPTI_ACTIVITY_KIND_MEMCPY);
    break;
  case CUPTI_ACTIVITY_KIND_MEMCPY2:
    tell_copy<CUpti_ActivityMemcpyPtoP4>(a, CUPTI_ACTIVITY_KIND_MEMCPY2);
    break;
  default:
    CUpti_ActivityMemset4 r = common<CUpti_ActivityMemset4>(a, CUPTI_ACTIVITY_KIND_MEMSET);
    r.bytes = a.what.bytes;
    tell(r);
  }
}

bool watch(bool on)
{
  const char *path = getenv("RIDGE_GPU");
  void *simulator = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  void *symbol = simulator ? dlsym(simulator, "rgsim_watch") : nullptr;
  if (!symbol) return false;
  rgsim_watcher who = { hear, began, ended };
  reinterpret_cast<void (*)(const rgsim_watcher *)>(symbol)(on ? &who : nullptr);
  return true;
}

size_t size_of(CUpti_ActivityKind kind)
{
  const bool old = version() < 130000;
  switch (kind) {
  case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    return old ? sizeof(CUpti_ActivityKernel9) : sizeof(CUpti_ActivityKernel10);
  case CUPTI_ACTIVITY_KIND_MEMCPY:
    return old ? sizeof(CUpti_ActivityMemcpy5) : sizeof(CUpti_ActivityMemcpy6);
  case CUPTI_ACTIVITY_KIND_MEMCPY2:
    return sizeof(CUpti_ActivityMemcpyPtoP4);
  case CUPTI_ACTIVITY_KIND_MEMSET:
    return sizeof(CUpti_ActivityMemset4);
  case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
    return sizeof(CUpti_ActivityExternalCorrelation);
  default:
    return sizeof(CUpti_ActivityAPI);
  }
}

} // namespace

// -- Its functions -------------------------------------------------------------------------

#define CALLED(name, n)                       \
  log(name, static_cast<long>(n));            \
  if (CUptiResult e = refused(name)) return e

extern "C" {

CUptiResult cuptiGetVersion(uint32_t *out)
{
  CALLED("GetVersion", 0);
  *out = version();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **out)
{
  *out = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"
         : result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
             ? "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"
         : result == CUPTI_ERROR_OUT_OF_MEMORY ? "CUPTI_ERROR_OUT_OF_MEMORY"
                                               : nullptr;
  return *out ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *out, CUpti_CallbackFunc callback, void *)
{
  CALLED("Subscribe", callback != nullptr);
  if (subscribed) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  subscribed = watch(true);
  *out = reinterpret_cast<CUpti_SubscriberHandle>(&subscribed);
  return subscribed ? CUPTI_SUCCESS : CUPTI_ERROR_NOT_INITIALIZED;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle)
{
  CALLED("Unsubscribe", 0);
  watch(false);
  subscribed = false;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *out)
{
  CALLED("GetTimestamp", 0);
  *out = clock_now();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r,
                                           CUpti_BuffersCallbackCompleteFunc c)
{
  CALLED("ActivityRegisterCallbacks", 0);
  request = r;
  complete = c;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
  CALLED("ActivityEnable", kind);
  std::lock_guard<std::mutex> held(mutex);
  if (kind == number("RG_CUPTI_REFUSE_KIND", 0)) return CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  enabled.insert(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
  CALLED("ActivityDisable", kind);
  std::lock_guard<std::mutex> held(mutex);
  enabled.erase(kind);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
  std::deque<Buffer> due;
  CALLED("ActivityFlushAll", flag);
  {
    std::lock_guard<std::mutex> held(mutex);
    due.swap(full);
    if (now.bytes && (flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED || asked.empty())) {
      due.push_back(now);
      now = Buffer();
    }
  }
  if (!due.empty()) deliver(due);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
  uint8_t *at = buffer;
  if (*record) {
    CUpti_ActivityKind kind = (*record)->kind;
    at = reinterpret_cast<uint8_t *>(*record) + size_of(kind);
  }
  if (at >= buffer + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  CUpti_Activity *next = reinterpret_cast<CUpti_Activity *>(at);
  if (at + size_of(next->kind) > buffer + valid) return CUPTI_ERROR_INVALID_KIND;
  *record = next;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t *out)
{
  std::lock_guard<std::mutex> held(mutex);
  *out = dropped;
  dropped = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
  if (kind != CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0) return CUPTI_ERROR_INVALID_PARAMETER;
  externals.push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind, uint64_t *last)
{
  if (externals.empty()) {
    log("empty", 0);
    return CUPTI_ERROR_QUEUE_EMPTY;
  }
  if (last) *last = externals.back();
  externals.pop_back();
  return CUPTI_SUCCESS;
}

} // extern "C"
