// SPDX-License-Identifier: MIT
//
// Memory of the stand-in for the CUDA runtime. Device memory is host memory of exact size, so the
// address sanitizer watches what kernels do with it; it is 0xff, a NaN, until it is written. Copies
// are checked against the allocations, when they are called and when they run.
//
//   RG_SIM_OOM_AFTER=n   the n first calls of cudaMalloc succeed, the others do not
//   RG_SIM_OOM_OVER=n    no call of cudaMalloc for more than n bytes succeeds
#include "fakecuda.h"
#include "sim.h"

#include <cstdlib>
#include <map>
#include <string>

namespace fake
{

enum : size_t {
  TOTAL = static_cast<size_t>(8) << 30,
  STAGED = 64 << 10 // a copy of no more pageable memory than this never waits, says the guide
};

struct Allocation {
  size_t bytes;
  int device;
  bool pinned; // of the host
};

// Never destroyed: the program may free what it has while it exits.
static auto &allocations = *new std::map<const char *, Allocation>;
static auto &used = *new std::map<int, size_t>; // bytes, by device

size_t memory_total(void)
{
  return TOTAL;
}

static const Allocation *find(const void *p, size_t *before)
{
  const char *at = static_cast<const char *>(p);
  auto i = allocations.upper_bound(at);
  if (i == allocations.begin()) return nullptr;
  --i;
  *before = static_cast<size_t>(at - i->first);
  return *before < i->second.bytes ? &i->second : nullptr;
}

enum Kind { PAGEABLE, PINNED, DEVICE, OUTSIDE };

// Where a range lies; OUTSIDE when it leaves the allocation that it starts in.
static Kind kind_of(const void *p, size_t n)
{
  size_t before;
  const Allocation *a = find(p, &before);
  if (!a) return PAGEABLE;
  if (n > a->bytes - before) return OUTSIDE;
  return a->pinned ? PINNED : DEVICE;
}

bool in_device_memory(const void *p, size_t bytes)
{
  return kind_of(p, bytes) == DEVICE;
}

static bool must_fail(size_t n)
{
  const char *most = getenv("RG_SIM_OOM_OVER");
  if (most && n > strtoull(most, nullptr, 10)) return true;
  static auto &setting = *new std::string;
  static long calls;
  const char *s = getenv("RG_SIM_OOM_AFTER");
  if (!s) {
    setting.clear();
    return false;
  }
  // Another number starts the count anew.
  if (setting != s) {
    setting = s;
    calls = 0;
  }
  return calls++ >= atol(s);
}

static cudaError_t allocate(void **out, size_t n, bool pinned)
{
  *out = nullptr;
  if (cudaError_t e = forbid_in_capture()) return e;
  if (!n) return cudaSuccess;
  int device = current_device();
  if (!pinned && (must_fail(n) || n > TOTAL - used[device])) {
    return error(cudaErrorMemoryAllocation);
  }
  void *p;
  if (posix_memalign(&p, 256, n)) return error(cudaErrorMemoryAllocation);
  memset(p, 0xff, n);
  count(RGSIM_ALLOCATIONS);
  allocations[static_cast<char *>(p)] = { n, device, pinned };
  if (!pinned) used[device] += n;
  *out = p;
  return cudaSuccess;
}

// Like the real one it waits: no work can be left that uses the memory.
static cudaError_t release(void *p, bool pinned)
{
  if (!p) return cudaSuccess;
  if (cudaError_t e = forbid_in_capture()) return e;
  wait_everything();
  auto i = allocations.find(static_cast<char *>(p));
  if (i == allocations.end() || i->second.pinned != pinned) {
    return misuse(cudaErrorInvalidValue, "%p is freed, but is no %s memory: never was, or not now",
                  p, pinned ? "pinned" : "device");
  }
  if (!pinned) used[i->second.device] -= i->second.bytes;
  allocations.erase(i);
  free(p);
  return error(broken());
}

// -- Copies ----------------------------------------------------------------------------------

static bool fits(Kind k, bool wants_device)
{
  return wants_device ? k == DEVICE : k == PAGEABLE || k == PINNED;
}

static cudaError_t check_copy(const void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
  Kind d = kind_of(to, n), s = kind_of(from, n);
  if (d == OUTSIDE || s == OUTSIDE) {
    return misuse(cudaErrorInvalidValue, "a copy of %zu bytes leaves the allocation of its %s", n,
                  d == OUTSIDE ? "target" : "source");
  }
  bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (!fits(d, to_device) || !fits(s, from_device)) {
    return misuse(cudaErrorInvalidValue, "a copy of %zu bytes: its %s is not in %s memory", n,
                  !fits(d, to_device) ? "target" : "source",
                  (!fits(d, to_device) ? to_device : from_device) ? "device" : "host");
  }
  return cudaSuccess;
}

static cudaMemcpyKind resolve(const void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
  if (kind != cudaMemcpyDefault) return kind;
  bool to_device = kind_of(to, n) == DEVICE, from_device = kind_of(from, n) == DEVICE;
  return to_device ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                   : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
}

// The memory may be gone by now: a graph can outlive it.
static void copy(void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
  if (check_copy(to, from, n, kind)) {
    fault(cudaErrorIllegalAddress, "a copy of %zu bytes into or out of memory that is gone", n);
    return;
  }
  memmove(to, from, n);
}

// How the host takes part in a copy.
static void count_copy(Kind to, Kind from, size_t n)
{
  count(from != DEVICE ? RGSIM_UPLOADS : to != DEVICE ? RGSIM_DOWNLOADS : RGSIM_MOVES);
  if (from == PAGEABLE && n > STAGED) count(RGSIM_WAITS);
}

// What the runtime promises of memory that is not pinned: it is read before the call returns, and
// written before the call returns. Only pinned memory has to be left alone until the copy is done.
static cudaError_t copy_async(void *to, const void *from, size_t n, cudaMemcpyKind kind,
                              cudaStream_t stream, bool blocking)
{
  if (broken()) return error(broken());
  if (!n) return cudaSuccess;
  kind = resolve(to, from, n, kind);
  if (cudaError_t e = check_copy(to, from, n, kind)) return e;
  CUstream_st *s = stream_of(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  Work w;
  std::function<void()> run = [=] { copy(to, from, n, kind); };
  if (!s->capture && !blocking && kind_of(from, n) == PAGEABLE) {
    const char *bytes = static_cast<const char *>(from);
    auto staged = std::make_shared<std::vector<char>>(bytes, bytes + n);
    run = [=] { copy(to, staged->data(), n, kind); };
  }
  if (!s->capture && is_watched()) {
    run = watched({ RGSIM_ASKED_COPY, "", {}, {}, 0, n, kind, s->device, s }, run);
  }
  if (cudaError_t e = enqueue(stream, run, &w)) return e;
  if (!s->capture) count_copy(kind_of(to, n), kind_of(from, n), n);
  if (!s->capture && (blocking || kind_of(to, n) == PAGEABLE)) host_waits({ w });
  return error(broken());
}

} // namespace fake

using namespace fake;

extern "C" {

cudaError_t cudaMalloc(void **out, size_t n)
{
  Lock lock;
  return allocate(out, n, false);
}

cudaError_t cudaFree(void *p)
{
  Lock lock;
  return release(p, false);
}

cudaError_t cudaMallocHost(void **out, size_t n)
{
  Lock lock;
  return allocate(out, n, true);
}

cudaError_t cudaFreeHost(void *p)
{
  Lock lock;
  return release(p, true);
}

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
  Lock lock;
  if (broken()) return error(broken());
  *total = TOTAL;
  *free_bytes = TOTAL - used[current_device()];
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n, cudaMemcpyKind kind,
                            cudaStream_t stream)
{
  Lock lock;
  return copy_async(to, from, n, kind, stream, false);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t n, cudaMemcpyKind kind)
{
  Lock lock;
  if (cudaError_t e = forbid_in_capture()) return e;
  return copy_async(to, from, n, kind, nullptr, true);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t n, cudaStream_t stream)
{
  Lock lock;
  if (broken()) return error(broken());
  if (!n) return cudaSuccess;
  if (kind_of(to, n) != DEVICE) {
    return misuse(cudaErrorInvalidValue, "a memset of %zu bytes is not inside device memory", n);
  }
  CUstream_st *s = stream_of(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  std::function<void()> run = [=] {
    if (kind_of(to, n) != DEVICE) {
      fault(cudaErrorIllegalAddress, "a memset of %zu bytes in memory that is gone", n);
      return;
    }
    memset(to, value, n);
  };
  if (!s->capture && is_watched()) {
    run = watched({ RGSIM_ASKED_FILL, "", {}, {}, 0, n, cudaMemcpyDefault, s->device, s }, run);
  }
  return enqueue(stream, run);
}

size_t rgsim_live_allocations(void)
{
  Lock lock;
  return allocations.size();
}

} // extern "C"
