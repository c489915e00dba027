// SPDX-License-Identifier: MIT
//
// The stand-in for NCCL: a library of its own, build/libfakenccl.so, which a test names in
// RIDGE_NCCL. Ranks are processes over one shared file; what they ask for becomes work in the
// streams of the simulator that RIDGE_GPU names, so that a wait that is missing in front of a
// collective, or behind it, shows in some RG_SIM_ORDER. Signatures are those of the toolkit's own
// nccl.h. It is as unpleasant as the library may be:
//
//   - where a communicator does not block, a collective is in the stream only when
//     ncclCommGetAsyncError has said so, at the second question; one that is asked for before is
//     refused;
//   - sums of half types are rounded at each addition, and begin with another rank for each part of
//     the elements; so are products; the mean is that of elements multiplied by 1 / n in their own
//     type; max and min lose NaN;
//   - what was given up (ncclCommAbort) leaves 0xff where its result would be;
//   - ranks that ask for different things get no result at all.
//
//   RG_NCCL_VERSION=n      what it says it is
//   RG_NCCL_REFUSE=f:n     function f, as AllReduce, gives the error n
//   RG_NCCL_LOST=rank:n    a rank that does not come to the collective n, from 1, any more
//   RG_NCCL_GONE=rank:n    the same, and to the others it looks as if its process had ended
//   RG_NCCL_DEAF=1         the death of another rank is not noticed
//   RG_NCCL_LOG=file       what it was asked for, a line each
#include "fakecuda.h"

#include <nccl.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace
{

enum { MOST_RANKS = 16 };
enum : size_t { ROOM = static_cast<size_t>(64) << 20 }; // bytes that a rank can bring

enum Kind { ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST };
const char *const NAMES[] = { "AllReduce", "Reduce", "ReduceScatter", "AllGather", "Broadcast" };

// A collective, as a rank asks for it.
struct Asked {
  int kind, type, op, root;
  size_t count; // as the function is told: of all_gather and reduce_scatter one rank's
};

struct Rank {
  std::atomic<int> joined, left;
  std::atomic<int64_t> brought, taken; // collectives whose data it has put here, and read
  Asked asked;
  int device;
  char host[64];
};

struct Shared {
  Rank ranks[MOST_RANKS];
};

struct Comm {
  int n, rank, file;
  Shared *shared;
  char *data; // ROOM bytes a rank
  bool blocks;
  int questions = 0;                        // until what was asked for is in the stream
  std::deque<std::function<void()>> waiting; // that is not in it yet
  int64_t started = 0;                      // collectives
  std::atomic<bool> aborted{ false }, finalized{ false };
  std::atomic<int> state{ ncclSuccess };
  char path[128];
};

thread_local int groups;
thread_local Comm *grouped;
char last_error[256];

// -- Small things -------------------------------------------------------------------------------

void log(const char *name)
{
  const char *path = getenv("RG_NCCL_LOG");
  FILE *file = path && *path ? fopen(path, "a") : nullptr;
  if (!file) return;
  fprintf(file, "%s\n", name);
  fclose(file);
}

ncclResult_t refused(const char *name)
{
  log(name);
  const char *text = getenv("RG_NCCL_REFUSE");
  size_t n = strlen(name);
  if (!text || strncmp(text, name, n) || text[n] != ':') return ncclSuccess;
  return static_cast<ncclResult_t>(atoi(text + n + 1));
}

#define CALLED(name)                               \
  do {                                             \
    if (ncclResult_t e = refused(name)) return e;  \
  } while (0)

// What the library would not say, and a test has to see.
__attribute__((format(printf, 2, 3))) ncclResult_t misuse(ncclResult_t code, const char *format,
                                                          ...)
{
  va_list args;
  va_start(args, format);
  vsnprintf(last_error, sizeof last_error, format, args);
  va_end(args);
  fprintf(stderr, "fakenccl: %s\n", last_error);
  return code;
}

void *simulator(const char *name)
{
  const char *path = getenv("RIDGE_GPU");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  void *symbol = library ? dlsym(library, name) : nullptr;
  if (!symbol) {
    fprintf(stderr, "fakenccl: the simulator (RIDGE_GPU) has no %s\n", name);
    abort();
  }
  return symbol;
}

bool on_device(const void *p, size_t bytes, bool locked)
{
  static auto f = reinterpret_cast<decltype(&rgsim_is_device_memory)>(
      simulator("rgsim_is_device_memory"));
  return !bytes || f(p, bytes, locked);
}

size_t bytes_of(int type)
{
  switch (type) {
  case ncclInt8:
  case ncclUint8:
    return 1;
  case ncclFloat16:
  case ncclBfloat16:
    return 2;
  case ncclInt32:
  case ncclFloat32:
    return 4;
  default:
    return 8;
  }
}

// -- Who is there -------------------------------------------------------------------------------

// Each rank holds a byte of the file until its process ends, however it ends.
struct flock byte_of(int rank)
{
  struct flock l = {};
  l.l_type = F_WRLCK;
  l.l_whence = SEEK_SET;
  l.l_start = rank;
  l.l_len = 1;
  return l;
}

bool is_gone(const Comm *c, int rank)
{
  struct flock l = byte_of(rank);
  if (rank == c->rank || !c->shared->ranks[rank].joined || c->shared->ranks[rank].left) return false;
  return fcntl(c->file, F_OFD_GETLK, &l) == 0 && l.l_type == F_UNLCK;
}

bool all_joined(const Comm *c)
{
  for (int r = 0; r < c->n; r++) {
    if (!c->shared->ranks[r].joined) return false;
  }
  return true;
}

bool all_left(const Comm *c)
{
  for (int r = 0; r < c->n; r++) {
    if (!c->shared->ranks[r].left) return false;
  }
  return true;
}

bool is_told(const char *name, const Comm *c, int64_t number)
{
  const char *text = getenv(name);
  int rank = -1;
  long from = 0;
  return text && sscanf(text, "%d:%ld", &rank, &from) == 2 && rank == c->rank && number >= from;
}

// Does a test want this rank not to come?
bool is_lost(const Comm *c, int64_t number)
{
  bool gone = is_told("RG_NCCL_GONE", c, number);
  struct flock l = byte_of(c->rank);
  l.l_type = F_UNLCK;
  if (gone) fcntl(c->file, F_OFD_SETLK, &l);
  return gone || is_told("RG_NCCL_LOST", c, number);
}

// -- Data ---------------------------------------------------------------------------------------

size_t count_in(const Comm *c, const Asked &a)
{
  return a.kind == REDUCE_SCATTER ? a.count * c->n : a.count;
}

size_t count_out(const Comm *c, const Asked &a)
{
  if (a.kind == REDUCE && a.root != c->rank) return 0;
  return a.kind == ALL_GATHER ? a.count * c->n : a.count;
}

template <class T> struct Lane {
  typedef T type;
};
template <> struct Lane<__half> {
  typedef float type;
};
template <> struct Lane<__nv_bfloat16> {
  typedef float type;
};

float widen(__half x)
{
  return __half2float(x);
}
float widen(__nv_bfloat16 x)
{
  return __bfloat162float(x);
}
template <class T> T widen(T x)
{
  return x;
}
void narrow(float x, __half *to)
{
  *to = __float2half_rn(x);
}
void narrow(float x, __nv_bfloat16 *to)
{
  *to = __float2bfloat16_rn(x);
}
template <class T> void narrow(T x, T *to)
{
  *to = x;
}

template <class T> T rounded(typename Lane<T>::type x)
{
  T y;
  narrow(x, &y);
  return y;
}

template <class L> L larger(L a, L b)
{
  if constexpr (std::is_floating_point<L>::value) return std::fmax(a, b);
  return a > b ? a : b;
}

template <class L> L smaller(L a, L b)
{
  if constexpr (std::is_floating_point<L>::value) return std::fmin(a, b);
  return a < b ? a : b;
}

// Element i of all ranks, of n.
template <class T> T combined(const Comm *c, int op, size_t i, size_t n)
{
  typedef typename Lane<T>::type L;
  typedef typename std::conditional<std::is_integral<L>::value, uint64_t, L>::type Sum;
  const L factor = op == ncclAvg ? widen(rounded<T>(static_cast<L>(1.0 / c->n))) : L(1);
  T sum = T();
  for (int k = 0; k < c->n; k++) {
    int r = static_cast<int>((i * c->n / n + k) % c->n);
    T x = reinterpret_cast<const T *>(c->data + r * ROOM)[i];
    if (op == ncclAvg) x = rounded<T>(factor * widen(x));
    if (k == 0) {
      sum = x;
    } else if (op == ncclMax) {
      sum = rounded<T>(larger<L>(widen(sum), widen(x)));
    } else if (op == ncclMin) {
      sum = rounded<T>(smaller<L>(widen(sum), widen(x)));
    } else if (op == ncclProd) {
      sum = rounded<T>(static_cast<L>(static_cast<Sum>(widen(sum)) * static_cast<Sum>(widen(x))));
    } else { // a whole number that is too large wraps
      sum = rounded<T>(static_cast<L>(static_cast<Sum>(widen(sum)) + static_cast<Sum>(widen(x))));
    }
  }
  return sum;
}

template <class T> void reduce(const Comm *c, const Asked &a, void *to)
{
  size_t first = a.kind == REDUCE_SCATTER ? a.count * c->rank : 0, n = count_in(c, a);
  for (size_t i = 0; i < count_out(c, a); i++) {
    static_cast<T *>(to)[i] = combined<T>(c, a.op, first + i, n);
  }
}

void compute(const Comm *c, const Asked &a, void *to)
{
  size_t bytes = a.count * bytes_of(a.type);
  if (a.kind == BROADCAST) {
    memcpy(to, c->data + a.root * ROOM, bytes);
    return;
  }
  if (a.kind == ALL_GATHER) {
    for (int r = 0; r < c->n; r++)
      memcpy(static_cast<char *>(to) + r * bytes, c->data + r * ROOM, bytes);
    return;
  }
  switch (a.type) {
  case ncclInt8:
    return reduce<int8_t>(c, a, to);
  case ncclUint8:
    return reduce<uint8_t>(c, a, to);
  case ncclInt32:
    return reduce<int32_t>(c, a, to);
  case ncclInt64:
    return reduce<int64_t>(c, a, to);
  case ncclFloat16:
    return reduce<__half>(c, a, to);
  case ncclBfloat16:
    return reduce<__nv_bfloat16>(c, a, to);
  case ncclFloat32:
    return reduce<float>(c, a, to);
  default:
    return reduce<double>(c, a, to);
  }
}

// -- Work ---------------------------------------------------------------------------------------

// The device has come to it: its data go to the others once they have read what was before, and it
// runs when all have brought theirs.
bool may_run(Comm *c, const Asked &a, const void *from, int64_t number)
{
  Rank &own = c->shared->ranks[c->rank];
  if (c->aborted) return true;
  if (is_lost(c, number)) return false;
  if (own.brought < number) {
    for (int r = 0; r < c->n; r++) {
      if (c->shared->ranks[r].taken < number - 1) return false;
    }
    own.asked = a;
    size_t bytes = count_in(c, a) * bytes_of(a.type);
    if (bytes && on_device(from, bytes, true)) memcpy(c->data + c->rank * ROOM, from, bytes);
    own.brought = number;
  }
  for (int r = 0; r < c->n; r++) {
    if (c->shared->ranks[r].brought < number) return false;
  }
  return true;
}

void run(Comm *c, const Asked &a, void *to, int64_t number)
{
  bool same = true;
  size_t bytes = count_out(c, a) * bytes_of(a.type);
  if (!on_device(to, bytes, true)) {
    c->state = misuse(ncclInvalidArgument, "%s: its result is in memory that is gone",
                      NAMES[a.kind]);
    return;
  }
  for (int r = 0; r < c->n && !c->aborted; r++) {
    const Asked &b = c->shared->ranks[r].asked;
    if (memcmp(&a, &b, sizeof a)) {
      same = false;
      c->state = misuse(ncclInvalidUsage,
                        "collective %ld is %s of %zu, type %d, op %d, root %d on rank %d and %s of "
                        "%zu, type %d, op %d, root %d on rank %d",
                        static_cast<long>(number), NAMES[a.kind], a.count, a.type, a.op, a.root,
                        c->rank, NAMES[b.kind], b.count, b.type, b.op, b.root, r);
    }
  }
  if (same && !c->aborted) {
    compute(c, a, to);
  } else if (bytes) {
    memset(to, 0xff, bytes);
  }
  c->shared->ranks[c->rank].taken = number;
}

ncclResult_t check(const Comm *c, const Asked &a, const void *from, const void *to)
{
  size_t in = count_in(c, a) * bytes_of(a.type), out = count_out(c, a) * bytes_of(a.type);
  const char *f = static_cast<const char *>(from), *t = static_cast<const char *>(to);
  if (a.kind == BROADCAST && a.root != c->rank) f = t; // is not looked at
  const char *place = a.kind == ALL_GATHER       ? t + in * c->rank
                      : a.kind == REDUCE_SCATTER ? f + out * c->rank
                                                 : nullptr;
  const char *other = a.kind == ALL_GATHER ? f : t;
  if (a.root < 0 || a.root >= c->n || in > ROOM) {
    return misuse(ncclInvalidArgument, "%s of %zu, root %d", NAMES[a.kind], a.count, a.root);
  }
  if (!on_device(f, in, false) || !on_device(t, out, false)) {
    return misuse(ncclInvalidArgument, "%s of %zu, type %d, is not inside device memory",
                  NAMES[a.kind], a.count, a.type);
  }
  if (place && f < t + out && t < f + in && other != place) {
    return misuse(ncclInvalidArgument, "%s: what it reads and writes overlaps", NAMES[a.kind]);
  }
  return ncclSuccess;
}

ncclResult_t ask(Comm *c, Asked a, const void *from, void *to, cudaStream_t stream)
{
  CALLED(NAMES[a.kind]);
  if (c->aborted || c->finalized) {
    return misuse(ncclInvalidUsage, "%s behind the end", NAMES[a.kind]);
  }
  if (!c->waiting.empty() && !groups) {
    return misuse(ncclInvalidUsage, "%s while the call before is in progress", NAMES[a.kind]);
  }
  if (ncclResult_t e = check(c, a, from, to)) return e;
  const int64_t number = ++c->started;
  static auto work = reinterpret_cast<decltype(&rgsim_work)>(simulator("rgsim_work"));
  c->waiting.push_back([=] {
    std::function<bool()> may = [=] { return may_run(c, a, from, number); };
    std::function<void()> go = [=] { run(c, a, to, number); };
    if (work(stream, &may, &go)) c->state = ncclUnhandledCudaError;
  });
  grouped = c;
  if (groups) return c->blocks ? ncclSuccess : ncclInProgress;
  c->questions = 2;
  if (!c->blocks) return ncclInProgress;
  c->waiting.front()();
  c->waiting.clear();
  return ncclSuccess;
}

} // namespace

// -- Its functions ------------------------------------------------------------------------------

struct ncclComm : Comm {};

extern "C" {

ncclResult_t ncclGetVersion(int *version)
{
  CALLED("GetVersion");
  const char *text = getenv("RG_NCCL_VERSION");
  *version = text && *text ? atoi(text) : NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInternalError:
    return "internal error";
  case ncclInvalidArgument:
    return "invalid argument";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  default:
    return "unknown result code";
  }
}

const char *ncclGetLastError(ncclComm_t)
{
  return last_error;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
  CALLED("GetUniqueId");
  memset(id, 0, sizeof *id);
  const char *folder = getenv("TMPDIR");
  snprintf(id->internal, sizeof id->internal, "%.90s/fakenccl.XXXXXX",
           folder && *folder ? folder : "/tmp");
  int file = mkstemp(id->internal);
  if (file < 0 || ftruncate(file, static_cast<off_t>(sizeof(Shared) + MOST_RANKS * ROOM))) {
    return ncclSystemError;
  }
  close(file);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
  CALLED("CommInitRankConfig");
  if (!config || config->magic != 0xcafebeef || config->version < NCCL_VERSION(2, 14, 0) ||
      config->size < offsetof(ncclConfig_t, blocking) + sizeof(int) ||
      (config->blocking != 0 && config->blocking != 1)) {
    return misuse(ncclInvalidArgument, "a configuration that is none");
  }
  if (n < 1 || n > MOST_RANKS || rank < 0 || rank >= n) {
    return misuse(ncclInvalidArgument, "rank %d of %d", rank, n);
  }
  ncclComm *c = new ncclComm;
  c->n = n;
  c->rank = rank;
  c->blocks = config->blocking == 1;
  snprintf(c->path, sizeof c->path, "%.127s", id.internal);
  c->file = open(c->path, O_RDWR | O_CLOEXEC);
  size_t bytes = sizeof(Shared) + MOST_RANKS * ROOM;
  void *p = c->file < 0 ? MAP_FAILED
                        : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, c->file, 0);
  struct flock l = byte_of(rank);
  if (p == MAP_FAILED || fcntl(c->file, F_OFD_SETLK, &l)) {
    delete c; // the id is nobody's, or that of a rank which has joined already
    return misuse(ncclSystemError, "rank %d: nobody is there by this id", rank);
  }
  c->shared = static_cast<Shared *>(p);
  c->data = static_cast<char *>(p) + sizeof(Shared);
  Rank &own = c->shared->ranks[rank];
  own.device = reinterpret_cast<decltype(&rgsim_device)>(simulator("rgsim_device"))();
  gethostname(own.host, sizeof own.host - 1);
  own.joined = 1;
  *out = c;
  if (!c->blocks) return ncclInProgress;
  while (!all_joined(c))
    usleep(1000);
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
  *state = ncclInProgress;
  if (c->finalized) {
    *state = all_left(c) ? ncclSuccess : ncclInProgress;
    return ncclSuccess;
  }
  if (c->state) {
    *state = static_cast<ncclResult_t>(c->state.load());
    return ncclSuccess;
  }
  for (int r = 0; r < c->n && !getenv("RG_NCCL_DEAF"); r++) {
    if (is_gone(c, r)) {
      snprintf(last_error, sizeof last_error, "rank %d is gone", r);
      c->state = *state = ncclRemoteError;
      return ncclSuccess;
    }
  }
  if (!all_joined(c)) return ncclSuccess;
  for (int r = 0; r < c->n; r++) {
    for (int q = 0; q < r; q++) {
      const Rank &a = c->shared->ranks[q], &b = c->shared->ranks[r];
      if (a.device == b.device && !strcmp(a.host, b.host)) {
        c->state = *state = misuse(ncclInvalidUsage, "ranks %d and %d share a device", q, r);
        return ncclSuccess;
      }
    }
  }
  if (c->rank == 0) unlink(c->path);
  if (!c->waiting.empty() && --c->questions > 0) return ncclSuccess;
  for (auto &w : c->waiting)
    w();
  c->waiting.clear();
  *state = static_cast<ncclResult_t>(c->state.load());
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
  CALLED("CommFinalize");
  c->finalized = true;
  c->shared->ranks[c->rank].left = 1;
  return c->blocks ? ncclSuccess : ncclInProgress;
}

// Work may still be pending in the simulator: what it needs stays.
ncclResult_t ncclCommDestroy(ncclComm_t c)
{
  CALLED("CommDestroy");
  if (!c->finalized) return misuse(ncclInvalidUsage, "destroyed without having been finalized");
  close(c->file);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
  log("CommAbort");
  c->aborted = true;
  if (c->rank == 0) unlink(c->path);
  close(c->file);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
  return ask(c, { ALL_REDUCE, type, op, 0, n }, from, to, stream);
}

ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                        int root, ncclComm_t c, cudaStream_t stream)
{
  return ask(c, { REDUCE, type, op, root, n }, from, to, stream);
}

ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
  return ask(c, { REDUCE_SCATTER, type, op, 0, n }, from, to, stream);
}

ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t stream)
{
  return ask(c, { ALL_GATHER, type, 0, 0, n }, from, to, stream);
}

ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                           ncclComm_t c, cudaStream_t stream)
{
  return ask(c, { BROADCAST, type, 0, root, n }, from, to, stream);
}

ncclResult_t ncclGroupStart(void)
{
  CALLED("GroupStart");
  groups++;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
  CALLED("GroupEnd");
  if (groups < 1) return misuse(ncclInvalidUsage, "the end of a group that was not begun");
  groups--;
  Comm *c = grouped;
  grouped = nullptr;
  if (!c || c->waiting.empty()) return ncclSuccess;
  c->questions = 2;
  if (!c->blocks) return ncclInProgress;
  for (auto &w : c->waiting)
    w();
  c->waiting.clear();
  return ncclSuccess;
}

} // extern "C"
